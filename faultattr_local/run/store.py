"""The run folder: the one truth of a run, written a line at a time, resumed from, read alone.

    run.json               config as sent, model, prompt digests, versions, host, sittings
    trajectories-S.jsonl   each trajectory as it was read, with its label, when its verdict is
    verdicts-S.jsonl       a verdict a line; of two for one trajectory the later holds
    calls-S.jsonl          every call and its reply

S is the shard. Lines are appended and made durable one by one; a torn last line is cut when
its shard is opened again, and skipped with a warning by readers.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from faultattr_local.engine.record import Call
from faultattr_local.errors import RunFolderError
from faultattr_local.trajectory import LabelledTrajectory
from faultattr_local.verdict import Verdict

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=BaseModel)

NEEDED = {
    "verdicts": ("trajectory", "digest"),
    "trajectories": ("trajectory",),
    "calls": ("key", "trajectory", "valid", "reply"),
}
"""What a record of each kind holds at least."""

Key = tuple[str, str]
"""Id and digest of a trajectory: a changed file under the same name is another trajectory."""


class Appender:
    """A JSONL file that is appended to; every line is on disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        try:
            torn = cut_torn_line(path) if path.exists() else 0
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise RunFolderError(f"cannot be opened: {error.strerror}", where=str(path)) from error
        if torn:
            logger.warning("%s: cut a torn last line of %d bytes", path, torn)

    def write(self, line: str) -> None:
        """Append one line and wait until it is durable."""
        try:
            # Unbuffered, so that what failed is not written after all when the file is closed.
            # Half a surrogate pair becomes the JSON escape that it can be read from again.
            data = line.encode("utf-8", "backslashreplace") + b"\n"
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RunFolderError(
                f"cannot be written: {error.strerror}",
                where=self._file.name,
                fix="Make room and run the same command again; it goes on where this one stopped.",
            ) from error

    def __enter__(self) -> Appender:
        return self

    def __exit__(self, *error: object) -> None:
        # What could not be written was told by `write`; closing would only tell it again.
        with suppress(OSError):
            self._file.close()


class RunFolder:
    """A run folder open for one shard of a run.

    Use it as a context manager; it holds the shard's lock while open.

    Args:
        path: The folder; made when absent.
        shard: Which files are written.

    Raises:
        RunFolderError: Another process writes this shard.
    """

    def __init__(self, path: Path, shard: str = "0") -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"cannot be made: {error.strerror}", where=str(path)) from error
        self.path = path
        self._lock = FileLock(path / f".lock-{shard}")
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise RunFolderError(
                "another process is writing here", where=str(path), fix="Wait for it or stop it."
            ) from error
        except OSError as error:
            raise RunFolderError(f"cannot be locked: {error}", where=str(path)) from error
        with ExitStack() as opened:
            opened.callback(self._lock.release)
            self._verdicts = opened.enter_context(Appender(path / f"verdicts-{shard}.jsonl"))
            self._trajectories = opened.enter_context(
                Appender(path / f"trajectories-{shard}.jsonl")
            )
            self._calls = opened.enter_context(Appender(path / f"calls-{shard}.jsonl"))
            self._open = opened.pop_all()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def write_call(self, call: Call) -> None:
        """Record one call."""
        self._calls.write(json.dumps(call, ensure_ascii=False))

    def write_verdict(self, item: LabelledTrajectory, verdict: Verdict) -> None:
        """Record one verdict, its trajectory first, so that no verdict stands without it."""
        self._trajectories.write(item.model_dump_json())
        self._verdicts.write(verdict.model_dump_json())

    def standing(self) -> dict[Key, Verdict]:
        """Verdicts that hold; unscored trajectories are to be tried again."""
        if not (self.path / "run.json").is_file():
            return {}
        verdicts = read_verdicts(self.path)
        return {key: one for key, one in verdicts.items() if one.status != "unscored"}


def cut_torn_line(path: Path) -> int:
    """Cut what stands after the last newline; returns the number of bytes cut."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        end = size
        while end:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        file.truncate(end)
        return size - end


def read_lines(path: Path, kind: str) -> Iterator[dict[str, Any]]:
    """Every record of one kind ("verdicts", "calls", "trajectories") in every shard.

    A last line without its newline is still being written, or torn: it is skipped.

    Raises:
        RunFolderError: A line in the middle is not JSON, or not such a record.
    """
    for file in sorted(path.glob(f"{kind}-*.jsonl")):
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    logger.warning("%s: line %d is torn and skipped", file, number)
                    break
                yield _record(line, kind, f"{file}, line {number}")


def _record(line: bytes, kind: str, where: str) -> dict[str, Any]:
    fix = "Delete that line; what it held is done again on the next run."
    try:
        record = json.loads(line)
    except ValueError as error:
        raise RunFolderError(f"is not JSON: {error}", where=where, fix=fix) from error
    if not isinstance(record, dict) or any(key not in record for key in NEEDED[kind]):
        needed = ", ".join(NEEDED[kind])
        raise RunFolderError(f"is no record with {needed}", where=where, fix=fix)
    return record


def read_verdicts(path: Path) -> dict[Key, Verdict]:
    """The standing verdict of each trajectory, in the order in which they first came.

    Raises:
        RunFolderError: There is no run in the folder, or a line is damaged.
    """
    require_run(path)
    verdicts: dict[Key, Verdict] = {}
    for record in read_lines(path, "verdicts"):
        verdict = _validated(Verdict, record, path)
        verdicts[verdict.trajectory, verdict.digest] = verdict
    return verdicts


def read_trajectory(path: Path, key: Key) -> LabelledTrajectory | None:
    """The trajectory of a verdict, as it was read for the run; None when it is not there.

    Raises:
        RunFolderError: A line is damaged.
    """
    for record in read_lines(path, "trajectories"):
        item = _validated(LabelledTrajectory, record, path)
        if (item.trajectory.id, item.trajectory.digest) == key:
            return item
    return None


def _validated(model: type[T], record: dict[str, Any], path: Path) -> T:
    try:
        return model.model_validate(record)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RunFolderError(
            f"holds a {model.__name__} of another shape: {place}: {first['msg']}",
            where=str(path),
            fix="It was changed by hand, or written by another version.",
        ) from error


def require_run(path: Path) -> None:
    """Check that a folder holds a run.

    Raises:
        RunFolderError: It does not exist, or has no run.json.
    """
    if not (path / "run.json").is_file():
        raise RunFolderError(
            "is not a run folder" if path.is_dir() else "does not exist",
            where=str(path),
            fix="Give the folder that `faultattr attribute -o` wrote.",
        )
