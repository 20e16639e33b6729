from __future__ import annotations

from collections.abc import Callable

import pytest

from faultattr_local.errors import LogTooLong
from faultattr_local.methods.flow import Setup
from faultattr_local.methods.registry import METHODS
from faultattr_local.run.config import Config
from faultattr_local.run.preview import placeholder_reply, requests_of
from faultattr_local.trajectory import Trajectory


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_previewed(
    method: str, trajectory: Trajectory, setup_of: Callable[..., Setup]
) -> None:
    flow = METHODS[method].flow(trajectory, Config(), setup_of())
    requests = requests_of(flow, 3)
    assert 1 <= len(requests) <= 3
    for request in requests:
        assert placeholder_reply(request).answer


def test_a_round_of_raffles(trajectory: Trajectory, setup_of: Callable[..., Setup]) -> None:
    flow = METHODS["raffles"].flow(trajectory, Config(), setup_of())
    requests = requests_of(flow, 4)
    assert [request.role for request in requests] == [
        "judge",
        "evaluator:fault_condition",
        "evaluator:primacy",
        "evaluator:decisiveness",
    ]
    assert "<rationale>" not in requests[0].ask
    assert "<rationale>" in requests[1].ask
    assert '"<quote>"' in requests[1].ask


def test_a_flow_that_ends_earlier_gives_what_it_has(
    trajectory: Trajectory, setup_of: Callable[..., Setup]
) -> None:
    flow = METHODS["one_shot"].flow(trajectory, Config(), setup_of())
    assert len(requests_of(flow, 99)) == 1


def test_a_log_that_is_too_long_is_refused(
    trajectory: Trajectory, setup_of: Callable[..., Setup]
) -> None:
    flow = METHODS["raffles"].flow(trajectory, Config(), setup_of(context_tokens=500))
    with pytest.raises(LogTooLong):
        requests_of(flow, 1)
