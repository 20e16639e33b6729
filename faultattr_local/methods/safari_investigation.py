"""SAFARI's Investigator: what it is asked in each turn, and what it has seen so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultattr_local import log
from faultattr_local.engine.base import Message, Request
from faultattr_local.errors import ConfigError
from faultattr_local.methods.flow import TEMPLATE_TOKENS, Setup
from faultattr_local.methods.line_log import LineLog
from faultattr_local.methods.safari_answers import investigator_answer
from faultattr_local.methods.safari_config import SafariConfig
from faultattr_local.methods.safari_conversation import Conversation
from faultattr_local.methods.safari_observations import Observer
from faultattr_local.trajectory import Trajectory
from faultattr_local.verdict import Turn

OBSERVATION_SHARE = 8
"""An observation takes at most one part in so many of the budget."""

CALLS_SHOWN = 40
"""Past calls that the short-term memory lists, the latest of them."""


class Investigation:
    """The state of one investigation, from which each turn's request is made.

    Args:
        trajectory: The run.
        config: The loop's settings.
        setup: The run's prompts, limits and tokenizer.

    Raises:
        ConfigError: The budget is larger than the served context.
        LogTooLong: The task and the instructions alone do not fit the budget.
    """

    def __init__(self, trajectory: Trajectory, config: SafariConfig, setup: Setup) -> None:
        self._trajectory = trajectory
        self._config = config
        self._setup = setup
        self._log = LineLog(trajectory, config.line_width)
        self._log_tokens = _estimated_tokens(self._log, setup)
        budget = _budget(config, setup)
        # One line of the log always fits an observation.
        observation_tokens = max(budget // OBSERVATION_SHARE, config.line_width + 200)
        self._observer = Observer(
            self._log, setup.prompts, setup.count_tokens, observation_tokens, config.search_hits
        )
        self._conversation = Conversation(
            self._start, budget, setup.count_tokens, where=trajectory.id
        )
        self._answers = {
            must_conclude: investigator_answer(
                trajectory, config, setup.limits, len(self._log), must_conclude=must_conclude
            )
            for must_conclude in (False, True)
        }
        self._refuse_if_too_long(observation_tokens)

    def request(self, turns: Sequence[Turn]) -> tuple[Request, int]:
        """The question after these turns, and how many messages gave way to it.

        Raises:
            LogTooLong: Nothing more can be dropped.
        """
        question = self._question(turns)
        answer = self._answers[len(turns) + 1 >= self._config.max_turns]
        draft = self._setup.request(self._trajectory, "investigator", (), question, answer)
        evicted = self._conversation.make_room(self._tokens_needed(draft))
        shared = self._conversation.messages
        return (
            self._setup.request(self._trajectory, draft.role, shared, question, answer),
            evicted,
        )

    def look(self, action: Any) -> str:
        """What a read or a search brings."""
        if action.action == "read":
            return self._observer.read(action.offset, action.limit)
        return self._observer.search(action.pattern)

    def objections(self, turn: Turn) -> str:
        """What comes back after a conclusion: its weak claims."""
        return self._observer.rejected(self._trajectory, turn, self._config.accept_above)

    def remember(self, answer: Any, observation: str) -> None:
        """Add a turn to the conversation; the memory stays out of it."""
        self._conversation.add(answer.model_dump_json(exclude={"memory"}), observation)

    def _question(self, turns: Sequence[Turn]) -> str:
        return self._setup.prompts.render(
            "safari/turn",
            number=len(turns) + 1,
            config=self._config,
            limits=self._setup.limits,
            memory=turns[-1].memory if turns else None,
            calls=turns[-CALLS_SHOWN:],
            calls_left_out=max(0, len(turns) - CALLS_SHOWN),
        )

    def _start(self, dropped: int) -> tuple[Message, ...]:
        trajectory, prompts = self._trajectory, self._setup.prompts
        shown = prompts.render(
            "safari/start",
            task=trajectory.task,
            reference_answer=trajectory.reference_answer,
            lines=len(self._log),
            steps=len(trajectory.steps),
            first=trajectory.steps[0].index,
            last=trajectory.steps[-1].index,
            tokens=self._log_tokens,
            agents=trajectory.agents,
            mark=log.mark(trajectory),
            dropped=dropped,
        )
        system = prompts.render("safari/system", first_error=False, config=self._config)
        return Message("system", system), Message("user", shown)

    def _tokens_needed(self, request: Request) -> int:
        asked = self._setup.count_tokens(request.ask) + TEMPLATE_TOKENS
        return asked + request.max_tokens

    def _refuse_if_too_long(self, observation_tokens: int) -> None:
        draft = self._setup.request(
            self._trajectory, "investigator", (), self._question(()), self._answers[False]
        )
        self._conversation.make_room(self._tokens_needed(draft) + observation_tokens)


def _budget(config: SafariConfig, setup: Setup) -> int:
    budget = config.context_budget or setup.context_tokens
    if budget > setup.context_tokens:
        raise ConfigError(
            f"{budget} tokens are more than the {setup.context_tokens} that the model serves",
            where="safari.context_budget",
            fix="Lower it, or leave it out.",
        )
    return budget


def _estimated_tokens(line_log: LineLog, setup: Setup) -> int:
    """About how long the log is; counting all of it would take minutes for 100 MB."""
    sample = line_log.sample(pieces=16, lines=20)
    per_byte = setup.count_tokens(sample) / max(1, len(sample.encode()))
    return round(per_byte * line_log.size)
