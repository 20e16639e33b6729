from __future__ import annotations

import random
import re
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultattr_local.log import render
from faultattr_local.methods.line_log import MOST_COUNTED, BadPattern, LineLog
from faultattr_local.trajectory import Step, Trajectory


def run_of(*contents: str) -> Trajectory:
    steps = tuple(
        Step(index=3 + 2 * at, agent=f"Agent{at}", content=content)
        for at, content in enumerate(contents)
    )
    return Trajectory(id="run", task="A task.", steps=steps)


texts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), min_size=1)


@settings(deadline=None, max_examples=300)
@given(texts, st.integers(min_value=4, max_value=30))
def test_every_byte_stands_in_one_line_and_every_line_knows_its_step(
    contents: list[str], width: int
) -> None:
    trajectory = run_of(*contents)
    line_log = LineLog(trajectory, width)
    lines = line_log.read(1, len(line_log))
    assert [line.number for line in lines] == list(range(1, len(line_log) + 1))
    assert all(len(line.text.encode()) <= width for line in lines)
    whole = "".join(f"{'' if line.continues else chr(10)}{line.text}" for line in lines)
    assert f"{whole[1:]}\n" == render(trajectory)
    for step in trajectory.steps:
        own = "".join(line.text for line in lines if line.step is step)
        assert own.endswith(step.content.replace("\n", ""))


@settings(deadline=None, max_examples=300)
@given(texts, st.sampled_from(["a", "[^b]", "x.*y", "^-", "0$", r"[0-9]+ \|", "é"]))
def test_search_finds_the_lines_that_a_plain_scan_finds(contents: list[str], pattern: str) -> None:
    trajectory = run_of(*contents)
    found = LineLog(trajectory, 10_000).search(pattern, 10_000)
    kept = re.compile(pattern, re.IGNORECASE | re.DOTALL)
    lines = render(trajectory).split("\n")[:-1]
    assert [hit.number for hit in found.hits] == [
        number for number, line in enumerate(lines, 1) if kept.search(line)
    ]
    assert (found.total, found.exact) == (len(found.hits), True)


def test_reading_stops_at_the_end_and_refuses_what_is_not_there() -> None:
    line_log = LineLog(run_of("one", "two"), 100)
    assert [line.text for line in line_log.read(4, 50)] == ["two"]
    for offset in (0, 5):
        with pytest.raises(IndexError, match=f"line {offset} of 4"):
            line_log.read(offset, 1)


def test_a_long_line_is_wrapped_between_characters() -> None:
    line_log = LineLog(run_of("é" * 25), 11)
    wrapped = [line for line in line_log.read(1, len(line_log)) if "é" in line.text]
    assert [line.text for line in wrapped] == ["é" * 5] * 5
    assert [line.continues for line in wrapped] == [False, True, True, True, True]


def test_text_that_is_not_unicode_is_shown_escaped() -> None:
    assert LineLog(run_of("a\ud800b"), 100).read(2, 1)[0].text == r"a\ud800b"


def test_hits_tell_where_they_are_and_all_are_counted() -> None:
    line_log = LineLog(run_of("an Error", "fine", "error\nand error, error"), 100)
    found = line_log.search("error", 2)
    assert [(hit.number, hit.step.index, hit.step.agent) for hit in found.hits] == [
        (2, 3, "Agent0"),
        (6, 7, "Agent2"),
    ]
    assert (found.total, found.exact) == (3, True)
    assert line_log.search("(?-i)Error", 5).total == 1


def test_a_match_is_found_across_a_wrap_and_shown_with_its_surroundings() -> None:
    line_log = LineLog(run_of("x" * 98 + "needle" + "y" * 500), 100)
    (hit,) = line_log.search("needle", 5).hits
    assert (hit.number, hit.continues) == (2, False)
    assert hit.text == f"...{'x' * 60}ne"
    (after,) = line_log.search("dley", 5).hits
    assert (after.number, after.continues) == (3, True)


def test_a_match_lies_within_a_line_of_the_trace() -> None:
    line_log = LineLog(run_of("alpha\nbeta"), 100)
    assert line_log.search(r"alpha\s+beta", 5).total == 0
    assert line_log.search(r"alpha[^x]*beta", 5).total == 0
    assert line_log.search("^beta$", 5).total == 1


@pytest.mark.parametrize("pattern", ["(", "a**", "(?=x)", r"(a)\1", "[z-a]", "x{5000}"])
def test_a_bad_pattern_says_why(pattern: str) -> None:
    with pytest.raises(BadPattern, match=r"^pattern ") as caught:
        LineLog(run_of("aaa"), 100).search(pattern, 5)
    assert caught.value.what


def test_counting_stops_and_says_so() -> None:
    line_log = LineLog(run_of("x\n" * (MOST_COUNTED + 5)), 100)
    found = line_log.search("^x", 3)
    assert (len(found.hits), found.total, found.exact) == (3, MOST_COUNTED, False)
    exactly = LineLog(run_of("x\n" * MOST_COUNTED), 100).search("^x", 3)
    assert (exactly.total, exactly.exact) == (MOST_COUNTED, True)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+b", "a(.*b)?", "(a*)*c", ".{0,400}a.{0,400}"]
)
def test_patterns_that_explode_elsewhere_come_to_an_end(pattern: str) -> None:
    line_log = LineLog(run_of("a" * 2_000_000, "b"), 400)
    assert line_log.search(pattern, 5).total < 2_000_000 / 400


def test_a_long_line_with_many_matches_gives_way_to_the_lines_after_it() -> None:
    line_log = LineLog(run_of("a" * 3_000_000, "a"), 400)
    found = line_log.search("a(.*b)?", 10_000)
    assert not found.exact
    assert found.hits[-1].step.index == 5


@pytest.mark.parametrize("line_length", [8, 60, 3_000_000])
def test_memory_is_that_of_the_text_and_a_small_index(line_length: int) -> None:
    line = "".join(random.Random(1).choices("abcdef ", k=line_length - 1))
    content = f"{line}\n" * (3_000_000 // line_length)
    trajectory = run_of(content)
    assert trajectory.digest
    tracemalloc.start()
    line_log = LineLog(trajectory, 400)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert line_log.size + line_log.index_size <= kept < 1.7 * len(content)
    assert kept + len(content) < 3 * len(content)


def test_a_sample_is_spread_over_the_log() -> None:
    line_log = LineLog(run_of(*(f"content {at}" for at in range(500))), 100)
    sample = line_log.sample(pieces=4, lines=2)
    assert sample.count("\n") == 8
    assert sample.startswith("--- step 3 |")
    assert sample.endswith("content 499\n")
    short = LineLog(run_of("one", "two"), 100)
    assert short.sample(pieces=4, lines=2).count("\n") == 4


def test_one_match_over_several_wrapped_lines_is_one_hit() -> None:
    line_log = LineLog(run_of("a b " * 100), 50)
    assert line_log.search("a.*b", 5).total == 1
    assert line_log.search("a b", 5).total > 5


@pytest.mark.parametrize("pattern", ["$", "x*", "^"])
def test_a_pattern_that_matches_nothing_at_all_is_in_every_line(pattern: str) -> None:
    line_log = LineLog(run_of("one", "", "two\n"), 100)
    found = line_log.search(pattern, 100)
    assert [hit.number for hit in found.hits] == list(range(1, len(line_log) + 1))
    assert found.total == len(line_log)


def test_a_pattern_with_large_repetitions_is_counted_less_far() -> None:
    line_log = LineLog(run_of("x\n" * 300), 100)
    found = line_log.search(".{0,500}x.{0,500}", 20)
    assert (len(found.hits), found.exact) == (20, False)
    assert 20 < found.total < 300
