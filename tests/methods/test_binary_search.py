from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from faultattr_local.engine.base import Request
from faultattr_local.errors import InvalidReply, LogTooLong
from faultattr_local.methods.binary_search import BinarySearchConfig, binary_search
from faultattr_local.methods.flow import Flow, Setup
from faultattr_local.trajectory import Step, Trajectory
from faultattr_local.verdict import Verdict

Script = Callable[[Request], Mapping[str, Any]]
Drive = Callable[[Flow, Script], tuple[Verdict, list[Request]]]


def halves(request: Request) -> list[str]:
    return list(request.schema["properties"]["half"]["enum"])


def towards(bolts: Trajectory, target: int) -> Script:
    """Always answers the half in which the step with this number stands."""

    def covers(half: str) -> bool:
        numbers = [int(word) for word in half.split() if word.isdigit()]
        return numbers[0] <= target <= numbers[-1]

    def answer(request: Request) -> dict[str, Any]:
        (half,) = filter(covers, halves(request))
        return {"rationale": f"In {half}.", "half": half}

    return answer


@pytest.mark.parametrize(("target", "agent"), [(2, "Planner"), (5, "Buyer"), (6, "Planner")])
def test_search_ends_at_the_step_and_whoever_acts_there(
    target: int, agent: str, bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    flow = binary_search(bolts, BinarySearchConfig(), ample)
    verdict, _ = drive(flow, towards(bolts, target))
    assert verdict.fault is not None
    assert (verdict.fault.agent, verdict.fault.step) == (agent, target)
    assert verdict.fault.source_ref == f"history[{target}]"
    assert (verdict.status, verdict.method, verdict.accepted) == (
        "attributed",
        "binary_search",
        True,
    )
    assert verdict.confidence is None


def test_path_tells_each_halving_and_the_last_rationale_stays(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    flow = binary_search(bolts, BinarySearchConfig(), ample)
    verdict, sent = drive(flow, towards(bolts, 5))
    assert [request.role for request in sent] == ["judge:steps 2 to 9", "judge:steps 2 to 5"]
    assert [halves(request) for request in sent] == [
        ["steps 2 to 5", "steps 6 to 9"],
        ["steps 2 to 3", "step 5"],
    ]
    assert verdict.path == ("steps 2 to 5: In steps 2 to 5.", "step 5: In step 5.")
    assert verdict.reason == "one step remained after 2 halvings"
    assert verdict.fault is not None
    assert verdict.fault.rationales["rationale"].text == "In step 5."


@pytest.mark.parametrize(("count", "most"), [(2, 1), (3, 2), (8, 3), (9, 4), (100, 7)])
def test_every_step_is_reached_within_log2_calls(
    count: int, most: int, ample: Setup, drive: Drive
) -> None:
    steps = tuple(Step(index=number, agent="Solo", content="") for number in range(count))
    run = Trajectory(id="long", task="Count.", steps=steps)
    calls = []
    for target in range(count):
        flow = binary_search(run, BinarySearchConfig(), ample)
        verdict, sent = drive(flow, towards(run, target))
        assert verdict.fault is not None
        assert verdict.fault.step == target
        calls.append(len(sent))
    assert max(calls) == most


def test_log_of_one_step_asks_nothing(ample: Setup, drive: Drive) -> None:
    run = Trajectory(id="one", task="", steps=(Step(index=7, agent="Solo", content="x"),))
    flow = binary_search(run, BinarySearchConfig(), ample)
    verdict, sent = drive(flow, lambda _: {"must not": "be asked"})
    assert sent == []
    assert verdict.fault is not None
    assert (verdict.fault.step, verdict.fault.agent, verdict.path) == (7, "Solo", ())
    assert verdict.reason == "the log holds only this step; nothing was asked"


def test_all_calls_begin_with_the_same_messages(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    flow = binary_search(bolts, BinarySearchConfig(), ample)
    _, sent = drive(flow, towards(bolts, 2))
    assert len(sent) == 3
    assert len({request.shared for request in sent}) == 1
    assert len({request.ask for request in sent}) == 3


@pytest.mark.parametrize("half", ["steps 2 to 9", "lower", ""])
def test_schema_admits_only_the_two_halves(
    half: str, bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    flow = binary_search(bolts, BinarySearchConfig(), ample)
    with pytest.raises(InvalidReply):
        drive(flow, lambda _: {"rationale": "Because.", "half": half})


def test_log_too_long_is_refused_before_anything_is_sent(bolts: Trajectory, tight: Setup) -> None:
    with pytest.raises(LogTooLong, match="the model serves 100"):
        next(binary_search(bolts, BinarySearchConfig(), tight))


def test_prompts_are_the_golden_ones(
    bolts: Trajectory,
    ample: Setup,
    drive: Drive,
    golden: Callable[[str, str], None],
) -> None:
    flow = binary_search(bolts, BinarySearchConfig(), ample)
    _, sent = drive(flow, towards(bolts, 5))
    golden("binary_search_first.txt", sent[0].ask)
    golden("binary_search_second.txt", sent[1].ask)
