"""What a method would send, found without an engine by answering with placeholders."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from faultattr_local.engine.base import Reply, Request, parse_answer
from faultattr_local.methods.flow import Flow, Setup
from faultattr_local.prompts import Prompts
from faultattr_local.run.config import Config

UNBOUNDED = 10**12
"""Stands for a context that is not known, so that nothing is refused for its length."""


def requests_of(flow: Flow, calls: int) -> list[Request]:
    """The first requests of a flow, its earlier ones answered with placeholders.

    A placeholder has the shape of a legal answer: each text is its field's name in angle
    brackets, each choice the first, each number the least.

    Args:
        flow: Not started yet; it is closed.
        calls: The most requests to return.

    Raises:
        LogTooLong: The method refuses the trajectory before it sends anything.
    """
    found: list[Request] = []
    try:
        requests = next(flow)
        while True:
            found += requests
            if len(found) >= calls:
                break
            requests = flow.send([placeholder_reply(request) for request in requests])
    except StopIteration:
        pass
    finally:
        flow.close()
    return found[:calls]


def placeholder_reply(request: Request) -> Reply:
    """A reply that the request's answer model admits and that no model wrote."""
    schema = request.schema
    text = json.dumps(_placeholder(schema, schema.get("$defs", {}), "answer"))
    return Reply(parse_answer(request, text, "stop"), text)


def _placeholder(schema: Mapping[str, Any], defs: Mapping[str, Any], field: str) -> Any:
    if "$ref" in schema:
        return _placeholder(defs[schema["$ref"].rsplit("/", 1)[-1]], defs, field)
    for options in ("anyOf", "oneOf"):
        if options in schema:
            return _placeholder(schema[options][0], defs, field)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    match schema["type"]:
        case "object":
            return {key: _placeholder(of, defs, key) for key, of in schema["properties"].items()}
        case "array":
            count = max(schema.get("minItems", 0), min(1, schema.get("maxItems", 1)))
            return [_placeholder(schema["items"], defs, field)] * count
        case "string":
            return f"<{field}>"[: schema.get("maxLength")].ljust(schema.get("minLength", 0), ".")
        case "integer":
            return schema.get("minimum", 0)
        case "boolean":
            return False
    raise ValueError(f"an answer model of a shape that has no placeholder: {schema}")


@dataclass(frozen=True)
class Desk:
    """What is needed to see prompts: a setup, and whether its counts can be trusted.

    Attributes:
        setup: As a run would use it, with characters for tokens where `counts` is False.
        counts: The tokenizer of the model is at hand.
        context_tokens: What would be served; None when only the engine can say.
        why: Why tokens or context are not known; else empty.
    """

    setup: Setup
    counts: bool
    context_tokens: int | None
    why: str = ""


def desk(config: Config) -> Desk:
    """Set up for a preview with the model's tokenizer, where its folder is there.

    Raises:
        EngineUnavailable: The folder is there and holds no usable tokenizer.
        PromptError: The prompts are not usable.
    """
    engine = config.engine
    named = getattr(engine, "tokenizer" if engine and engine.kind == "server" else "model", None)
    folder = Path(named).expanduser() if named else None
    missing = why_no_tokenizer(folder)
    context: int | None = None if missing else getattr(engine, "max_model_len", None)
    unchecked = "" if context else "engine.max_model_len is not set, so no length is checked"
    setup = Setup(
        prompts=Prompts(config.prompts),
        limits=config.answer,
        count_tokens=len if missing or folder is None else token_counter(folder),
        context_tokens=context or UNBOUNDED,
        sampling=config.sampling.sampling,
    )
    return Desk(setup, not missing, context, missing or unchecked)


def why_no_tokenizer(folder: Path | None) -> str:
    """Why tokens cannot be counted here; empty when they can."""
    if folder is None:
        why = "the config names no tokenizer"
    elif not folder.is_dir():
        why = f"{folder} is not there"
    elif find_spec("transformers") is None:
        why = "transformers is not installed"
    else:
        return ""
    return f"{why}: characters are counted, not tokens, and no length is checked"


def token_counter(folder: Path) -> Callable[[str], int]:
    """Counts tokens as the model in the folder does.

    Raises:
        EngineUnavailable: Its tokenizer cannot be read.
    """
    from faultattr_local.engine.tokenizer import load_tokenizer

    return load_tokenizer(folder).count
