"""A list of {role, content} whose roles are the agents' names, as Magentic-One runs are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultattr_local.formats import messages
from faultattr_local.formats.format import Format, Run
from faultattr_local.formats.notes import Notes
from faultattr_local.formats.text import agent_name, split_role
from faultattr_local.trajectory import LabelledTrajectory, Step, Trajectory

NAME = "role-list"

_ASKERS = {"human", "user"}


def sniff(values: Sequence[Any]) -> bool:
    """Bare messages of which at least one has a role that no chat API knows."""
    bare = [value for value in values if isinstance(value, list) or messages.is_message(value)]
    return any(not messages.CHAT_ROLES.issuperset(run) for run in messages.roles(bare))


def read(run: Run, notes: Notes) -> LabelledTrajectory:
    """One list to its trajectory; indices are those of the list, from 0.

    The task is the first thing said by "human" or "user", or else the first step.
    """
    steps = []
    for index, (message, ref, where) in enumerate(messages.numbered(run, notes)):
        agent, kind, to = split_role(agent_name(message.get("role"), None, where, notes))
        calls = messages.calls_of(message, where, notes)
        steps.append(
            Step(
                index=index,
                agent=agent,
                kind="tool call" if calls and kind == "message" else kind,
                to=to,
                content=messages.content_of(message, where, notes),
                tool_calls=calls,
                source_ref=ref,
            )
        )
    asked = (step.content for step in steps if step.agent.casefold() in _ASKERS and step.content)
    return LabelledTrajectory(
        trajectory=Trajectory(
            id=run.id,
            task=next(asked, steps[0].content),
            steps=tuple(steps),
            format=NAME,
            source=run.source,
        )
    )


FORMAT = Format(
    name=NAME,
    about="a list of {role, content} whose roles are agents' names, e.g. Magentic-One",
    source="Magentic-One, AgentRx",
    sniff=sniff,
    find=messages.find,
    read=read,
)
