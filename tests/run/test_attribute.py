from __future__ import annotations

import asyncio
import json

import pytest

from faultattr_local import attribute
from faultattr_local.engine.scripted import ScriptedEngine
from faultattr_local.errors import ConfigError, InvalidReply, PromptError, RunFolderError
from faultattr_local.run.attribute import Run
from faultattr_local.run.config import Config
from faultattr_local.run.store import read_lines, read_verdicts


def lines(folder, kind):
    return list(read_lines(folder, kind))


def test_verdicts_come_in_the_order_of_the_trajectories(script, items):
    given = [item.trajectory for item in items(5)]
    verdicts = attribute(given, method="raffles", engine=ScriptedEngine(script))
    assert [one.trajectory for one in verdicts] == [one.id for one in given]
    assert {one.status for one in verdicts} == {"attributed"}


def test_without_an_engine_it_says_so(items):
    with pytest.raises(ConfigError, match="engine: is missing"):
        attribute(items(1))


def test_a_method_that_there_is_not_is_told_before_anything_starts(script, items):
    engine = ScriptedEngine(script)
    with pytest.raises(ConfigError, match="there is no method 'rafles'. Known: raffles, safari"):
        attribute(items(1), method="rafles", engine=engine)  # type: ignore[arg-type]
    assert engine.requests == []


def test_the_run_folder_holds_the_config_the_calls_and_the_trajectories(script, items, tmp_path):
    attribute(items(2), engine=ScriptedEngine(script), run_dir=str(tmp_path))
    manifest = json.loads((tmp_path / "run.json").read_text())
    assert manifest["config"]["method"] == "raffles"
    assert manifest["config"]["raffles"]["max_iterations"] == 2
    assert set(manifest["config"]["prompt"]) >= {"system", "log", "raffles/judge"}
    assert not any(name.startswith("safari") for name in manifest["config"]["prompt"])
    assert manifest["model"]["digest"] == "scripted"
    assert manifest["sittings"][0]["outcome"] == "finished"
    roles = [call["role"] for call in lines(tmp_path, "calls") if call["trajectory"] == "t/0"]
    assert sorted(roles) == [
        "evaluator:decisiveness",
        "evaluator:fault_condition",
        "evaluator:primacy",
        "judge",
    ]
    assert len(lines(tmp_path, "trajectories")) == 2


def test_again_with_nothing_missing_asks_nothing(script, items, tmp_path):
    first = attribute(items(3), engine=ScriptedEngine(script), run_dir=tmp_path)
    engine = ScriptedEngine(script)
    second = attribute(items(3), engine=engine, run_dir=tmp_path)
    assert second == first
    assert engine.requests == []
    assert len(lines(tmp_path, "verdicts")) == 3


def test_only_what_is_missing_is_done(script, items, tmp_path):
    attribute(items(2), engine=ScriptedEngine(script), run_dir=tmp_path)
    engine = ScriptedEngine(script)
    verdicts = attribute(items(4), engine=engine, run_dir=tmp_path)
    assert len(verdicts) == 4
    assert {one.trajectory for one in engine.requests} == {"t/2", "t/3"}


def test_a_half_done_trajectory_goes_on_from_its_recorded_replies(script, items, tmp_path):
    """The engine is pulled away after the Judge and two Evaluators have answered."""

    def until_then(request):
        if request.role == "evaluator:decisiveness":
            return PromptError("pulled away")
        return script(request)

    with pytest.raises(PromptError):
        attribute(items(1), engine=ScriptedEngine(until_then), run_dir=tmp_path)
    before = lines(tmp_path, "calls")
    assert "judge" in {call["role"] for call in before}
    assert lines(tmp_path, "verdicts") == []
    engine = ScriptedEngine(script)
    verdict = attribute(items(1), engine=engine, run_dir=tmp_path)[0]
    assert "judge" not in {request.role for request in engine.requests}
    assert verdict.usage.requests == 4
    keys = [call["key"] for call in lines(tmp_path, "calls")]
    assert len(keys) == len(set(keys)) == 4


def test_an_invalid_reply_is_recorded_and_never_given_again(script, items, tmp_path):
    def broken(request):
        if request.role == "judge":
            return InvalidReply("the answer was cut at 9 tokens", text="{", finish_reason="length")
        return script(request)

    engine = ScriptedEngine(broken)
    assert attribute(items(1), engine=engine, run_dir=tmp_path)[0].status == "unscored"
    recorded = lines(tmp_path, "calls")
    assert [call["valid"] for call in recorded] == [False, False]
    assert recorded[0]["reply"]["text"] == "{"
    assert recorded[0]["reply"]["finish_reason"] == "length"
    verdict = attribute(items(1), engine=ScriptedEngine(script), run_dir=tmp_path)[0]
    assert verdict.status == "attributed"
    assert [one.status for one in read_verdicts(tmp_path).values()] == ["attributed"]


def test_a_mended_failure_is_not_asked_anew_when_a_run_goes_on(script, items, tmp_path):
    """Judge invalid, its retry valid, then the run stops: the valid retry is what counts."""

    def first_sitting(request):
        if request.role == "judge" and request.attempt == 0:
            return InvalidReply("the answer was cut at 9 tokens")
        if request.role == "evaluator:primacy":
            return PromptError("pulled away")
        return script(request)

    with pytest.raises(PromptError):
        attribute(items(1), engine=ScriptedEngine(first_sitting), run_dir=tmp_path)
    engine = ScriptedEngine(script)
    verdict = attribute(items(1), engine=engine, run_dir=tmp_path)[0]
    assert "judge" not in {request.role for request in engine.requests}
    assert verdict.usage.invalid_replies == 1


def test_the_same_trajectory_twice_is_done_once(script, items, tmp_path):
    verdicts = attribute(items(1) * 2, engine=ScriptedEngine(script), run_dir=tmp_path)
    assert len(verdicts) == 2
    assert len(lines(tmp_path, "verdicts")) == 1


def test_a_changed_config_is_refused_with_the_difference(script, items, tmp_path):
    attribute(items(1), engine=ScriptedEngine(script), run_dir=tmp_path)
    changed = Config.model_validate({"raffles": {"max_iterations": 5}})
    with pytest.raises(RunFolderError, match=r"raffles.max_iterations: 2 -> 5.*--resume always"):
        attribute(items(1), engine=ScriptedEngine(script), run_dir=tmp_path, config=changed)
    engine = ScriptedEngine(script)
    attribute(items(2), engine=engine, run_dir=tmp_path, config=changed, resume="always")
    assert {one.trajectory for one in engine.requests} == {"t/1"}
    manifest = json.loads((tmp_path / "run.json").read_text())
    assert manifest["changes"][0]["config"] == "raffles.max_iterations: 2 -> 5"


def test_a_change_that_decides_no_verdict_is_no_change(script, items, tmp_path):
    attribute(items(1), engine=ScriptedEngine(script), run_dir=tmp_path)
    changed = Config.model_validate({"safari": {"max_turns": 5}})
    attribute(items(1), engine=ScriptedEngine(script), run_dir=tmp_path, config=changed)


def test_another_model_is_refused(script, items, tmp_path):
    attribute(items(1), engine=ScriptedEngine(script), run_dir=tmp_path)
    other = ScriptedEngine(script, context_tokens=50_000)
    with pytest.raises(RunFolderError, match="another model: context_tokens: 1000000 -> 50000"):
        attribute(items(2), engine=other, run_dir=tmp_path)


def test_never_refuses_a_folder_that_holds_a_run(script, items, tmp_path):
    attribute(items(1), engine=ScriptedEngine(script), run_dir=tmp_path, resume="never")
    with pytest.raises(RunFolderError, match="holds a run already"):
        attribute(items(1), engine=ScriptedEngine(script), run_dir=tmp_path, resume="never")


def test_a_changed_trajectory_under_an_old_name_is_done_anew(script, items, tmp_path):
    attribute(items(1), engine=ScriptedEngine(script), run_dir=tmp_path)
    item = items(1)[0]
    changed = item.trajectory.model_copy(update={"task": "Another task"})
    engine = ScriptedEngine(script)
    attribute([changed], engine=engine, run_dir=tmp_path)
    assert len(engine.requests) == 4


@pytest.mark.parametrize("shown", [False, True])
def test_the_reference_answer_is_shown_only_when_asked(script, items, shown):
    item = items(1)[0].model_copy(update={"reference_answer": "forty-two pears"})
    engine = ScriptedEngine(script)
    config = Config(show_reference_answer=shown)
    attribute([item], engine=engine, config=config)
    seen = ["forty-two pears" in message.content for message in engine.requests[0].messages]
    assert any(seen) is shown


def test_each_verdict_is_on_disk_when_it_is_yielded(script, items, tmp_path):
    async def run():
        sitting = Run(Config(), engine=ScriptedEngine(script), run_dir=tmp_path)
        count = 0
        async for _, verdict in sitting.verdicts(items(5)):
            count += 1
            written = [one["trajectory"] for one in lines(tmp_path, "verdicts")]
            assert len(written) == count
            assert written[-1] == verdict.trajectory

    asyncio.run(run())
