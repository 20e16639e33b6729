"""What goes in: a trajectory is the task and the numbered steps of one failed run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


class Frozen(BaseModel):
    """A record that cannot be changed and knows no other keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _one_line(value: object) -> object:
    return " ".join(value.split()) if isinstance(value, str) else value


Name = Annotated[str, BeforeValidator(_one_line), Field(min_length=1)]
"""A name on one line, so that it cannot imitate the layout of a log."""


class ToolCall(Frozen):
    """A call that a step makes; `arguments` as written, since it need not be JSON."""

    name: str
    arguments: str
    id: str | None = None


class Step(Frozen):
    """One act of one agent.

    Attributes:
        index: The data set's own number of this step; what the model sees and a verdict names.
        agent: Who acted.
        kind: What it did: "message", "thought", "tool call", "tool result", ...
        content: What was said, done or returned, as text.
        to: Whom it addressed, where the trace says so.
        tool_calls: The calls made in this step.
        parent: The index of the step under which a nested agent worked.
        source_ref: Where the step stands in the file (list index, span id, line).
    """

    index: int
    agent: Name
    content: str
    kind: Name = "message"
    to: Name | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    parent: int | None = None
    source_ref: str | None = None

    @property
    def text(self) -> str:
        """Content and calls, as the log shows them and citations are checked against."""
        calls = [f"call {call.name}({call.arguments})" for call in self.tool_calls]
        return "\n".join([self.content, *calls]) if self.content else "\n".join(calls)


class Trajectory(Frozen):
    """A run to attribute. It holds no label and no reference answer of its own.

    Attributes:
        id: Unique within a run of this program, e.g. "Hand-Crafted/12".
        task: What the agents were asked to do.
        steps: At least one, in order, with strictly growing indices.
        format: Name of the trace format it was read from.
        source: The file it was read from.
        reference_answer: None, unless the user asked for it to be shown to the model.
    """

    id: Name
    task: str
    steps: tuple[Step, ...] = Field(min_length=1)
    format: str = "native"
    source: str = ""
    reference_answer: str | None = None

    @model_validator(mode="after")
    def _indices_grow(self) -> Trajectory:
        indices = [step.index for step in self.steps]
        for before, after in zip(indices, indices[1:], strict=False):
            if after <= before:
                raise ValueError(f"step {after} follows step {before}; indices must grow")
        return self

    def model_copy(
        self, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> Trajectory:
        """A copy with some fields changed; what was worked out for the old ones is forgotten."""
        copy = super().model_copy(update=update, deep=deep)
        for derived in ("agents", "indices", "by_index", "digest"):
            copy.__dict__.pop(derived, None)
        return copy

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """The agents that act, in order of first appearance."""
        return tuple(dict.fromkeys(step.agent for step in self.steps))

    @cached_property
    def indices(self) -> range | tuple[int, ...]:
        """The indices of the steps, as a range where none is missing."""
        first, last = self.steps[0].index, self.steps[-1].index
        if last - first + 1 == len(self.steps):
            return range(first, last + 1)
        return tuple(step.index for step in self.steps)

    @cached_property
    def by_index(self) -> dict[int, Step]:
        """Each step under its own index."""
        return {step.index: step for step in self.steps}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all that a model may see of it; the key of resume and replay."""
        seen = hashlib.sha256()
        seen.update(repr((self.task, self.reference_answer)).encode())
        for step in self.steps:
            seen.update(repr((step.index, step.agent, step.kind, step.to, step.text)).encode())
        return seen.hexdigest()


class Label(Frozen):
    """What an annotator (or a planted fault) says is the decisive fault.

    Attributes:
        agent: The agent blamed; None in reasoning chains.
        step: In the trajectory's own numbering; None when there is no fault.
        reason: The annotator's words.
    """

    agent: str | None
    step: int | None
    reason: str = ""


class LabelledTrajectory(Frozen):
    """A trajectory beside what no prompt may hold: its label and its reference answer."""

    trajectory: Trajectory
    label: Label | None = None
    reference_answer: str | None = None
