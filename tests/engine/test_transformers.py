from __future__ import annotations

import asyncio
import re
import shutil
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field, create_model

from faultattr_local.engine.base import Answer, Message, Request, Sampling
from faultattr_local.engine.canary import STRING, Score
from faultattr_local.engine.tokenizer import ChatTokenizer, load_tokenizer
from faultattr_local.engine.transformers import TransformersConfig, TransformersEngine
from faultattr_local.engine.transformers_batch import Row, decode_batch
from faultattr_local.engine.transformers_model import LoadedModel, load_model
from faultattr_local.errors import EngineDied, EngineUnavailable, LogTooLong
from faultattr_local.methods.answers import (
    AnswerLimits,
    evaluator_answer,
    fault_answer,
    rationale_answer,
    step_answer,
)
from faultattr_local.trajectory import Step, Trajectory

LIMITS = AnswerLimits(rationale=40, quote=12, citations=1)
AGENTS = ('Anna "the" Clerk', "Bürö\\Größe", "🍐 Pear", "日本語")
ODD = Trajectory(
    id="odd",
    task="t",
    steps=tuple(
        Step(index=index, agent=agent, content="c")
        for index, agent in zip((2, 3, 17, 900), AGENTS, strict=True)
    ),
)
EVEN = Trajectory(
    id="even",
    task="t",
    steps=tuple(Step(index=at, agent="A", content="c") for at in range(95, 1005)),
)
LONG_ANSWER = create_model(
    "LongAnswer", __base__=Answer, text=(str, Field(max_length=700, min_length=600))
)


class Inner(Answer):
    step: Literal[4, 9]


class Nullable(Answer):
    first: Inner | None
    second: Literal["x"] | None


SHAPES: tuple[type[Answer], ...] = (
    fault_answer(ODD),
    fault_answer(EVEN),
    rationale_answer(ODD, LIMITS),
    rationale_answer(EVEN, LIMITS),
    evaluator_answer(LIMITS),
    step_answer(LIMITS),
    Nullable,
)


@pytest.fixture(scope="module")
def config(small_model: Path) -> TransformersConfig:
    pytest.importorskip("outlines")
    return TransformersConfig(model=str(small_model), max_model_len=2048)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads of torch that wait for one another crawl when other work fills the cores."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def exact(small_model: Path) -> tuple[LoadedModel, ChatTokenizer]:
    """In float32, where the rounding of a batch does not change an answer."""
    tokenizer = load_tokenizer(small_model)
    return load_model(small_model, tokenizer, "float32", None), tokenizer


@pytest.fixture(scope="module")
def engine(config: TransformersConfig, run: Any) -> Iterator[TransformersEngine]:
    engine = config.make()
    run(engine.start())
    yield engine
    run(engine.stop())


@pytest.fixture
def together(engine: TransformersEngine, run: Any) -> Callable[..., list[Any]]:
    """The replies to calls made at the same time."""

    def replies(*requests: Request) -> list[Any]:
        async def all_at_once() -> list[Any]:
            return await asyncio.gather(*map(engine.generate, requests))

        answered: list[Any] = run(all_at_once())
        return answered

    return replies


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_answer_shape_is_held_in_one_batch(
    together: Callable[..., list[Any]], ask: Callable[..., Request], temperature: float
) -> None:
    requests = [
        ask(
            answer,
            "Answer in prose, at length.",
            "x\n" * seed,
            sampling=Sampling(temperature, seed),
        )
        for seed, answer in enumerate(SHAPES)
    ]
    for request, reply in zip(requests, together(*requests), strict=True):
        assert isinstance(reply.answer, request.answer)
        assert reply.finish_reason == "stop"
        assert 0 < reply.output_tokens <= request.max_tokens
        assert not re.search(r"\s", STRING.sub("", reply.text)), reply.text


def rows_for(exact: tuple[LoadedModel, ChatTokenizer], *told: tuple[str, float, int]) -> list[Row]:
    """A row under `Score` for each question, temperature and seed."""
    loaded, tokenizer = exact
    return [
        Row(
            prompt=tokenizer.chat([Message("user", question)]),
            grammar=loaded.grammar(Score.model_json_schema()),
            max_tokens=80,
            temperature=temperature,
            seed=seed,
            wanted=lambda: True,
        )
        for question, temperature, seed in told
    ]


def test_neighbours_in_a_batch_change_no_answer(exact: tuple[LoadedModel, ChatTokenizer]) -> None:
    greedy, warm = ("Which step is wrong?", 0.0, 7), ("Which step is wrong?", 0.9, 7)
    longer, other_seed = ("Who is to blame? " * 20, 0.0, 7), ("Which step is wrong?", 0.9, 8)
    loaded = exact[0]
    alone = [rows_for(exact, one)[0] for one in (greedy, warm, longer)]
    for row in alone:
        decode_batch(loaded.model, [row], loaded.end)
    beside = rows_for(exact, greedy, warm, longer, other_seed)
    decode_batch(loaded.model, beside, loaded.end)
    assert [row.written for row in beside[:3]] == [row.written for row in alone]
    assert len({tuple(row.written) for row in beside}) == 4


def test_a_batch_is_no_larger_than_allowed(
    small_model: Path, run: Any, ask: Callable[..., Request]
) -> None:
    engine = TransformersConfig(model=str(small_model), max_batch=2).make()

    async def three() -> list[Any]:
        await engine.start()
        try:
            return await asyncio.gather(*(engine.generate(ask(Score)) for _ in range(3)))
        finally:
            await engine.stop()

    ends = [reply.started + reply.seconds for reply in run(three())]
    assert abs(ends[0] - ends[1]) < 0.1
    assert ends[2] > ends[0] + 0.2


def test_a_prompt_over_the_context_is_refused_before_anything_is_computed(
    engine: TransformersEngine, run: Any, ask: Callable[..., Request]
) -> None:
    started = time.monotonic()
    with pytest.raises(LogTooLong, match=r"has \d+ tokens .* may take \d+, .* serves 2048"):
        run(engine.generate(ask(Score, log="word " * 2048)))
    assert time.monotonic() - started < 1


def test_each_row_ends_at_its_own_length_and_says_why(
    exact: tuple[LoadedModel, ChatTokenizer],
) -> None:
    loaded, tokenizer = exact
    assert loaded.context_tokens == 8192
    cut, whole, left = rows = rows_for(exact, *[("Which step is wrong?", 0.0, 0)] * 3)
    cut.max_tokens = 5
    left.wanted = lambda: False
    decode_batch(loaded.model, rows, loaded.end)
    assert [row.finish_reason for row in rows] == ["length", "stop", "abort"]
    assert (len(cut.written), len(left.written)) == (5, 1)
    assert whole.written[:5] == cut.written
    assert whole.written[-1] == loaded.end
    assert loaded.end not in whole.written[:-1]
    Score.model_validate_json(tokenizer.pretrained.decode(whole.written[:-1]))


def test_a_cancelled_call_does_not_hold_up_the_next(
    engine: TransformersEngine, run: Any, ask: Callable[..., Request]
) -> None:
    async def cancel() -> float:
        call = asyncio.create_task(engine.generate(ask(LONG_ANSWER)))
        waiting = asyncio.create_task(engine.generate(ask(LONG_ANSWER)))
        await asyncio.sleep(1.0)
        call.cancel()
        waiting.cancel()
        cancelled = time.monotonic()
        assert (await engine.generate(ask(Score))).finish_reason == "stop"
        assert call.cancelled()
        return time.monotonic() - cancelled

    # The long answers alone would take 150 tokens or more, the short one some 30.
    assert run(cancel()) < 8


def test_stop_ends_what_runs_frees_the_model_and_start_works_again(
    config: TransformersConfig, run: Any, ask: Callable[..., Request]
) -> None:
    engine = config.model_copy(update={"max_batch": 1}).make()

    async def stop_underway() -> list[Any]:
        card = await engine.start()
        assert (card.name, card.context_tokens) == ("SmolLM2-135M-Instruct", 2048)
        assert card.kv_tokens is None
        assert engine._loaded is not None
        model = weakref.ref(engine._loaded.model)
        calls = [asyncio.create_task(engine.generate(ask(LONG_ANSWER))) for _ in range(2)]
        await asyncio.sleep(1.0)
        started = time.monotonic()
        await engine.stop()
        assert time.monotonic() - started < 5
        assert model() is None
        return await asyncio.gather(*calls, return_exceptions=True)

    underway, waiting = run(stop_underway())
    assert (type(underway), type(waiting)) == (EngineDied, EngineDied)
    assert "was stopped" in str(underway)
    run(engine.stop())
    with pytest.raises(EngineDied, match="not running"):
        run(engine.generate(ask(Score)))

    run(engine.start())
    assert run(engine.generate(ask(Score))).finish_reason == "stop"
    run(engine.stop())


def test_counts_tokens_without_a_model(config: TransformersConfig) -> None:
    assert config.make().count_tokens("Two pears cost") == 3


def test_a_context_over_the_models_own_is_refused(config: TransformersConfig, run: Any) -> None:
    longer = config.model_copy(update={"max_model_len": 9000})
    with pytest.raises(EngineUnavailable, match=r"is 9000, the model's own limit 8192.*Set it"):
        run(longer.make().start())


def test_broken_weights_are_told_in_one_line(small_model: Path, tmp_path: Path, run: Any) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(small_model, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "model.safetensors").write_bytes(b"\x10" + b"\x00" * 40)
    with pytest.raises(EngineUnavailable, match="the model does not load") as error:
        run(TransformersConfig(model=str(folder)).make().start())
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_that_is_no_model_is_refused_at_once(tmp_path: Path, run: Any) -> None:
    with pytest.raises(EngineUnavailable, match="holds no tokenizer"):
        run(TransformersConfig(model=str(tmp_path)).make().start())
