from __future__ import annotations

import json
import re

import pytest

from faultattr_local.methods.auto import SURELY_TOO_LONG, auto
from faultattr_local.methods.raffles import RafflesConfig
from faultattr_local.methods.safari import SafariConfig
from faultattr_local.run.preview import placeholder_reply
from faultattr_local.trajectory import Step


def placeholders(request):
    return json.loads(placeholder_reply(request).text)


def played(play, trajectory, setup):
    flow = auto(trajectory, RafflesConfig(), SafariConfig(max_turns=1), setup)
    return play(flow, placeholders)


def test_a_log_that_fits_goes_to_raffles_and_is_counted_once(trajectory, setup_of, play):
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text) // 4

    one = played(play, trajectory, setup_of(count_tokens=count))
    assert one.verdict.method == "raffles"
    assert one.verdict.reason.startswith("RAFFLES, since the log fits the context; ")
    log = one.requests[0].shared[1].content
    assert counted.count(log) == 1


@pytest.mark.parametrize(
    ("length", "why"),
    [
        (30_000, r"SAFARI, since the log needs \d+ tokens of 9000; "),
        (SURELY_TOO_LONG * 9_000, r"SAFARI, since the log has \d+ characters for 9000 tokens"),
    ],
)
def test_a_log_that_does_not_fit_goes_to_safari(trajectory, setup_of, play, length, why):
    long = Step(index=9, agent="Clerk", content="x" * length)
    longer = trajectory.model_copy(update={"steps": (*trajectory.steps, long)})
    verdict = played(play, longer, setup_of(context_tokens=9_000)).verdict
    assert verdict.method == "safari"
    assert re.match(why, verdict.reason)
