"""Chooses RAFFLES where the log fits the served context, SAFARI where it does not.

arXiv 2606.24626: SAFARI is slightly below RAFFLES where everything fits, and far above it
where not.
"""

from __future__ import annotations

from faultattr_local.methods.flow import Flow, Setup
from faultattr_local.methods.raffles import (
    RafflesConfig,
    judge_answer,
    judge_request,
    log_of,
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
    characters = sum(len(step.text) for step in trajectory.steps)
    if characters > SURELY_TOO_LONG * setup.context_tokens:
        why = f"the log has {characters} characters for {setup.context_tokens} tokens of context"
        return (yield from _by_safari(why, trajectory, safari_config, setup))
    whole_log = log_of(trajectory, raffles_config, setup)
    answer = judge_answer(trajectory, raffles_config, setup.limits)
    request = judge_request(whole_log, answer, [], raffles_config, setup)
    if not whole_log.fits(request):
        needed = whole_log.tokens_needed(request)
        why = f"the log needs {needed} tokens of {setup.context_tokens}"
        return (yield from _by_safari(why, trajectory, safari_config, setup))
    verdict = yield from raffles(trajectory, raffles_config, setup, whole_log)
    reason = f"RAFFLES, since the log fits the context; {verdict.reason}"
    return verdict.model_copy(update={"reason": reason})


def _by_safari(why: str, trajectory: Trajectory, config: SafariConfig, setup: Setup) -> Flow:
    verdict = yield from safari(trajectory, config, setup)
    return verdict.model_copy(update={"reason": f"SAFARI, since {why}; {verdict.reason}"})
