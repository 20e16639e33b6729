"""What comes out: which step, who, why, how sure, and what it cost."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from faultattr_local.trajectory import Frozen

Status = Literal["attributed", "no_fault", "unscored"]


class Citation(Frozen):
    """A passage that a rationale leans on; `found`: it does stand in that step."""

    step: int
    quote: str
    found: bool


class Rationale(Frozen):
    """Why one criterion holds, with the passages it cites."""

    text: str
    citations: tuple[Citation, ...] = ()


class Fault(Frozen):
    """A candidate or accepted decisive fault.

    Attributes:
        agent: Who acted at the step, as the model named it.
        step: In the trajectory's own numbering.
        source_ref: Where that step stands in the trace file.
        rationales: One for each criterion ("fault_condition", "primacy", "decisiveness"),
            or a single one under "rationale" for methods that give only that.
    """

    agent: str
    step: int
    source_ref: str | None = None
    rationales: dict[str, Rationale] = Field(default_factory=dict)


class Assessment(Frozen):
    """One Evaluator's confidence, 0 to 100, in the soundness of one argument.

    Attributes:
        criterion: The criterion argued, or "log" for the log Evaluator.
        by: "rule" for the log Evaluator, which asks no model.
        unfounded: The confidence was set to 0, since no quote of the argument stands.
    """

    criterion: str
    rationale: str
    confidence: int = Field(ge=0, le=100)
    by: Literal["model", "rule"] = "model"
    unfounded: bool = False


class Iteration(Frozen):
    """One round of RAFFLES: the Judge's candidate and what the Evaluators made of it.

    Attributes:
        fault: The candidate; None when the Judge says that there is no fault.
        rationales: The Judge's rationales when there is no fault to carry them.
        assessments: One for each Evaluator, the log Evaluator last.
        confidence: The sum over the assessments.
        greatest: The greatest sum possible, 100 for each Evaluator.
        cited: Share of citations whose quote stands in the step; None without citations.
    """

    number: int
    fault: Fault | None
    rationales: dict[str, Rationale] = Field(default_factory=dict)
    assessments: tuple[Assessment, ...] = ()
    confidence: int = 0
    greatest: int = 0
    cited: float | None = None


class Claim(Frozen):
    """An atomic claim of a SAFARI hypothesis, and the Reasoning Evaluator's view of it."""

    claim: str
    evidence: str
    confidence: int = Field(ge=0, le=100)
    rationale: str = ""


class Turn(Frozen):
    """One turn of a SAFARI investigation.

    Attributes:
        action: "read", "search" or "conclude".
        arguments: The action's own, e.g. {"offset": 200, "limit": 50}.
        observation: What the Investigator was shown next, shortened for the record.
        memory: The short-term memory as it stood after this turn; None under --no-memory.
        fault: The hypothesis, when the turn concluded.
        claims: The claims of that hypothesis with their confidences.
        confidence: Their mean, 0 to 100; None when the turn did not conclude.
        evicted: Conversation messages dropped before this turn to stay in the budget.
    """

    number: int
    action: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    observation: str = ""
    memory: dict[str, Any] | None = None
    fault: Fault | None = None
    claims: tuple[Claim, ...] = ()
    confidence: float | None = None
    evicted: int = 0


class Usage(Frozen):
    """What a verdict cost. Replayed calls count as they were when first made."""

    requests: int = 0
    invalid_replies: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0


class Failure(Frozen):
    """Why a trajectory is unscored: the error's class and its one line."""

    error: str
    message: str


class Verdict(Frozen):
    """The outcome for one trajectory.

    Attributes:
        trajectory: Its id.
        digest: Its digest; with the id the key of resume.
        status: "attributed", "no_fault", or "unscored" (nothing was decided; see `failure`).
        method: The method that decided, e.g. "raffles" (also under `auto`).
        fault: The decisive fault; None unless attributed.
        confidence: 0 to 1 of the greatest possible; None for methods that give none.
        accepted: Whether the stop rule accepted it; False for the best of what was left.
        reason: Why the loop ended, and why `auto` chose this method.
        iterations: RAFFLES rounds (and the single round of simpler methods).
        turns: SAFARI turns.
        path: The way of simpler methods, a line for each decision.
    """

    trajectory: str
    digest: str
    status: Status
    method: str
    fault: Fault | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    accepted: bool = False
    reason: str = ""
    iterations: tuple[Iteration, ...] = ()
    turns: tuple[Turn, ...] = ()
    path: tuple[str, ...] = ()
    usage: Usage = Usage()
    failure: Failure | None = None
