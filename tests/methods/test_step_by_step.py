from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest

from faultattr_local import log
from faultattr_local.engine.base import Request
from faultattr_local.errors import InvalidReply, LogTooLong
from faultattr_local.methods.flow import Flow, Setup
from faultattr_local.methods.step_by_step import StepByStepConfig, step_by_step
from faultattr_local.trajectory import Trajectory
from faultattr_local.verdict import Verdict

Script = Callable[[Request], Mapping[str, Any]]
Drive = Callable[[Flow, Script], tuple[Verdict, list[Request]]]


def script(confidences: dict[int, int], decisive: tuple[int, ...] = ()) -> Script:
    """Answers by the number of the step asked about."""

    def answer(request: Request) -> dict[str, Any]:
        step = int(request.role.removeprefix("judge:"))
        return {
            "rationale": f"About\n{step}.",
            "confidence": confidences.get(step, 0),
            "decisive": step in decisive,
        }

    return answer


def test_first_yes_wins_and_ends_the_search(bolts: Trajectory, ample: Setup, drive: Drive) -> None:
    flow = step_by_step(bolts, StepByStepConfig(), ample)
    verdict, sent = drive(flow, script({2: 99, 5: 70, 9: 100}, decisive=(5, 9)))
    assert [request.role for request in sent] == ["judge:2", "judge:3", "judge:5"]
    assert (verdict.status, verdict.method) == ("attributed", "step_by_step")
    assert verdict.fault is not None
    assert (verdict.fault.agent, verdict.fault.step) == ("Buyer", 5)
    assert verdict.fault.source_ref == "history[5]"
    assert verdict.fault.rationales["rationale"].text == "About\n5."
    assert (verdict.confidence, verdict.accepted) == (0.7, True)
    assert verdict.reason == "step 5 is the first to get a yes"
    assert verdict.path == (
        "step 2, Planner: no, confidence 99: About 2.",
        "step 3, Clerk: no, confidence 0: About 3.",
        "step 5, Buyer: yes, confidence 70: About 5.",
    )


def test_yes_at_the_last_step_is_accepted(bolts: Trajectory, ample: Setup, drive: Drive) -> None:
    flow = step_by_step(bolts, StepByStepConfig(), ample)
    verdict, sent = drive(flow, script({}, decisive=(9,)))
    assert verdict.fault is not None
    assert (verdict.fault.step, verdict.accepted, len(sent)) == (9, True, 5)


def test_without_a_yes_the_earliest_of_the_highest_confidence_is_taken_and_told(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    flow = step_by_step(bolts, StepByStepConfig(), ample)
    verdict, sent = drive(flow, script({2: 10, 3: 40, 5: 40, 6: 39}))
    assert len(sent) == len(bolts.steps)
    assert verdict.fault is not None
    assert (verdict.fault.agent, verdict.fault.step) == ("Clerk", 3)
    assert (verdict.status, verdict.accepted, verdict.confidence) == ("attributed", False, 0.4)
    assert "none of the 5 steps got a yes" in verdict.reason
    assert "earliest of the highest confidence, 40 of 100" in verdict.reason


def test_without_a_yes_there_is_no_fault_where_allowed(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    flow = step_by_step(bolts, StepByStepConfig(allow_no_fault=True), ample)
    verdict, _ = drive(flow, script({3: 40}))
    assert (verdict.status, verdict.fault, verdict.accepted) == ("no_fault", None, True)
    assert verdict.confidence is None
    assert len(verdict.path) == 5


def test_log_grows_only_at_its_end_and_hides_what_comes(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    _, sent = drive(step_by_step(bolts, StepByStepConfig(), ample), script({}))
    for before, after in pairwise(sent):
        assert before.shared[0] == after.shared[0]
        assert after.shared[1].content.startswith(before.shared[1].content)
    for number, request in enumerate(sent, start=1):
        text = "".join(message.content for message in request.messages)
        for step in bolts.steps[:number]:
            assert log.header(step, log.mark(bolts)) in text
            assert step.content in text
        for step in bolts.steps[number:]:
            assert f"step {step.index} |" not in text
            assert step.content not in text
    assert "Buyer" not in sent[0].messages[-1].content


def test_answer_argues_first_and_doubts_before_it_decides(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    _, sent = drive(step_by_step(bolts, StepByStepConfig(), ample), script({}))
    assert list(sent[0].schema["properties"]) == ["rationale", "confidence", "decisive"]


@pytest.mark.parametrize("confidence", [-1, 101])
def test_confidence_out_of_bounds_is_no_answer(
    confidence: int, bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    with pytest.raises(InvalidReply):
        drive(step_by_step(bolts, StepByStepConfig(), ample), script({2: confidence}))


def test_log_too_long_at_its_last_step_is_refused_before_anything_is_sent(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    _, sent = drive(step_by_step(bolts, StepByStepConfig(), ample), script({}))
    texts = [*(message.content for message in sent[-1].shared), sent[-1].ask]
    needed = sum(ample.count_tokens(text) + 16 for text in texts) + sent[-1].max_tokens

    def served(tokens: int) -> Setup:
        return Setup(ample.prompts, ample.limits, ample.count_tokens, tokens)

    assert next(step_by_step(bolts, StepByStepConfig(), served(needed)))
    with pytest.raises(LogTooLong, match=f"needs {needed} tokens"):
        next(step_by_step(bolts, StepByStepConfig(), served(needed - 1)))


def test_reference_answer_is_shown_only_when_the_trajectory_carries_it(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    told = bolts.model_copy(update={"reference_answer": "140 bolts"})
    for shown, run in ((False, bolts), (True, told)):
        _, sent = drive(step_by_step(run, StepByStepConfig(), ample), script({}, decisive=(2,)))
        assert ("140 bolts" in sent[0].messages[-1].content) is shown


def test_prompt_is_the_golden_one(
    bolts: Trajectory,
    ample: Setup,
    drive: Drive,
    golden: Callable[[str, str], None],
) -> None:
    _, sent = drive(step_by_step(bolts, StepByStepConfig(), ample), script({}))
    golden("step_by_step_second_call.txt", sent[1].messages[-1].content)
