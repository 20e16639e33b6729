"""Who&When (arXiv 2505.00212): one object for each run, with its label beside the history.

Two schemas. Algorithm-Generated names the agent in `name`; Hand-Crafted has no `name` and
writes the agent into `role`, with an aside in brackets. A history without a label is read too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultattr_local.errors import FormatError
from faultattr_local.formats.format import Format, Run, Span
from faultattr_local.formats.notes import Notes
from faultattr_local.formats.text import agent_name, is_blank, split_role, text_of
from faultattr_local.trajectory import Label, LabelledTrajectory, Step, Trajectory

NAME = "whowhen"


def _has_shape(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("history"), list)
        and ("mistake_step" in value or "question" in value)
    )


def sniff(values: Sequence[Any]) -> bool:
    """A `history` beside a `question` or a `mistake_step`."""
    return any(map(_has_shape, values))


def find(values: Sequence[Any]) -> list[Span]:
    """Every value of that shape is a run."""
    return [Span(position) for position, value in enumerate(values) if _has_shape(value)]


def read(run: Run, notes: Notes) -> LabelledTrajectory:
    """One object to its trajectory; indices are those of `history`, from 0.

    `ground_truth` goes to `reference_answer` beside the trajectory; the label, its reason and
    `system_prompt` never enter it.
    """
    record = run.values[0]
    history = record["history"]
    if not history:
        raise FormatError("has no steps", where=run.where, fix="Its `history` is empty.")
    named = any(isinstance(entry, dict) and "name" in entry for entry in history)
    steps = tuple(_step(entry, index, named, run, notes) for index, entry in enumerate(history))
    question = record.get("question")
    if is_blank(question):
        notes.add("run without a `question`: its first step is taken as the task", run.where)
        question = steps[0].content
    truth = record.get("ground_truth")
    return LabelledTrajectory(
        trajectory=Trajectory(
            id=run.id, task=question, steps=steps, format=NAME, source=run.source
        ),
        label=_label(record, steps, run.where, notes),
        reference_answer=None if truth is None else text_of(truth, run.where, notes),
    )


def _step(entry: Any, index: int, named: bool, run: Run, notes: Notes) -> Step:
    where = f"{run.where}, history[{index}]"
    if not isinstance(entry, dict):
        raise FormatError(
            "is not an object", where=where, fix="Each entry needs `role` and `content`."
        )
    notes.add_unread(entry, {"content", "role", "name"}, where)
    role = entry.get("role")
    kind, to = "message", None
    if named:
        agent = agent_name(entry.get("name"), role, where, notes)
    else:
        agent, kind, to = split_role(agent_name(role, None, where, notes))
    content = text_of(entry.get("content"), where, notes)
    ref = f"history[{index}]"
    return Step(index=index, agent=agent, kind=kind, to=to, content=content, source_ref=ref)


def _label(record: dict[str, Any], steps: Sequence[Step], where: str, notes: Notes) -> Label | None:
    agent, step = record.get("mistake_agent"), record.get("mistake_step")
    if is_blank(agent) and step is None:
        return None
    digits = str(step).strip()
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 10
    if not is_number or int(digits) >= len(steps):
        notes.add("label whose `mistake_step` is no index of `history`, not used", where)
        return None
    reason = text_of(record.get("mistake_reason"), where, notes)
    if is_blank(agent):
        notes.add("label that names no agent", where)
        return Label(agent=None, step=int(digits), reason=reason)
    return Label(agent=" ".join(str(agent).split()), step=int(digits), reason=reason)


FORMAT = Format(
    name=NAME,
    about="Who&When: {question, history: [{role, name?, content}], mistake_agent, mistake_step}",
    source="Who&When (arXiv 2505.00212)",
    sniff=sniff,
    find=find,
    read=read,
)
