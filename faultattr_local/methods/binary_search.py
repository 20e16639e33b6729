"""Binary search: which half of the steps in question holds the decisive fault?

After the method of that name in arXiv 2505.00212. Every question stands behind the whole
log, so that all calls share it in the prefix cache and no half is judged without what led to
it; the halves are told by the steps' own numbers, and the grammar admits one of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import create_model

from faultattr_local.engine.base import Answer
from faultattr_local.methods.answers import AnswerLimits, fault_of, text_type
from faultattr_local.methods.flow import Flow, Setup, WholeLog, ask
from faultattr_local.settings import Section
from faultattr_local.trajectory import Step, Trajectory
from faultattr_local.verdict import Rationale, Verdict


class BinarySearchConfig(Section):
    """Settings of the binary search: none. It always ends at a step."""


def binary_search(trajectory: Trajectory, config: BinarySearchConfig, setup: Setup) -> Flow:
    """Attribute one trajectory in about log2 of its number of steps calls.

    A log of one step asks nothing. The agent is whoever acts at the step that remains, and
    the rationale is that of the last question.

    Raises:
        LogTooLong: The log does not fit the served context; nothing was sent.
    """
    whole_log = WholeLog(trajectory, setup, "system", first_error=False)
    steps = trajectory.steps
    rationales: dict[str, Rationale] = {}
    path: list[str] = []
    while len(steps) > 1:
        middle = (len(steps) + 1) // 2
        lower, upper = steps[:middle], steps[middle:]
        halves = (span(lower), span(upper))
        question = setup.prompts.render(
            "binary_search/ask", whole=span(steps), halves=halves, first_question=not path
        )
        request = whole_log.request(
            f"judge:{span(steps)}", question, half_answer(halves, setup.limits)
        )
        whole_log.refuse_if_too_long(request)
        answered: Any = (yield from ask(request)).answer
        steps = lower if answered.half == halves[0] else upper
        rationales = {"rationale": Rationale(text=answered.rationale)}
        path.append(f"{answered.half}: {' '.join(answered.rationale.split())}")
    found = steps[0]
    return Verdict(
        trajectory=trajectory.id,
        digest=trajectory.digest,
        status="attributed",
        method="binary_search",
        fault=fault_of(trajectory, found.agent, found.index, rationales),
        accepted=True,
        reason=f"one step remained after {len(path)} halvings"
        if path
        else "the log holds only this step; nothing was asked",
        path=tuple(path),
    )


def span(steps: Sequence[Step]) -> str:
    """How a run of steps is called, in their own numbers: "step 4", "steps 5 to 9"."""
    first, last = steps[0].index, steps[-1].index
    return f"step {first}" if first == last else f"steps {first} to {last}"


def half_answer(halves: tuple[str, str], limits: AnswerLimits) -> type[Answer]:
    """`{rationale, half}`, half being one of the two."""
    half: Any = Literal[halves]
    return create_model(
        "HalfAnswer",
        __base__=Answer,
        rationale=(text_type(limits.rationale), ...),
        half=(half, ...),
    )
