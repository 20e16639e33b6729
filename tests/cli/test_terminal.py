from __future__ import annotations

import json

import pytest

from faultattr_local.cli.terminal import one_line, visible, visible_json


@pytest.mark.parametrize(
    ("hostile", "told"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b31mred", r"\x9b31mred"),
        ("a\rb", r"a\x0db"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u2028b", r"a\u2028b"),
        ("\U000e0041", r"\U000e0041"),
        ("bell\x07", r"bell\x07"),
    ],
)
def test_what_steers_a_terminal_is_spelled_out(hostile: str, told: str) -> None:
    assert visible(hostile) == told


@pytest.mark.parametrize(
    "honest", ["naïve Zürich", "東京の駅", "👩‍👩‍👧 ok", "[bold]x[/bold]", "می‌خواهم"]
)
def test_what_people_write_stays(honest: str) -> None:
    assert visible(honest) == honest


def test_one_line_holds_no_line_end() -> None:
    assert one_line("a\nb\r\n\tc\x85d") == "a b c d"


def test_json_made_visible_means_the_same() -> None:
    text = json.dumps({"k": "\x7f\x9b\u202e\U000e0041 ü"}, ensure_ascii=False)
    shown = visible_json(text)
    assert json.loads(shown) == json.loads(text)
    assert shown.replace("ü", "").isascii()
