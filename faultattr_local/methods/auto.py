"""Chooses RAFFLES where the log fits the served context, SAFARI where it does not.

arXiv 2606.24626: SAFARI is slightly below RAFFLES where everything fits, and far above it
where not.
"""

from __future__ import annotations

from faultattr_local.methods.flow import Flow, Setup, WholeLog
from faultattr_local.methods.raffles import (
    RafflesConfig,
    judge_answer,
    judge_request,
    raffles,
)
from faultattr_local.methods.safari import SafariConfig, safari
from faultattr_local.trajectory import Trajectory

SURELY_TOO_LONG = 20
"""Characters a token, above which a log is not counted: no text is that compressible."""


def auto(
    trajectory: Trajectory, raffles_config: RafflesConfig, safari_config: SafariConfig, setup: Setup
) -> Flow:
    """Attribute by the method that suits the length of the log, and say why."""
    too_long = why_too_long(trajectory, raffles_config, setup)
    if too_long:
        verdict = yield from safari(trajectory, safari_config, setup)
        why = f"SAFARI, since {too_long}"
    else:
        verdict = yield from raffles(trajectory, raffles_config, setup)
        why = "RAFFLES, since the log fits the context"
    return verdict.model_copy(update={"reason": f"{why}; {verdict.reason}"})


def why_too_long(trajectory: Trajectory, config: RafflesConfig, setup: Setup) -> str:
    """Why RAFFLES cannot hold this log; empty when it can."""
    characters = sum(len(step.text) for step in trajectory.steps)
    if characters > SURELY_TOO_LONG * setup.context_tokens:
        return f"the log has {characters} characters for {setup.context_tokens} tokens of context"
    whole_log = WholeLog(trajectory, setup, "system", first_error=config.first_error)
    answer = judge_answer(trajectory, config, setup.limits)
    request = judge_request(whole_log, answer, [], config, setup)
    if whole_log.fits(request):
        return ""
    needed = whole_log.tokens_needed(request)
    return f"the log needs {needed} tokens of {setup.context_tokens}"
