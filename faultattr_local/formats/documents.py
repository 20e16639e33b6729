"""The first stage of reading: the bytes of a file become JSON values, whatever their shape.

A value that cannot be kept as it stands is replaced and counted; a line that cannot be read
is counted with its number. Everything else is a `FormatError` that says where.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from faultattr_local.errors import FormatError
from faultattr_local.formats.notes import Notes

_ESCAPE = re.compile(
    r"\\(?:u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_HUGE_INTEGER = re.compile(r"\d{4300,}")


@dataclass(frozen=True)
class Documents:
    """The JSON values of one file.

    Attributes:
        values: One for a JSON file, one for each line that was read for JSON Lines.
        lines: The line on which each begins, from 1.
    """

    values: tuple[Any, ...]
    lines: tuple[int, ...]

    def place(self, position: int) -> str:
        """Where the value at `position` stands; empty for a file of one value."""
        return f"line {self.lines[position]}" if len(self.values) > 1 else ""


def parse(data: bytes, source: str, notes: Notes) -> Documents:
    """Read JSON or JSON Lines.

    Args:
        data: The whole file.
        source: Its name, for errors.
        notes: Receives what was replaced or skipped.

    Raises:
        FormatError: It is empty, is not JSON, is nested too deeply, or holds an integer of
            thousands of digits.
    """
    text = _without_lone_surrogates(_decode(data, notes), notes)
    if not text.strip():
        raise FormatError("is empty", where=source, fix="Give a file with a trace in it.")
    try:
        return Documents((_value(text, source, notes, line=1),), (1,))
    except FormatError:
        documents = _lines(text, source, notes)
        if documents is None:
            raise
        return documents


def _decode(data: bytes, notes: Notes) -> str:
    encoding = json.detect_encoding(data)
    text = data.decode(encoding, "replace")
    if "\ufffd" in text:
        valid = data.decode(encoding, "ignore").count("\ufffd")
        notes.add(f"not {encoding}, replaced by U+FFFD", count=text.count("\ufffd") - valid)
    notes.add("NUL dropped", count=text.count("\0"))
    return text.removeprefix("\ufeff").replace("\0", "")


def _without_lone_surrogates(text: str, notes: Notes) -> str:
    """Half of a surrogate pair is no character: it would fail when it is written."""
    if "\\ud" not in text and "\\uD" not in text:
        return text

    lone: list[int] = []

    def keep_or_replace(escape: re.Match[str]) -> str:
        if not escape["lone"]:
            return escape[0]
        lone.append(escape.start())
        return "\\ufffd"

    replaced = _ESCAPE.sub(keep_or_replace, text)
    first = f"line {text.count(chr(10), 0, lone[0]) + 1}" if lone else ""
    notes.add("half of a surrogate pair, replaced by U+FFFD", first, len(lone))
    return replaced


def _value(text: str, source: str, notes: Notes, line: int) -> Any:
    """One JSON value from `text`, which begins on `line` of the file."""
    found = Notes()
    try:
        value = _decoder(found, f"line {line}").decode(text.strip(" \t\r\n\ufeff"))
    except json.JSONDecodeError as error:
        what, position = f"is not JSON: {error.msg}", _offset(text) + error.pos
    except RecursionError:
        what, position = "is nested too deeply to be read", _deepest(text)
    except ValueError:
        what, position = "holds an integer of thousands of digits", _huge_integer(text)
    else:
        notes.extend(found)
        return value
    row = line + text.count("\n", 0, position)
    column = position - text.rfind("\n", 0, position)
    raise FormatError(
        what, where=f"{source}:{row}:{column}", fix="Give a file of JSON or JSON Lines."
    )


def _lines(text: str, source: str, notes: Notes) -> Documents | None:
    """The values of a file with one on each line; None when that is not what it is."""
    found = Notes()
    values: list[Any] = []
    numbers: list[int] = []
    rows = [(number, row) for number, row in enumerate(text.split("\n"), 1) if row.strip()]
    for number, row in rows:
        try:
            values.append(_value(row, source, found, number))
            numbers.append(number)
        except FormatError as error:
            torn = number == rows[-1][0]
            what = "last line is torn" if torn else "line cannot be read"
            found.add(f"{what}, skipped", f"line {number}: {error.what}", lost=True)
    if len(rows) < 2 or len(values) * 2 < len(rows):
        return None
    notes.extend(found)
    return Documents(tuple(values), tuple(numbers))


def _decoder(notes: Notes, where: str) -> json.JSONDecoder:
    def constant(written: str) -> None:
        notes.add("number that is not finite, read as null", f"{where}: {written[:20]}")

    def real(written: str) -> float | None:
        value = float(written)
        if math.isfinite(value):
            return value
        constant(written)
        return None

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(items)
        if len(value) < len(items):
            lost = len(items) - len(value)
            notes.add("key written twice in one object, the last value kept", where, lost)
        return value

    return json.JSONDecoder(
        strict=False, parse_constant=constant, parse_float=real, object_pairs_hook=pairs
    )


def _offset(text: str) -> int:
    return len(text) - len(text.lstrip(" \t\r\n\ufeff"))


def _huge_integer(text: str) -> int:
    found = _HUGE_INTEGER.search(text)
    return found.start() if found else 0


def _deepest(text: str) -> int:
    depth = deepest = position = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > deepest:
                deepest, position = depth, token.start()
        elif token[0] in "]}":
            depth -= 1
    return position
