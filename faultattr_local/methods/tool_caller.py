"""Tool caller: a Planner picks steps for a Judge to examine, then names one.

After the baseline of that name in arXiv 2509.06822. A pick is a decision that the grammar
admits, the Judge sees the whole log and not the Planner's reasons, and a step is examined at
most once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, create_model

from faultattr_local.engine.base import Answer, Request
from faultattr_local.methods.answers import (
    Finding,
    checked_rationale,
    fault_answer,
    fault_of,
    finding,
    rationale_answer,
    step_answer,
)
from faultattr_local.methods.flow import Flow, Setup, WholeLog, ask
from faultattr_local.settings import Section
from faultattr_local.trajectory import Step, Trajectory
from faultattr_local.verdict import Fault, Verdict


class ToolCallerConfig(Section):
    """Settings of the tool caller."""

    max_judge_calls: int = Field(default=3, ge=1, le=50)
    """Steps that the Judge may be asked to examine before the Planner must conclude."""
    allow_no_fault: bool = False
    """Whether the Planner may conclude that there is no decisive fault."""


def tool_caller(trajectory: Trajectory, config: ToolCallerConfig, setup: Setup) -> Flow:
    """Attribute one trajectory with a Planner and a few calls of a Judge.

    The verdict's confidence is the Judge's in the step named; None when it was not asked
    about that step.

    Raises:
        LogTooLong: The log does not fit the served context; nothing was sent. Or the
            Judge's findings no longer fit behind the log.
    """
    whole_log = WholeLog(trajectory, setup, "system", first_error=False)
    findings: list[Finding] = []
    path: list[str] = []
    while True:
        request = planner_request(whole_log, trajectory, findings, config, setup)
        whole_log.refuse_if_too_long(request)
        planned: Any = (yield from ask(request)).answer
        why = " ".join(planned.rationale.split())
        if planned.decision.action == "conclude":
            break
        step = trajectory.by_index[planned.decision.step]
        path.append(f"Planner: examine step {step.index}, {step.agent}: {why}")
        request = judge_request(whole_log, step, setup)
        whole_log.refuse_if_too_long(request)
        judged: Any = (yield from ask(request)).answer
        findings.append(finding(step, judged))
        path.append(f"Judge: {findings[-1]}")
    rationales = {"rationale": checked_rationale(planned, trajectory)}
    named = planned.decision.fault
    fault = named and fault_of(trajectory, named.agent, named.step, rationales)
    conclusion = f"step {fault.step}, {fault.agent}" if fault else "no decisive fault"
    return Verdict(
        trajectory=trajectory.id,
        digest=trajectory.digest,
        status="attributed" if fault else "no_fault",
        method="tool_caller",
        fault=fault,
        confidence=confidence_in(fault, findings),
        accepted=True,
        reason=f"the Planner concluded after {len(findings)} of at most "
        f"{config.max_judge_calls} Judge calls",
        path=(*path, f"Planner: conclude {conclusion}: {why}"),
    )


def planner_request(
    whole_log: WholeLog,
    trajectory: Trajectory,
    findings: Sequence[Finding],
    config: ToolCallerConfig,
    setup: Setup,
) -> Request:
    """The Planner's question, with all findings so far."""
    examined = {one.step.index for one in findings}
    calls_left = config.max_judge_calls - len(findings)
    left = [index for index in trajectory.by_index if index not in examined] if calls_left else []
    question = setup.prompts.render(
        "tool_caller/planner",
        findings=findings,
        calls_left=calls_left if left else 0,
        allow_no_fault=config.allow_no_fault,
        limits=setup.limits,
    )
    return whole_log.request("planner", question, planner_answer(trajectory, left, config, setup))


def judge_request(whole_log: WholeLog, step: Step, setup: Setup) -> Request:
    """The Judge's question on one step."""
    question = setup.prompts.render("tool_caller/judge", step=step)
    return whole_log.request(f"judge:{step.index}", question, step_answer(setup.limits))


def planner_answer(
    trajectory: Trajectory, left: Sequence[int], config: ToolCallerConfig, setup: Setup
) -> type[Answer]:
    """`{rationale, citations, decision}`.

    The decision is `{"action": "examine", "step"}` with one of the steps `left`, or
    `{"action": "conclude", "fault": {agent, step}}`; without any left only the latter.
    """
    fault: Any = fault_answer(trajectory)
    conclude_action: Any = Literal["conclude"]
    examine_action: Any = Literal["examine"]
    decision: Any = create_model(
        "ConcludeAnswer",
        __base__=Answer,
        action=(conclude_action, ...),
        fault=(fault | None if config.allow_no_fault else fault, ...),
    )
    if left:
        step: Any = Literal[tuple(left)]
        examine = create_model(
            "ExamineAnswer", __base__=Answer, action=(examine_action, ...), step=(step, ...)
        )
        decision = examine | decision
    return create_model(
        "PlannerAnswer",
        __base__=rationale_answer(trajectory, setup.limits),
        decision=(decision, ...),
    )


def confidence_in(fault: Fault | None, findings: Sequence[Finding]) -> float | None:
    """The Judge's confidence, 0 to 1, in the step named; None when it was not asked."""
    of_step = {one.step.index: one.confidence / 100 for one in findings}
    return of_step.get(fault.step) if fault else None
