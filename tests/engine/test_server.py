from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from faultattr_local.engine.base import Answer, Request, Sampling
from faultattr_local.engine.canary import Marks, Score
from faultattr_local.engine.server import ServerConfig, ServerEngine
from faultattr_local.engine.server_response import kv_tokens
from faultattr_local.errors import (
    ConstraintError,
    EngineDied,
    EngineUnavailable,
    InvalidReply,
    LogTooLong,
    TrajectoryError,
)

HANG_UP = 0
"""As a status: close the connection without a word."""
MARK = {"step": 3, "quote": "a"}
GOOD = {
    "Marks": {"code": "zq-7", "number": 871, "marks": [MARK, MARK], "other": None},
    "Score": {"rationale": "r", "confidence": 93, "decisive": False},
}


class ManyAtOnce(ThreadingHTTPServer):
    daemon_threads = True
    # The default of 5 resets connections when a test sends many at once.
    request_queue_size = 128


class Stand:
    """A real HTTP server on this machine that answers as a test tells it.

    Attributes:
        models: What GET /v1/models lists.
        chat: From the body of a chat completion, its status and answer.
        asked: The bodies of the chat completions so far.
    """

    def __init__(self) -> None:
        self.models: Any = [{"id": "m", "root": "/m", "max_model_len": 4096}]
        self.chat: Callable[[dict[str, Any]], tuple[int, Any]] = obedient
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.counted = 0
        stand = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/v1/models":
                    self.answer(200, {"data": stand.models})
                elif self.path == "/version":
                    self.answer(200, {"version": "0.99"})
                else:
                    self.answer(404, {"error": "no"})

            def do_POST(self) -> None:
                stand.keys.add(self.headers["Authorization"])
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/tokenize":
                    stand.counted += 1
                    text = body.get("prompt") or str(body.get("messages"))
                    self.answer(200, {"count": len(text.split())})
                    return
                stand.asked.append(body)
                self.answer(*stand.chat(body))

            def answer(self, status: int, content: Any) -> None:
                if status == HANG_UP:
                    return
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ManyAtOnce(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def completion(text: str | None, reason: str = "stop") -> tuple[int, Any]:
    usage = {"prompt_tokens": 9, "completion_tokens": 5}
    choice = {"message": {"content": text}, "finish_reason": reason}
    return 200, {"choices": [choice], "usage": usage}


def obedient(body: dict[str, Any]) -> tuple[int, Any]:
    title = body["response_format"]["json_schema"]["schema"]["title"]
    return completion(json.dumps(GOOD[title], separators=(",", ":")))


@pytest.fixture
def stand() -> Iterator[Stand]:
    server = Stand()
    yield server
    server.close()


@pytest.fixture
def start(run: Any) -> Iterator[Callable[..., ServerEngine]]:
    engines: list[ServerEngine] = []

    def make(*urls: str, **settings: Any) -> ServerEngine:
        engines.append(ServerEngine(ServerConfig(urls=urls, **settings)))
        run(engines[-1].start())
        return engines[-1]

    yield make
    for engine in engines:
        run(engine.stop())


def test_nobody_there(start: Callable[..., ServerEngine]) -> None:
    url = "http://127.0.0.1:9/v1"
    with pytest.raises(EngineUnavailable, match=r"no server answers .*Start it") as error:
        start(url)
    assert str(error.value).startswith(url)


@pytest.mark.parametrize("url", ["http://[half/v1", "host:8000/v1", "ftp://host/v1"])
def test_what_is_no_address(start: Callable[..., ServerEngine], url: str) -> None:
    with pytest.raises(EngineUnavailable, match=r"orrect engine\.urls") as error:
        start(url)
    assert str(error.value).startswith(url)


def test_capacity_is_summed_over_engines_and_unknown_where_one_does_not_tell() -> None:
    told = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0\n'
    newer = 'vllm:cache_config_info{block_size="16",kv_cache_size_tokens="50"} 1.0\n'
    silent = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0\n'
    assert kv_tokens(told) == 1600
    assert kv_tokens(told + newer) == 1650
    assert kv_tokens(told + silent) is None
    assert kv_tokens("vllm:num_requests_running 0.0\n") is None


@pytest.mark.parametrize(
    ("models", "settings", "said"),
    [
        ([{"id": "m"}], {}, "not a vLLM server"),
        ([], {}, "does not serve None but nothing"),
        ([{"id": "m", "max_model_len": 9}], {"model": "x"}, "does not serve 'x' but m"),
        ([{"id": "m"}, {"id": "n"}], {}, r"serves several models \(m, n\).* engine\.model"),
    ],
)
def test_another_server_or_model_is_refused(
    stand: Stand, start: Callable[..., ServerEngine], models: Any, settings: Any, said: str
) -> None:
    stand.models = models
    with pytest.raises(EngineUnavailable, match=said):
        start(stand.url, **settings)


def test_a_server_that_ignores_the_schema_is_refused(
    stand: Stand, start: Callable[..., ServerEngine]
) -> None:
    stand.chat = lambda body: completion("Hello! Welcome, dear family.")
    with pytest.raises(ConstraintError, match=r"not held to its schema.*'Hello!.*vLLM 0\.12"):
        start(stand.url)


def test_a_server_that_writes_free_whitespace_is_refused(
    stand: Stand, start: Callable[..., ServerEngine]
) -> None:
    stand.chat = lambda body: completion(json.dumps(GOOD["Marks"], indent=4))
    with pytest.raises(ConstraintError, match="whitespace.*disable_any_whitespace"):
        start(stand.url)


def test_a_server_that_refuses_the_schema_is_refused(
    stand: Stand, start: Callable[..., ServerEngine]
) -> None:
    stand.chat = lambda body: (400, {"error": {"message": "Grammar error: no $ref"}})
    with pytest.raises(ConstraintError, match="HTTP 400: Grammar error"):
        start(stand.url)


def test_servers_of_one_run_serve_the_same(
    stand: Stand, start: Callable[..., ServerEngine]
) -> None:
    other = Stand()
    other.models = [{"id": "m", "root": "/m", "max_model_len": 8192}]
    with pytest.raises(EngineUnavailable, match="All servers of one run"):
        start(stand.url, other.url)
    other.close()


@pytest.mark.parametrize(
    ("chat", "error", "said"),
    [
        (completion('{"rationale":"r"', "length"), InvalidReply, "cut at 5 tokens"),
        (completion(None), InvalidReply, "empty"),
        (completion("{}"), InvalidReply, "breaks its schema"),
        ((200, {"error": "overloaded"}), InvalidReply, "not a chat completion"),
        ((400, {"error": {"message": "maximum context length is 9"}}), LogTooLong, "length is 9"),
        ((404, {"message": "gone"}), TrajectoryError, "HTTP 404: gone"),
        ((500, {"error": {"message": "CUDA"}}), EngineDied, "HTTP 500: CUDA"),
    ],
)
def test_what_goes_wrong_is_told(
    stand: Stand,
    start: Callable[..., ServerEngine],
    run: Any,
    ask: Callable[..., Request],
    chat: tuple[int, Any],
    error: type[Exception],
    said: str,
) -> None:
    engine = start(stand.url)
    stand.chat = lambda body: chat
    with pytest.raises(error, match=said) as raised:
        run(engine.generate(ask(Score)))
    assert type(raised.value) is error


def test_a_slow_answer_costs_its_trajectory_and_is_not_asked_for_again(
    stand: Stand, start: Callable[..., ServerEngine], run: Any, ask: Callable[..., Request]
) -> None:
    engine = start(stand.url, timeout_s=3)
    stand.asked.clear()

    def slow(body: dict[str, Any]) -> tuple[int, Any]:
        time.sleep(5)
        return obedient(body)

    stand.chat = slow
    with pytest.raises(TrajectoryError, match=r"no answer within 3 s.*timeout_s") as error:
        run(engine.generate(ask(Score)))
    assert type(error.value) is TrajectoryError
    assert len(stand.asked) == 1


def test_a_lost_connection_is_a_dead_engine(
    stand: Stand, start: Callable[..., ServerEngine], run: Any, ask: Callable[..., Request]
) -> None:
    engine = start(stand.url)
    stand.close()
    with pytest.raises(EngineDied, match="connection was lost"):
        run(engine.generate(ask(Score)))


def test_a_connection_cut_in_the_middle_is_a_dead_engine(
    stand: Stand, start: Callable[..., ServerEngine], run: Any, ask: Callable[..., Request]
) -> None:
    engine = start(stand.url)
    stand.asked.clear()
    stand.chat = lambda body: (HANG_UP, None)
    with pytest.raises(EngineDied, match="connection was lost") as error:
        run(engine.generate(ask(Score)))
    assert str(error.value).startswith(stand.url)
    assert len(stand.asked) == 1


def test_a_seed_is_sent_above_temperature_0_and_no_default_of_the_server_applies(
    stand: Stand, start: Callable[..., ServerEngine], run: Any, ask: Callable[..., Request]
) -> None:
    engine = start(stand.url)
    for sampling in (Sampling(0.0, 7), Sampling(0.5, 7)):
        run(engine.generate(ask(Score, sampling=sampling)))
    cold, warm = stand.asked[-2:]
    assert "seed" not in cold
    assert (warm["seed"], warm["temperature"]) == (7, 0.5)
    assert (cold["top_p"], cold["repetition_penalty"]) == (1.0, 1.0)


def test_a_server_that_does_not_tell_cached_tokens_is_said_so_on_the_card(
    stand: Stand, start: Callable[..., ServerEngine], run: Any
) -> None:
    card = run(start(stand.url).start())
    assert "--enable-prompt-tokens-details" in card.details["cached_tokens"]
    assert card.kv_tokens is None


def test_short_prompts_cost_no_extra_trip_and_long_ones_are_counted(
    stand: Stand, start: Callable[..., ServerEngine], run: Any, ask: Callable[..., Request]
) -> None:
    engine = start(stand.url)
    assert stand.counted == 0
    run(engine.generate(ask(Score, log="word " * 1000)))
    assert stand.counted == 1
    with pytest.raises(LogTooLong, match="serves 4096"):
        run(engine.generate(ask(Score, log="word " * 5000)))
    counted = stand.counted
    assert [engine.count_tokens("one two three") for _ in range(3)] == [3, 3, 3]
    assert stand.counted == counted + 1


def test_all_calls_of_a_trajectory_go_to_one_server(
    stand: Stand, start: Callable[..., ServerEngine], run: Any
) -> None:
    other = Stand()
    engine = start(stand.url, other.url)
    stand.asked.clear()
    other.asked.clear()

    async def calls() -> None:
        requests = [Request(f"t{at % 6}", "judge", (), f"t{at % 6}?", Score) for at in range(60)]
        await asyncio.gather(*map(engine.generate, requests))

    run(calls())
    other.close()
    here, there = ({json.dumps(body["messages"]) for body in one.asked} for one in (stand, other))
    assert (len(here), len(there)) == (3, 3)
    assert not here & there
    assert len(stand.asked) + len(other.asked) == 60


def test_the_key_is_sent_and_a_missing_one_is_told(
    stand: Stand, start: Callable[..., ServerEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAULTATTR_TEST_KEY", raising=False)
    with pytest.raises(EngineUnavailable, match="FAULTATTR_TEST_KEY is not set"):
        start(stand.url, api_key_env="FAULTATTR_TEST_KEY")
    monkeypatch.setenv("FAULTATTR_TEST_KEY", "secret\n")
    with pytest.raises(EngineUnavailable, match="FAULTATTR_TEST_KEY holds no key") as error:
        start(stand.url, api_key_env="FAULTATTR_TEST_KEY")
    assert "secret" not in str(error.value)
    monkeypatch.setenv("FAULTATTR_TEST_KEY", "secret")
    start(stand.url, api_key_env="FAULTATTR_TEST_KEY")
    assert stand.keys == {"Bearer secret"}


class Numerous(Answer):
    """Takes many seconds to write."""

    lines: Annotated[
        list[Annotated[str, Field(min_length=50, max_length=50)]],
        Field(min_length=20, max_length=20),
    ]


def test_a_real_server(
    served: Any,
    small_model: Path,
    start: Callable[..., ServerEngine],
    run: Any,
    ask: Callable[..., Request],
) -> None:
    remote = start(served.url, send_seed=False)
    card = run(remote.start())
    assert (card.name, card.context_tokens) == ("SmolLM2-135M-Instruct", 4096)
    assert card.kv_tokens == pytest.approx(2**30 / (30 * 3 * 64 * 2 * 2), rel=0.01)
    assert card.details["cached_tokens"] == "reported"

    log = "\n".join(f"[step {at} | Clerk]\nEntry {at} reads {at * 37}." for at in range(90))
    first = run(remote.generate(ask(Marks, "Which step?", log)))
    again = run(remote.generate(ask(Score, "Is it?", log, sampling=Sampling(1.0, 3))))
    assert first.cached_tokens < first.prompt_tokens / 2
    assert again.cached_tokens > 0.85 * again.prompt_tokens
    with pytest.raises(LogTooLong, match="serves 4096"):
        run(remote.generate(ask(Score, log="word " * 4200)))

    local = start(served.url, tokenizer=str(small_model))
    for text in ("Zwei Birnen — 🍐", log, "longer than the context " * 2000):
        assert local.count_tokens(text) == remote.count_tokens(text)


def test_a_cancelled_call_ends_on_the_server(
    served: Any, start: Callable[..., ServerEngine], run: Any, ask: Callable[..., Request]
) -> None:
    engine = start(served.url)

    async def until(running: int) -> None:
        async with asyncio.timeout(20):
            while await asyncio.to_thread(served.running) != running:
                await asyncio.sleep(0.1)

    async def cancel() -> None:
        call = asyncio.create_task(engine.generate(ask(Numerous)))
        await until(running=1)
        call.cancel()
        begun = time.monotonic()
        await until(running=0)
        assert call.cancelled()
        assert time.monotonic() - begun < 5

    run(cancel())


def test_a_server_killed_in_the_middle_is_a_dead_engine(
    served: Any, start: Callable[..., ServerEngine], run: Any, ask: Callable[..., Request]
) -> None:
    """The last test of this file, since it ends the server."""
    engine = start(served.url)

    async def kill() -> None:
        call = asyncio.create_task(engine.generate(ask(Numerous)))
        while await asyncio.to_thread(served.running) != 1:
            await asyncio.sleep(0.1)
        await asyncio.to_thread(served.kill)
        await call

    with pytest.raises(EngineDied, match="connection was lost") as error:
        run(kill())
    assert str(error.value).startswith(served.url)
    with pytest.raises(EngineUnavailable, match="no server answers"):
        run(engine.start())
