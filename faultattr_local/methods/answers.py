"""What the model must write: closed, bounded answers drawn up for one trajectory.

Rationales come before what they argue for, `step` knows only the trajectory's own
indices and `agent` only its own agents, so that the grammar itself forbids the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from faultattr_local.engine.base import Answer
from faultattr_local.log import quote_stands_in
from faultattr_local.settings import Section
from faultattr_local.trajectory import Step, Trajectory
from faultattr_local.verdict import Citation, Fault, Rationale

Confidence = Annotated[int, Field(ge=0, le=100)]

MODELS_KEPT = 512
"""Answer models of one kind that are kept for use on other trajectories."""


class AnswerLimits(Section):
    """Bounds of what the model may write, in characters and items."""

    rationale: int = Field(default=700, ge=20)
    """Characters of a rationale."""
    quote: int = Field(default=160, ge=10)
    """Characters of a quoted passage."""
    citations: int = Field(default=3, ge=0, le=10)
    """Passages that a rationale may cite."""
    memory: int = Field(default=250, ge=20)
    """Characters of a field of SAFARI's short-term memory."""
    claim: int = Field(default=220, ge=20)
    """Characters of an atomic claim, and of its evidence."""
    pattern: int = Field(default=120, ge=10)
    """Characters of a search pattern."""


def step_type(steps: range | tuple[int, ...]) -> Any:
    """The type that admits these indices and nothing else."""
    if isinstance(steps, range):
        return Annotated[int, Field(ge=steps[0], le=steps[-1])]
    return Literal[steps]


def text_type(characters: int) -> Any:
    """A string of at least one and at most so many characters."""
    return Annotated[str, Field(min_length=1, max_length=characters)]


def fault_answer(trajectory: Trajectory) -> type[Answer]:
    """Who and where: `{agent, step}`."""
    return _fault_answer(trajectory.agents, trajectory.indices)


def rationale_answer(trajectory: Trajectory, limits: AnswerLimits) -> type[Answer]:
    """An argument and the passages it cites: `{rationale, citations: [{step, quote}]}`."""
    return _rationale_answer(trajectory.indices, limits)


# Making a model takes about a millisecond, so each is made once. A model that is used again
# also brings its schema and its token bound along.
@lru_cache(maxsize=MODELS_KEPT)
def _fault_answer(agents: tuple[str, ...], steps: range | tuple[int, ...]) -> type[Answer]:
    agent: Any = Literal[agents]
    return create_model(
        "FaultAnswer", __base__=Answer, agent=(agent, ...), step=(step_type(steps), ...)
    )


@lru_cache(maxsize=MODELS_KEPT)
def _rationale_answer(steps: range | tuple[int, ...], limits: AnswerLimits) -> type[Answer]:
    citation = create_model(
        "CitationAnswer",
        __base__=Answer,
        step=(step_type(steps), ...),
        quote=(text_type(limits.quote), ...),
    )
    citations: Any = Annotated[list[citation], Field(max_length=limits.citations)]  # type: ignore[valid-type]
    return create_model(
        "RationaleAnswer",
        __base__=Answer,
        rationale=(text_type(limits.rationale), ...),
        citations=(citations, ...),
    )


@lru_cache(maxsize=MODELS_KEPT)
def evaluator_answer(limits: AnswerLimits) -> type[Answer]:
    """An Evaluator's `{rationale, confidence}`."""
    return create_model(
        "EvaluatorAnswer",
        __base__=Answer,
        rationale=(text_type(limits.rationale), ...),
        confidence=(Confidence, ...),
    )


def checked_rationale(answer: Any, trajectory: Trajectory) -> Rationale:
    """A rationale as the verdict keeps it, each citation checked against its step."""
    citations = tuple(
        Citation(
            step=cited.step,
            quote=cited.quote,
            found=quote_stands_in(cited.quote, trajectory.by_index[cited.step]),
        )
        for cited in answer.citations
    )
    return Rationale(text=answer.rationale, citations=citations)


def fault_of(
    trajectory: Trajectory, agent: str, step: int, rationales: Mapping[str, Rationale]
) -> Fault:
    """The fault named, with where its step stands in the trace file.

    Args:
        trajectory: The run.
        agent: As the model named it; not necessarily who acts at the step.
        step: One of the trajectory's own indices.
        rationales: As `Fault.rationales`.

    Raises:
        KeyError: The trajectory has no such step.
    """
    source_ref = trajectory.by_index[step].source_ref
    return Fault(agent=agent, step=step, source_ref=source_ref, rationales=dict(rationales))


def acts_at(trajectory: Trajectory, fault: Fault) -> bool:
    """Whether the named agent acts at the named step; names without case and white space."""
    step = trajectory.by_index.get(fault.step)
    return step is not None and _bare(step.agent) == _bare(fault.agent)


def _bare(name: str) -> str:
    return "".join(name.split()).casefold()


@lru_cache(maxsize=MODELS_KEPT)
def step_answer(limits: AnswerLimits) -> type[Answer]:
    """On one step: `{rationale, confidence, decisive}`.

    The confidence is that this step is the decisive fault. It stands before the yes or no,
    so that it cannot be taken for the confidence in a "no".
    """
    return create_model(
        "StepAnswer",
        __base__=evaluator_answer(limits),
        decisive=(bool, ...),
    )


@dataclass(frozen=True)
class Finding:
    """What was answered on one step; the confidence, 0 to 100, is that it is the one."""

    step: Step
    rationale: str
    confidence: int
    decisive: bool

    def __str__(self) -> str:
        answer = "yes" if self.decisive else "no"
        why = " ".join(self.rationale.split())
        who = f"step {self.step.index}, {self.step.agent}"
        return f"{who}: {answer}, confidence {self.confidence}: {why}"


def finding(step: Step, answer: Any) -> Finding:
    """A `step_answer` with the step it is on."""
    return Finding(step, answer.rationale, answer.confidence, answer.decisive)


def cited_share(rationales: Iterable[Rationale]) -> float | None:
    """Share of the citations whose quote stands in the step; None without citations."""
    found = [cited.found for rationale in rationales for cited in rationale.citations]
    return sum(found) / len(found) if found else None
