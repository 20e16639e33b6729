from __future__ import annotations

import pytest

from faultattr_local.engine.base import Message
from faultattr_local.errors import LogTooLong
from faultattr_local.methods.flow import TEMPLATE_TOKENS
from faultattr_local.methods.safari_conversation import Conversation


def start(dropped: int) -> tuple[Message, ...]:
    """100 tokens at one a character, template included."""
    note = f"{dropped:03d}"
    return (Message("user", note.ljust(100 - TEMPLATE_TOKENS, ".")),)


def conversation(budget: int) -> Conversation:
    return Conversation(start, budget, len, where="long")


def add(to: Conversation, name: str) -> None:
    """A turn of 100 tokens."""
    to.add(name, "." * (100 - 2 * TEMPLATE_TOKENS - len(name)))


def names(of: Conversation) -> list[str]:
    return [message.content for message in of.messages if message.role == "assistant"]


def test_nothing_goes_while_it_fits() -> None:
    told = conversation(1000)
    for name in "abcd":
        add(told, name)
    assert told.tokens == 500
    assert told.make_room(500) == 0
    assert names(told) == list("abcd")
    assert told.messages[0].content.startswith("000")


def test_the_oldest_go_until_half_the_room_is_free() -> None:
    told = conversation(1000)
    for name in "abcdefg":
        add(told, name)
    assert told.make_room(201) == 10
    assert names(told) == ["f", "g"]
    assert (told.tokens, told.dropped) == (300, 5)
    assert told.messages[0].content.startswith("005")
    add(told, "h")
    assert told.make_room(201) == 0


def test_the_latest_turn_stays_while_there_is_room_for_it() -> None:
    told = conversation(500)
    for name in "abc":
        add(told, name)
    assert told.make_room(290) == 4
    assert names(told) == ["c"]
    assert told.make_room(301) == 2
    assert names(told) == []


def test_a_start_without_room_is_refused() -> None:
    told = conversation(500)
    add(told, "a")
    with pytest.raises(LogTooLong, match=r"^long: .* 501 tokens .* 500\. Raise safari\."):
        told.make_room(401)
