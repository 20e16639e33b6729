from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, create_model

from faultattr_local.engine.base import Answer, Message, Request, Sampling, parse_answer
from faultattr_local.engine.bounds import token_bound
from faultattr_local.errors import InvalidReply

Short = Annotated[str, Field(min_length=1, max_length=30)]


Agent = Literal["Clerk", 'the "Ü"']


class Place(Answer):
    agent: Agent
    step: Literal[3, 1700]


class Verdict(Answer):
    """Every shape whose bound is derived."""

    why: Short
    notes: Annotated[list[Short], Field(max_length=2)]
    sure: Annotated[int, Field(ge=0, le=100)]
    late: bool
    place: Place | None


SYSTEM = Message("system", "Judge.")
LOG = Message("user", "The log.")
REQUEST = Request("shop/1", "judge", (SYSTEM, LOG), "Which step?", Verdict)
GOOD = {"why": "It is.", "notes": [], "sure": 7, "late": True, "place": None}


def test_the_ask_is_joined_to_a_message_of_the_user() -> None:
    assert REQUEST.messages == (SYSTEM, Message("user", "The log.\n\nWhich step?"))


@pytest.mark.parametrize("shared", [(), (SYSTEM,), (SYSTEM, LOG, Message("assistant", "Yes."))])
def test_the_ask_is_a_message_of_its_own_after_any_other(shared: tuple[Message, ...]) -> None:
    request = replace(REQUEST, shared=shared)
    assert request.messages == (*shared, Message("user", "Which step?"))


def test_the_digest_covers_all_that_decides_a_reply() -> None:
    changed = [
        REQUEST,
        replace(REQUEST, ask="Which agent?"),
        replace(REQUEST, shared=(SYSTEM, Message("user", "Another log."))),
        replace(REQUEST, shared=(Message("user", "Judge."), LOG)),
        replace(REQUEST, answer=Place),
        replace(REQUEST, sampling=Sampling(temperature=0.5)),
        replace(REQUEST, sampling=Sampling(seed=1)),
        replace(REQUEST, attempt=1),
    ]
    assert len({request.digest for request in changed}) == len(changed)


def test_the_digest_leaves_out_what_does_not_reach_the_model() -> None:
    moved = replace(REQUEST, trajectory="shop/2", role="evaluator:primacy")
    assert moved.digest == REQUEST.digest


def test_a_retry_is_warmer_and_another_request() -> None:
    again = REQUEST.again(0.7)
    assert (again.attempt, again.sampling.temperature) == (1, 0.7)
    assert again.digest != REQUEST.digest
    hot = replace(REQUEST, sampling=Sampling(1.0, seed=3)).again(0.7)
    assert hot.sampling == Sampling(1.0, seed=4)
    assert hot.again(0.7).attempt == 2


@given(
    st.text(st.characters(codec="ascii", exclude_characters='"\\', min_codepoint=32), min_size=30),
    st.sampled_from(get_args(Agent)),
)
def test_the_longest_legal_answer_is_within_the_bound(text: str, agent: Agent) -> None:
    full = text[:30]
    longest = Verdict(
        why=full,
        notes=[full, full],
        sure=100,
        late=False,
        place=Place(agent=agent, step=1700),
    )
    # No tokenizer spends more than a token on an ASCII character.
    assert len(json.dumps(longest.model_dump(), separators=(",", ":"))) <= token_bound(Verdict)


@pytest.mark.parametrize("of", [str, list[Short], int, float, dict[str, int]])
def test_an_unbounded_answer_is_a_mistake_of_the_program(of: Any) -> None:
    model = create_model("Unbounded", __base__=Answer, field=(of, ...))
    with pytest.raises(ValueError, match="not bounded"):
        token_bound(model)


def test_a_good_answer_is_parsed() -> None:
    assert parse_answer(REQUEST, json.dumps(GOOD), "stop") == Verdict.model_validate(GOOD)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"sure": 101}, "sure"),
        ({"sure": "7"}, "sure"),
        ({"sure": 7.5}, "sure"),
        ({"late": 1}, "late"),
        ({"why": ""}, "why"),
        ({"why": "x" * 31}, "why"),
        ({"notes": ["a", "b", "c"]}, "notes"),
        ({"place": {"agent": "Clerk", "step": 4}}, r"place\.step"),
        ({"more": 1}, "more"),
    ],
)
def test_what_breaks_the_schema_is_no_answer(change: dict[str, Any], place: str) -> None:
    text = json.dumps(GOOD | change)
    with pytest.raises(InvalidReply, match=f"breaks its schema at {place}") as error:
        parse_answer(REQUEST, text, "stop")
    assert error.value.text == text
    assert str(error.value).startswith("shop/1, judge: ")


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("length", "cut at 41 tokens"),
        ("abort", "'abort'"),
        ("error", "'error'"),
        ("None", "'None'"),
    ],
)
def test_only_an_answer_that_stopped_by_itself_counts(reason: str, said: str) -> None:
    # Even when what is there happens to be whole.
    with pytest.raises(InvalidReply, match=said) as error:
        parse_answer(REQUEST, json.dumps(GOOD), reason, 41)
    assert error.value.finish_reason == reason


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_answer_is_told(text: str) -> None:
    with pytest.raises(InvalidReply, match="is empty"):
        parse_answer(REQUEST, text, "stop")


@pytest.mark.parametrize("text", ["It is step 3.", '{"why": "It', f"{json.dumps(GOOD)} so"])
def test_what_is_no_json_is_told(text: str) -> None:
    with pytest.raises(InvalidReply, match="Invalid JSON"):
        parse_answer(REQUEST, text, "stop")
