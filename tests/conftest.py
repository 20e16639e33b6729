"""What the tests of every room share: where real traces lie, and how golden files are kept."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faultattr_local.engine.base import Reply, Request, parse_answer
from faultattr_local.methods.answers import AnswerLimits
from faultattr_local.methods.flow import Flow, Setup
from faultattr_local.prompts import Prompts
from faultattr_local.trajectory import Step, Trajectory
from faultattr_local.verdict import Verdict

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real traces: FAULTATTR_DATA, or ../shared/data beside the project."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("FAULTATTR_DATA") or beside)
    if not folder.is_dir():
        pytest.skip(f"no real traces: {folder} does not exist; set FAULTATTR_DATA")
    return folder


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare text with a golden file; FAULTATTR_UPDATE_GOLDEN=1 writes it anew."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("FAULTATTR_UPDATE_GOLDEN") == "1":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{path} differs; renew it if meant"

    return check


@dataclass
class Played:
    """A flow played to its end: the verdict and the requests of each round."""

    verdict: Verdict
    rounds: list[list[Request]]

    @property
    def requests(self) -> list[Request]:
        """All requests in order."""
        return [request for one in self.rounds for request in one]


@pytest.fixture
def play() -> Callable[[Flow, Callable[[Request], Mapping[str, Any]]], Played]:
    """Play a flow against a script that returns an answer for each request."""

    def run(flow: Flow, script: Callable[[Request], Mapping[str, Any]]) -> Played:
        rounds: list[list[Request]] = []
        try:
            requests = next(flow)
            while True:
                rounds.append(requests)
                replies = []
                for request in requests:
                    text = json.dumps(script(request))
                    replies.append(Reply(parse_answer(request, text, "stop"), text))
                requests = flow.send(replies)
        except StopIteration as stop:
            return Played(stop.value, rounds)

    return run


@pytest.fixture
def setup_of() -> Callable[..., Setup]:
    """A setup at four characters a token, changed by keyword."""

    def make(**changes: Any) -> Setup:
        given: dict[str, Any] = {
            "prompts": Prompts(),
            "limits": AnswerLimits(),
            "count_tokens": lambda text: -(-len(text) // 4),
            "context_tokens": 100_000,
        }
        return Setup(**(given | changes))

    return make


@pytest.fixture
def trajectory() -> Trajectory:
    """Four steps by three agents; the fault is at step 2."""
    steps = (
        Step(index=0, agent="Planner", content="Find the price of two pears, then add tax at 10%."),
        Step(index=1, agent="Shopper", content="A pear costs 3.50."),
        Step(index=2, agent="Clerk", content="Two pears cost 6.00."),
        Step(index=3, agent="Planner", content="With tax that is 6.60. Done."),
    )
    return Trajectory(id="shop/1", task="What do two pears cost with tax?", steps=steps)
