"""What a trace format must provide: a signature, where its runs stand, and how to read one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from faultattr_local.formats.notes import Notes
from faultattr_local.trajectory import LabelledTrajectory


@dataclass(frozen=True)
class Span:
    """Where one run stands among the values of a file: `count` of them from `first`."""

    first: int
    count: int = 1


@dataclass(frozen=True)
class Run:
    """One run as the file holds it, and what its trajectory is to be called.

    Attributes:
        values: The JSON values it was written as; a single one in most formats.
        id: The id of the trajectory.
        source: The file.
        places: Where each value stands, e.g. "line 3"; empty strings in a file of one value.
    """

    values: Sequence[Any]
    id: str
    source: str
    places: Sequence[str]

    @property
    def where(self) -> str:
        """File and line, for errors."""
        return f"{self.source}, {self.places[0]}" if self.places[0] else self.source


@dataclass(frozen=True)
class Format:
    """A trace format.

    Attributes:
        name: What `--format` takes.
        about: Its shape in one line, for help and for errors.
        source: Who writes it.
        sniff: Whether the values of a file carry its signature. No file may carry two.
        find: The runs among the values of a file, by shape alone; it also serves files whose
            format the user names.
        read: One run to its trajectory. Raises `FormatError`; the other runs go on.
    """

    name: str
    about: str
    source: str
    sniff: Callable[[Sequence[Any]], bool]
    find: Callable[[Sequence[Any]], list[Span]]
    read: Callable[[Run, Notes], LabelledTrajectory]
