"""A model's tokenizer and chat template, without the model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from faultattr_local.engine.base import Message
from faultattr_local.engine.model_folder import tokenizer_folder
from faultattr_local.engine.offline import go_offline
from faultattr_local.errors import EngineUnavailable, first_line

CUTS = tuple(chr(point) for point in range(0xE000, 0xE100))
"""Private-use characters, one of which marks where a rendered conversation is cut."""


def load_tokenizer(path: str | Path) -> ChatTokenizer:
    """The tokenizer of a model folder; the chat template is read when it is first used.

    Raises:
        EngineUnavailable: The folder holds no tokenizer, or one that does not load.
    """
    return ChatTokenizer(tokenizer_folder(path))


class ChatTokenizer:
    """Counts tokens and writes conversations the way a model was trained on them.

    Text that spells a control token of the model ("<|im_end|>" in a log) is data: it is
    tokenised as the characters that it is, so that no log can end its own message.

    Args:
        folder: Holds the tokenizer.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        go_offline()
        path = folder / "tokenizer.json"
        self._tokens = self._load(path) if path.is_file() else self.pretrained.backend_tokenizer
        self._tokens.no_truncation()
        self._tokens.no_padding()
        added = (str(token.content) for token in self._tokens.get_added_tokens_decoder().values())
        control = sorted((text for text in added if len(text) > 1 and text.strip()), key=len)
        self._control = re.compile("|".join(map(re.escape, reversed(control))) or r"(?!)")

    def _load(self, path: Path) -> Any:
        from tokenizers import Tokenizer

        try:
            return Tokenizer.from_file(str(path))
        except Exception as error:
            raise EngineUnavailable(
                f"the tokenizer does not load ({error})", where=str(path), fix="Copy it again."
            ) from error

    @cached_property
    def pretrained(self) -> Any:
        """The same tokenizer as transformers loads it, with its chat template.

        Raises:
            EngineUnavailable: transformers is missing or cannot load it.
        """
        try:
            from transformers import AutoTokenizer

            return AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
        except (ImportError, OSError, ValueError) as error:
            raise EngineUnavailable(
                f"transformers cannot load the tokenizer ({first_line(error)})",
                where=str(self.folder),
            ) from error

    def count(self, text: str) -> int:
        """Tokens of a text, without special tokens."""
        cut = _absent_from(text)
        return len(self._encode(self._split_control(text, cut), cut))

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation, up to where the assistant begins to write.

        Raises:
            EngineUnavailable: The chat template refuses the conversation.
        """
        from jinja2 import TemplateError

        cut = _absent_from("".join(message.content for message in messages))
        written = [
            {"role": message.role, "content": self._split_control(message.content, cut)}
            for message in messages
        ]
        try:
            text = self.pretrained.apply_chat_template(
                written, tokenize=False, add_generation_prompt=True
            )
        except (TemplateError, ValueError) as error:
            raise EngineUnavailable(
                f"the chat template refuses the conversation ({first_line(error)})",
                where=str(self.folder),
                fix="Use a model whose template takes a system message.",
            ) from error
        return self._encode(str(text), cut)

    def _split_control(self, text: str, cut: str) -> str:
        """The text with each control token cut in two behind its first character."""
        return self._control.sub(lambda found: found[0][0] + cut + found[0][1:], text)

    def _encode(self, text: str, cut: str) -> list[int]:
        ids: list[int] = []
        for piece in text.split(cut):
            ids += self._tokens.encode(piece, add_special_tokens=False).ids
        return ids


def _absent_from(text: str) -> str:
    return next((mark for mark in CUTS if mark not in text), "\U0010fffd")
