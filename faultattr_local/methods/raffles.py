"""RAFFLES: a Judge proposes, Evaluators test, until one candidate is believed.

arXiv 2509.06822. One iteration: the Judge argues each criterion and names a step; an
Evaluator for each criterion, side by side, says how sound its one argument is; a rule, the
log Evaluator, checks that the named agent acts at the named step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field, create_model

from faultattr_local.engine.base import Answer, Request
from faultattr_local.methods.answers import (
    AnswerLimits,
    acts_at,
    checked_rationale,
    cited_share,
    evaluator_answer,
    fault_answer,
    fault_of,
    rationale_answer,
)
from faultattr_local.methods.flow import Flow, Setup, WholeLog, ask, ask_all
from faultattr_local.settings import Section
from faultattr_local.trajectory import Trajectory
from faultattr_local.verdict import Assessment, Fault, Iteration, Rationale, Verdict


class RafflesConfig(Section):
    """Settings of the RAFFLES loop."""

    max_iterations: int = Field(default=2, ge=1, le=50)
    """Rounds of Judge and Evaluators; the paper's main tables use 2."""
    accept_above: float = Field(default=0.875, ge=0, le=1)
    """Stop when the summed confidence is above this share of the greatest (350 of 400)."""
    first_error: bool = False
    """Look for the earliest wrong step of a reasoning chain; drops decisiveness."""
    allow_no_fault: bool | None = None
    """Whether "there is no fault" is an answer; by default only with first_error."""
    cite_check: bool = False
    """An argument of which no quote stands in the log counts as confidence 0."""
    log_evaluator: bool = True
    """Check by rule that the agent acts at the step; off only for ablations."""

    @property
    def criteria(self) -> tuple[str, ...]:
        """What a candidate must meet, one Evaluator for each."""
        both = ("fault_condition", "primacy")
        return both if self.first_error else (*both, "decisiveness")

    @property
    def no_fault_allowed(self) -> bool:
        """`allow_no_fault`, or what the mode implies."""
        return self.first_error if self.allow_no_fault is None else self.allow_no_fault


def raffles(
    trajectory: Trajectory,
    config: RafflesConfig,
    setup: Setup,
    whole_log: WholeLog | None = None,
) -> Flow:
    """Attribute one trajectory by the RAFFLES loop.

    Args:
        trajectory: The run.
        config: The loop's settings.
        setup: The run's prompts, limits and tokenizer.
        whole_log: `log_of` the trajectory, where that is counted already.

    Raises:
        LogTooLong: The log does not fit the served context; nothing was sent.
    """
    whole_log = whole_log or log_of(trajectory, config, setup)
    answer = judge_answer(trajectory, config, setup.limits)
    history: list[Iteration] = []
    reason = f"none was accepted in {config.max_iterations} iterations; the best of them"
    whole_log.refuse_if_too_long(judge_request(whole_log, answer, history, config, setup))
    for number in range(1, config.max_iterations + 1):
        request = judge_request(whole_log, answer, history, config, setup)
        if not whole_log.fits(request):
            reason = f"the memory no longer fits the context after {number - 1} iterations"
            break
        judged = (yield from ask(request)).answer
        fault, rationales = candidate(judged, trajectory, config)
        replies = yield from ask_all(
            evaluator_request(whole_log, criterion, fault, rationales[criterion], config, setup)
            for criterion in config.criteria
        )
        assessments = [
            assessment(criterion, reply.answer, rationales[criterion], config)
            for criterion, reply in zip(config.criteria, replies, strict=True)
        ]
        if config.log_evaluator:
            assessments.append(check_log(trajectory, fault))
        history.append(iteration(number, fault, rationales, assessments))
        if is_accepted(history[-1], config):
            reason = f"accepted in iteration {number}"
            break
    chosen = best(history)
    return Verdict(
        trajectory=trajectory.id,
        digest=trajectory.digest,
        status="attributed" if chosen.fault else "no_fault",
        method="raffles",
        fault=chosen.fault,
        confidence=chosen.confidence / chosen.greatest,
        accepted=is_accepted(chosen, config),
        reason=reason,
        iterations=tuple(history),
    )


def log_of(trajectory: Trajectory, config: RafflesConfig, setup: Setup) -> WholeLog:
    """The messages that every call on the trajectory begins with."""
    return WholeLog(trajectory, setup, "system", first_error=config.first_error)


def judge_answer(
    trajectory: Trajectory, config: RafflesConfig, limits: AnswerLimits
) -> type[Answer]:
    """A rationale for each criterion, then the fault (or null where that is allowed)."""
    rationale = rationale_answer(trajectory, limits)
    fault: Any = fault_answer(trajectory)
    fields: dict[str, Any] = dict.fromkeys(config.criteria, (rationale, ...))
    fields["fault"] = (fault | None if config.no_fault_allowed else fault, ...)
    return create_model("JudgeAnswer", __base__=Answer, **fields)


def judge_request(
    whole_log: WholeLog,
    answer: type[Answer],
    history: Sequence[Iteration],
    config: RafflesConfig,
    setup: Setup,
) -> Request:
    """The Judge's question; earlier iterations stand in it, after the log."""
    question = setup.prompts.render(
        "raffles/judge",
        first_error=config.first_error,
        allow_no_fault=config.no_fault_allowed,
        criteria=config.criteria,
        history=history,
        limits=setup.limits,
    )
    return whole_log.request("judge", question, answer)


def evaluator_request(
    whole_log: WholeLog,
    criterion: str,
    fault: Fault | None,
    rationale: Rationale,
    config: RafflesConfig,
    setup: Setup,
) -> Request:
    """An Evaluator's question: the candidate and its own criterion's rationale alone."""
    question = setup.prompts.render(
        "raffles/evaluator",
        first_error=config.first_error,
        criterion=criterion,
        fault=fault,
        rationale=rationale,
    )
    return whole_log.request(f"evaluator:{criterion}", question, evaluator_answer(setup.limits))


def candidate(
    judged: Any, trajectory: Trajectory, config: RafflesConfig
) -> tuple[Fault | None, dict[str, Rationale]]:
    """The Judge's candidate (None: no fault) and its rationales, citations checked."""
    rationales = {
        criterion: checked_rationale(getattr(judged, criterion), trajectory)
        for criterion in config.criteria
    }
    if judged.fault is None:
        return None, rationales
    return fault_of(trajectory, judged.fault.agent, judged.fault.step, rationales), rationales


def assessment(
    criterion: str, answered: Any, rationale: Rationale, config: RafflesConfig
) -> Assessment:
    """An Evaluator's answer; 0 under `cite_check` when no quote of the argument stands."""
    unfounded = config.cite_check and not any(cited.found for cited in rationale.citations)
    return Assessment(
        criterion=criterion,
        rationale=answered.rationale,
        confidence=0 if unfounded else answered.confidence,
        unfounded=unfounded,
    )


def check_log(trajectory: Trajectory, fault: Fault | None) -> Assessment:
    """The log Evaluator: 100 when the named agent acts at the named step, else 0.

    Names are compared without case and white space. That there is no fault names nothing
    that could be absent, and counts as 100.
    """
    if fault is None:
        return Assessment(criterion="log", rationale="No step is named.", confidence=100, by="rule")
    step = trajectory.by_index.get(fault.step)
    told = f"Step {step.index} is by {step.agent}." if step else f"There is no step {fault.step}."
    confidence = 100 if acts_at(trajectory, fault) else 0
    return Assessment(criterion="log", rationale=told, confidence=confidence, by="rule")


def iteration(
    number: int,
    fault: Fault | None,
    rationales: dict[str, Rationale],
    assessments: Sequence[Assessment],
) -> Iteration:
    """One finished round, its confidences added up."""
    return Iteration(
        number=number,
        fault=fault,
        rationales={} if fault else rationales,
        assessments=tuple(assessments),
        confidence=sum(one.confidence for one in assessments),
        greatest=100 * len(assessments),
        cited=cited_share(rationales.values()),
    )


def best(history: Sequence[Iteration]) -> Iteration:
    """The iteration of the highest confidence; the latest of equals."""
    return max(history, key=lambda one: (one.confidence, one.number))


def is_accepted(iteration: Iteration, config: RafflesConfig) -> bool:
    """The stop rule: strictly above the share of the greatest possible sum."""
    return iteration.confidence > config.accept_above * iteration.greatest
