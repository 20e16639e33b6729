from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from faultattr_local.engine.base import Request
from faultattr_local.errors import InvalidReply, LogTooLong
from faultattr_local.methods.flow import Flow, Setup
from faultattr_local.methods.tool_caller import ToolCallerConfig, tool_caller
from faultattr_local.trajectory import Step, Trajectory
from faultattr_local.verdict import Verdict

Script = Callable[[Request], Mapping[str, Any]]
Drive = Callable[[Flow, Script], tuple[Verdict, list[Request]]]

CONCLUDE_5 = {"action": "conclude", "fault": {"agent": "Buyer", "step": 5}}


def examine(step: int) -> dict[str, Any]:
    return {"action": "examine", "step": step}


def script(decisions: Sequence[dict[str, Any]]) -> Script:
    """The Planner takes these decisions one after another; the Judge doubts all but step 5."""
    left = iter(decisions)

    def answer(request: Request) -> dict[str, Any]:
        if request.role == "planner":
            citations = [{"step": 5, "quote": "320 in stock"}]
            return {"rationale": "I think\nso.", "citations": citations, "decision": next(left)}
        step = int(request.role.removeprefix("judge:"))
        return {
            "rationale": f"Judged {step}.",
            "confidence": 80 if step == 5 else 15,
            "decisive": step == 5,
        }

    return answer


def test_planner_examines_then_concludes(bolts: Trajectory, ample: Setup, drive: Drive) -> None:
    flow = tool_caller(bolts, ToolCallerConfig(), ample)
    verdict, sent = drive(flow, script([examine(3), examine(5), CONCLUDE_5]))
    assert [request.role for request in sent] == [
        "planner",
        "judge:3",
        "planner",
        "judge:5",
        "planner",
    ]
    assert (verdict.status, verdict.method, verdict.accepted) == ("attributed", "tool_caller", True)
    assert verdict.fault is not None
    assert (verdict.fault.agent, verdict.fault.step) == ("Buyer", 5)
    assert verdict.fault.source_ref == "history[5]"
    assert verdict.fault.rationales["rationale"].citations[0].found
    assert verdict.confidence == 0.8
    assert verdict.reason == "the Planner concluded after 2 of at most 3 Judge calls"
    assert verdict.path == (
        "Planner: examine step 3, Clerk: I think so.",
        "Judge: step 3, Clerk: no, confidence 15: Judged 3.",
        "Planner: examine step 5, Buyer: I think so.",
        "Judge: step 5, Buyer: yes, confidence 80: Judged 5.",
        "Planner: conclude step 5, Buyer: I think so.",
    )


def test_planner_may_conclude_at_once_on_a_step_the_judge_never_saw(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    verdict, sent = drive(tool_caller(bolts, ToolCallerConfig(), ample), script([CONCLUDE_5]))
    assert len(sent) == 1
    assert verdict.confidence is None
    assert verdict.reason == "the Planner concluded after 0 of at most 3 Judge calls"


@pytest.mark.parametrize("most", [1, 3])
def test_planner_must_conclude_after_the_last_judge_call(
    most: int, bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    config = ToolCallerConfig(max_judge_calls=most)
    picks = [examine(step) for step in (2, 3, 6)[:most]]
    verdict, sent = drive(tool_caller(bolts, config, ample), script([*picks, CONCLUDE_5]))
    assert len(sent) == 2 * most + 1
    assert verdict.fault is not None
    assert verdict.fault.step == 5
    assert '"examine"' not in sent[-1].ask
    with pytest.raises(InvalidReply):
        drive(tool_caller(bolts, config, ample), script([*picks, examine(9)]))


def test_planner_must_conclude_when_every_step_was_examined(ample: Setup, drive: Drive) -> None:
    steps = (Step(index=5, agent="Buyer", content="320 in stock"),)
    run = Trajectory(id="one", task="", steps=steps)
    verdict, sent = drive(
        tool_caller(run, ToolCallerConfig(), ample), script([examine(5), CONCLUDE_5])
    )
    assert len(sent) == 3
    assert '"examine"' not in sent[-1].ask
    assert verdict.reason == "the Planner concluded after 1 of at most 3 Judge calls"


def test_step_is_examined_at_most_once(bolts: Trajectory, ample: Setup, drive: Drive) -> None:
    flow = tool_caller(bolts, ToolCallerConfig(), ample)
    with pytest.raises(InvalidReply):
        drive(flow, script([examine(3), examine(3)]))


@pytest.mark.parametrize(
    "decision",
    [
        examine(4),
        {"action": "conclude", "fault": {"agent": "Buyer", "step": 4}},
        {"action": "conclude", "fault": {"agent": "Seller", "step": 5}},
        {"action": "guess", "step": 5},
    ],
)
def test_schema_admits_only_own_steps_agents_and_actions(
    decision: dict[str, Any], bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    with pytest.raises(InvalidReply):
        drive(tool_caller(bolts, ToolCallerConfig(), ample), script([decision]))


def test_no_fault_is_a_verdict_only_where_allowed(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    decisions = [examine(3), {"action": "conclude", "fault": None}]
    allowed = ToolCallerConfig(allow_no_fault=True)
    verdict, _ = drive(tool_caller(bolts, allowed, ample), script(decisions))
    assert (verdict.status, verdict.fault, verdict.confidence) == ("no_fault", None, None)
    assert verdict.path[-1] == "Planner: conclude no decisive fault: I think so."
    with pytest.raises(InvalidReply):
        drive(tool_caller(bolts, ToolCallerConfig(), ample), script(decisions))


def test_all_calls_begin_with_the_same_messages(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    flow = tool_caller(bolts, ToolCallerConfig(), ample)
    _, sent = drive(flow, script([examine(3), examine(5), CONCLUDE_5]))
    assert len({request.shared for request in sent}) == 1


def test_planner_reads_every_finding_and_the_judge_reads_no_reasons(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    flow = tool_caller(bolts, ToolCallerConfig(), ample)
    _, sent = drive(flow, script([examine(3), examine(5), CONCLUDE_5]))
    assert "Judged" not in sent[0].ask
    assert "Judged 3." in sent[2].ask
    assert "Judged 3." in sent[4].ask
    assert "Judged 5." in sent[4].ask
    assert not any("I think" in request.ask for request in sent)
    assert not any("Judged" in sent[place].ask for place in (1, 3))


def test_log_too_long_is_refused_before_anything_is_sent(bolts: Trajectory, tight: Setup) -> None:
    with pytest.raises(LogTooLong, match="the model serves 100"):
        next(tool_caller(bolts, ToolCallerConfig(), tight))


def test_prompts_are_the_golden_ones(
    bolts: Trajectory,
    ample: Setup,
    drive: Drive,
    golden: Callable[[str, str], None],
) -> None:
    config = ToolCallerConfig(max_judge_calls=2)
    flow = tool_caller(bolts, config, ample)
    _, sent = drive(flow, script([examine(3), examine(5), CONCLUDE_5]))
    golden("tool_caller_planner_first.txt", sent[0].ask)
    golden("tool_caller_judge.txt", sent[1].ask)
    golden("tool_caller_planner_second.txt", sent[2].ask)
    golden("tool_caller_planner_last.txt", sent[4].ask)
    allowed = ToolCallerConfig(max_judge_calls=1, allow_no_fault=True)
    flow = tool_caller(bolts, allowed, ample)
    _, sent = drive(flow, script([examine(3), {"action": "conclude", "fault": None}]))
    golden("tool_caller_planner_first_no_fault.txt", sent[0].ask)
    golden("tool_caller_planner_last_no_fault.txt", sent[2].ask)
