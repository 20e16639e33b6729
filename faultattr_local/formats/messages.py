"""Lists of messages, which several formats share: where they stand, and one message to a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultattr_local.errors import FormatError
from faultattr_local.formats.format import Run, Span
from faultattr_local.formats.notes import Notes
from faultattr_local.formats.text import dump, is_blank, text_of
from faultattr_local.trajectory import ToolCall

CHAT_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})

_READ = {
    "content",
    "function_call",
    "name",
    "reasoning",
    "reasoning_content",
    "refusal",
    "role",
    "tool_call_id",
    "tool_calls",
}


def is_message(value: Any) -> bool:
    """Whether it is an object with a role, and with content or calls."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("role"), str)
        and not value.keys().isdisjoint({"content", "tool_calls", "function_call"})
    )


def messages_of(value: Any) -> list[Any] | None:
    """The messages of a bare list or of {"messages": [...]}; None if it is neither."""
    inner = value.get("messages") if isinstance(value, dict) else value
    return inner if isinstance(inner, list) and any(map(is_message, inner)) else None


def find(values: Sequence[Any]) -> list[Span]:
    """The runs of a file: each list of messages, or all values when each is one message."""
    if values and all(map(is_message, values)):
        return [Span(0, len(values))]
    return [Span(at) for at, value in enumerate(values) if messages_of(value) is not None]


def roles(values: Sequence[Any]) -> list[list[str]]:
    """The roles in each run, for signatures; a run with anything else in it is left out."""
    runs = [messages for span in find(values) if (messages := _messages(values, span))]
    return [[entry["role"] for entry in run] for run in runs if all(map(is_message, run))]


def _messages(values: Sequence[Any], span: Span) -> list[Any]:
    inside = messages_of(values[span.first])
    return list(values[span.first : span.first + span.count]) if inside is None else inside


def numbered(run: Run, notes: Notes) -> list[tuple[dict[str, Any], str, str]]:
    """Each message of a run with its `source_ref` and with its place for errors.

    Raises:
        FormatError: There is none, or one is not an object.
    """
    messages = _messages(run.values, Span(0, len(run.values)))
    if not messages:
        raise FormatError("has no steps", where=run.where, fix="Its list of messages is empty.")
    whole = run.values[0]
    by_line = whole is messages[0]
    prefix = "messages" if isinstance(whole, dict) else ""
    if prefix and not by_line:
        notes.add_unread(whole, {"messages"}, run.where)
    found = []
    for index, message in enumerate(messages):
        ref = run.places[index] or f"[{index}]" if by_line else f"{prefix}[{index}]"
        where = f"{run.source}, {ref}" if by_line else f"{run.where}, {ref}"
        if not isinstance(message, dict):
            raise FormatError("is not a message", where=where, fix="It must be an object.")
        notes.add_unread(message, _READ, where)
        found.append((message, ref, where))
    return found


def content_of(message: dict[str, Any], where: str, notes: Notes) -> str:
    """What a message says, its reasoning first."""
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    parts = [
        f"(thinking) {text_of(reasoning, where, notes)}" if reasoning else "",
        text_of(message.get("content"), where, notes),
        text_of(message.get("refusal"), where, notes),
    ]
    return "\n".join(part for part in parts if part)


def calls_of(message: dict[str, Any], where: str, notes: Notes) -> tuple[ToolCall, ...]:
    """The calls of a message, in `tool_calls` or in the older `function_call`."""
    written = message.get("tool_calls")
    calls = written if isinstance(written, list) else [written]
    calls = [*calls, message.get("function_call")]
    return tuple(_call(call, where, notes) for call in calls if call is not None)


def _call(call: Any, where: str, notes: Notes) -> ToolCall:
    inner = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(inner, dict) or is_blank(inner.get("name")):
        notes.add("call that names no tool, kept as its arguments", where)
        return ToolCall(name="unknown", arguments=dump(call, where))
    arguments = inner.get("arguments", inner.get("args"))
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else dump(arguments, where)
    identity = call.get("id")
    return ToolCall(
        name=inner["name"],
        arguments=arguments,
        id=identity if isinstance(identity, str) else None,
    )
