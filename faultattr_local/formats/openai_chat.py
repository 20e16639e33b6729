"""Chat messages of the OpenAI API: a list, {"messages": [...]}, or JSON Lines of either kind.

A system message is a step of its own (agent "system"), so that indices are those of the list
and that an instruction which misled the agents can be seen. The first user message is the
task and stays a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultattr_local.formats import messages
from faultattr_local.formats.format import Format, Run
from faultattr_local.formats.notes import Notes
from faultattr_local.formats.text import agent_name, is_blank
from faultattr_local.trajectory import LabelledTrajectory, Step, Trajectory

NAME = "openai-chat"

_RESULT_ROLES = {"tool", "function"}


def sniff(values: Sequence[Any]) -> bool:
    """Messages whose roles are all those of the API."""
    return any(messages.CHAT_ROLES.issuperset(run) for run in messages.roles(values))


def read(run: Run, notes: Notes) -> LabelledTrajectory:
    """One conversation to its trajectory; indices are those of the list, from 0.

    An agent is the `name` of a message, or else its role; a tool's result is a step of the
    tool that was called.
    """
    steps: list[Step] = []
    called: dict[str, str] = {}
    task: str | None = None
    for index, (message, ref, where) in enumerate(messages.numbered(run, notes)):
        calls = messages.calls_of(message, where, notes)
        called.update({call.id: call.name for call in calls if call.id is not None})
        content = messages.content_of(message, where, notes)
        steps.append(
            Step(
                index=index,
                agent=_agent(message, called, where, notes),
                kind="tool call" if calls else _kind(message.get("role")),
                content=content,
                tool_calls=calls,
                source_ref=ref,
            )
        )
        if task is None and content and message.get("role") == "user":
            task = content
    if task is None:
        notes.add("run without a user's message: its first step is taken as the task", run.where)
        task = steps[0].text
    return LabelledTrajectory(
        trajectory=Trajectory(
            id=run.id, task=task, steps=tuple(steps), format=NAME, source=run.source
        )
    )


def _agent(message: dict[str, Any], called: dict[str, str], where: str, notes: Notes) -> str:
    role, name = message.get("role"), message.get("name")
    if role in _RESULT_ROLES:
        answered = message.get("tool_call_id")
        tool = called.get(answered) if isinstance(answered, str) else None
        return agent_name(name if tool is None else tool, role, where, notes)
    return agent_name(role if name is None else name, role, where, notes)


def _kind(role: Any) -> str:
    if role in _RESULT_ROLES:
        return "tool result"
    return "message" if role in ("user", "assistant") or is_blank(role) else str(role)


FORMAT = Format(
    name=NAME,
    about="OpenAI chat: [{role, content, tool_calls?}] or {messages: [...]}, also JSON Lines",
    source="OpenAI Chat Completions and what follows it",
    sniff=sniff,
    find=messages.find,
    read=read,
)
