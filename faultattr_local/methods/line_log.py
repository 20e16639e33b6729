"""The log as numbered lines, to be read and searched piece by piece.

Built for logs of 10 to 100 MB: one bytes object holds the text, arrays of integers hold
where lines and steps begin, and nothing is kept for each line besides its offset.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass, replace
from io import BytesIO

import re2

from faultattr_local.errors import FaultattrError
from faultattr_local.log import rendered_steps
from faultattr_local.trajectory import Step, Trajectory

MOST_COUNTED = 2_000
"""Matching lines after which a search stops counting and says that there may be more."""

PROGRAM_WORK = 400_000
"""Instructions of RE2 after which it stops counting: the size of the program for each match.

Patterns with large counted repetitions become programs of thousands of instructions, which
take that much longer for each match.
"""

LONG_LINE_WORK = 1 << 28
"""Bytes that one search may look at more than once.

The matches in a line of the trace that was wrapped are sought one after another, and each
attempt may read up to the end of that line, which is quadratic for some patterns. When
this is spent, a wrapped line is left after its first match and the search says so.
"""

_MATCH_MEMORY = 8 << 20
_SNIPPET_BEFORE = 60
_SNIPPET_BYTES = 200


class BadPattern(FaultattrError):
    """A search pattern is not a regular expression of RE2; told to the model, not raised on."""


@dataclass(frozen=True)
class Line:
    """One line of the log.

    Attributes:
        number: From 1.
        step: The step it belongs to.
        text: Without its end.
        continues: It goes on a line that was too long to stand as one.
    """

    number: int
    step: Step
    text: str
    continues: bool


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes:
        hits: The first matching lines, `text` cut to the surroundings of the match.
        total: How many lines match.
        exact: False when there may be more than `total`.
    """

    hits: tuple[Line, ...]
    total: int
    exact: bool


class LineLog:
    """The rendered log of a trajectory, cut into lines numbered from 1.

    Args:
        trajectory: The run.
        width: Bytes of UTF-8 after which a line goes on in the next one, at least 4.
    """

    def __init__(self, trajectory: Trajectory, width: int) -> None:
        self._steps = trajectory.steps
        self._first_lines = array("I")
        starts = array("I")
        log = BytesIO()
        for _, text in rendered_steps(trajectory):
            self._first_lines.append(len(starts) + 1)
            _append_starts(starts, encoded := _encoded(text), log.tell(), width)
            log.write(encoded)
        self._starts = starts
        self._bytes = log.getvalue()

    def __len__(self) -> int:
        """How many lines there are."""
        return len(self._starts)

    @property
    def size(self) -> int:
        """Bytes of the rendered log."""
        return len(self._bytes)

    @property
    def index_size(self) -> int:
        """Bytes of what finds the lines in it."""
        return sum(len(part) * part.itemsize for part in (self._starts, self._first_lines))

    def step_at(self, number: int) -> Step:
        """The step that line `number` belongs to."""
        return self._steps[bisect_right(self._first_lines, number) - 1]

    def read(self, offset: int, limit: int) -> tuple[Line, ...]:
        """At most `limit` lines from line `offset` on; fewer at the end of the log.

        Raises:
            IndexError: There is no line `offset`.
        """
        if not 1 <= offset <= len(self):
            raise IndexError(f"line {offset} of {len(self)}")
        return tuple(
            self._line(number, *self._span(number))
            for number in range(offset, min(offset + limit, len(self) + 1))
        )

    def search(self, pattern: str, most: int) -> Found:
        """The lines in which a match of the pattern begins, the first `most` of them shown.

        RE2 syntax, without regard to case unless the pattern says (?-i). A match lies within
        one line of the trace, also where that line had to be wrapped; `^` and `$` are the
        ends of such a line. A line with several matches is one hit. Time is linear in the
        log for every pattern.

        Raises:
            BadPattern: With RE2's own words.
        """
        regex = _compiled(pattern)
        hits: list[Line] = []
        position = total = line_end = 0
        work, exact = LONG_LINE_WORK, True
        affordable = max(1, min(MOST_COUNTED, PROGRAM_WORK // regex.programsize))
        while match := regex.search(self._bytes, position):
            begin, end = match.span()
            if begin >= self.size:
                break
            if total == affordable:
                exact = False
                break
            total += 1
            if len(hits) < most:
                hits.append(self._hit(begin))
            position = self._span(self._number_at(max(begin, end - 1)))[1]
            if self._goes_on(position):
                if position >= line_end:
                    line_end = self._bytes.index(b"\n", position) + 1
                work -= line_end - position
                if work < 0:
                    position, exact = line_end, False
        return Found(tuple(hits), total, exact)

    def sample(self, pieces: int, lines: int) -> str:
        """Lines from evenly spread places, as many as asked for; for estimates."""
        if len(self) <= pieces * lines:
            return self._bytes.decode()
        offsets = (1 + piece * (len(self) - lines) // (pieces - 1) for piece in range(pieces))
        spans = ((self._span(at)[0], self._span(at + lines - 1)[1]) for at in offsets)
        return "".join(self._bytes[begin:end].decode() for begin, end in spans)

    def _number_at(self, position: int) -> int:
        return bisect_right(self._starts, position)

    def _span(self, number: int) -> tuple[int, int]:
        end = self._starts[number] if number < len(self) else self.size
        return self._starts[number - 1], end

    def _goes_on(self, position: int) -> bool:
        return 0 < position < self.size and self._bytes[position - 1] != ord("\n")

    def _line(self, number: int, begin: int, end: int) -> Line:
        text = self._bytes[begin:end].decode(errors="ignore").removesuffix("\n")
        goes_on = self._goes_on(self._span(number)[0])
        return Line(number, self.step_at(number), text, goes_on)

    def _hit(self, position: int) -> Line:
        number = self._number_at(position)
        begin, end = self._span(number)
        shown = max(begin, position - _SNIPPET_BEFORE)
        until = min(end, shown + _SNIPPET_BYTES)
        line = self._line(number, shown, until)
        before, after = "..." if shown > begin else "", "..." if until < end else ""
        return replace(line, text=f"{before}{line.text}{after}")


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


def _append_starts(starts: array[int], text: bytes, at: int, width: int) -> None:
    begin = 0
    while begin < len(text):
        end = text.index(b"\n", begin) + 1
        starts.append(at + begin)
        while end - 1 - begin > width:
            begin = _character_start(text, begin + width)
            starts.append(at + begin)
        begin = end


def _character_start(text: bytes, position: int) -> int:
    while text[position] & 0xC0 == 0x80:
        position -= 1
    return position


def _compiled(pattern: str) -> re2._Regexp:
    options = re2.Options()
    options.max_mem = _MATCH_MEMORY
    options.case_sensitive = False
    options.never_capture = True
    options.never_nl = True
    options.log_errors = False
    # re2 keeps what it compiled, and the memory of its automata, for the next 128 patterns.
    re2.purge()
    try:
        return re2.compile(f"(?m){pattern}", options)
    except re2.error as error:
        reason = error.args[0] if error.args else b"unknown"
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise BadPattern(told.replace("(?m)", "", 1), where=f"pattern {pattern!r}") from error
