from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from faultattr_local.engine.base import Request
from faultattr_local.errors import InvalidReply, LogTooLong
from faultattr_local.methods.answers import AnswerLimits
from faultattr_local.methods.flow import Flow, Setup
from faultattr_local.methods.one_shot import OneShotConfig, one_shot
from faultattr_local.trajectory import Trajectory
from faultattr_local.verdict import Verdict

Script = Callable[[Request], Mapping[str, Any]]
Drive = Callable[[Flow, Script], tuple[Verdict, list[Request]]]

ANSWER: dict[str, Any] = {
    "rationale": "Hall B is\nleft out.",
    "citations": [
        {"step": 5, "quote": "320 in stock"},
        {"step": 3, "quote": "40 in hall C"},
    ],
    "fault": {"agent": "Buyer", "step": 5},
}


def test_verdict_comes_from_one_call(bolts: Trajectory, ample: Setup, drive: Drive) -> None:
    verdict, sent = drive(one_shot(bolts, OneShotConfig(), ample), lambda _: ANSWER)
    assert len(sent) == 1
    assert (verdict.status, verdict.method, verdict.accepted) == ("attributed", "one_shot", True)
    assert (verdict.trajectory, verdict.digest) == ("bolts", bolts.digest)
    assert verdict.fault is not None
    assert (verdict.fault.agent, verdict.fault.step) == ("Buyer", 5)
    assert verdict.fault.source_ref == "history[5]"
    assert verdict.confidence is None
    assert verdict.path == ("step 5, Buyer: Hall B is left out.",)


def test_citations_are_checked_against_the_log(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    verdict, _ = drive(one_shot(bolts, OneShotConfig(), ample), lambda _: ANSWER)
    assert verdict.fault is not None
    found = [citation.found for citation in verdict.fault.rationales["rationale"].citations]
    assert found == [True, False]
    (single_round,) = verdict.iterations
    assert (single_round.fault, single_round.cited) == (verdict.fault, 0.5)
    assert (single_round.assessments, single_round.greatest) == ((), 0)


def test_agent_is_kept_as_named_even_where_another_acts(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    answer = ANSWER | {"fault": {"agent": "Clerk", "step": 5}}
    verdict, _ = drive(one_shot(bolts, OneShotConfig(), ample), lambda _: answer)
    assert verdict.fault is not None
    assert verdict.fault.agent == "Clerk"


def test_no_fault_is_a_verdict_only_where_allowed(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    answer = ANSWER | {"fault": None}
    allowed = OneShotConfig(allow_no_fault=True)
    verdict, _ = drive(one_shot(bolts, allowed, ample), lambda _: answer)
    assert (verdict.status, verdict.fault, verdict.accepted) == ("no_fault", None, True)
    assert verdict.iterations[0].rationales["rationale"].text == "Hall B is\nleft out."
    assert verdict.path[0].startswith("no decisive fault: ")
    with pytest.raises(InvalidReply):
        drive(one_shot(bolts, OneShotConfig(), ample), lambda _: answer)


@pytest.mark.parametrize(
    "fault",
    [
        {"agent": "Buyer", "step": 4},
        {"agent": "Buyer", "step": 10},
        {"agent": "Seller", "step": 5},
        {"agent": "Buyer", "step": "5"},
    ],
)
def test_schema_admits_only_own_steps_and_agents(
    fault: dict[str, Any], bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    with pytest.raises(InvalidReply):
        drive(one_shot(bolts, OneShotConfig(), ample), lambda _: ANSWER | {"fault": fault})


def test_rationale_comes_before_the_fault(bolts: Trajectory, ample: Setup, drive: Drive) -> None:
    _, (request,) = drive(one_shot(bolts, OneShotConfig(), ample), lambda _: ANSWER)
    assert list(request.schema["properties"]) == ["rationale", "citations", "fault"]


def test_log_too_long_is_refused_before_anything_is_sent(bolts: Trajectory, tight: Setup) -> None:
    with pytest.raises(LogTooLong, match="the model serves 100"):
        next(one_shot(bolts, OneShotConfig(), tight))


@pytest.mark.parametrize("allow_no_fault", [False, True])
def test_prompt_is_the_golden_one(
    allow_no_fault: bool,
    bolts: Trajectory,
    ample: Setup,
    drive: Drive,
    golden: Callable[[str, str], None],
) -> None:
    config = OneShotConfig(allow_no_fault=allow_no_fault)
    _, (request,) = drive(one_shot(bolts, config, ample), lambda _: ANSWER)
    golden(f"one_shot_ask{'_no_fault' if allow_no_fault else ''}.txt", request.ask)


def test_prompt_asks_for_no_citations_where_none_are_admitted(
    bolts: Trajectory, ample: Setup, drive: Drive
) -> None:
    bare = Setup(ample.prompts, AnswerLimits(citations=0), ample.count_tokens, ample.context_tokens)
    answer = ANSWER | {"citations": []}
    verdict, (request,) = drive(one_shot(bolts, OneShotConfig(), bare), lambda _: answer)
    assert "quote" not in request.ask
    assert verdict.iterations[0].cited is None
