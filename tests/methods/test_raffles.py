from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from faultattr_local.engine.base import Request
from faultattr_local.engine.bounds import answer_schema
from faultattr_local.errors import LogTooLong
from faultattr_local.methods.raffles import RafflesConfig, check_log, judge_answer, raffles
from faultattr_local.trajectory import Trajectory
from faultattr_local.verdict import Fault

CRITERIA = ("fault_condition", "primacy", "decisiveness")


def argued(text: str, *citations: tuple[int, str]) -> dict[str, Any]:
    cited = [{"step": step, "quote": quote} for step, quote in citations]
    return {"rationale": text, "citations": cited}


def proposal(agent: str | None, step: int | None, criteria: tuple[str, ...] = CRITERIA) -> Any:
    fault = None if agent is None else {"agent": agent, "step": step}
    return {name: argued(f"about {name} of {step}") for name in criteria} | {"fault": fault}


def scripted(
    proposals: list[Any], confidences: list[Mapping[str, int]]
) -> Callable[[Request], Mapping[str, Any]]:
    """The n-th Judge call gets the n-th proposal, its Evaluators the n-th confidences."""
    judged = -1

    def script(request: Request) -> Mapping[str, Any]:
        nonlocal judged
        if request.role == "judge":
            judged += 1
            return dict(proposals[judged])
        criterion = request.role.removeprefix("evaluator:")
        return {
            "rationale": f"doubt {judged} of {criterion}",
            "confidence": confidences[judged][criterion],
        }

    return script


def sums(fault_condition: int, primacy: int, decisiveness: int) -> dict[str, int]:
    return {
        "fault_condition": fault_condition,
        "primacy": primacy,
        "decisiveness": decisiveness,
    }


def test_stops_at_351_and_not_at_350(trajectory, setup_of, play):
    """The log Evaluator gives 100, so 250 from the others is the threshold itself."""
    script = scripted([proposal("Clerk", 2)] * 2, [sums(83, 83, 84), sums(84, 83, 84)])
    played = play(raffles(trajectory, RafflesConfig(max_iterations=3), setup_of()), script)
    verdict = played.verdict
    assert [one.confidence for one in verdict.iterations] == [350, 351]
    assert verdict.accepted
    assert verdict.reason == "accepted in iteration 2"
    assert verdict.confidence == 351 / 400


def test_an_iteration_is_one_judge_then_three_evaluators_together(trajectory, setup_of, play):
    script = scripted([proposal("Clerk", 2)] * 2, [sums(10, 10, 10)] * 2)
    played = play(raffles(trajectory, RafflesConfig(), setup_of()), script)
    roles = [[request.role for request in one] for one in played.rounds]
    evaluators = [f"evaluator:{criterion}" for criterion in CRITERIA]
    assert roles == [["judge"], evaluators, ["judge"], evaluators]


def test_the_highest_sum_wins_and_the_latest_on_a_tie(trajectory, setup_of, play):
    proposals = [proposal("Clerk", 2), proposal("Shopper", 1), proposal("Planner", 3)]
    highest = scripted(proposals, [sums(10, 10, 10), sums(40, 40, 40), sums(20, 20, 20)])
    played = play(raffles(trajectory, RafflesConfig(max_iterations=3), setup_of()), highest)
    assert played.verdict.fault.step == 1
    assert not played.verdict.accepted
    tie = scripted(proposals, [sums(40, 40, 40), sums(10, 10, 10), sums(30, 50, 40)])
    played = play(raffles(trajectory, RafflesConfig(max_iterations=3), setup_of()), tie)
    assert played.verdict.fault.step == 3


def test_the_whole_iteration_reaches_the_next_judge_after_the_log(trajectory, setup_of, play):
    script = scripted([proposal("Clerk", 2), proposal("Shopper", 1)], [sums(11, 22, 33)] * 2)
    played = play(raffles(trajectory, RafflesConfig(), setup_of()), script)
    first, second = (one for one in played.requests if one.role == "judge")
    assert "step 2, agent Clerk" not in first.ask
    assert "step 2, agent Clerk" in second.ask
    for criterion, confidence in sums(11, 22, 33).items():
        assert f"about {criterion} of 2" in second.ask
        assert f"doubt 0 of {criterion}" in second.ask
        assert f"confidence {confidence}." in second.ask
    assert "confidence 100." in second.ask
    assert second.shared == first.shared


def test_an_evaluator_sees_its_own_argument_and_no_other(trajectory, setup_of, play):
    script = scripted([proposal("Clerk", 2)] * 2, [sums(1, 2, 3)] * 2)
    played = play(raffles(trajectory, RafflesConfig(), setup_of()), script)
    for request in played.rounds[1]:
        own = request.role.removeprefix("evaluator:")
        seen = [criterion for criterion in CRITERIA if f"about {criterion}" in request.ask]
        assert seen == [own]


def test_every_call_begins_with_the_same_bytes_and_ends_with_its_question(
    trajectory, setup_of, play
):
    script = scripted([proposal("Clerk", 2)] * 2, [sums(1, 2, 3)] * 2)
    played = play(raffles(trajectory, RafflesConfig(), setup_of()), script)
    assert len(played.requests) == 8
    system, log = played.requests[0].shared
    for request in played.requests:
        assert request.messages[0] == system
        assert request.messages[1].content.startswith(log.content)
        assert request.messages[1].content.endswith(request.ask)


def test_the_log_evaluator_compares_names_without_case_and_space(trajectory):
    def confidence(agent: str, step: int) -> int:
        return check_log(trajectory, Fault(agent=agent, step=step)).confidence

    assert confidence("Clerk", 2) == 100
    assert confidence(" c l e r k", 2) == 100
    assert confidence("Shopper", 2) == 0
    assert confidence("Clerk", 7) == 0
    assert check_log(trajectory, None).confidence == 100


def test_a_wrong_agent_costs_a_hundred(trajectory, setup_of, play):
    script = scripted([proposal("Shopper", 2)] * 2, [sums(100, 100, 100)] * 2)
    played = play(raffles(trajectory, RafflesConfig(), setup_of()), script)
    assert [one.confidence for one in played.verdict.iterations] == [300, 300]
    log = played.verdict.iterations[0].assessments[-1]
    assert (log.by, log.confidence, log.rationale) == ("rule", 0, "Step 2 is by Clerk.")


def test_without_the_log_evaluator_three_hundred_is_the_greatest(trajectory, setup_of, play):
    config = RafflesConfig(log_evaluator=False, max_iterations=1)
    script = scripted([proposal("Clerk", 2)], [sums(90, 90, 90)])
    verdict = play(raffles(trajectory, config, setup_of()), script).verdict
    assert (verdict.iterations[0].confidence, verdict.iterations[0].greatest) == (270, 300)
    assert verdict.accepted


def test_first_error_mode_drops_decisiveness_and_keeps_the_share(trajectory, setup_of, play):
    """Greatest 300, so the threshold is 262.5: 262 goes on, 263 stops."""
    criteria = ("fault_condition", "primacy")
    script = scripted(
        [proposal("Clerk", 2, criteria)] * 3,
        [{"fault_condition": 81, "primacy": 81}, {"fault_condition": 82, "primacy": 81}],
    )
    config = RafflesConfig(first_error=True, max_iterations=3)
    played = play(raffles(trajectory, config, setup_of()), script)
    assert [one.confidence for one in played.verdict.iterations] == [262, 263]
    assert [one.greatest for one in played.verdict.iterations] == [300, 300]
    assert not any("decisive" in request.ask for request in played.requests)
    assert not any("decisive" in one.shared[0].content for one in played.requests)


def test_no_fault_is_an_answer_in_first_error_mode_and_only_where_allowed(
    trajectory, setup_of, play
):
    criteria = ("fault_condition", "primacy")
    script = scripted([proposal(None, None, criteria)], [{"fault_condition": 90, "primacy": 90}])
    config = RafflesConfig(first_error=True)
    verdict = play(raffles(trajectory, config, setup_of()), script).verdict
    assert verdict.status == "no_fault"
    assert verdict.fault is None
    assert verdict.iterations[0].rationales["primacy"].text == "about primacy of None"
    limits = setup_of().limits
    closed = answer_schema(judge_answer(trajectory, RafflesConfig(), limits))
    opened = answer_schema(judge_answer(trajectory, RafflesConfig(allow_no_fault=True), limits))
    assert "anyOf" not in closed["properties"]["fault"]
    assert {"type": "null"} in opened["properties"]["fault"]["anyOf"]


def test_citations_are_checked_against_the_step_they_name(trajectory, setup_of, play):
    judged = proposal("Clerk", 2)
    judged["fault_condition"] = argued("x", (2, "two PEARS  cost 6.00"), (1, "Two pears cost"))
    judged["primacy"] = argued("y", (1, "A pear costs 9.99"))
    script = scripted([judged], [sums(90, 90, 90)])
    for check, expected in ((False, 370), (True, 190)):
        config = RafflesConfig(max_iterations=1, cite_check=check)
        verdict = play(raffles(trajectory, config, setup_of()), script).verdict
        iteration = verdict.iterations[0]
        found = [cited.found for cited in verdict.fault.rationales["fault_condition"].citations]
        assert found == [True, False]
        assert iteration.cited == pytest.approx(1 / 3)
        assert iteration.confidence == expected
        unfounded = [one.criterion for one in iteration.assessments if one.unfounded]
        assert unfounded == (["primacy", "decisiveness"] if check else [])
        script = scripted([judged], [sums(90, 90, 90)])


def test_a_log_that_does_not_fit_is_refused_before_anything_is_sent(trajectory, setup_of):
    flow = raffles(trajectory, RafflesConfig(), setup_of(context_tokens=900))
    with pytest.raises(LogTooLong, match=r"needs \d+ tokens .* serves 900.*--method safari"):
        next(flow)


def test_a_memory_that_does_not_fit_ends_the_loop_and_says_so(trajectory, setup_of, play):
    config = RafflesConfig(max_iterations=5)
    probe = play(
        raffles(trajectory, config, setup_of()),
        scripted([proposal("Clerk", 2)] * 5, [sums(1, 1, 1)] * 5),
    )
    setup = setup_of()
    judge = probe.requests[0]
    prompt = sum(setup.count_tokens(message.content) + 16 for message in judge.messages)
    tight = setup_of(context_tokens=prompt + judge.max_tokens + 64)
    script = scripted([proposal("Clerk", 2)] * 5, [sums(1, 1, 1)] * 5)
    verdict = play(raffles(trajectory, config, tight), script).verdict
    assert len(verdict.iterations) == 1
    assert verdict.reason == "the memory no longer fits the context after 1 iterations"
    assert verdict.status == "attributed"


def test_the_schema_admits_only_the_trajectorys_own_steps_and_agents(setup_of):
    steps = [{"index": i, "agent": f"A{i}", "content": ""} for i in (3, 5, 9)]
    gaps = Trajectory.model_validate({"id": "x", "task": "", "steps": steps})
    schema = answer_schema(judge_answer(gaps, RafflesConfig(), setup_of().limits))
    fault = schema["$defs"]["FaultAnswer"]["properties"]
    assert fault["step"]["enum"] == [3, 5, 9]
    assert fault["agent"]["enum"] == ["A3", "A5", "A9"]
    assert list(schema["properties"]) == [*CRITERIA, "fault"]


@pytest.mark.parametrize("first_error", [False, True])
def test_rendered_prompts_are_golden(trajectory, setup_of, play, golden, first_error):
    config = RafflesConfig(first_error=first_error)
    judged = proposal("Clerk", 2, config.criteria)
    judged["primacy"] = argued("The price at step 1 is right.", (1, "A pear costs 3.50."))
    script = scripted([judged] * 2, [sums(41, 52, 63)] * 2)
    played = play(raffles(trajectory, config, setup_of()), script)
    pieces = [f"[{message.role}]\n{message.content}" for message in played.requests[0].shared]
    pieces += [f"[{request.role}]\n{request.ask}" for request in played.requests[:5]]
    name = "first_error" if first_error else "decisive_fault"
    golden(f"raffles_{name}.txt", "\n\n".join(pieces) + "\n")
