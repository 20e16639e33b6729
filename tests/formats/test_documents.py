import json
from typing import Any

import pytest

from faultattr_local.errors import FormatError
from faultattr_local.formats.documents import parse
from faultattr_local.formats.notes import Notes


def read(data: bytes) -> tuple[tuple[Any, ...], dict[str, tuple[int, str]]]:
    notes = Notes()
    values = parse(data, "a.json", notes).values
    return values, {note.what: (note.count, note.first) for note in notes.listed()}


TEXT = '{"a": "žluť 🐎", "b": [1, 2.5, true, null]}'
VALUE = {"a": "žluť 🐎", "b": [1, 2.5, True, None]}


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        TEXT.encode("utf-8-sig"),
        TEXT.encode("utf-16"),
        TEXT.encode("utf-16-le"),
        "\ufeff".encode("utf-16-be") + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-32"),
        TEXT.replace(", ", ",\r\n").encode(),
        json.dumps(VALUE).encode(),
    ],
)
def test_encodings_line_ends_and_escaped_pairs_change_nothing(data: bytes) -> None:
    assert read(data) == ((VALUE,), {})


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n", b"\r\n \t\r\n"])
def test_lines(end: bytes) -> None:
    assert read(b'{"a": 1}' + end + b"[2]" + end + b'"three"') == (({"a": 1}, [2], "three"), {})


def test_only_a_line_feed_ends_a_line() -> None:
    row = '{"a": "x\u2028y\u0085z\x0bw\rv"}'
    assert read(f"{row}\n{row}\n".encode())[0] == ({"a": "x\u2028y\u0085z\x0bw\rv"},) * 2


def test_a_torn_last_line_is_counted_with_its_number() -> None:
    values, notes = read(b'{"a": 1}\n{"a": 2}\n\n{"a": "thr')
    assert values == ({"a": 1}, {"a": 2})
    assert notes == {
        "last line is torn, skipped": (
            1,
            "line 4: is not JSON: Unterminated string starting at",
        )
    }


def test_a_bad_line_in_the_middle_costs_itself() -> None:
    values, notes = read(b'{"a": 1}\noops\n[%s]\n{"a": 2}\n{"a": 3}' % (b"9" * 5000))
    assert values == ({"a": 1}, {"a": 2}, {"a": 3})
    assert [count for count, _ in notes.values()] == [2]


def test_places_are_lines_of_the_file() -> None:
    documents = parse(b'\n{"a": 1}\n\n{"a": 2}', "a.jsonl", Notes())
    assert [documents.place(at) for at in (0, 1)] == ["line 2", "line 4"]
    assert parse(b'\n{"a": 1}', "a.json", Notes()).place(0) == ""


def test_what_no_text_can_hold_is_replaced_and_counted() -> None:
    values, notes = read(rb'["\ud83d\ude00 \ud83d, \uDE00 \\ud83d"]')
    assert values == (["😀 \ufffd, \ufffd \\ud83d"],)
    assert notes == {"half of a surrogate pair, replaced by U+FFFD": (2, "line 1")}


def test_bytes_that_are_not_utf8_are_replaced_and_counted() -> None:
    values, notes = read(b'["caf\xe9 \xef\xbf\xbd"]')
    assert values == (["caf\ufffd \ufffd"],)
    assert notes == {"not utf-8, replaced by U+FFFD": (1, "")}


def test_numbers_that_are_not_finite_are_null_and_counted() -> None:
    values, notes = read(b"[NaN, -Infinity, 1e999, 12345678901234567890]")
    assert values == ([None, None, None, 12345678901234567890],)
    assert notes == {"number that is not finite, read as null": (3, "line 1: NaN")}


def test_nul_is_dropped_and_counted() -> None:
    assert read(b'["a\0b"]' + b"\0" * 9) == ((["ab"],), {"NUL dropped": (10, "")})


def test_a_key_written_twice_is_counted() -> None:
    values, notes = read(b'{"a": 1, "a": 2}')
    assert values == ({"a": 2},)
    assert list(notes.values()) == [(1, "line 1")]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "a.json: is empty"),
        (b" \n\0\n", "a.json: is empty"),
        (b'{"a": 1,\n "b" 2}', "a.json:2:6: is not JSON: Expecting ':' delimiter"),
        (b"\n\n  {]", "a.json:3:4: is not JSON"),
        (b"2025-03-30 12:00:00: agent started\nand more", "a.json:1:5: is not JSON: Extra data"),
        (b'{"a": [1, 2],\n"b": [3, 4],\n"c": [5,\n', "a.json:3:9: is not JSON: Expecting value"),
        (b'{"a":\n' + b"[" * 99999 + b"]" * 99999 + b"}", "a.json:2:99999: is nested too deeply"),
        (b'{"a":\n ' + b"9" * 5000 + b"}", "a.json:2:2: holds an integer of thousands"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\xff\xcbM", "is not JSON"),
    ],
)
def test_errors_say_where(data: bytes, told: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(data)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
