from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from faultattr_local.engine.base import Answer
from faultattr_local.engine.bounds import token_bound
from faultattr_local.methods.answers import AnswerLimits
from faultattr_local.methods.safari_answers import MEMORY_FIELDS, investigator_answer
from faultattr_local.methods.safari_config import SafariConfig
from faultattr_local.trajectory import Step, Trajectory

LINES = 120
CLAIMS = [{"claim": "c", "evidence": "e"}]
LOOKS: list[dict[str, Any]] = [
    {"action": "read", "offset": 1, "limit": 200},
    {"action": "read", "offset": LINES, "limit": 1},
    {"action": "search", "pattern": "x" * 120},
]
CONCLUSIONS: list[dict[str, Any]] = [
    {"action": "conclude", "claims": CLAIMS, "agent": "Clerk", "step": 20},
    {"action": "conclude", "claims": CLAIMS * 3, "agent": "Buyer", "step": 400},
]
NO_FAULT: list[dict[str, Any]] = [{"action": "conclude_no_fault", "claims": CLAIMS}]
NEVER: list[dict[str, Any]] = [
    {"action": "read", "offset": 0, "limit": 1},
    {"action": "read", "offset": LINES + 1, "limit": 1},
    {"action": "read", "offset": 1, "limit": 201},
    {"action": "read", "offset": 1, "limit": 0},
    {"action": "search", "pattern": ""},
    {"action": "search", "pattern": "x" * 121},
    {"action": "conclude", "claims": [], "agent": "Clerk", "step": 20},
    {"action": "conclude", "claims": CLAIMS * 4, "agent": "Clerk", "step": 20},
    {"action": "conclude", "claims": CLAIMS, "agent": "Planner", "step": 20},
    {"action": "conclude", "claims": CLAIMS, "agent": "Clerk", "step": 21},
    {"action": "wait"},
]


def model(config: SafariConfig, *, must_conclude: bool) -> type[Answer]:
    steps = tuple(
        Step(index=10 * at, agent=("Clerk", "Buyer")[at % 2], content="c") for at in range(1, 41)
    )
    trajectory = Trajectory(id="t", task="x", steps=steps)
    return investigator_answer(
        trajectory, config, AnswerLimits(), LINES, must_conclude=must_conclude
    )


def written(action: dict[str, Any]) -> str:
    memory = dict.fromkeys(MEMORY_FIELDS, "m")
    whole = {"thought": "t", "memory": memory, "action": action}
    return json.dumps(whole, separators=(",", ":"))


def is_valid(answer: type[Answer], text: str) -> bool:
    try:
        answer.model_validate_json(text)
    except ValidationError:
        return False
    return True


def is_decodable(answer: type[Answer], text: str) -> bool:
    """Whether the grammar library behind vLLM's guidance backend lets a model write it."""
    llguidance = pytest.importorskip("llguidance")
    grammar = llguidance.LLMatcher.grammar_from_json_schema(
        answer.model_json_schema(), defaults={"whitespace_flexible": False}
    )
    tokenizer = llguidance.LLTokenizer("byte")
    matcher = llguidance.LLMatcher(tokenizer, grammar)
    tokens = tokenizer.tokenize_str(text)
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())


@pytest.mark.parametrize("judge", [is_valid, is_decodable])
@pytest.mark.parametrize("must_conclude", [False, True])
@pytest.mark.parametrize("allow_no_fault", [False, True])
def test_grammar_and_validation_admit_the_same_actions(
    judge: Any, must_conclude: bool, allow_no_fault: bool
) -> None:
    answer = model(SafariConfig(allow_no_fault=allow_no_fault), must_conclude=must_conclude)
    for actions, expected in (
        (LOOKS, not must_conclude),
        (CONCLUSIONS, True),
        (NO_FAULT, allow_no_fault),
        (NEVER, False),
    ):
        assert [judge(answer, written(action)) for action in actions] == [expected] * len(actions)


def test_memory_is_written_with_it_and_not_without() -> None:
    without = model(SafariConfig(memory=False), must_conclude=False)
    bare = json.dumps({"thought": "t", "action": LOOKS[0]}, separators=(",", ":"))
    assert is_valid(without, bare)
    assert not is_valid(without, written(LOOKS[0]))
    assert not is_valid(model(SafariConfig(), must_conclude=False), bare)
    assert list(without.model_fields) == ["thought", "action"]
    assert token_bound(without) < token_bound(model(SafariConfig(), must_conclude=False))
