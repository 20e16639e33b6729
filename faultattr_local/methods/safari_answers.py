"""What SAFARI's Investigator must write: a thought, its memory, and one action."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from faultattr_local.engine.base import Answer
from faultattr_local.methods.answers import AnswerLimits, step_type, text_type
from faultattr_local.methods.safari_config import SafariConfig
from faultattr_local.trajectory import Trajectory

MEMORY_FIELDS = ("task_goal", "hypothesis", "evidence", "gaps", "plan")
"""What the short-term memory holds; the list of past calls is the program's own."""


def investigator_answer(
    trajectory: Trajectory,
    config: SafariConfig,
    limits: AnswerLimits,
    lines: int,
    *,
    must_conclude: bool,
) -> type[Answer]:
    """`{thought, memory, action}`; without memory in the ablation.

    Args:
        trajectory: Whose steps and agents may be named.
        config: The lines of a read, the number of claims, what may be concluded.
        limits: Bounds of the texts.
        lines: Lines of the log.
        must_conclude: Admit no action but to conclude.
    """
    actions: list[Any] = [] if must_conclude else [_read(config, lines), _search(limits)]
    actions.append(_conclude(trajectory, config, limits))
    if config.allow_no_fault:
        actions.append(_conclude_no_fault(config, limits))
    action = actions[0]
    for other in actions[1:]:
        action = action | other
    fields: dict[str, Any] = {"thought": (text_type(limits.claim), ...)}
    if config.memory:
        fields["memory"] = (_memory(limits), ...)
    return create_model("InvestigatorAnswer", __base__=Answer, **fields, action=(action, ...))


def _memory(limits: AnswerLimits) -> type[Answer]:
    fields: dict[str, Any] = dict.fromkeys(MEMORY_FIELDS, (text_type(limits.memory), ...))
    return create_model("MemoryAnswer", __base__=Answer, **fields)


def _read(config: SafariConfig, lines: int) -> type[Answer]:
    return create_model(
        "ReadAnswer",
        __base__=Answer,
        action=_tag("read"),
        offset=(Annotated[int, Field(ge=1, le=lines)], ...),
        limit=(Annotated[int, Field(ge=1, le=config.read_lines)], ...),
    )


def _search(limits: AnswerLimits) -> type[Answer]:
    return create_model(
        "SearchAnswer",
        __base__=Answer,
        action=_tag("search"),
        pattern=(text_type(limits.pattern), ...),
    )


def _conclude(trajectory: Trajectory, config: SafariConfig, limits: AnswerLimits) -> type[Answer]:
    agent: Any = Literal[trajectory.agents]
    return create_model(
        "ConcludeAnswer",
        __base__=Answer,
        action=_tag("conclude"),
        claims=(_claims(config, limits), ...),
        agent=(agent, ...),
        step=(step_type(trajectory.indices), ...),
    )


def _conclude_no_fault(config: SafariConfig, limits: AnswerLimits) -> type[Answer]:
    return create_model(
        "ConcludeNoFaultAnswer",
        __base__=Answer,
        action=_tag("conclude_no_fault"),
        claims=(_claims(config, limits), ...),
    )


def _tag(name: str) -> Any:
    return (Literal[name], ...)


def _claims(config: SafariConfig, limits: AnswerLimits) -> Any:
    claim = create_model(
        "ClaimAnswer",
        __base__=Answer,
        claim=(text_type(limits.claim), ...),
        evidence=(text_type(limits.claim), ...),
    )
    return Annotated[list[claim], Field(min_length=1, max_length=config.max_claims)]  # type: ignore[valid-type]
