"""Tables: drawn on a terminal, columns between tabs when piped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING

from faultattr_local.cli.terminal import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from faultattr_local.verdict import Verdict

COUNTS = frozenset({"agents", "characters", "prompt", "rounds", "steps", "tokens"})
NUMBERS = COUNTS | {"confidence", "seconds", "step"}
ASIDE = frozenset({"rounds", "seconds"})
NARROW = 80
"""Columns of a terminal below which the summary leaves out what stands aside."""
STYLES = {"attributed": "green", "no_fault": "cyan", "unscored": "red", "no": "yellow"}


@dataclass(frozen=True)
class Row:
    """A verdict in the summary; small, since a run may hold very many.

    Attributes:
        accepted: Whether the method's stop rule accepted it, or it is the best of what was left.
        rounds: RAFFLES iterations, SAFARI turns, or the decisions of a simpler method.
        failure: Why it is unscored, else empty.
    """

    trajectory: str
    agent: str
    step: str
    confidence: str
    accepted: str
    rounds: str
    seconds: str
    status: str
    failure: str = ""

    @property
    def problem(self) -> str:
        """The failure with the trajectory's name in it."""
        named = self.trajectory in self.failure
        return self.failure if named else f"{self.trajectory}: {self.failure}"


def row_of(verdict: Verdict) -> Row:
    """The summary of a verdict, as text."""
    fault, failure = verdict.fault, verdict.failure
    rounds = verdict.iterations or verdict.turns or verdict.path
    return Row(
        trajectory=one_line(verdict.trajectory),
        agent=one_line(fault.agent) if fault else "-",
        step=str(fault.step) if fault else "-",
        confidence="-" if verdict.confidence is None else f"{verdict.confidence:.2f}",
        accepted="-" if failure else "yes" if verdict.accepted else "no",
        rounds=str(len(rounds)),
        seconds=f"{verdict.usage.seconds:.1f}",
        status=verdict.status,
        failure=one_line(f"{failure.error}: {failure.message}") if failure else "",
    )


def print_verdicts(console: Console, rows: Sequence[Row]) -> None:
    """The summary: a table, and on a terminal each failure in a line below it."""
    names = [field.name for field in fields(Row)]
    if not console.is_terminal:
        print_table(console, names, map(astuple, rows))
        return
    kept = [name for name in names[:-1] if console.width >= NARROW or name not in ASIDE]
    print_table(console, kept, [[getattr(row, name) for name in kept] for row in rows])
    failed = [row for row in rows if row.failure]
    if failed:
        from rich.padding import Padding
        from rich.text import Text

        console.print()
        console.print("unscored", style="bold red")
        for row in failed:
            console.print(Padding(Text(row.problem), (0, 0, 0, 2), expand=False))


def print_table(console: Console, names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows under their names; a row is text on one line a cell."""
    if not console.is_terminal:
        for row in (names, *rows):
            console.file.write("\t".join(row) + "\n")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in names:
        number = name in NUMBERS
        table.add_column(
            "conf" if name == "confidence" else name,
            justify="right" if number else "left",
            overflow="fold",
            no_wrap=number or name == "status",
            header_style="bold cyan",
        )
    for row in rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    console.print(table)


def summary(rows: Sequence[Row]) -> str:
    """How many there are of each outcome, in one line."""
    told = []
    for status, words in _TOLD.items():
        those = [row for row in rows if row.status == status]
        accepted = sum(row.accepted == "yes" for row in those)
        if those:
            count = f"{len(those)} {words}"
            told.append(count if status == "unscored" else f"{count} ({accepted} accepted)")
    return ", ".join(told) or "no verdict"


_TOLD = {"attributed": "attributed", "no_fault": "without a fault", "unscored": "unscored"}
