"""Where the command writes: results to stdout, the rest to stderr, hostile text made visible."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # what moves the cursor, colours, or renames the window
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # what turns or breaks the line
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"  # what shows nothing, or cannot be written
)


def visible(text: str) -> str:
    r"""Text of a trace or a model with its control characters spelled out, such as \x1b.

    Whoever wrote a trace must not be able to steer the terminal of whoever reads it. Line
    ends and tabs stay.
    """
    return _UNSAFE.sub(_spelled, text.replace("\r\n", "\n"))


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str) -> str:
    """The same on one line."""
    return visible(" ".join(text.split()))


def visible_json(text: str) -> str:
    """JSON that means the same, with its control characters as JSON escapes."""
    return _UNSAFE.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def stdout() -> Console:
    """The console of results. Nothing in what is printed is taken for markup."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False)


def stderr() -> Console:
    """The console of warnings, progress and hints."""
    from rich.console import Console

    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def say(console: Console, text: str, style: str = "") -> None:
    """One line, wrapped by the terminal alone, so that it can be copied whole."""
    console.print(one_line(text), style=style or None, soft_wrap=True)


def warning(console: Console) -> Callable[[str], None]:
    """Says a line as a warning."""
    return lambda text: say(console, f"warning: {text}", "yellow")


class _Warnings(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print above whatever is live on the console."""
        text = visible(self.format(record))
        self.console.print(f"{record.levelname.lower()}: {text}", style="yellow", soft_wrap=True)


@contextmanager
def logged_to(console: Console) -> Iterator[None]:
    """While open, the package's own warnings are lines on this console."""
    logger = logging.getLogger("faultattr_local")
    handler = _Warnings(console)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
