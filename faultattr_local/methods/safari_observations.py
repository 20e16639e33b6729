"""What SAFARI's Investigator is shown after an action, cut to what it may take."""

from __future__ import annotations

from collections.abc import Callable

from faultattr_local.methods.answers import acts_at
from faultattr_local.methods.line_log import BadPattern, LineLog
from faultattr_local.prompts import Prompts
from faultattr_local.trajectory import Trajectory
from faultattr_local.verdict import Fault, Turn


class Observer:
    """Carries out reads and searches and words what they bring.

    Args:
        line_log: The log.
        prompts: Where the wording is.
        count_tokens: Of the served model.
        most_tokens: Tokens that an observation may take.
        search_hits: Lines that a search shows.
    """

    def __init__(
        self,
        line_log: LineLog,
        prompts: Prompts,
        count_tokens: Callable[[str], int],
        most_tokens: int,
        search_hits: int,
    ) -> None:
        self._log = line_log
        self._prompts = prompts
        self._count_tokens = count_tokens
        self._most_tokens = most_tokens
        self._search_hits = search_hits

    def read(self, offset: int, limit: int) -> str:
        """The lines asked for, as many as fit; what is missing is told."""
        lines = self._log.read(offset, limit)
        return self._fit(
            lambda shown: self._prompts.render(
                "safari/observation_read",
                lines=lines[:shown],
                offset=offset,
                last=lines[-1].number,
                length=len(self._log),
                most_tokens=self._most_tokens,
            ),
            len(lines),
        )

    def search(self, pattern: str) -> str:
        """The first hits, as many as fit, and how many there are; or why there are none."""
        try:
            found = self._log.search(pattern, self._search_hits)
        except BadPattern as error:
            return self._prompts.render("safari/observation_bad_pattern", reason=error.what)
        return self._fit(
            lambda shown: self._prompts.render(
                "safari/observation_search",
                pattern=pattern,
                hits=found.hits[:shown],
                total=found.total,
                exact=found.exact,
            ),
            len(found.hits),
        )

    def rejected(self, trajectory: Trajectory, turn: Turn, accept_above: float) -> str:
        """Which claims of a concluded hypothesis were weak, and why."""
        return self._prompts.render(
            "safari/observation_rejected",
            fault=turn.fault,
            other_agent=_other_agent(trajectory, turn.fault),
            weak=[claim for claim in turn.claims if claim.confidence < accept_above],
            confidence=turn.confidence,
            accept_above=accept_above,
        )

    def _fit(self, render: Callable[[int], str], most: int) -> str:
        text = render(most)
        if self._count_tokens(text) <= self._most_tokens:
            return text
        fits, too_many = 0, most
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if self._count_tokens(render(middle)) <= self._most_tokens:
                fits = middle
            else:
                too_many = middle
        return render(fits)


def _other_agent(trajectory: Trajectory, fault: Fault | None) -> str | None:
    """Who acts at the step of a hypothesis, when that is not the agent it names."""
    if fault is None or acts_at(trajectory, fault):
        return None
    return trajectory.by_index[fault.step].agent
