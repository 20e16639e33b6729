"""What the tests of the command line share: a config, a script, and finished run folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faultattr_local.engine.base import Request
from faultattr_local.engine.scripted import ScriptedEngine
from faultattr_local.run.attribute import attribute
from faultattr_local.run.config import Config, load_config
from faultattr_local.run.preview import placeholder_reply
from faultattr_local.trajectory import Step, Trajectory

HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold]Two pears[/bold] cost \u202e6.00 :smile:"
"""Clears the screen, renames the window, asks for bold, turns the line."""


def placeholders(request: Request) -> Any:
    """Answers with what the answer model admits."""
    return json.loads(placeholder_reply(request).text)


@pytest.fixture
def config() -> Config:
    """The shipped config of the small model."""
    return load_config(["smollm2-cpu"])


@pytest.fixture
def shops(trajectory: Trajectory) -> list[Trajectory]:
    """Three runs; the log of the second is hostile to terminals."""
    steps = list(trajectory.steps)
    steps[2] = Step(index=2, agent="Clerk\x1b[31m", content=HOSTILE, source_ref="[2]")
    return [
        trajectory,
        Trajectory(id="shop/2", task="hostile", steps=tuple(steps)),
        Trajectory(id="mart/2", task="other", steps=trajectory.steps),
    ]


@pytest.fixture
def run_folder(tmp_path: Path, config: Config) -> Callable[..., Path]:
    """Make a run folder with a scripted engine."""

    def make(
        trajectories: list[Trajectory],
        method: Any = "raffles",
        script: Callable[[Request], Any] = placeholders,
    ) -> Path:
        folder = tmp_path / f"run-{method}"
        attribute(
            trajectories,
            method=method,
            engine=ScriptedEngine(script),
            config=config,
            run_dir=folder,
        )
        return folder

    return make
