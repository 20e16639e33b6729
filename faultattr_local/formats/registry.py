"""The trace formats that can be read: a new one is a file of its own and one entry here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultattr_local.errors import FormatError, UsageError
from faultattr_local.formats import openai_chat, role_list, whowhen
from faultattr_local.formats.format import Format

FORMATS: dict[str, Format] = {
    format.name: format for format in (whowhen.FORMAT, role_list.FORMAT, openai_chat.FORMAT)
}


def named(name: str) -> Format:
    """The format of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in FORMATS:
        raise UsageError(
            "is not a known format", where=f"--format {name}", fix=f"Known: {', '.join(FORMATS)}."
        )
    return FORMATS[name]


def detect(values: Sequence[Any], source: str) -> Format:
    """The one format whose signature the values carry.

    Raises:
        FormatError: They carry none, or more than one.
    """
    carried = [format for format in FORMATS.values() if format.sniff(values)]
    if len(carried) == 1:
        return carried[0]
    if carried:
        raise FormatError(
            f"could be {' or '.join(format.name for format in carried)}",
            where=source,
            fix="Say which with --format NAME.",
        )
    raise FormatError(
        f"is JSON of no known shape (tried {', '.join(FORMATS)})",
        where=source,
        fix="If it is one of these, say which with --format NAME.",
    )
