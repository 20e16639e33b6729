from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field, create_model

from faultattr_local.engine.base import Answer, Request, Sampling
from faultattr_local.engine.canary import STRING, Score
from faultattr_local.engine.model_folder import digest_of
from faultattr_local.engine.vllm import VllmConfig, VllmEngine
from faultattr_local.errors import EngineDied, EngineUnavailable, LogTooLong
from faultattr_local.methods.answers import (
    AnswerLimits,
    evaluator_answer,
    fault_answer,
    rationale_answer,
    step_answer,
)
from faultattr_local.trajectory import Step, Trajectory

LIMITS = AnswerLimits(rationale=60, quote=20, citations=2)
AGENTS = ('Anna "the" Clerk', "Bürö\\Größe", "🍐 Pear", "日本語", "it's {x}", "a/b <c>")
ODD = Trajectory(
    id="odd",
    task="t",
    steps=tuple(
        Step(index=index, agent=agent, content="c")
        for index, agent in zip((2, 3, 17, 101, 102, 900), AGENTS, strict=True)
    ),
)
EVEN = Trajectory(
    id="even",
    task="t",
    steps=tuple(Step(index=at, agent="A", content="c") for at in range(95, 1005)),
)


class Inner(Answer):
    step: Literal[4, 9]


class Nullable(Answer):
    first: Inner | None
    second: Literal["x"] | None


LONG_ANSWER = create_model(
    "LongAnswer", __base__=Answer, text=(str, Field(max_length=1200, min_length=1000))
)

CONTEXT = 6144
"""Tokens that the engine of the tests serves."""

SHAPES: dict[str, type[Answer]] = {
    "fault, odd names and scattered steps": fault_answer(ODD),
    "fault, a range of steps": fault_answer(EVEN),
    "rationale, scattered steps": rationale_answer(ODD, LIMITS),
    "rationale, a range of steps": rationale_answer(EVEN, LIMITS),
    "evaluator": evaluator_answer(LIMITS),
    "step": step_answer(LIMITS),
    "nullable": Nullable,
}


def test_the_card_tells_what_is_served(vllm: VllmEngine, small_model: Path) -> None:
    card = vllm.card
    assert card is not None
    assert card.name == "SmolLM2-135M-Instruct"
    assert card.context_tokens == CONTEXT
    assert card.digest == digest_of(small_model)
    # 1 GiB at 30 layers, 3 heads of 64, keys and values, 2 bytes each.
    assert card.kv_tokens == pytest.approx(2**30 / (30 * 3 * 64 * 2 * 2), rel=0.01)
    assert card.details["seed"] == "not sent on a CPU"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_answer_shape_is_held(
    vllm: VllmEngine, run: Any, ask: Callable[..., Request], temperature: float
) -> None:
    requests = [
        ask(answer, ask=f"Answer in prose, at length. {name}", sampling=Sampling(temperature, seed))
        for seed in range(3 if temperature else 1)
        for name, answer in SHAPES.items()
    ]

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*map(vllm.generate, requests))

    for request, reply in zip(requests, run(all_at_once()), strict=True):
        assert isinstance(reply.answer, request.answer)
        assert reply.output_tokens <= request.max_tokens
        assert not re.search(r"\s", STRING.sub("", reply.text)), reply.text


def test_calls_on_one_log_share_its_prefill(
    vllm: VllmEngine, run: Any, ask: Callable[..., Request]
) -> None:
    log = "\n".join(f"[step {at} | Clerk]\nEntry {at} reads {at * 37}." for at in range(90))
    judge = run(vllm.generate(ask(Score, "Which step is the fault?", log)))

    async def evaluators() -> list[Any]:
        asks = ("Is it wrong?", "Is it the first?", "Was it put right later?")
        return await asyncio.gather(*(vllm.generate(ask(Score, one, log)) for one in asks))

    assert judge.cached_tokens < judge.prompt_tokens / 2
    for reply in run(evaluators()):
        assert reply.cached_tokens > 0.85 * reply.prompt_tokens


def test_a_prompt_over_the_context_is_refused_with_the_counts(
    vllm: VllmEngine, run: Any, ask: Callable[..., Request]
) -> None:
    filler = "word " * (CONTEXT - 196)
    request = ask(Score, log=filler)
    with pytest.raises(
        LogTooLong, match=rf"has \d+ tokens .* may take \d+, .* serves {CONTEXT}"
    ) as error:
        run(vllm.generate(ask(LONG_ANSWER, log=filler)))
    assert "shop/1, judge" in str(error.value)
    # The same prompt with a short answer fits, to the token.
    assert run(vllm.generate(request)).prompt_tokens + request.max_tokens <= CONTEXT


def test_a_cancelled_call_is_aborted_in_the_engine(
    vllm: VllmEngine, run: Any, ask: Callable[..., Request]
) -> None:
    async def cancel() -> float:
        call = asyncio.create_task(vllm.generate(ask(LONG_ANSWER)))
        await asyncio.sleep(1.0)
        assert vllm.unfinished == 1
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return time.monotonic()

    cancelled = run(cancel())
    while vllm.unfinished and time.monotonic() < cancelled + 5:
        time.sleep(0.05)
    assert vllm.unfinished == 0
    assert run(vllm.generate(ask(Score))).finish_reason == "stop"


def children_of(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_killed_engine_is_told_leaves_nothing_and_starts_again(
    vllm: VllmEngine, run: Any, ask: Callable[..., Request]
) -> None:
    core = next(one for one in multiprocessing.active_children() if "EngineCore" in one.name)
    assert core.pid is not None
    family = [core.pid, *children_of(core.pid)]

    async def kill_underway() -> list[Any]:
        calls = [asyncio.create_task(vllm.generate(ask(LONG_ANSWER))) for _ in range(2)]
        await asyncio.sleep(0.5)
        os.kill(family[0], signal.SIGKILL)
        return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20)

    assert [type(error) for error in run(kill_underway())] == [EngineDied, EngineDied]
    with pytest.raises(EngineDied):
        run(vllm.generate(ask(Score)))

    run(vllm.stop())
    run(vllm.stop())
    with pytest.raises(EngineDied, match="not started"):
        run(vllm.generate(ask(Score)))
    deadline = time.monotonic() + 20
    while any(map(is_alive, family)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert [pid for pid in family if is_alive(pid)] == []

    run(vllm.start())
    assert run(vllm.generate(ask(Score))).finish_reason == "stop"


def test_a_folder_that_is_no_model_is_refused_at_once(tmp_path: Path, run: Any) -> None:
    with pytest.raises(EngineUnavailable, match="holds no tokenizer"):
        run(VllmEngine(VllmConfig(model=str(tmp_path))).start())
