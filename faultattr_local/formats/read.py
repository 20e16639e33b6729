"""From files and folders to trajectories, one file in memory at a time."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from faultattr_local.errors import FormatError
from faultattr_local.formats import documents, registry
from faultattr_local.formats.format import Format, Run, Span
from faultattr_local.formats.notes import Note, Notes
from faultattr_local.trajectory import Label, LabelledTrajectory

logger = logging.getLogger(__name__)

SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".traj"})
"""What is read in a folder; a file that is named itself is read whatever its suffix."""


@dataclass(frozen=True)
class ReadResult:
    """What one file gave; or, with an empty `format`, what was passed over in a folder.

    Attributes:
        path: The file, or the folder.
        format: The name of its format.
        trajectories: In the order of the file.
        warnings: What was replaced, skipped or not read, with counts.
        errors: One for each run of a file of many that could not be read.
    """

    path: Path
    format: str
    trajectories: tuple[LabelledTrajectory, ...] = ()
    warnings: tuple[Note, ...] = ()
    errors: tuple[FormatError, ...] = ()


def read_file(path: Path, format: str | None = None) -> ReadResult:
    """Read one file.

    Args:
        path: A file of any suffix.
        format: The name of its format; found out from its content if None.

    Raises:
        FormatError: It is missing or unreadable, its format is not known, or no run in it
            can be read.
        UsageError: There is no format of that name.
    """
    return _read(path, _wanted(format), _Given())


def read_paths(
    paths: Iterable[Path], format: str | None = None
) -> Iterator[ReadResult | FormatError]:
    """Read files and, in natural order, all the files under folders.

    A bad file is told in its place and the others go on. Every id is given once: a second
    trajectory of the same id has a part of its digest appended, and a trajectory that was
    read before is skipped with a warning.

    Raises:
        UsageError: There is no format of that name.
    """
    wanted = _wanted(format)
    return _read_all(list(paths), wanted)


def read_trajectories(
    *paths: str | Path, format: str | None = None
) -> Iterator[LabelledTrajectory]:
    """Every trajectory of files and folders, for use from Python.

    What was replaced or passed over is logged. `read_paths` goes on after a bad file.

    Raises:
        FormatError: At the first file or run that cannot be read.
        UsageError: There is no format of that name.
    """
    for result in read_paths(map(Path, paths), format):
        if isinstance(result, FormatError):
            raise result
        for note in result.warnings:
            logger.warning("%s: %s", result.path, note)
        yield from result.trajectories
        if result.errors:
            raise result.errors[0]


def count_files(paths: Iterable[Path]) -> int:
    """How many files `read_paths` would open; none is opened."""
    return sum(len(list(_under(path, Notes()))) if path.is_dir() else 1 for path in paths)


def _wanted(name: str | None) -> Format | None:
    return None if name is None else registry.named(name)


def _read_all(paths: list[Path], wanted: Format | None) -> Iterator[ReadResult | FormatError]:
    given = _Given()
    for path in paths:
        notes = Notes()
        files = list(_under(path, notes)) if path.is_dir() else [path]
        if not files:
            kinds = ", ".join(sorted(SUFFIXES))
            yield FormatError("holds no trace", where=str(path), fix=f"Looked for {kinds}.")
        for file in files:
            try:
                yield _read(file, wanted, given)
            except FormatError as error:
                yield error
        if notes.listed():
            yield ReadResult(path=path, format="", warnings=notes.listed())


class _Given:
    """The ids and digests that were handed out in this run of the program."""

    def __init__(self) -> None:
        self._by_digest: dict[str, tuple[str, Label | None]] = {}
        self._ids: set[str] = set()

    def admit(self, found: LabelledTrajectory, notes: Notes) -> LabelledTrajectory | None:
        """The trajectory under an id of its own; None for one that was read before."""
        digest, name = found.trajectory.digest, found.trajectory.id
        if digest in self._by_digest:
            first, label = self._by_digest[digest]
            other = "" if label == found.label else " with another label"
            notes.add(f"trajectory read before{other}, skipped", f"{name}, the same as {first}")
            return None
        if name in self._ids:
            name = f"{name}~{digest[:8]}"
            renamed = found.trajectory.model_copy(update={"id": name})
            found = found.model_copy(update={"trajectory": renamed})
            notes.add("id given before, a part of the digest appended", name)
        self._ids.add(name)
        self._by_digest[digest] = (name, found.label)
        return found


def _read(path: Path, wanted: Format | None, given: _Given) -> ReadResult:
    notes = Notes()
    source = _printable(path)
    content = documents.parse(_bytes(path, source), source, notes)
    format = wanted or registry.detect(content.values, source)
    spans = format.find(content.values)
    if not spans:
        raise FormatError(
            f"holds no {format.name} run", where=source, fix=f"Expected {format.about}."
        )
    unread = len(content.values) - sum(span.count for span in spans)
    notes.add(f"value that is no {format.name} run, not read", count=unread, lost=True)
    trajectories: list[LabelledTrajectory] = []
    errors: list[FormatError] = []
    for number, span in enumerate(spans, 1):
        name = _id(path) if len(spans) == 1 else f"{_id(path)}#{number}"
        try:
            found = format.read(_run(content, span, name, source), notes)
        except FormatError as error:
            errors.append(error)
            continue
        if (admitted := given.admit(found, notes)) is not None:
            trajectories.append(admitted)
    if len(errors) == len(spans):
        raise errors[0]
    return ReadResult(path, format.name, tuple(trajectories), notes.listed(), tuple(errors))


def _run(content: documents.Documents, span: Span, name: str, source: str) -> Run:
    positions = range(span.first, span.first + span.count)
    return Run(
        values=content.values[span.first : span.first + span.count],
        id=name,
        source=source,
        places=[content.place(position) for position in positions],
    )


def _bytes(path: Path, source: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise FormatError("does not exist", where=source, fix="Check the path.") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise FormatError(
            f"cannot be read: {why}", where=source, fix="Check the path and its permissions."
        ) from error


def _id(path: Path) -> str:
    whole = Path(_printable(path.absolute()))
    return " ".join(f"{whole.parent.name}/{whole.stem}".removeprefix("/").split())


def _printable(path: Path) -> str:
    """A file name need not be UTF-8; what is not becomes U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


def _under(folder: Path, notes: Notes) -> Iterator[Path]:
    found: list[Path] = []
    visited: set[str] = set()

    def unreadable(error: OSError) -> None:
        notes.add("folder cannot be opened, passed over", str(error.filename), lost=True)

    for here, folders, names in os.walk(folder, onerror=unreadable, followlinks=True):
        real = os.path.realpath(here)
        if real in visited:
            notes.add("folder reached twice, passed over", here)
            folders.clear()
            continue
        visited.add(real)
        hidden = [name for name in (*folders, *names) if name.startswith(".")]
        notes.add("hidden, passed over", str(Path(here, min(hidden, default=""))), len(hidden))
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(here, name) for name in names if not name.startswith(".")]
    for path in sorted(found, key=_natural):
        if path.suffix.lower() not in SUFFIXES:
            notes.add(f"not {', '.join(sorted(SUFFIXES))}: passed over", str(path))
        elif not path.is_file():
            notes.add("not a regular file, passed over", str(path))
        else:
            yield path


def _natural(path: Path) -> list[list[tuple[int, int, str]]]:
    """Numbers in names count as numbers: 2.json stands before 10.json."""
    return [
        [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in _numbers(name)]
        for name in path.parts
    ]


def _numbers(name: str) -> list[str]:
    return [part for part in re.split(r"(\d+)", name) if part]
