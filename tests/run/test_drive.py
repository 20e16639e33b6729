from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from faultattr_local.engine.scripted import ScriptedEngine
from faultattr_local.errors import EngineDied, InvalidReply, PromptError
from faultattr_local.methods.raffles import RafflesConfig, raffles
from faultattr_local.run.admission import Admission
from faultattr_local.run.drive import Driver
from faultattr_local.run.progress import Progress
from faultattr_local.trajectory import LabelledTrajectory


def drive(engine, items, setup, *, capacity=None, most=256, make_flow=None):
    progress = Progress()
    admission = Admission(capacity, most)
    flow = make_flow or (lambda one: raffles(one, RafflesConfig(), setup))
    driver = Driver(engine, "raffles", flow, lambda one: 10, admission, progress)

    async def run():
        await engine.start()
        return [pair async for pair in driver.run(items)]

    return asyncio.run(run()), progress


def test_each_trajectory_gets_one_verdict(script, items, setup_of):
    engine = ScriptedEngine(script)
    pairs, progress = drive(engine, items(20), setup_of())
    assert sorted(verdict.trajectory for _, verdict in pairs) == sorted(
        f"t/{number}" for number in range(20)
    )
    assert all(item.trajectory.id == verdict.trajectory for item, verdict in pairs)
    assert (progress.done, progress.working, progress.waiting) == (20, 0, 0)
    assert all(verdict.usage.requests == 4 for _, verdict in pairs)
    assert progress.output_tokens == sum(verdict.usage.output_tokens for _, verdict in pairs)


def test_calls_of_many_flows_and_of_one_iteration_overlap(script, items, setup_of):
    many = ScriptedEngine(script, delay=0.01)
    drive(many, items(8), setup_of())
    assert many.most_running >= 8
    one = ScriptedEngine(script, delay=0.01)
    drive(one, items(1), setup_of())
    assert one.most_running == 3


def test_trajectories_are_admitted_within_the_capacity(script, items, setup_of):
    """Each reserves 10 tokens; 35 hold three, whose Evaluators are nine calls."""
    engine = ScriptedEngine(script, delay=0.005)
    drive(engine, items(12), setup_of(), capacity=35)
    assert 3 <= engine.most_running <= 9


def test_a_trajectory_larger_than_the_cache_runs_alone(script, items, setup_of):
    engine = ScriptedEngine(script, delay=0.001)
    pairs, _ = drive(engine, items(3), setup_of(), capacity=5)
    assert len(pairs) == 3
    assert engine.most_running == 3


def test_trajectories_are_read_only_as_they_are_admitted(script, items, setup_of):
    taken: list[int] = []
    ahead: list[int] = []

    def lazily() -> Iterator[LabelledTrajectory]:
        for number, item in enumerate(items(50)):
            taken.append(number)
            yield item

    def watching(request):
        ahead.append(len(taken) - len({one.trajectory for one in engine.requests}))
        return script(request)

    engine = ScriptedEngine(watching)
    drive(engine, lazily(), setup_of(), most=2)
    assert len(taken) == 50
    assert max(ahead) <= 2


def test_an_invalid_reply_is_asked_once_more_and_not_greedily(script, items, setup_of):
    def first_is_cut(request):
        if request.role == "judge" and request.attempt == 0:
            return InvalidReply("the answer was cut at 9 tokens")
        return script(request)

    engine = ScriptedEngine(first_is_cut)
    pairs, _ = drive(engine, items(1), setup_of())
    verdict = pairs[0][1]
    assert verdict.status == "attributed"
    assert (verdict.usage.requests, verdict.usage.invalid_replies) == (5, 1)
    assert [one.sampling.temperature for one in engine.requests[:2]] == [0.0, 0.4]
    assert engine.requests[0].digest != engine.requests[1].digest


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("", "the answer is empty"),
        ("{", "the answer breaks its schema at answer"),
        ("{}", "breaks its schema at fault_condition: Field required"),
        ('{"rationale": "x", "confidence": 101}', "breaks its schema"),
    ],
)
def test_twice_invalid_is_unscored_and_costs_that_trajectory_alone(
    script, items, setup_of, answer, told
):
    def broken_for_one(request):
        broken = request.trajectory == "t/1" and request.role == "judge"
        return answer if broken else script(request)

    pairs, progress = drive(ScriptedEngine(broken_for_one), items(3), setup_of())
    by_id = {verdict.trajectory: verdict for _, verdict in pairs}
    assert by_id["t/1"].status == "unscored"
    assert by_id["t/1"].method == "raffles"
    assert by_id["t/1"].fault is None
    assert by_id["t/1"].failure.error == "InvalidReply"
    assert told in by_id["t/1"].failure.message
    assert by_id["t/1"].usage.invalid_replies == 2
    assert by_id["t/0"].status == by_id["t/2"].status == "attributed"
    assert progress.unscored == 1


def test_a_defect_in_a_flow_is_told_by_class_and_text(script, items, setup_of, caplog):
    def broken(trajectory):
        if trajectory.id == "t/0":
            raise KeyError("oops")
        return (yield from raffles(trajectory, RafflesConfig(), setup_of()))

    pairs, _ = drive(ScriptedEngine(script), items(2), setup_of(), make_flow=broken)
    failed = next(verdict for _, verdict in pairs if verdict.trajectory == "t/0")
    assert (failed.failure.error, failed.failure.message) == ("KeyError", "'oops'")
    assert "the method failed" in caplog.text


def test_a_prompt_that_does_not_render_ends_the_run(script, items, setup_of):
    def broken(trajectory):
        yield from ()
        raise PromptError("does not render", where="prompt x")

    with pytest.raises(PromptError, match="does not render"):
        drive(ScriptedEngine(script), items(3), setup_of(), make_flow=broken)


class Mortal(ScriptedEngine):
    """Dies at chosen calls; every call fails until it is started again."""

    def __init__(self, script, deaths, **options):
        super().__init__(script, **options)
        self.deaths = deaths
        self.calls = 0
        self.starts = 0
        self.dead = False

    async def start(self):
        self.starts += 1
        self.dead = False
        return await super().start()

    async def generate(self, request):
        self.calls += 1
        if self.calls in self.deaths:
            self.dead = True
        if self.dead:
            raise EngineDied("the engine stopped")
        return await super().generate(request)


def test_a_dead_engine_is_restarted_once_for_all_that_were_in_it(script, items, setup_of):
    engine = Mortal(script, {7}, delay=0.001)
    pairs, progress = drive(engine, items(5), setup_of())
    assert all(verdict.status == "attributed" for _, verdict in pairs)
    assert (engine.starts, progress.restarts) == (2, 1)


def test_an_engine_that_keeps_dying_ends_the_run(script, items, setup_of):
    engine = Mortal(script, set(range(1, 1000)))
    with pytest.raises(EngineDied, match="died 4 times in a row"):
        drive(engine, items(20), setup_of(), most=1)
    assert engine.starts == 4


def test_a_call_that_kills_the_engine_twice_costs_its_trajectory_alone(script, items, setup_of):
    def poisoned(request):
        if request.trajectory == "t/3":
            return EngineDied("out of memory")
        return script(request)

    engine = ScriptedEngine(poisoned)
    pairs, progress = drive(engine, items(30), setup_of(), most=4)
    failed = [verdict for _, verdict in pairs if verdict.status == "unscored"]
    assert [one.trajectory for one in failed] == ["t/3"]
    assert "died twice on this call: out of memory" in failed[0].failure.message
    assert progress.restarts == 2


def test_no_call_reaches_an_engine_that_is_being_started_again(script, items, setup_of):
    class Slow(Mortal):
        starting = False

        async def start(self):
            self.starting = True
            await asyncio.sleep(0.02)
            self.starting = False
            return await super().start()

        async def generate(self, request):
            assert not self.starting
            return await super().generate(request)

    engine = Slow(script, {5}, delay=0.001)
    pairs, _ = drive(engine, items(12), setup_of())
    assert {verdict.status for _, verdict in pairs} == {"attributed"}


def test_a_call_that_the_engine_gives_up_by_itself_is_no_silence(script, items, setup_of):
    def gives_up(request):
        if request.trajectory == "t/1":
            raise asyncio.CancelledError
        return script(request)

    pairs, _ = drive(ScriptedEngine(gives_up), items(3), setup_of())
    failed = {verdict.trajectory: verdict.failure for _, verdict in pairs if verdict.failure}
    assert list(failed) == ["t/1"]
    assert "gave a call up" in failed["t/1"].message
