"""Scripts and trajectories for runs on the scripted engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from faultattr_local.engine.base import Request
from faultattr_local.trajectory import LabelledTrajectory, Step, Trajectory


def answer_for(request: Request) -> Mapping[str, Any]:
    """A sound RAFFLES answer: the Judge blames step 1, the Evaluators are at 90."""
    if request.role == "judge":
        argued = {"rationale": "It is so.", "citations": []}
        criteria = ("fault_condition", "primacy", "decisiveness")
        return dict.fromkeys(criteria, argued) | {"fault": {"agent": "B", "step": 1}}
    return {"rationale": "Sound.", "confidence": 90}


@pytest.fixture
def script() -> Callable[[Request], Mapping[str, Any]]:
    return answer_for


@pytest.fixture
def items() -> Callable[[int], list[LabelledTrajectory]]:
    """So many different two-step trajectories."""

    def make(count: int) -> list[LabelledTrajectory]:
        return [
            LabelledTrajectory(
                trajectory=Trajectory(
                    id=f"t/{number}",
                    task=f"Task {number}",
                    steps=(
                        Step(index=0, agent="A", content="start"),
                        Step(index=1, agent="B", content=f"wrong {number}"),
                    ),
                )
            )
            for number in range(count)
        ]

    return make
