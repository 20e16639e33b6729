"""Trajectories as they are read for a command, with a count of what could not be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from faultattr_local.errors import FormatError, UsageError
from faultattr_local.formats.notes import Notes
from faultattr_local.formats.read import count_files, read_paths
from faultattr_local.trajectory import LabelledTrajectory


class Intake:
    """Reads one file at a time, and only as trajectories are asked for.

    Args:
        paths: Files and folders.
        format: The name of their format, or None to find it out.
        limit: Most trajectories to give.
        warn: Told in one line of each file or run that cannot be read.

    Attributes:
        given: Trajectories handed out.
        unreadable: Files and runs that could not be read.
        notes: What was replaced, skipped or passed over while reading.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        format: str | None,
        limit: int | None,
        warn: Callable[[str], None],
    ) -> None:
        self._results = read_paths(paths, format)
        self._paths = paths
        self._limit = limit
        self._warn = warn
        self._files: int | None = None
        self._files_read = 0
        self._found = 0
        self._finished = False
        self.given = 0
        self.unreadable = 0
        self.notes = Notes()

    def count_files(self) -> None:
        """Look through the folders once, so that `total` can be told before all is read."""
        self._files = count_files(self._paths)

    def __iter__(self) -> Iterator[LabelledTrajectory]:
        """Hand out each trajectory once."""
        for result in self._results:
            if isinstance(result, FormatError):
                self._refuse(result)
                self._files_read += 1
                continue
            self._files_read += bool(result.format)
            self._found += len(result.trajectories)
            for note in result.warnings:
                where = note.first or str(result.path)
                if note.lost:
                    self.unreadable += note.count
                    self._warn(f"not read: {result.path}: {note}")
                else:
                    self.notes.add(note.what, where, note.count)
            for error in result.errors:
                self._refuse(error)
            for item in result.trajectories:
                self.given += 1
                self._finished = self.given == self._limit
                yield item
                if self._finished:
                    return
        self._finished = True

    def _refuse(self, error: FormatError) -> None:
        self.unreadable += 1
        self._warn(f"not read: {error}")

    def total(self) -> str:
        """How many trajectories there are; "about" while it is reckoned from the files read."""
        if self._finished:
            return str(self.given)
        if self._files is None or not self._files_read:
            return f"at least {self._found}"
        left = max(0, self._files - self._files_read)
        reckoned = self._found + round(left * self._found / self._files_read)
        total = reckoned if self._limit is None else min(reckoned, self._limit)
        return f"about {total}" if left else str(total)


def require_some(intake: Intake) -> Iterator[LabelledTrajectory]:
    """The trajectories, the first read already.

    Raises:
        UsageError: There is none.
    """
    items = iter(intake)
    first = next(items, None)
    if first is None:
        raise UsageError(
            f"nothing could be read ({intake.unreadable} not readable)",
            fix="`faultattr formats` lists what can be; --format NAME says which it is.",
        )
    return _after(first, items)


def _after(
    first: LabelledTrajectory, rest: Iterator[LabelledTrajectory]
) -> Iterator[LabelledTrajectory]:
    yield first
    yield from rest
