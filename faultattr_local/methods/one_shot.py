"""One shot: the whole log, one question, one answer.

After "all at once" of arXiv 2505.00212. Here the log is shown as numbered steps, the
rationale cites it and comes before the answer, and the answer is held to the steps and
agents of the run by a grammar.
"""

from __future__ import annotations

from typing import Any

from pydantic import create_model

from faultattr_local.engine.base import Answer
from faultattr_local.methods.answers import (
    AnswerLimits,
    checked_rationale,
    cited_share,
    fault_answer,
    fault_of,
    rationale_answer,
)
from faultattr_local.methods.flow import Flow, Setup, WholeLog, ask
from faultattr_local.settings import Section
from faultattr_local.trajectory import Trajectory
from faultattr_local.verdict import Iteration, Verdict


class OneShotConfig(Section):
    """Settings of the one-shot method."""

    allow_no_fault: bool = False
    """Whether "there is no decisive fault" is an answer."""


def one_shot(trajectory: Trajectory, config: OneShotConfig, setup: Setup) -> Flow:
    """Attribute one trajectory with one call.

    Raises:
        LogTooLong: The log does not fit the served context; nothing was sent.
    """
    whole_log = WholeLog(trajectory, setup, "system", first_error=False)
    question = setup.prompts.render(
        "one_shot/ask", allow_no_fault=config.allow_no_fault, limits=setup.limits
    )
    request = whole_log.request(
        "judge", question, one_shot_answer(trajectory, config, setup.limits)
    )
    whole_log.refuse_if_too_long(request)
    answered: Any = (yield from ask(request)).answer
    rationale = checked_rationale(answered, trajectory)
    rationales = {"rationale": rationale}
    named = answered.fault
    fault = named and fault_of(trajectory, named.agent, named.step, rationales)
    decision = f"step {fault.step}, {fault.agent}" if fault else "no decisive fault"
    single_round = Iteration(
        number=1,
        fault=fault,
        rationales={} if fault else rationales,
        cited=cited_share([rationale]),
    )
    return Verdict(
        trajectory=trajectory.id,
        digest=trajectory.digest,
        status="attributed" if fault else "no_fault",
        method="one_shot",
        fault=fault,
        accepted=True,
        reason="decided in one call on the whole log",
        iterations=(single_round,),
        path=(f"{decision}: {' '.join(rationale.text.split())}",),
    )


def one_shot_answer(
    trajectory: Trajectory, config: OneShotConfig, limits: AnswerLimits
) -> type[Answer]:
    """`{rationale, citations, fault: {agent, step}}`; fault may be null where allowed."""
    fault: Any = fault_answer(trajectory)
    return create_model(
        "OneShotAnswer",
        __base__=rationale_answer(trajectory, limits),
        fault=(fault | None if config.allow_no_fault else fault, ...),
    )
