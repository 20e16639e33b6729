"""Real failed runs attributed end to end on the real small model.

The model is far too weak to find faults: these tests say that every answer is valid, every
step in range and every call accounted for, and nothing of accuracy.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faultattr_local.engine.base import Engine, ModelCard
from faultattr_local.engine.transformers import TransformersConfig, TransformersEngine
from faultattr_local.engine.vllm import VllmEngine
from faultattr_local.formats import read_trajectories
from faultattr_local.run.attribute import Run
from faultattr_local.run.config import Config
from faultattr_local.run.store import read_lines
from faultattr_local.trajectory import LabelledTrajectory
from faultattr_local.verdict import Verdict

EXAMPLES = Path(__file__).parents[2] / "examples"
BRIEF = {"rationale": 60, "quote": 20, "citations": 1, "memory": 40, "claim": 40, "pattern": 20}
"""Bounds of the answers: this model fills whatever it is given."""

Attribute = Callable[..., list[Verdict]]


class Lent:
    """The session's engine, which a run may use but not stop."""

    def __init__(self, engine: VllmEngine) -> None:
        self._engine = engine
        self.generate = engine.generate
        self.count_tokens = engine.count_tokens

    async def start(self) -> ModelCard:
        assert self._engine.card is not None
        return self._engine.card

    async def stop(self) -> None:
        """It goes on serving other tests."""


@pytest.fixture
def attribute(run: Any) -> Attribute:
    """Attribute on the loop of the session's engines, in the order of the trajectories."""

    def attributed(
        engine: Engine, items: list[LabelledTrajectory], folder: Path | None = None, **settings: Any
    ) -> list[Verdict]:
        config = Config.model_validate({"answer": BRIEF} | settings)

        async def collect() -> dict[str, Verdict]:
            sitting = Run(config, engine=engine, run_dir=folder)
            return {one.trajectory: one async for _, one in sitting.verdicts(items)}

        found = run(collect())
        return [found[item.trajectory.id] for item in items]

    return attributed


def is_sound(verdict: Verdict, item: LabelledTrajectory) -> bool:
    trajectory = item.trajectory
    fault = verdict.fault
    return (
        verdict.status == "attributed"
        and fault is not None
        and fault.step in trajectory.by_index
        and fault.agent in trajectory.agents
        and verdict.usage.invalid_replies == 0
    )


def test_raffles_on_algorithm_generated(
    vllm: VllmEngine, attribute: Attribute, data: Path, tmp_path: Path
) -> None:
    folder = data / "whowhen" / "Algorithm-Generated"
    items = list(read_trajectories(*(folder / f"{number}.json" for number in range(1, 6))))
    verdicts = attribute(Lent(vllm), items, tmp_path, method="raffles")
    assert all(map(is_sound, verdicts, items))
    calls = list(read_lines(tmp_path, "calls"))
    assert all(call["valid"] for call in calls)
    for verdict in verdicts:
        own = [call for call in calls if call["trajectory"] == verdict.trajectory]
        roles = Counter(call["role"] for call in own)
        rounds = len(verdict.iterations)
        assert roles == dict.fromkeys(
            ("judge", "evaluator:fault_condition", "evaluator:primacy", "evaluator:decisiveness"),
            rounds,
        )
        assert {len(one.assessments) for one in verdict.iterations} == {4}
        # The three Evaluators of an iteration run side by side, after their Judge.
        asked = [call for call in own if call["role"] != "judge"][:3]
        starts = [call["reply"]["started"] for call in asked]
        ends = [call["reply"]["started"] + call["reply"]["seconds"] for call in asked]
        assert max(starts) < min(ends)
        # And find the log that the Judge has read in the cache.
        for call in asked:
            reply = call["reply"]
            assert reply["cached_tokens"] > 0.5 * reply["prompt_tokens"]


def test_safari_on_hand_crafted(
    vllm: VllmEngine, attribute: Attribute, data: Path, tmp_path: Path
) -> None:
    folder = data / "whowhen" / "Hand-Crafted"
    items = list(read_trajectories(*(folder / f"{number}.json" for number in range(1, 4))))
    verdicts = attribute(Lent(vllm), items, tmp_path, method="safari", safari={"max_turns": 3})
    assert all(map(is_sound, verdicts, items))
    calls = list(read_lines(tmp_path, "calls"))
    assert all(call["valid"] for call in calls)
    for verdict in verdicts:
        roles = Counter(call["role"] for call in calls if call["trajectory"] == verdict.trajectory)
        assert roles["investigator"] == len(verdict.turns) <= 3
        concluded = [turn for turn in verdict.turns if turn.action == "conclude"]
        assert roles["reasoning_evaluator"] == sum(len(turn.claims) for turn in concluded) >= 1


@pytest.mark.parametrize(
    "method", ["auto", "one_shot", "step_by_step", "binary_search", "tool_caller"]
)
def test_the_other_methods(vllm: VllmEngine, attribute: Attribute, method: str) -> None:
    items = list(read_trajectories(EXAMPLES / "ward-rota.json"))
    verdicts = attribute(Lent(vllm), items, method=method)
    assert all(map(is_sound, verdicts, items))
    assert verdicts[0].usage.requests >= 1


def test_auto_takes_safari_where_the_log_does_not_fit(
    vllm: VllmEngine, attribute: Attribute, data: Path
) -> None:
    items = list(read_trajectories(data / "whowhen" / "Hand-Crafted" / "3.json"))
    verdict = attribute(Lent(vllm), items, method="auto", safari={"max_turns": 1})[0]
    assert verdict.method == "safari"
    assert re.match(r"SAFARI, since the log needs \d+ tokens of \d+; ", verdict.reason)


def test_raffles_over_a_server(served: Any, attribute: Attribute, data: Path) -> None:
    items = list(read_trajectories(data / "whowhen" / "Algorithm-Generated" / "1.json"))
    engine = {"kind": "server", "urls": [served.url]}
    config = Config.model_validate({"engine": engine}).engine
    assert config is not None
    verdicts = attribute(config.make(), items, method="raffles")
    assert all(map(is_sound, verdicts, items))
    assert verdicts[0].usage.cached_tokens > 0


def test_raffles_over_transformers(small_model: Path, attribute: Attribute, data: Path) -> None:
    items = list(read_trajectories(data / "whowhen" / "Algorithm-Generated" / "1.json"))
    engine = TransformersEngine(TransformersConfig(model=str(small_model), max_model_len=8192))
    verdicts = attribute(engine, items, method="raffles", raffles={"max_iterations": 1})
    assert all(map(is_sound, verdicts, items))
    assert verdicts[0].usage.requests == 4


def test_a_run_killed_in_the_middle_goes_on_where_it_was(small_model: Path, tmp_path: Path) -> None:
    """`kill -9` after some calls, then the same command: each trajectory once, no call twice."""
    folder = tmp_path / "run"
    command = [
        *(str(Path(sys.executable).with_name("faultattr")), "attribute", str(EXAMPLES)),
        *("-c", "smollm2-cpu", "-c", f"engine.model={small_model}", "-c", "engine.kv_cache_gib=1"),
        *("-c", f"answer={json.dumps(BRIEF)}", "-c", "raffles.max_iterations=1"),
        *("-o", str(folder)),
    ]
    with (tmp_path / "log").open("wb") as log:
        first = subprocess.Popen(command, stdout=log, stderr=log)
        calls = folder / "calls-0.jsonl"
        deadline = time.monotonic() + 180
        while not calls.exists() or calls.read_bytes().count(b"\n") < 5:
            assert first.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)
        children = descendants(first.pid)
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert children, "the engine runs in processes of its own"
    wait_until_gone(children)
    before = [call["key"] for call in read_lines(folder, "calls")]
    second = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert second.returncode == 0, second.stderr
    verdicts = Counter(one["trajectory"] for one in read_lines(folder, "verdicts"))
    assert len(verdicts) == len(list(read_trajectories(EXAMPLES))) == 6
    assert set(verdicts.values()) == {1}
    after = [call["key"] for call in read_lines(folder, "calls")]
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) == 4 * 6


def descendants(pid: int) -> list[int]:
    import psutil

    return [one.pid for one in psutil.Process(pid).children(recursive=True)]


def wait_until_gone(pids: list[int]) -> None:
    """Nothing of a killed program stays: its engine would hold the memory."""
    deadline = time.monotonic() + 20
    while left := [pid for pid in pids if Path(f"/proc/{pid}/stat").exists() and not dead(pid)]:
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.2)


def dead(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return True
    return state == "Z"
