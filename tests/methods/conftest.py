"""A run whose step numbers have gaps, and short ways to play the simple methods on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from faultattr_local.engine.base import Request
from faultattr_local.methods.flow import Flow, Setup
from faultattr_local.trajectory import Step, Trajectory
from faultattr_local.verdict import Verdict

Script = Callable[[Request], Mapping[str, Any]]


@pytest.fixture
def bolts() -> Trajectory:
    """Five steps by three agents; the numbers neither start at 0 nor are without gaps."""
    told = [
        (2, "Planner", "Ask the Clerk for the stock of bolts, then order what is missing to 500."),
        (3, "Clerk", "The sheet says 320 bolts in hall A and 40 in hall B."),
        (5, "Buyer", "320 in stock, so I order 180 bolts."),
        (6, "Planner", "Thank you. Is the order confirmed?"),
        (9, "Buyer", "Confirmed: 180 bolts."),
    ]
    steps = tuple(
        Step(index=index, agent=agent, content=content, source_ref=f"history[{index}]")
        for index, agent, content in told
    )
    return Trajectory(id="bolts", task="Bring the stock of bolts to 500.", steps=steps)


@pytest.fixture
def ample(setup_of: Callable[..., Setup]) -> Setup:
    """A context that holds any log of these tests."""
    return setup_of()


@pytest.fixture
def tight(setup_of: Callable[..., Setup]) -> Setup:
    """A context that does not even hold the system prompt."""
    return setup_of(context_tokens=100)


@pytest.fixture
def drive(
    play: Callable[[Flow, Script], Any],
) -> Callable[[Flow, Script], tuple[Verdict, list[Request]]]:
    """Play a flow to its verdict; with all requests in order."""

    def run(flow: Flow, script: Script) -> tuple[Verdict, list[Request]]:
        played = play(flow, script)
        return played.verdict, played.requests

    return run
