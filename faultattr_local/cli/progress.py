"""How a run is going: live on a terminal, plain lines elsewhere; both on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from faultattr_local.cli.terminal import one_line, say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from faultattr_local.cli.table import Row
    from faultattr_local.engine.base import ModelCard
    from faultattr_local.run.progress import Progress

NOTHING_TO_DO = "nothing is left to do; no engine was started"


class Watch(Protocol):
    """What is told of a run as it goes."""

    def __enter__(self) -> Watch: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def follow(self, progress: Progress) -> None:
        """The counts of the run that begins now."""
        ...

    def served(self, card: ModelCard) -> None:
        """The engine is ready."""
        ...

    def verdict(self, row: Row) -> None:
        """One trajectory is done."""
        ...

    def nothing_to_do(self) -> None:
        """Every trajectory had a verdict already."""
        ...


def watch(console: Console, engine: str, total: Callable[[], str]) -> Watch:
    """Live on a terminal, lines elsewhere.

    Args:
        console: On stderr.
        engine: What is being started, for the time until it serves.
        total: How many trajectories there are, as far as is known.
    """
    return Live(console, engine, total) if console.is_terminal else Lines(console, engine)


class Lines:
    """One line at the start and one for each verdict."""

    def __init__(self, console: Console, engine: str) -> None:
        self.console = console
        self.engine = engine
        self.done = 0

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def follow(self, progress: Progress) -> None:
        """Say what the engine is."""
        say(self.console, f"engine: {self.engine}")

    def served(self, card: ModelCard) -> None:
        """Say what is served."""
        say(self.console, what_is_served(card))

    def verdict(self, row: Row) -> None:
        """Say what was decided."""
        self.done += 1
        say(self.console, f"{self.done} {told(row)}")

    def nothing_to_do(self) -> None:
        """Say so."""
        say(self.console, NOTHING_TO_DO)


class Live:
    """Two lines that are drawn again twice a second; unscored trajectories stay above them."""

    def __init__(self, console: Console, engine: str, total: Callable[[], str]) -> None:
        from rich.live import Live as RichLive

        self.console = console
        self.engine = engine
        self.total = total
        self.progress: Progress | None = None
        self.began: float | None = None
        self._live: AbstractContextManager[object] = RichLive(
            get_renderable=self.draw, console=console, refresh_per_second=2, transient=True
        )

    def __enter__(self) -> Live:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def follow(self, progress: Progress) -> None:
        """Draw these counts from now on."""
        self.progress = progress

    def served(self, card: ModelCard) -> None:
        """Say what is served, and start the clock."""
        self.began = time.monotonic()
        say(self.console, what_is_served(card), "dim")

    def verdict(self, row: Row) -> None:
        """Keep a line for what could not be decided."""
        if row.failure:
            say(self.console, told(row), "red")

    def nothing_to_do(self) -> None:
        """Say so."""
        say(self.console, NOTHING_TO_DO)

    def draw(self) -> Text:
        """The two lines as they are now."""
        from rich.text import Text

        if self.progress is None or self.began is None:
            return Text(f"starting {one_line(self.engine)} ...", style="cyan")
        seconds = time.monotonic() - self.began
        return Text.assemble(
            (f"{self.progress.done} of {self.total()} done", "bold green"),
            f", {self.progress.working} at work",
            (f", {self.progress.unscored} unscored", "red" if self.progress.unscored else "dim"),
            (f"  {clock(seconds)}{remaining(self.progress, self.total(), seconds)}", "cyan"),
            ("\n" + rates(self.progress, seconds), "dim"),
        )


def what_is_served(card: ModelCard) -> str:
    """A model card in one line."""
    cache = f", {card.kv_tokens:,} tokens of KV cache" if card.kv_tokens else ""
    return f"serving {card.name}: {card.context_tokens:,} tokens of context{cache}"


def told(row: Row) -> str:
    """A verdict in one line."""
    if row.failure:
        return f"unscored: {row.problem}"
    sure = "" if row.confidence == "-" else f", confidence {row.confidence}"
    fault = f"step {row.step}, {row.agent}" if row.step != "-" else "no fault"
    return f"{row.trajectory}: {fault}{sure} ({row.seconds} s)"


def rates(progress: Progress, seconds: float) -> str:
    """Tokens a second since the engine served, and the share found in the prefix cache."""
    read = progress.prompt_tokens / max(seconds, 0.001)
    written = progress.output_tokens / max(seconds, 0.001)
    line = f"{read:,.0f} tokens/s read, {written:,.0f} written"
    if progress.prompt_tokens:
        line += f", {progress.cached_tokens / progress.prompt_tokens:.0%} from the prefix cache"
    if progress.replayed:
        line += f", {progress.replayed} replies from the record"
    if progress.restarts:
        line += f", {progress.restarts} engine restarts"
    return line


def remaining(progress: Progress, total: str, seconds: float) -> str:
    """The time left at the pace so far; nothing while the total is not known."""
    number = total.removeprefix("about ")
    if not progress.done or not number.isdecimal():
        return ""
    left = max(0, int(number) - progress.done) * seconds / progress.done
    return f", about {clock(left)} left" if left else ""


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
