"""SAFARI: an Investigator reads and searches a log too long to be read whole.

arXiv 2606.24626. Each turn it is shown the conversation so far and, last, its short-term
memory, and reads some lines, searches for a pattern, or concludes. A conclusion rests on a
few atomic claims; a Reasoning Evaluator for each, side by side and without sight of the
log, says how sound it is. Weak claims go back to the Investigator until their mean is
enough or the turns are used up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from faultattr_local.engine.base import Message, Reply, Request
from faultattr_local.methods.answers import acts_at, evaluator_answer, fault_of
from faultattr_local.methods.flow import Flow, Setup, ask, ask_all
from faultattr_local.methods.safari_config import SafariConfig
from faultattr_local.methods.safari_investigation import Investigation
from faultattr_local.trajectory import Trajectory
from faultattr_local.verdict import Claim, Fault, Rationale, Turn, Verdict

__all__ = ["SafariConfig", "safari"]

RECORDED = 600
"""Characters of an observation that the verdict keeps."""


def safari(trajectory: Trajectory, config: SafariConfig, setup: Setup) -> Flow:
    """Attribute one trajectory by the SAFARI loop.

    Raises:
        ConfigError: The budget is larger than the served context.
        LogTooLong: The task and the instructions alone do not fit the budget.
    """
    investigation = Investigation(trajectory, config, setup)
    turns: list[Turn] = []
    while len(turns) < config.max_turns and not (turns and accepts(turns[-1], trajectory, config)):
        request, evicted = investigation.request(turns)
        answer: Any = (yield from ask(request)).answer
        turn = begun(len(turns) + 1, answer, evicted)
        if turn.action == "conclude":
            fault = concluded(trajectory, answer.action)
            replies = yield from ask_all(claim_requests(trajectory, fault, answer.action, setup))
            turn = weighed(turn, fault, answer.action, replies)
            accepted = accepts(turn, trajectory, config)
            observation = "" if accepted else investigation.objections(turn)
        else:
            observation = investigation.look(answer.action)
        investigation.remember(answer, observation)
        turns.append(turn.model_copy(update={"observation": shortened(observation)}))
    return verdict(trajectory, turns, config)


def accepts(turn: Turn, trajectory: Trajectory, config: SafariConfig) -> bool:
    """The stop rule: the claims' mean confidence reaches the threshold.

    A hypothesis whose agent does not act at its step is sent back however well its claims
    are founded; the paper leaves that case open.
    """
    if turn.confidence is None or turn.confidence < config.accept_above:
        return False
    return turn.fault is None or acts_at(trajectory, turn.fault)


def begun(number: int, answer: Any, evicted: int) -> Turn:
    """A turn as the Investigator's answer leaves it."""
    action = answer.action
    return Turn(
        number=number,
        action="conclude" if action.action == "conclude_no_fault" else action.action,
        arguments=action.model_dump(exclude={"action", "claims"}),
        memory=answer.memory.model_dump() if hasattr(answer, "memory") else None,
        evicted=evicted,
    )


def concluded(trajectory: Trajectory, action: Any) -> Fault | None:
    """The hypothesis; None when it is that there is no fault."""
    if action.action == "conclude_no_fault":
        return None
    argued = " ".join(f"{claim.claim} ({claim.evidence})" for claim in action.claims)
    rationales = {"rationale": Rationale(text=argued)}
    return fault_of(trajectory, action.agent, action.step, rationales)


def claim_requests(
    trajectory: Trajectory, fault: Fault | None, action: Any, setup: Setup
) -> Iterable[Request]:
    """One Reasoning Evaluator for each claim; none of them is shown the log."""
    system = setup.prompts.render("safari/reasoning_evaluator_system", first_error=False)
    answer = evaluator_answer(setup.limits)
    for claim in action.claims:
        question = setup.prompts.render(
            "safari/reasoning_evaluator",
            task=trajectory.task,
            fault=fault,
            claim=claim.claim,
            evidence=claim.evidence,
        )
        yield setup.request(
            trajectory,
            "reasoning_evaluator",
            (Message("system", system),),
            question,
            answer,
        )


def weighed(turn: Turn, fault: Fault | None, action: Any, replies: Sequence[Reply]) -> Turn:
    """The turn with its hypothesis, the claims as evaluated, and their mean."""
    answers: list[Any] = [reply.answer for reply in replies]
    claims = tuple(
        Claim(
            claim=made.claim,
            evidence=made.evidence,
            confidence=answer.confidence,
            rationale=answer.rationale,
        )
        for made, answer in zip(action.claims, answers, strict=True)
    )
    mean = sum(claim.confidence for claim in claims) / len(claims)
    return turn.model_copy(update={"fault": fault, "claims": claims, "confidence": mean})


def shortened(observation: str) -> str:
    """An observation as the verdict keeps it."""
    cut = len(observation) - RECORDED
    return f"{observation[:RECORDED]}... ({cut} more characters)" if cut > 0 else observation


def verdict(trajectory: Trajectory, turns: Sequence[Turn], config: SafariConfig) -> Verdict:
    """The accepted hypothesis, or the best of those that were not; the latest of equals."""
    conclusions = [turn for turn in turns if turn.confidence is not None]
    chosen = max(
        conclusions,
        key=lambda turn: (accepts(turn, trajectory, config), turn.confidence, turn.number),
    )
    assert chosen.confidence is not None
    accepted = accepts(chosen, trajectory, config)
    return Verdict(
        trajectory=trajectory.id,
        digest=trajectory.digest,
        status="attributed" if chosen.fault else "no_fault",
        method="safari",
        fault=chosen.fault,
        confidence=chosen.confidence / 100,
        accepted=accepted,
        reason=(
            f"accepted in turn {chosen.number}"
            if accepted
            else f"none of {len(conclusions)} hypotheses was accepted in {len(turns)} turns; "
            f"the best of them, from turn {chosen.number}"
        ),
        turns=tuple(turns),
    )
