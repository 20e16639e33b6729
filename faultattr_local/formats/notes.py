"""A tally of everything a reader changed or left out, so that nothing goes in silence."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Note:
    """One kind of thing that was changed or left out, how often, and where first."""

    what: str
    count: int
    first: str = ""
    lost: bool = False
    """Whether something of the file that may have been a run, or a part of one, is missing."""

    def __str__(self) -> str:
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"{self.what} ({times}{f', first at {self.first}' if self.first else ''})"


class Notes:
    """Collects the notes of one file, in order of first appearance."""

    def __init__(self) -> None:
        self._notes: dict[str, Note] = {}

    def add(self, what: str, where: str = "", count: int = 1, *, lost: bool = False) -> None:
        """Count `what` once more (or `count` times); only the first `where` is kept."""
        if count > 0:
            known = self._notes.get(what, Note(what, 0, where, lost))
            self._notes[what] = replace(known, count=known.count + count)

    def add_unread(self, entry: Mapping[str, Any], known: Set[str], where: str) -> None:
        """Count the keys of `entry` that hold something and that the reader does not know."""
        for key in sorted(entry.keys() - known):
            if entry[key] not in (None, "", [], {}):
                self.add(f"key {key!r} not read", where)

    def extend(self, other: Notes) -> None:
        """Take over what another tally holds."""
        for note in other.listed():
            self.add(note.what, note.first, note.count, lost=note.lost)

    def listed(self) -> tuple[Note, ...]:
        """All notes so far."""
        return tuple(self._notes.values())
