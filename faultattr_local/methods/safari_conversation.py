"""SAFARI's conversation: it only grows at its end, and gives way in large blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from faultattr_local.engine.base import Message
from faultattr_local.errors import LogTooLong
from faultattr_local.methods.flow import message_tokens

Start = Callable[[int], tuple[Message, ...]]
"""The messages a conversation begins with, given how many turns it no longer shows."""


class Conversation:
    """What the Investigator did and saw, within a budget of tokens.

    Each message is counted once. Between evictions the messages of one turn begin with
    those of the turn before, so that their prefix stays computed.

    Args:
        start: The messages that always stay.
        budget: Tokens of prompt and longest answer.
        count_tokens: Of the served model.
        where: The trajectory, for errors.
    """

    def __init__(
        self, start: Start, budget: int, count_tokens: Callable[[str], int], where: str
    ) -> None:
        self._where = where
        self.budget = budget
        self.dropped = 0
        self._make_start = start
        self._count_tokens = count_tokens
        self._turns: deque[tuple[tuple[Message, ...], int]] = deque()
        self._begin()

    @property
    def messages(self) -> tuple[Message, ...]:
        """As shared by the next request."""
        return (*self._start, *(message for turn, _ in self._turns for message in turn))

    def add(self, did: str, saw: str) -> None:
        """A turn: the assistant's action and the observation it brought."""
        turn = (Message("assistant", did), Message("user", saw))
        tokens = message_tokens(turn, self._count_tokens)
        self._turns.append((turn, tokens))
        self.tokens += tokens

    def make_room(self, needed: int) -> int:
        """Drop the oldest turns when `needed` more tokens would break the budget.

        They go in one block, until what is left takes half the room that there is, so that
        several turns pass before the next block; the latest turn goes only when there is
        no other way.

        Args:
            needed: Tokens of the question and its longest answer.

        Returns:
            How many messages went.

        Raises:
            LogTooLong: Not even the start leaves that room.
        """
        before = self.dropped
        while self._turns and self._is_too_much(needed, evicting=self.dropped > before):
            self.tokens -= self._turns.popleft()[1]
            self.dropped += 1
        if self.dropped > before:
            self._begin()
        if self.tokens + needed > self.budget:
            raise LogTooLong(
                f"the start of the investigation needs {self.tokens + needed} tokens with question "
                f"and answer, the budget is {self.budget}",
                where=self._where,
                fix="Raise safari.context_budget or the served context, or lower the limits "
                "under `answer`.",
            )
        return 2 * (self.dropped - before)

    def _is_too_much(self, needed: int, *, evicting: bool) -> bool:
        room = self.budget - needed
        if self.tokens > room:
            return True
        return evicting and len(self._turns) > 1 and self.tokens > room // 2

    def _begin(self) -> None:
        self._start = self._make_start(self.dropped)
        kept = sum(tokens for _, tokens in self._turns)
        self.tokens = message_tokens(self._start, self._count_tokens) + kept
