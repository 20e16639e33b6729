"""transformers and outlines in this process, for a machine without vLLM."""

from __future__ import annotations

import asyncio
import gc
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from faultattr_local.engine.base import ModelCard, Reply, Request, parse_answer
from faultattr_local.engine.canary import prove_constraint
from faultattr_local.engine.length import refuse_if_too_long
from faultattr_local.engine.model_folder import digest_of, model_folder
from faultattr_local.engine.tokenizer import ChatTokenizer, load_tokenizer
from faultattr_local.engine.transformers_batch import Row, decode_batch
from faultattr_local.errors import EngineDied, EngineUnavailable
from faultattr_local.settings import Section

LINGER_S = 0.01
"""Seconds that a batch waits for calls made at the same time; a batch takes many more."""


class TransformersConfig(Section):
    """transformers and outlines in this process."""

    kind: Literal["transformers"] = "transformers"
    """Which engine."""
    model: str
    """Folder of the weights, in the Hugging Face layout, with tokenizer and chat template."""
    dtype: str = "auto"
    """Number format of weights and activations, e.g. bfloat16; auto takes the model's own."""
    max_model_len: int | None = Field(default=None, ge=256)
    """Tokens of prompt and answer together; the model's own limit when not set."""
    max_batch: int = Field(default=8, ge=1)
    """Answers generated at the same time; fewer need less memory."""

    def make(self) -> TransformersEngine:
        """The engine, not started."""
        return TransformersEngine(self)


@dataclass
class _Loaded:
    """A model in memory. `grammars` is outlines' llguidance backend over its tokenizer."""

    model: Any
    grammars: Any
    end: int
    context: int
    versions: dict[str, str]


@dataclass
class _Call:
    request: Request
    prompt: list[int]
    done: asyncio.Future[Row]


class TransformersEngine:
    """Serves one model with `generate`, a batch of what waits after the other.

    There is no prefix cache: every call computes its whole prompt. Start, generate and stop
    belong on one event loop; `start` works again after `stop`.
    """

    def __init__(self, config: TransformersConfig) -> None:
        self.config = config
        self._tokenizer: ChatTokenizer | None = None
        self._loaded: _Loaded | None = None
        self._waiting: asyncio.Queue[_Call] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self) -> ModelCard:
        """Load the weights and prove the constraint.

        Raises:
            EngineUnavailable: A library is missing, or the model does not load.
            ConstraintError: It does not decode under a grammar.
        """
        folder = model_folder(self.config.model)
        await self.stop()
        self._tokenizer = load_tokenizer(folder)
        self._loaded = await asyncio.to_thread(self._load, folder, self._tokenizer)
        self._stopping = False
        self._waiting = asyncio.Queue()
        self._worker = asyncio.create_task(self._serve(self._loaded))
        try:
            await prove_constraint(
                self.generate,
                where=str(folder),
                fix="Use another version of outlines and llguidance.",
                compact="Use another version of llguidance.",
            )
        except BaseException:
            await self.stop()
            raise
        return ModelCard(
            name=folder.name,
            digest=digest_of(folder),
            context_tokens=self._loaded.context,
            details={
                "engine": "transformers",
                **self._loaded.versions,
                "device": str(self._loaded.model.device),
                "grammar": "llguidance",
                "seed": "sent above temperature 0",
                "prefix_cache": "none",
            },
        )

    def _load(self, folder: Path, tokenizer: ChatTokenizer) -> _Loaded:
        try:
            import llguidance
            import outlines
            import torch
            import transformers
            from outlines.backends.llguidance import LLGuidanceBackend
        except ImportError as error:
            raise EngineUnavailable(
                f"transformers and outlines do not import ({error})",
                fix="Install faultattr-local[transformers], or use another engine.",
            ) from error
        where = str(folder)
        try:
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype=self.config.dtype, local_files_only=True
            )
            model = model.to(torch.accelerator.current_accelerator() or "cpu").eval()
            grammars = LLGuidanceBackend(outlines.from_transformers(model, tokenizer.pretrained))
        except (ImportError, OSError, ValueError, RuntimeError) as error:
            raise EngineUnavailable(
                f"the model does not load ({_first_line(error)})", where=where
            ) from error
        end = tokenizer.pretrained.eos_token_id
        # The model's own sampling settings would otherwise apply where none are given.
        model.generation_config = transformers.GenerationConfig(
            do_sample=False, eos_token_id=end, pad_token_id=end
        )
        libraries = (torch, transformers, llguidance)
        versions = {library.__name__: str(library.__version__) for library in libraries}
        return _Loaded(model, grammars, end, self._context(model, where), versions)

    def _context(self, model: Any, where: str) -> int:
        own = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        asked = self.config.max_model_len
        if own is None and asked is None:
            raise EngineUnavailable(
                "the model does not say how long its context is",
                where=where,
                fix="Set engine.max_model_len.",
            )
        if own is not None and asked is not None and asked > own:
            raise EngineUnavailable(
                f"max_model_len is {asked}, the model's own limit {own}",
                where=where,
                fix="Lower engine.max_model_len.",
            )
        return int(asked or own)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, without special tokens."""
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(model_folder(self.config.model))
        return self._tokenizer.count(text)

    async def generate(self, request: Request) -> Reply:
        """Answer one request; a cancelled call ends its row of the batch.

        Raises:
            LogTooLong: Prompt and answer do not fit the context.
            InvalidReply: Cut, empty or invalid.
            EngineDied: The model failed, e.g. for want of memory.
        """
        if self._loaded is None or self._tokenizer is None:
            raise EngineDied("the engine is not started", where=self.config.model)
        started = time.time()
        prompt = self._tokenizer.chat(request.messages)
        refuse_if_too_long(request, len(prompt), self._loaded.context)
        call = _Call(request, prompt, asyncio.get_running_loop().create_future())
        end = self._loaded.end
        self._waiting.put_nowait(call)
        row = await call.done
        ended = row.written[-1] == end
        ids = row.written[:-1] if ended else row.written
        text = self._tokenizer.pretrained.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        reason = "stop" if ended else "length"
        return Reply(
            answer=parse_answer(request, text, reason, len(row.written)),
            text=text,
            finish_reason=reason,
            prompt_tokens=len(prompt),
            output_tokens=len(row.written),
            started=started,
            seconds=time.time() - started,
        )

    async def _serve(self, loaded: _Loaded) -> None:
        while not self._stopping:
            batch = [await self._waiting.get()]
            await asyncio.sleep(LINGER_S)
            while len(batch) < self.config.max_batch and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            batch = [call for call in batch if not call.done.done()]
            if batch:
                await self._run(loaded, batch)

    async def _run(self, loaded: _Loaded, batch: list[_Call]) -> None:
        rows = [self._row(loaded, call) for call in batch]
        try:
            await asyncio.to_thread(decode_batch, loaded.model, rows, loaded.end)
        except RuntimeError as error:
            died = EngineDied(
                f"the model failed on a batch of {len(batch)} ({_first_line(error)})",
                where=self.config.model,
                fix="Lower engine.max_batch if memory ran out.",
            )
            died.__cause__ = error
            for call in batch:
                if not call.done.done():
                    call.done.set_exception(died)
            return
        for call, row in zip(batch, rows, strict=True):
            if not call.done.done():
                call.done.set_result(row)

    def _row(self, loaded: _Loaded, call: _Call) -> Row: ...

    async def stop(self) -> None:
        """Free the model; safe to call twice."""
        self._loaded = None
        gc.collect()


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0] or type(error).__name__
