"""Content and names as traces write them, brought to text."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from faultattr_local.errors import FormatError
from faultattr_local.formats.notes import Notes

_TEXT_KEYS = ("text", "value", "content", "output_text", "input_text")
_MEDIA = re.compile(r"image|audio|video|file|blob", re.IGNORECASE)
_ASIDE = re.compile(r"(?P<agent>.*?\S) \((?P<aside>.*)\)\s*", re.DOTALL)


def is_blank(value: object) -> bool:
    """Whether it is no text, or text without a visible character."""
    return not isinstance(value, str) or not value.split()


def dump(value: Any, where: str) -> str:
    """A JSON value on one line.

    Raises:
        FormatError: It is nested too deeply.
    """
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError as error:
        raise FormatError(
            "is nested too deeply to be read", where=where, fix="Look at what wrote it."
        ) from error


def text_of(content: Any, where: str, notes: Notes) -> str:
    """The text of a message's content: null, text, an object, or a list of parts.

    A part that holds an image, sound or file becomes a placeholder with its size and digest.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part(part, where, notes) for part in content)
    return _part(content, where, notes)


def _part(part: Any, where: str, notes: Notes) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return dump(part, where)
    kind = part.get("type")
    written = dump(part, where)
    if isinstance(kind, str) and _MEDIA.search(kind):
        notes.add("image, sound or file, shown as a placeholder", where)
        digest = hashlib.sha256(written.encode()).hexdigest()[:8]
        return f"[{kind}: {len(written)} characters, sha256 {digest}]"
    texts = [part[key] for key in _TEXT_KEYS if isinstance(part.get(key), str)]
    return texts[0] if len(texts) == 1 else written


def agent_name(name: Any, role: Any, where: str, notes: Notes) -> str:
    """The name of an agent, or `agent-<role>` where it is missing."""
    if not is_blank(name):
        return str(name)
    fallback = "agent-unknown" if is_blank(role) else f"agent-{role}"
    notes.add(f"step without an agent's name, called {' '.join(fallback.split())}", where)
    return fallback


def split_role(role: str) -> tuple[str, str, str | None]:
    """A role such as "Orchestrator (-> Coder)" as agent, kind and addressee."""
    match = _ASIDE.fullmatch(role)
    if match is None or is_blank(match["aside"]):
        return role, "message", None
    agent, aside = match["agent"], match["aside"].strip()
    if aside.startswith("->"):
        return agent, "message", aside[2:].strip() or None
    return agent, aside, None
