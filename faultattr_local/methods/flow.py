"""A method is a generator that does no I/O: it yields requests and returns a verdict."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

from faultattr_local import log
from faultattr_local.engine.base import Answer, Message, Reply, Request, Sampling
from faultattr_local.errors import LogTooLong
from faultattr_local.methods.answers import AnswerLimits
from faultattr_local.prompts import Prompts
from faultattr_local.trajectory import Trajectory
from faultattr_local.verdict import Verdict

Flow = Generator[list[Request], list[Reply], Verdict]
"""Yields the requests it needs next, is sent their replies in order, returns its verdict."""

TEMPLATE_TOKENS = 16
"""Most tokens that a chat template puts around one message."""


@dataclass(frozen=True)
class Setup:
    """What every flow of a run works with.

    Attributes:
        prompts: The templates.
        limits: Bounds of the answers.
        count_tokens: Tokens of a text under the served model's tokenizer.
        context_tokens: Most tokens of prompt and answer together.
        sampling: How to decode.
    """

    prompts: Prompts
    limits: AnswerLimits
    count_tokens: Callable[[str], int]
    context_tokens: int
    sampling: Sampling = Sampling()

    def request(
        self,
        trajectory: Trajectory,
        role: str,
        shared: tuple[Message, ...],
        ask: str,
        answer: type[Answer],
    ) -> Request:
        """A request of this run on one trajectory."""
        return Request(trajectory.id, role, shared, ask, answer, self.sampling)


class WholeLog:
    """The messages that every call of a whole-log method begins with: system, then the log.

    They are the same, byte for byte, for every role, so their prefix is computed once.

    Args:
        trajectory: The run.
        setup: Its prompts and tokenizer.
        system: Name of the method's system template.
        values: What that template needs besides.
    """

    def __init__(self, trajectory: Trajectory, setup: Setup, system: str, **values: Any) -> None:
        self._trajectory = trajectory
        self._setup = setup
        self.messages = (
            Message("system", setup.prompts.render(system, **values)),
            Message("user", log_text(trajectory, setup.prompts, log.render(trajectory))),
        )
        self.tokens = message_tokens(self.messages, setup.count_tokens)

    def request(self, role: str, ask: str, answer: type[Answer]) -> Request:
        """A call on this log."""
        return self._setup.request(self._trajectory, role, self.messages, ask, answer)

    def tokens_needed(self, request: Request) -> int:
        """Tokens of prompt and longest legal answer, template included."""
        asked = self._setup.count_tokens(request.ask) + TEMPLATE_TOKENS
        return self.tokens + asked + request.max_tokens

    def fits(self, request: Request) -> bool:
        """Whether the served context holds the prompt and the longest legal answer."""
        return self.tokens_needed(request) <= self._setup.context_tokens

    def refuse_if_too_long(self, request: Request) -> None:
        """Check before anything is sent.

        Raises:
            LogTooLong: With the count and what to do.
        """
        if not self.fits(request):
            raise LogTooLong(
                f"the log needs {self.tokens_needed(request)} tokens with question and answer, "
                f"the model serves {self._setup.context_tokens}",
                where=self._trajectory.id,
                fix="Use --method safari or --method auto, or serve a longer context.",
            )


def log_text(trajectory: Trajectory, prompts: Prompts, rendered: str) -> str:
    """The user message that shows a rendered log under its task."""
    return prompts.render(
        "log",
        task=trajectory.task,
        reference_answer=trajectory.reference_answer,
        steps=len(trajectory.steps),
        first=trajectory.steps[0].index,
        last=trajectory.steps[-1].index,
        agents=trajectory.agents,
        mark=log.mark(trajectory),
        log=rendered,
    )


def message_tokens(messages: Iterable[Message], count_tokens: Callable[[str], int]) -> int:
    """Most tokens that these messages take, template included."""
    return sum(count_tokens(message.content) + TEMPLATE_TOKENS for message in messages)


def ask(request: Request) -> Generator[list[Request], list[Reply], Reply]:
    """One call."""
    return (yield [request])[0]


def ask_all(requests: Iterable[Request]) -> Generator[list[Request], list[Reply], list[Reply]]:
    """Several calls side by side."""
    return (yield list(requests))
