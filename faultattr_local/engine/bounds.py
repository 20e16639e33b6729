"""The schema of an answer, and the most tokens that it can take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

TOKENS_PER_CHARACTER = 2
"""Most tokens that a character of an answer is taken to need when its bound is derived.

Byte-level vocabularies spell Latin text with well under one token a character; scripts
that they know less well need up to two or three. An answer cut all the same is invalid.
"""


@lru_cache(maxsize=4096)
def answer_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """JSON schema of an answer model, computed once. Not to be changed by the caller."""
    return answer.model_json_schema()


@lru_cache(maxsize=4096)
def token_bound(answer: type[BaseModel]) -> int:
    """Tokens within which every legal answer of this model ends.

    Raises:
        ValueError: The model is not bounded (a string without `max_length`, a list
            without `max_length`, a mapping of any keys).
    """
    schema = answer_schema(answer)
    return _bound(schema, schema.get("$defs", {})) + 8


def _bound(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> int:
    if "$ref" in schema:
        return _bound(defs[schema["$ref"].rsplit("/", 1)[-1]], defs)
    if "anyOf" in schema:
        return max(_bound(option, defs) for option in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        options = schema.get("enum", [schema.get("const")])
        return max(len(json.dumps(option)) for option in options)
    match schema.get("type"):
        case "object" if schema.get("additionalProperties") is False:
            properties: Mapping[str, Any] = schema.get("properties", {})
            return 2 + sum(len(key) + 4 + _bound(of, defs) for key, of in properties.items())
        case "array" if "maxItems" in schema:
            return 2 + int(schema["maxItems"]) * (1 + _bound(schema["items"], defs))
        case "string" if "maxLength" in schema:
            return 2 + TOKENS_PER_CHARACTER * int(schema["maxLength"])
        case "integer" if "maximum" in schema:
            return len(str(schema["maximum"])) + 1
        case "boolean" | "null":
            return 5
    raise ValueError(f"an answer model is not bounded: {schema}")
