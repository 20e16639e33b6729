"""Step by step: the log grows by one step a call, and the first "yes" wins.

After the method of that name in arXiv 2505.00212. Here the log only grows at its end and
the question stands last, so that each call finds all earlier steps in the prefix cache; and
the answer carries a confidence, which decides when no step gets a "yes".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultattr_local import log
from faultattr_local.engine.base import Message, Request
from faultattr_local.errors import LogTooLong
from faultattr_local.methods.answers import Finding, fault_of, finding, step_answer
from faultattr_local.methods.flow import TEMPLATE_TOKENS, Flow, Setup, ask, message_tokens
from faultattr_local.settings import Section
from faultattr_local.trajectory import Step, Trajectory
from faultattr_local.verdict import Fault, Rationale, Verdict


class StepByStepConfig(Section):
    """Settings of the step-by-step method."""

    allow_no_fault: bool = False
    """Without any "yes": say that there is no fault, instead of taking the likeliest step."""


class GrowingLog:
    """The log up to a step, with the question on that step behind it.

    Its head tells neither the number of steps nor the agents to come, since both would
    give away what is still hidden.
    """

    def __init__(self, trajectory: Trajectory, setup: Setup) -> None:
        self._trajectory = trajectory
        self._setup = setup
        self._mark = log.mark(trajectory)
        self._answer = step_answer(setup.limits)
        self._system = Message("system", setup.prompts.render("system", first_error=False))
        head = setup.prompts.render(
            "step_by_step/log",
            task=trajectory.task,
            reference_answer=trajectory.reference_answer,
            mark=self._mark,
        )
        self._head = f"{head}\n\n"

    def request(self, step: Step, shown: str) -> Request:
        """The question on a step, behind the rendered steps up to and with it."""
        return self._setup.request(
            self._trajectory,
            f"judge:{step.index}",
            (self._system, Message("user", self._head + shown)),
            self._setup.prompts.render("step_by_step/ask", step=step, mark=self._mark),
            self._answer,
        )

    def refuse_if_too_long(self) -> None:
        """Check the last and longest call before the first is sent.

        Raises:
            LogTooLong: With the count and what to do.
        """
        request = self.request(self._trajectory.steps[-1], log.render(self._trajectory))
        count = self._setup.count_tokens
        needed = message_tokens(request.shared, count) + count(request.ask) + TEMPLATE_TOKENS
        needed += request.max_tokens
        if needed > self._setup.context_tokens:
            raise LogTooLong(
                f"the log needs {needed} tokens with question and answer at its last step, "
                f"the model serves {self._setup.context_tokens}",
                where=self._trajectory.id,
                fix="Use --method safari or --method auto, or serve a longer context.",
            )


def step_by_step(trajectory: Trajectory, config: StepByStepConfig, setup: Setup) -> Flow:
    """Attribute one trajectory with at most one call for each of its steps.

    Raises:
        LogTooLong: The whole log does not fit the served context; nothing was sent, though
            an early "yes" might have ended the search before the log was too long.
    """
    growing = GrowingLog(trajectory, setup)
    growing.refuse_if_too_long()
    findings: list[Finding] = []
    shown = ""
    for step, rendered in log.rendered_steps(trajectory):
        shown += rendered
        answered: Any = (yield from ask(growing.request(step, shown))).answer
        findings.append(finding(step, answered))
        if answered.decisive:
            break
    chosen, accepted, reason = decide(findings, config)
    fault = fault_at(trajectory, chosen) if chosen else None
    return Verdict(
        trajectory=trajectory.id,
        digest=trajectory.digest,
        status="attributed" if fault else "no_fault",
        method="step_by_step",
        fault=fault,
        confidence=chosen.confidence / 100 if chosen else None,
        accepted=accepted,
        reason=reason,
        path=tuple(map(str, findings)),
    )


def decide(
    findings: Sequence[Finding], config: StepByStepConfig
) -> tuple[Finding | None, bool, str]:
    """The step chosen (None: no fault), whether by a "yes", and the reason.

    Without any "yes", in a run that is known to have failed, the step of the highest
    confidence is taken; the earliest of equals, as the first "yes" would have been.
    """
    last = findings[-1]
    if last.decisive:
        return last, True, f"step {last.step.index} is the first to get a yes"
    if config.allow_no_fault:
        return None, True, f"none of the {len(findings)} steps got a yes"
    best = max(findings, key=lambda one: one.confidence)
    reason = (
        f"none of the {len(findings)} steps got a yes; step {best.step.index} is the earliest "
        f"of the highest confidence, {best.confidence} of 100"
    )
    return best, False, reason


def fault_at(trajectory: Trajectory, chosen: Finding) -> Fault:
    """The step that was found, blamed on whoever acts there."""
    rationales = {"rationale": Rationale(text=chosen.rationale)}
    return fault_of(trajectory, chosen.step.agent, chosen.step.index, rationales)
