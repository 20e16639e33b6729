"""A folder of weights: whether all is there before anything heavy loads, and its digest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from faultattr_local.errors import EngineUnavailable

TOKENIZERS = ("tokenizer.json", "tokenizer.model")
TEMPLATES = ("chat_template.jinja", "chat_template.json")
DESCRIPTIONS = ("config.json", "generation_config.json", "tokenizer_config.json")
INDEX = "model.safetensors.index.json"
ENDS = 65_536
"""Bytes of each end of a weight file that the digest covers."""


def model_folder(path: str | Path) -> Path:
    """The absolute folder, `~` expanded, once it is known to hold a chat model.

    Raises:
        EngineUnavailable: The folder, its config, weights, tokenizer or chat template is
            missing.
    """
    folder = tokenizer_folder(path)
    if not (folder / "config.json").is_file():
        raise EngineUnavailable(
            "holds no config.json",
            where=str(folder),
            fix="Give the folder with the weights in the Hugging Face layout.",
        )
    _check_weights(folder)
    if not has_chat_template(folder):
        raise EngineUnavailable(
            "the model has no chat template",
            where=str(folder),
            fix="Use an instruction-tuned model, or put its chat_template.jinja there.",
        )
    return folder


def tokenizer_folder(path: str | Path) -> Path:
    """The absolute folder, `~` expanded, once it is known to hold a tokenizer.

    Raises:
        EngineUnavailable: The folder or its tokenizer is missing.
    """
    folder = Path(path).expanduser().absolute()
    if not folder.is_dir():
        raise EngineUnavailable(
            "there is no such folder",
            where=str(folder),
            fix="Weights are read from a local folder and never downloaded; give its path.",
        )
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise EngineUnavailable(
            f"holds no tokenizer ({' or '.join(TOKENIZERS)})",
            where=str(folder),
            fix="Copy the tokenizer files of the model there.",
        )
    return folder


def _check_weights(folder: Path) -> None:
    index = folder / INDEX
    if index.is_file():
        shards = set(_read_json(index).get("weight_map", {}).values())
        absent = sorted(name for name in shards if not (folder / name).is_file())
        if absent:
            raise EngineUnavailable(
                f"{len(absent)} of {len(shards)} weight files named by {INDEX} are missing, "
                f"first {absent[0]}",
                where=str(folder),
                fix="Copy the model again.",
            )
    if not any(folder.glob("*.safetensors")):
        raise EngineUnavailable(
            "holds no weights (*.safetensors)",
            where=str(folder),
            fix="Copy the weights there, or convert them to safetensors.",
        )


def has_chat_template(folder: Path) -> bool:
    """Whether the folder says how a conversation is written for its model."""
    if any((folder / name).is_file() for name in TEMPLATES):
        return True
    config = folder / "tokenizer_config.json"
    return config.is_file() and bool(_read_json(config).get("chat_template"))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise EngineUnavailable(
            f"is not JSON ({error})", where=str(path), fix="Copy the model again."
        ) from error
    if not isinstance(content, dict):
        raise EngineUnavailable(
            "is not a JSON object", where=str(path), fix="Copy the model again."
        )
    return content


def digest_of(folder: Path) -> str:
    """SHA-256 that tells one model folder from another in milliseconds.

    It covers the descriptions, tokenizer and template as a whole, and of each weight file
    the name, the size, and the first and last 64 KiB: a safetensors file begins with the
    names, shapes and places of its tensors and ends with weights. An edit that touches only
    the middle of a weight file and keeps its size goes unseen.
    """
    seen = hashlib.sha256()
    for name in sorted((*DESCRIPTIONS, *TOKENIZERS, *TEMPLATES)):
        path = folder / name
        if path.is_file():
            seen.update(f"{name}\0{path.stat().st_size}\0".encode())
            seen.update(path.read_bytes())
    for path in sorted(folder.glob("*.safetensors")):
        size = path.stat().st_size
        seen.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as weights:
            seen.update(weights.read(ENDS))
            weights.seek(max(0, size - ENDS))
            seen.update(weights.read(ENDS))
    return seen.hexdigest()
