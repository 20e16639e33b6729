"""The real small model: its folder, one event loop, and one vLLM engine for all tests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from faultattr_local.engine.base import Message, Request
from faultattr_local.engine.vllm import VllmConfig, VllmEngine

SCRIPT = Path(__file__).parents[2] / "scripts" / "serve_small_model.py"

FOREIGN = "(torch|vllm|transformers|outlines|llguidance|pydantic|compressed_tensors)"
"""Model libraries, whose own warnings are not ours to mend."""

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here:
            item.add_marker(pytest.mark.filterwarnings(f"ignore:::{FOREIGN}"))


@pytest.fixture(scope="session")
def small_model() -> Path:
    cache = Path(os.environ.get("FAULTATTR_CACHE") or "~/.cache/faultattr").expanduser()
    folder = cache / "SmolLM2-135M-Instruct"
    if not folder.is_dir():
        pytest.skip(f"no small model at {folder}; run scripts/small_model.py")
    return folder


@pytest.fixture(scope="session")
def run() -> Iterator[Run[Any]]:
    """Run a coroutine on the one loop that all engines of the session live on."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(timeout=300)

    yield run
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=10)
    loop.close()


@pytest.fixture(scope="session")
def vllm_config(small_model: Path) -> VllmConfig:
    pytest.importorskip("vllm")
    return VllmConfig(
        model=str(small_model),
        dtype="bfloat16",
        max_model_len=6144,
        kv_cache_gib=1,
        enforce_eager=True,
        max_num_seqs=32,
    )


@pytest.fixture(scope="session")
def vllm(vllm_config: VllmConfig, run: Run[Any]) -> Iterator[VllmEngine]:
    """Started once for the whole session, since that takes half a minute."""
    engine = VllmEngine(vllm_config)
    run(engine.start())
    yield engine
    run(engine.stop())


@dataclass
class RealServer:
    """A vLLM server of the small model, with the children that it starts."""

    url: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=60)

    def running(self) -> float:
        metrics = httpx.get(self.url.removesuffix("/v1") + "/metrics", trust_env=False).text
        found = re.search(r"^vllm:num_requests_running\{.*\} (\S+)$", metrics, re.MULTILINE)
        assert found, metrics
        return float(found[1])


@pytest.fixture(scope="session")
def served(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    pytest.importorskip("vllm")
    port = free_port()
    log = tmp_path_factory.mktemp("server") / "log"
    options = ["--dtype=bfloat16", "--max-model-len=4096", f"--kv-cache-memory-bytes={2**30}"]
    command = [sys.executable, str(SCRIPT), f"--model={small_model}", f"--port={port}", *options]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--enforce-eager"], stdout=out, stderr=out, start_new_session=True
        )
    server = RealServer(f"http://127.0.0.1:{port}/v1", process)
    try:
        deadline = time.monotonic() + 150
        while not answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")
            time.sleep(0.5)
        yield server
    finally:
        server.kill()


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).is_success
    except httpx.TransportError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def ask() -> Callable[..., Request]:
    """A request on a short log."""

    def make(answer: Any, ask: str = "Judge the run.", log: str = "", **more: Any) -> Request:
        text = log or "[step 0 | Planner]\nFind the price.\n[step 1 | Clerk]\nIt is 6.00.\n"
        shared = (Message("system", "You judge runs."), Message("user", f"The log:\n{text}"))
        return Request("shop/1", "judge", shared, ask, answer, **more)

    return make
