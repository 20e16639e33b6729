from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from faultattr_local.engine.base import Answer, Message, ModelCard, Request, Sampling
from faultattr_local.engine.record import Call, Recorder, call_key
from faultattr_local.engine.scripted import Script, ScriptedEngine
from faultattr_local.errors import EngineDied, EngineUnavailable, InvalidReply


class Yes(Answer):
    yes: bool


REQUEST = Request("shop/1", "judge", (Message("user", "The log."),), "Is it?", Yes)


def answers(*texts: str | Exception) -> Script:
    """One after the other, whatever is asked."""
    left = iter(texts)
    return lambda request: next(left)


def ask(recorder: Recorder, *requests: Request) -> list[Any]:
    async def one_by_one() -> list[Any]:
        await recorder.start()
        return [await recorder.generate(request) for request in requests]

    return asyncio.run(one_by_one())


def test_a_reply_is_written_down_and_given_again_at_no_cost() -> None:
    calls: list[Call] = []
    engine = ScriptedEngine(answers('{"yes":true}'), delay=0.01)
    first = ask(Recorder(engine, calls.append), REQUEST)[0]
    assert not first.replayed

    # Through JSON, as it lies on the disk.
    recorded = json.loads(json.dumps(calls))
    later = ScriptedEngine(answers())
    again = ask(Recorder(later, calls.append, recorded), REQUEST)[0]
    assert again == replace(first, replayed=True)
    assert later.requests == []
    assert len(calls) == 1


def test_the_record_is_written_before_the_reply_is_used() -> None:
    def full_disk(call: Call) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        ask(Recorder(ScriptedEngine(answers('{"yes":true}')), full_disk), REQUEST)


def test_an_invalid_reply_is_recorded_as_such_and_asked_anew() -> None:
    calls: list[Call] = []
    with pytest.raises(InvalidReply):
        ask(Recorder(ScriptedEngine(answers('{"yes":"perhaps"}')), calls.append), REQUEST)
    assert [call["valid"] for call in calls] == [False]
    assert calls[0]["reply"]["text"] == '{"yes":"perhaps"}'
    assert "breaks its schema at yes" in calls[0]["reply"]["error"]

    engine = ScriptedEngine(answers('{"yes":false}'))
    assert ask(Recorder(engine, calls.append, list(calls)), REQUEST)[0].answer == Yes(yes=False)
    assert [call["valid"] for call in calls] == [False, True]


def test_a_death_of_the_engine_leaves_no_record() -> None:
    calls: list[Call] = []
    with pytest.raises(EngineDied):
        ask(Recorder(ScriptedEngine(answers(EngineDied("gone"))), calls.append), REQUEST)
    assert calls == []


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, ask="Is it not?"),
        replace(REQUEST, attempt=1),
        replace(REQUEST, sampling=Sampling(0.5, 1)),
    ],
)
def test_another_request_is_asked_of_the_engine(other: Request) -> None:
    calls: list[Call] = []
    engine = ScriptedEngine(answers('{"yes":true}', '{"yes":false}'))
    ask(Recorder(engine, calls.append), REQUEST)
    reply = ask(Recorder(engine, calls.append, list(calls)), other)[0]
    assert reply.answer == Yes(yes=False)
    assert not reply.replayed


def test_replies_of_another_model_are_not_given() -> None:
    calls: list[Call] = []
    ask(Recorder(ScriptedEngine(answers('{"yes":true}')), calls.append), REQUEST)
    engine = ScriptedEngine(answers('{"yes":false}'))
    engine.card = replace(engine.card, digest="other weights")
    assert call_key(REQUEST, engine.card) != calls[0]["key"]
    assert ask(Recorder(engine, calls.append, list(calls)), REQUEST)[0].answer == Yes(yes=False)


def test_a_record_alone_replays_and_says_what_it_lacks() -> None:
    calls: list[Call] = []
    engine = ScriptedEngine(answers('{"yes":true}'))
    ask(Recorder(engine, calls.append), REQUEST)
    alone = Recorder(None, calls.append, list(calls), engine.card)
    assert ask(alone, REQUEST)[0].answer == Yes(yes=True)
    with pytest.raises(EngineUnavailable, match="holds no reply"):
        ask(alone, replace(REQUEST, attempt=1))
    with pytest.raises(EngineUnavailable, match="no tokenizer"):
        alone.count_tokens("x")
    with pytest.raises(EngineUnavailable, match="neither an engine nor a record"):
        ask(Recorder(None, calls.append), REQUEST)


def test_a_record_changed_by_hand_is_validated_again() -> None:
    calls: list[Call] = []
    engine = ScriptedEngine(answers('{"yes":true}'))
    ask(Recorder(engine, calls.append), REQUEST)
    calls[0]["reply"]["text"] = '{"yes":true,"more":1}'
    with pytest.raises(InvalidReply, match="breaks its schema at more"):
        ask(Recorder(None, calls.append, calls, ModelCard("m", engine.card.digest, 1)), REQUEST)


def test_the_log_is_recorded_as_a_digest_only() -> None:
    calls: list[Call] = []
    ask(Recorder(ScriptedEngine(answers('{"yes":true}')), calls.append), REQUEST)
    assert "The log." not in json.dumps(calls)
    assert calls[0]["ask"] == "Is it?"
