import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faultattr_local.errors import FormatError, UsageError
from faultattr_local.formats import FORMATS, ReadResult, read_file, read_paths
from faultattr_local.formats.read import count_files
from faultattr_local.log import render

HELLO = b'[{"role": "user", "content": "hello"}]'


def chat(text: str) -> bytes:
    return json.dumps([{"role": "user", "content": text}]).encode()


def told(result: ReadResult | FormatError) -> str:
    if isinstance(result, FormatError):
        return str(result)
    return f"{result.path.name}: {[found.trajectory.id for found in result.trajectories]}"


def fill(folder: Path, **files: bytes) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def test_a_folder_is_read_in_natural_order_and_a_bad_file_costs_itself(tmp_path: Path) -> None:
    fill(
        tmp_path, r__10_json=chat("a"), r__2_json=chat("b"), r__9_json=b"oops", r__b__1_jsonl=HELLO
    )
    assert count_files([tmp_path]) == 4
    assert [told(result) for result in read_paths([tmp_path])] == [
        "2.json: ['r/2']",
        f"{tmp_path}/r/9.json:1:1: is not JSON: Expecting value. "
        "Give a file of JSON or JSON Lines.",
        "10.json: ['r/10']",
        "1.jsonl: ['b/1']",
    ]


def test_what_is_passed_over_in_a_folder_is_counted(tmp_path: Path) -> None:
    fill(tmp_path, a_json=HELLO, a_txt=b"x", b_md=b"x", _hidden_json=HELLO, _git__a_json=HELLO)
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    read, passed = read_paths([tmp_path])
    assert isinstance(read, ReadResult)
    assert isinstance(passed, ReadResult)
    assert (passed.path, passed.format, passed.trajectories) == (tmp_path, "", ())
    assert sorted(note.count for note in passed.warnings) == [1, 1, 2, 2]


def test_a_folder_without_traces_is_an_error(tmp_path: Path) -> None:
    (result,) = read_paths([tmp_path])
    assert "holds no trace" in told(result)


def test_a_named_file_is_read_whatever_its_suffix(tmp_path: Path) -> None:
    fill(tmp_path, trace_log=HELLO)
    assert read_file(tmp_path / "trace.log").format == "openai-chat"


def test_one_id_is_given_once_and_one_run_is_read_once(tmp_path: Path) -> None:
    fill(tmp_path, a__x__1_json=chat("one"), b__x__1_json=chat("two"), c__x__2_json=chat("one"))
    first, second, third = (r for r in read_paths([tmp_path]) if isinstance(r, ReadResult))
    assert told(first) == "1.json: ['x/1']"
    digest = second.trajectories[0].trajectory.digest
    assert told(second) == f"1.json: ['x/1~{digest[:8]}']"
    assert len(second.warnings) == 1
    assert third.trajectories == ()
    assert str(third.warnings[0]) == (
        "trajectory read before, skipped (once, first at x/2, the same as x/1)"
    )


def test_only_one_file_is_read_at_a_time(tmp_path: Path) -> None:
    fill(tmp_path, a_json=HELLO, b_json=chat("old"))
    reading: Iterator[ReadResult | FormatError] = read_paths([tmp_path])
    next(reading)
    fill(tmp_path, b_json=chat("new"))
    second = next(reading)
    assert isinstance(second, ReadResult)
    assert second.trajectories[0].trajectory.task == "new"


def test_a_bad_run_among_many_costs_itself_and_numbers_stay(tmp_path: Path) -> None:
    runs = [{"question": "q", "history": [{"role": str(n), "content": ""}] * n} for n in (1, 0, 2)]
    lines = [*map(json.dumps, runs), "42"]
    result = read_file(fill(tmp_path, a_jsonl="\n".join(lines).encode()) / "a.jsonl")
    assert [found.trajectory.id.split("/")[1] for found in result.trajectories] == ["a#1", "a#3"]
    assert [str(error) for error in result.errors] == [
        f"{tmp_path}/a.jsonl, line 2: has no steps. Its `history` is empty."
    ]
    assert [str(note) for note in result.warnings] == [
        "value that is no whowhen run, not read (once)"
    ]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"no json", "is not JSON"),
        (b"[]", "is JSON of no known shape (tried whowhen, role-list, openai-chat)"),
        (b'{"messages": []}', "is JSON of no known shape"),
        (b'{"role": 1, "content": "x"}', "is JSON of no known shape"),
        (b'{"question": "q", "history": []}', "has no steps"),
        (b'{"question":"q","history":[]}\n' + HELLO, "could be whowhen or openai-chat"),
    ],
)
def test_errors_of_one_file_are_one_line(tmp_path: Path, content: bytes, what: str) -> None:
    path = fill(tmp_path, a_json=content) / "a.json"
    with pytest.raises(FormatError) as caught:
        read_file(path)
    assert what in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="does not exist"):
        read_file(tmp_path / "none.json")
    with pytest.raises(FormatError, match="cannot be read"):
        read_file(tmp_path)
    with pytest.raises(UsageError, match=r"Known: whowhen, role-list, openai-chat"):
        read_paths([tmp_path], format="nonsense")


def test_a_forced_format_says_what_it_expected(tmp_path: Path) -> None:
    path = fill(tmp_path, a_json=HELLO) / "a.json"
    with pytest.raises(FormatError, match=r"holds no whowhen run\. Expected Who&When"):
        read_file(path, format="whowhen")
    assert read_file(path, format="role-list").format == "role-list"


def test_a_file_name_need_not_be_utf8(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.json"
    Path(os.fsdecode(path)).write_bytes(HELLO)
    (result,) = read_paths([tmp_path])
    assert isinstance(result, ReadResult)
    assert result.trajectories[0].trajectory.id.endswith("caf\ufffd")


def test_no_public_trace_carries_two_signatures(data: Path) -> None:
    counts: dict[str, int] = {}
    for result in read_paths([data / "traces"]):
        if isinstance(result, FormatError):
            assert "could be" not in str(result)
        else:
            counts[result.format] = counts.get(result.format, 0) + 1
    assert counts == {"": 1, "openai-chat": 4, "role-list": 1}


KEYS = st.sampled_from(
    ["role", "content", "name", "messages", "history", "question", "mistake_agent"]
    + ["mistake_step", "tool_calls", "function", "arguments", "id", "tool_call_id", "type"]
    + ["text", "ground_truth", "function_call"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from(["user", "tool", "Planner (-> )", "A ( )", "1", "image", "\ud83d", "\0"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)
MESSAGE = st.fixed_dictionaries(
    {"role": SCALARS, "content": JSON}, optional={"name": JSON, "tool_calls": JSON}
)
DOCUMENT = (
    JSON
    | st.lists(MESSAGE)
    | st.fixed_dictionaries({"messages": st.lists(MESSAGE)})
    | st.fixed_dictionaries({"history": st.lists(MESSAGE | JSON), "question": JSON})
)


def survive(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    for format in (None, *FORMATS):
        try:
            result = read_file(path, format)
        except FormatError:
            continue
        assert result.trajectories or result.errors
        for found in result.trajectories:
            render(found.trajectory).encode()
            found.model_dump_json().encode()


@pytest.mark.parametrize("depth", [100, 800, 850, 900, 950, 990, 3000, 100_000])
def test_nesting_never_exhausts_the_stack(depth: int, tmp_path: Path) -> None:
    deep = b"[" * depth + b"]" * depth
    survive(b'[{"role": "user", "content": {"a": %s}}]' % deep, tmp_path / "a.json")
    survive(b'{"question": "", "history": [{"content": %s}]}' % deep, tmp_path / "b.json")


FUZZ = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@FUZZ
@given(content=st.binary() | st.text().map(str.encode))
def test_any_bytes_give_trajectories_or_a_format_error(content: bytes, tmp_path: Path) -> None:
    survive(content, tmp_path / "a.json")


@FUZZ
@given(values=st.lists(DOCUMENT, min_size=1, max_size=4), cut=st.integers(0, 40))
def test_any_json_gives_trajectories_or_a_format_error(
    values: list[Any], cut: int, tmp_path: Path
) -> None:
    whole = "\n".join(json.dumps(value) for value in values).encode()
    survive(whole[: len(whole) - cut] if cut < 20 else whole, tmp_path / "a.json")
