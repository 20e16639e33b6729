from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from faultattr_local.engine.base import Request
from faultattr_local.engine.canary import Marks, Score, prove_constraint
from faultattr_local.engine.scripted import ScriptedEngine
from faultattr_local.errors import ConstraintError, EngineDied

MARK = {"step": 17, "quote": "a b"}
GOOD: Mapping[type, dict[str, Any]] = {
    Marks: {"code": 'x"ü\\9', "number": 872, "marks": [MARK, MARK], "other": None},
    Score: {"rationale": "said so", "confidence": 95, "decisive": True},
}


def compact(answer: Any) -> str:
    return json.dumps(answer, separators=(",", ":"))


def engine_of(answer: Callable[[Request], Any]) -> ScriptedEngine:
    return ScriptedEngine(answer)


async def prove(engine: ScriptedEngine) -> int:
    replies = await prove_constraint(engine.generate, where="here", fix="Mend it.", compact="Pack.")
    return len(replies)


def test_an_engine_that_holds_its_schemas_passes(run: Any) -> None:
    assert run(prove(engine_of(lambda request: compact(GOOD[request.answer])))) == 2


def test_spaces_inside_strings_are_no_free_whitespace(run: Any) -> None:
    spaced = GOOD[Score] | {"rationale": 'he said "a  b"\n'}
    answers = {Marks: GOOD[Marks], Score: spaced}
    assert run(prove(engine_of(lambda request: compact(answers[request.answer])))) == 2


@pytest.mark.parametrize("indent", [None, 2])
def test_free_whitespace_is_refused(run: Any, indent: int | None) -> None:
    engine = engine_of(lambda request: json.dumps(GOOD[request.answer], indent=indent))
    with pytest.raises(ConstraintError, match=r"^here: .*free whitespace.* Pack\.$"):
        run(prove(engine))


@pytest.mark.parametrize(
    "wrong",
    [
        {"number": 42},
        {"code": "hello"},
        {"marks": [MARK]},
        {"marks": [MARK, {"step": 4, "quote": "a"}]},
        {"marks": [MARK, {"step": 3, "quote": "more than six"}]},
        {"other": {"step": 3}},
        {"extra": 1},
    ],
)
def test_each_broken_bound_is_found(run: Any, wrong: dict[str, Any]) -> None:
    answers = {Marks: GOOD[Marks] | wrong, Score: GOOD[Score]}
    with pytest.raises(ConstraintError, match=r"^here: .*not held to its schema.* Mend it\.$"):
        run(prove(engine_of(lambda request: compact(answers[request.answer]))))


def test_prose_is_shown_in_the_error(run: Any) -> None:
    with pytest.raises(ConstraintError, match="which began 'Hello, dear family'"):
        run(prove(engine_of(lambda request: "Hello, dear family")))


def test_a_dead_engine_is_no_broken_constraint(run: Any) -> None:
    with pytest.raises(EngineDied):
        run(prove(engine_of(lambda request: EngineDied("gone"))))
