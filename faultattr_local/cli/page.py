"""A page of indented text, drawn on a terminal and plain when piped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultattr_local.cli.terminal import visible

if TYPE_CHECKING:
    from rich.console import Console

BAR = 20
"""Characters of a full confidence bar."""


class Page:
    """Writes text of traces and models; none of it can steer the terminal.

    Args:
        out: Where to.
        full: Shorten nothing.
    """

    def __init__(self, out: Console, *, full: bool = False) -> None:
        self.out = out
        self.full = full

    def heading(self, text: str) -> None:
        """A line that begins a part."""
        self.out.print()
        self.line((text, "bold cyan"))

    def line(self, *parts: tuple[str, str]) -> None:
        """One line of parts, each with its style."""
        from rich.text import Text

        flat = ((visible(text).replace("\n", " "), style) for text, style in parts)
        self.out.print(Text.assemble(*flat), soft_wrap=not self.out.is_terminal)

    def text(self, text: str, indent: int, style: str = "", most: int | None = None) -> None:
        """A paragraph, indented; beyond `most` characters its middle is left out."""
        from rich.padding import Padding
        from rich.text import Text

        told = visible(text if most is None or self.full else shortened(text, most))
        if self.out.is_terminal:
            padded = Padding(Text(told, style=style), (0, 0, 0, indent), expand=False)
            self.out.print(padded)
            return
        for row in told.split("\n"):
            self.out.print(f"{' ' * indent}{row}".rstrip(), soft_wrap=True)

    def confidence(self, before: str, confidence: int, after: str) -> None:
        """A confidence of 0 to 100, with a bar on a terminal."""
        full = round(confidence / 100 * BAR)
        colour = "green" if confidence > 70 else "yellow" if confidence > 40 else "red"
        bar = [("━" * full, colour), ("─" * (BAR - full), "dim"), (" ", "")]
        shown = bar if self.out.is_terminal else []
        self.line((before, ""), *shown, (f"{confidence} of 100", colour), (after, "red"))


WORTH_A_CUT = 200
"""Characters that a cut must save; the note about it takes some itself."""


def shortened(text: str, most: int) -> str:
    """The beginning and the end of a long text, and how much stands between them."""
    if len(text) <= most + WORTH_A_CUT:
        return text
    start, end = most * 2 // 3, most // 3
    left = len(text) - start - end
    return f"{text[:start]}\n[... {left:,} characters; --full shows them ...]\n{text[-end:]}"
