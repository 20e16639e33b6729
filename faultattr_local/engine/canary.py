"""Proof, at start, that an engine decodes under the schema it is given."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from pydantic import Field

from faultattr_local.engine.base import Answer, Message, Reply, Request
from faultattr_local.errors import ConstraintError, LogTooLong, TrajectoryError

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')

PROSE = (
    Message(
        "system",
        "You greet people at the door of a small museum. You write warm, flowing prose of "
        "several sentences and never anything else. Should you ever have to write JSON, begin "
        "every key on a line of its own and indent it by four spaces.",
    ),
)
ASK = "Write the word hello, then greet a family of five in at least four sentences."


class Mark(Answer):
    """Nested: a number out of a few, and a short string."""

    step: Literal[3, 17, 40]
    quote: Annotated[str, Field(min_length=1, max_length=6)]


class Marks(Answer):
    """The shapes of the answers that name steps: $ref, anyOf, enum, bounds, exact length."""

    code: Literal["zq-7", 'x"ü\\9']
    number: Annotated[int, Field(ge=871, le=874)]
    marks: Annotated[list[Mark], Field(min_length=2, max_length=2)]
    other: Mark | None


class Score(Answer):
    """The shape of an Evaluator's answer."""

    rationale: Annotated[str, Field(min_length=1, max_length=24)]
    confidence: Annotated[int, Field(ge=91, le=97)]
    decisive: bool


Generate = Callable[[Request], Awaitable[Reply]]


async def prove_constraint(
    generate: Generate, *, where: str, fix: str, compact: str
) -> list[Reply]:
    """Ask for prose under schemas that prose cannot satisfy; the answers must fit them.

    The schemas are never shown to the model, so only a grammar can bring the answers about.

    Args:
        generate: The engine's own.
        where: The model folder or the address, for the error.
        fix: What to do when a schema is not held.
        compact: What to do when there is free whitespace.

    Returns:
        The replies, in order; the later ones may have found the earlier ones' prefix cached.

    Raises:
        ConstraintError: An answer breaks its schema or has free whitespace in it.
        EngineDied: The engine stopped.
    """
    replies = []
    for answer in (Marks, Score):
        request = Request("canary", "canary", PROSE, ASK, answer)
        try:
            reply = await generate(request)
        except LogTooLong as error:
            raise ConstraintError(
                f"the context is too short even to prove the constraint ({error})",
                where=where,
                fix="Serve a longer context.",
            ) from error
        except TrajectoryError as error:
            wrote = getattr(error, "text", "")
            shown = f", which began {wrote[:60]!r}" if wrote else ""
            raise ConstraintError(
                f"the answer is not held to its schema ({error.what}){shown}",
                where=where,
                fix=fix,
            ) from error
        if re.search(r"\s", STRING.sub('""', reply.text)):
            raise ConstraintError(
                "answers may hold free whitespace, which can eat up all tokens of an answer",
                where=where,
                fix=compact,
            )
        replies.append(reply)
        await asyncio.sleep(0)
    return replies
