from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from faultattr_local.engine.base import Request
from faultattr_local.engine.bounds import token_bound
from faultattr_local.errors import ConfigError, InvalidReply, LogTooLong
from faultattr_local.methods.answers import AnswerLimits
from faultattr_local.methods.flow import Flow, Setup
from faultattr_local.methods.safari import SafariConfig, safari
from faultattr_local.trajectory import Step, Trajectory
from faultattr_local.verdict import Verdict

Play = Callable[[Flow, Callable[[Request], Mapping[str, Any]]], Any]
SetupOf = Callable[..., Setup]

MEMORY = {
    "task_goal": "All bolts counted.",
    "hypothesis": "none yet",
    "evidence": "none",
    "gaps": "What the Clerk read.",
    "plan": "Read the first lines.",
}
SECRET = "a sentence of the log that nobody quotes"


@pytest.fixture
def run() -> Trajectory:
    """Forty steps by two agents, numbered from 10 in tens."""
    steps = tuple(
        Step(
            index=10 * at,
            agent=("Buyer", "Clerk")[at % 2],
            content=f"Entry {at}: {SECRET}.\nDone.",
            source_ref=f"span-{at}",
        )
        for at in range(1, 41)
    )
    return Trajectory(id="long", task="Count the bolts.", steps=steps)


def turn(action: Mapping[str, Any], **memory: str) -> dict[str, Any]:
    return {"thought": "On we go.", "memory": MEMORY | memory, "action": dict(action)}


def read(offset: int = 1, limit: int = 3) -> dict[str, Any]:
    return turn({"action": "read", "offset": offset, "limit": limit})


def search(pattern: str) -> dict[str, Any]:
    return turn({"action": "search", "pattern": pattern})


def conclude(step: int, agent: str = "Clerk", claims: int = 1) -> dict[str, Any]:
    made = [{"claim": f"Claim {at}.", "evidence": f"Step {step}."} for at in range(claims)]
    return turn({"action": "conclude", "claims": made, "agent": agent, "step": step})


def scripted(
    turns: Iterable[dict[str, Any]], confidences: Iterable[int] = ()
) -> Callable[[Request], dict[str, Any]]:
    """Turns for the Investigator, confidences for the Reasoning Evaluators, in order."""
    coming, given = iter(turns), iter(confidences)

    def answer(request: Request) -> dict[str, Any]:
        if request.role == "investigator":
            return next(coming)
        assert request.role == "reasoning_evaluator"
        confidence = next(given)
        return {"rationale": f"Because {confidence}.", "confidence": confidence}

    return answer


def investigator(requests: Iterable[Request]) -> list[Request]:
    return [request for request in requests if request.role == "investigator"]


def last_seen(request: Request) -> str:
    """The observation that the Investigator was shown last."""
    return request.shared[-1].content


def test_an_investigation_ends_when_its_claims_are_accepted(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    played = play(
        safari(run, SafariConfig(), setup_of()),
        scripted([read(4, 3), search("entry 7:"), conclude(70, claims=2)], [80, 65]),
    )
    verdict: Verdict = played.verdict
    assert (verdict.status, verdict.method, verdict.accepted) == ("attributed", "safari", True)
    assert verdict.fault is not None
    assert (verdict.fault.agent, verdict.fault.step) == ("Clerk", 70)
    assert verdict.fault.source_ref == "span-7"
    assert verdict.fault.rationales["rationale"].text == "Claim 0. (Step 70.) Claim 1. (Step 70.)"
    assert (verdict.confidence, verdict.reason) == (0.725, "accepted in turn 3")
    assert (verdict.trajectory, verdict.digest) == (run.id, run.digest)
    assert [one.action for one in verdict.turns] == ["read", "search", "conclude"]
    assert verdict.turns[0].arguments == {"offset": 4, "limit": 3}
    assert verdict.turns[1].arguments == {"pattern": "entry 7:"}
    assert "Entry 2" in verdict.turns[0].observation
    assert [claim.confidence for claim in verdict.turns[2].claims] == [80, 65]
    assert verdict.turns[2].claims[1].rationale == "Because 65."
    assert verdict.turns[2].confidence == 72.5
    assert [len(one) for one in played.rounds] == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("confidences", "accepted"),
    [((70, 70, 70), True), ((100, 100, 10), True), ((70, 70, 69), False), ((0, 100, 100), False)],
)
def test_a_mean_of_theta_is_enough(
    run: Trajectory,
    play: Play,
    setup_of: SetupOf,
    confidences: tuple[int, ...],
    accepted: bool,
) -> None:
    flow = safari(run, SafariConfig(max_turns=1), setup_of())
    verdict = play(flow, scripted([conclude(10, claims=3)], confidences)).verdict
    assert verdict.accepted is accepted
    assert verdict.confidence == pytest.approx(sum(confidences) / 300)


def test_weak_claims_alone_go_back_with_their_rationales(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    turns = [conclude(10, agent="Buyer", claims=3), conclude(10, claims=1)]
    played = play(safari(run, SafariConfig(), setup_of()), scripted(turns, [90, 40, 30, 99]))
    told = last_seen(investigator(played.requests)[1])
    assert "53.3" in told
    assert "Step 10 is by Clerk, not by Buyer:" in told
    assert "Claim 0." not in told
    assert "Claim 1." in told
    assert "Confidence 40: Because 40." in told
    assert "Confidence 30: Because 30." in told
    assert played.verdict.turns[0].observation == told
    assert played.verdict.reason == "accepted in turn 2"


def test_an_agent_who_does_not_act_at_the_step_goes_back_however_sure_the_claims(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    turns = [conclude(10, agent="Buyer"), conclude(10)]
    played = play(safari(run, SafariConfig(), setup_of()), scripted(turns, [100, 75]))
    told = last_seen(investigator(played.requests)[1])
    assert "Step 10 is by Clerk, not by Buyer" in told
    assert "weak" not in told
    assert played.verdict.reason == "accepted in turn 2"
    alone = play(
        safari(run, SafariConfig(max_turns=1), setup_of()), scripted([turns[0]], [100])
    ).verdict
    assert (alone.accepted, alone.confidence) == (False, 1.0)


def test_an_accepted_conclusion_meets_no_objection(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    verdict = play(safari(run, SafariConfig(), setup_of()), scripted([conclude(10)], [90])).verdict
    assert verdict.turns[-1].observation == ""


def test_the_last_turn_admits_only_a_conclusion(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    config = SafariConfig(max_turns=3)
    played = play(
        safari(run, config, setup_of()), scripted([read(), search("x"), conclude(20)], [10])
    )
    asked = investigator(played.requests)
    assert len(asked) == 3
    tags = [sorted(name for name in one.schema["$defs"] if name != "ClaimAnswer") for one in asked]
    assert tags[0] == tags[1] == ["ConcludeAnswer", "MemoryAnswer", "ReadAnswer", "SearchAnswer"]
    assert tags[2] == ["ConcludeAnswer", "MemoryAnswer"]
    assert "last turn: conclude" in asked[2].ask
    assert "last turn: conclude" not in asked[1].ask
    assert not played.verdict.accepted
    assert played.verdict.reason == (
        "none of 1 hypotheses was accepted in 3 turns; the best of them, from turn 3"
    )
    with pytest.raises(InvalidReply):
        play(safari(run, SafariConfig(max_turns=1), setup_of()), scripted([read()]))


@pytest.mark.parametrize(
    ("confidences", "chosen"), [((60, 40, 50), 10), ((40, 60, 60), 30), ((60, 60, 10), 20)]
)
def test_the_best_hypothesis_wins_and_the_latest_of_equals(
    run: Trajectory,
    play: Play,
    setup_of: SetupOf,
    confidences: tuple[int, ...],
    chosen: int,
) -> None:
    turns = [conclude(10), conclude(20, "Buyer"), conclude(30)]
    flow = safari(run, SafariConfig(max_turns=3), setup_of())
    verdict = play(flow, scripted(turns, confidences)).verdict
    assert (verdict.fault.step, verdict.confidence) == (chosen, 0.6)


def test_no_more_claims_than_allowed_and_never_none(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    for claims in (0, 3):
        with pytest.raises(InvalidReply, match="breaks its schema at action"):
            play(
                safari(run, SafariConfig(max_claims=2), setup_of()),
                scripted([conclude(10, claims=claims)]),
            )


@pytest.mark.parametrize(
    "action",
    [
        {"action": "read", "offset": 0, "limit": 1},
        {"action": "read", "offset": 121, "limit": 1},
        {"action": "read", "offset": 1, "limit": 201},
        {"action": "conclude", "claims": [], "agent": "Clerk", "step": 10},
        {"action": "conclude_no_fault", "claims": [{"claim": "c", "evidence": "e"}]},
    ],
)
def test_actions_outside_the_log_are_not_admitted(
    run: Trajectory, play: Play, setup_of: SetupOf, action: dict[str, Any]
) -> None:
    with pytest.raises(InvalidReply):
        play(safari(run, SafariConfig(), setup_of()), scripted([turn(action)]))


@pytest.mark.parametrize(("step", "agent"), [(15, "Clerk"), (10, "Planner")])
def test_only_steps_and_agents_of_the_run_are_admitted(
    run: Trajectory, play: Play, setup_of: SetupOf, step: int, agent: str
) -> None:
    with pytest.raises(InvalidReply):
        play(safari(run, SafariConfig(), setup_of()), scripted([conclude(step, agent)]))


def test_reasoning_evaluators_never_see_the_log(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    played = play(
        safari(run, SafariConfig(), setup_of()),
        scripted([read(), conclude(10, claims=2)], [90, 90]),
    )
    assert SECRET in last_seen(investigator(played.requests)[1])
    first, second = played.rounds[-1]
    for request, claim in ((first, "Claim 0."), (second, "Claim 1.")):
        text = "\n".join(message.content for message in request.messages)
        assert run.task in text
        assert "Step 10, agent Clerk" in text
        assert claim in text
        assert SECRET not in text
        assert MEMORY["gaps"] not in text
    assert "Claim 1." not in first.ask
    assert first.shared == second.shared


def test_memory_and_past_calls_come_last_and_stay_out_of_the_conversation(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    noted = turn({"action": "read", "offset": 5, "limit": 2}, hypothesis="Step 40 looks odd.")
    played = play(
        safari(run, SafariConfig(), setup_of()),
        scripted([noted, search("odd"), conclude(40, agent=run.by_index[40].agent)], [90]),
    )
    first, second, third = investigator(played.requests)
    assert "Empty" in first.ask
    assert "hypothesis: Step 40 looks odd." in second.ask
    assert "1. read 2 lines from 5" in second.ask
    assert "Step 40 looks odd." not in third.ask
    assert "2. search odd" in third.ask
    for request in (second, third):
        shared = "\n".join(message.content for message in request.shared)
        assert "Step 40 looks odd." not in shared
        assert "memory" not in request.shared[2].content
        assert request.messages[-1].content.endswith(request.ask)
    assert second.shared[2].content == (
        '{"thought":"On we go.","action":{"action":"read","offset":5,"limit":2}}'
    )
    assert played.verdict.turns[0].memory == noted["memory"]


def test_without_memory_there_is_none_to_write_or_to_read(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    turns = [read(), conclude(10)]
    for one in turns:
        del one["memory"]
    played = play(safari(run, SafariConfig(memory=False), setup_of()), scripted(turns, [90]))
    for request in investigator(played.requests):
        assert "memory" not in request.schema["properties"]
        assert not any("memory" in message.content for message in request.messages)
        assert "read 3 lines" not in request.ask
    assert [one.memory for one in played.verdict.turns] == [None, None]


def test_no_fault_can_be_concluded_where_it_is_allowed(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    claims = [{"claim": "All is right.", "evidence": "Steps 10 to 400."}]
    found = turn({"action": "conclude_no_fault", "claims": claims})
    config = SafariConfig(allow_no_fault=True, max_turns=2)
    played = play(safari(run, config, setup_of()), scripted([found], [75]))
    assert (played.verdict.status, played.verdict.fault) == ("no_fault", None)
    assert (played.verdict.confidence, played.verdict.accepted) == (0.75, True)
    assert played.verdict.turns[0].action == "conclude"
    assert "no decisive fault" in played.requests[-1].ask
    played = play(safari(run, config, setup_of()), scripted([found, conclude(10)], [50, 40]))
    assert (played.verdict.status, played.verdict.accepted) == ("no_fault", False)
    assert (
        "that there is no decisive fault, was not accepted" in played.verdict.turns[0].observation
    )
    assert "concluded that there is no decisive fault: confidence 50.0" in played.requests[2].ask


def test_a_bad_pattern_is_an_observation(run: Trajectory, play: Play, setup_of: SetupOf) -> None:
    played = play(
        safari(run, SafariConfig(), setup_of()),
        scripted([search("(bolt"), search("bolt"), conclude(10)], [90]),
    )
    _, second, third = investigator(played.requests)
    assert "Nothing was searched" in last_seen(second)
    assert "missing )" in last_seen(second)
    assert last_seen(third).startswith("No line matches bolt")


def test_reading_past_the_end_tells_where_the_log_ends(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    played = play(
        safari(run, SafariConfig(), setup_of()), scripted([read(119, 50), conclude(10)], [90])
    )
    seen = last_seen(investigator(played.requests)[1])
    assert seen.startswith("Lines 119 to 120 of 120:\n119|400| Entry 40")
    assert seen.rstrip().endswith("120|400| Done.\n(The log ends here.)")


def test_a_search_tells_how_many_hits_are_not_shown(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    played = play(
        safari(run, SafariConfig(search_hits=2), setup_of()),
        scripted([search("^entry"), conclude(10)], [90]),
    )
    seen = last_seen(investigator(played.requests)[1])
    assert seen.startswith("40 lines match ^entry\nThe first 2 are shown")
    assert "2|10| Clerk: Entry 1" in seen
    assert "5|20| Buyer: Entry 2" in seen
    assert "Entry 3" not in seen


SHORT = AnswerLimits(rationale=60, claim=40, memory=40, pattern=20)


def test_an_observation_is_cut_to_its_share_and_says_so(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    config = SafariConfig(context_budget=6000, line_width=100)
    flow = safari(run, config, setup_of(limits=SHORT))
    played = play(flow, scripted([read(1, 120), conclude(10)], [90]))
    seen = last_seen(investigator(played.requests)[1])
    assert 600 < len(seen) // 4 <= 6000 // 8
    shown = seen.count("\n") - 2
    assert f"({120 - shown} lines are not shown" in seen
    assert f"read on from line {shown + 1}" in seen


def test_old_turns_give_way_in_one_block_and_prefixes_hold_in_between(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    config = SafariConfig(context_budget=6000, max_turns=40, line_width=100)
    setup = setup_of(limits=SHORT)
    turns = [read(1 + at, 20) for at in range(39)]
    played = play(safari(run, config, setup), scripted([*turns, conclude(10)], [90]))
    asked = investigator(played.requests)
    evicted = [one.evicted for one in played.verdict.turns]
    assert sum(evicted) > 0
    assert all(count == 0 or count >= 6 for count in evicted), "a block, not one turn at a time"
    dropped = 0
    for before, request, count in zip([None, *asked], asked, evicted, strict=False):
        sizes = [setup.count_tokens(message.content) + 16 for message in request.shared]
        asks = setup.count_tokens(request.ask) + token_bound(request.answer)
        assert sum(sizes) + asks <= 6000
        dropped += count // 2
        if before is None:
            continue
        if count:
            assert sum(sizes) <= (6000 - asks) // 2
            assert f"The first {dropped} turns" in request.shared[1].content
            assert request.shared[0] == before.shared[0]
        else:
            assert request.shared[: len(before.shared)] == before.shared
        assert [message.role for message in request.shared[1:]] == [
            "user" if at % 2 == 0 else "assistant" for at in range(len(request.shared) - 1)
        ]
        assert request.shared[-2].content.startswith('{"thought"')


def test_many_past_calls_are_listed_from_the_latest(
    run: Trajectory, play: Play, setup_of: SetupOf
) -> None:
    turns = [read(1 + at, 1) for at in range(45)]
    played = play(
        safari(run, SafariConfig(max_turns=60), setup_of()),
        scripted([*turns, conclude(10)], [90]),
    )
    ask = investigator(played.requests)[-1].ask
    assert "(5 earlier ones are left out)" in ask
    assert "\n5. read" not in ask
    assert "\n6. read 1 lines from 6\n" in ask


def test_a_start_that_does_not_fit_is_refused_before_anything_is_sent(
    run: Trajectory, setup_of: SetupOf
) -> None:
    flow = safari(run, SafariConfig(), setup_of(context_tokens=3000))
    with pytest.raises(LogTooLong, match=r"^long: .* the budget is 3000\. Raise"):
        next(flow)
    flow = safari(run, SafariConfig(context_budget=200_000), setup_of())
    with pytest.raises(ConfigError, match=r"safari\.context_budget: 200000 tokens are more"):
        next(flow)


def test_a_reference_answer_is_shown_only_where_the_run_carries_one(
    run: Trajectory, setup_of: SetupOf
) -> None:
    (hidden,) = next(safari(run, SafariConfig(), setup_of()))
    shown_run = run.model_copy(update={"reference_answer": "1,234 bolts"})
    (shown,) = next(safari(shown_run, SafariConfig(), setup_of()))
    assert "The right answer" not in hidden.messages[1].content
    assert "1,234 bolts" in shown.messages[1].content


@pytest.mark.parametrize(
    "config", [SafariConfig(), SafariConfig(memory=False, allow_no_fault=True)]
)
def test_rendered_prompts(
    run: Trajectory,
    play: Play,
    setup_of: SetupOf,
    golden: Callable[[str, str], None],
    config: SafariConfig,
) -> None:
    config = config.model_copy(update={"max_turns": 5, "search_hits": 2})
    turns = [read(118, 9), search("ENTRY 1"), search("["), conclude(30, "Buyer", 2), conclude(30)]
    if not config.memory:
        for one in turns:
            del one["memory"]
    played = play(safari(run, config, setup_of()), scripted(turns, [40, 90, 60]))
    shown = [request for one in played.rounds for request in one[:1]]
    text = "".join(
        f"=== {request.role}: {message.role} ===\n{message.content}\n"
        for request in shown
        for message in (request.messages[-2:] if len(request.shared) > 2 else request.messages)
    )
    golden(f"safari_{'memory' if config.memory else 'no_memory_no_fault'}.txt", text)
