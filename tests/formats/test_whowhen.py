import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faultattr_local.errors import FormatError
from faultattr_local.formats.read import ReadResult, read_file, read_paths
from faultattr_local.log import render
from faultattr_local.trajectory import Label

KNOWN_MISMATCHES = {
    "Algorithm-Generated/14",
    "Algorithm-Generated/15",
    "Algorithm-Generated/59",
    "Hand-Crafted/20",
    "Hand-Crafted/22",
    "Hand-Crafted/49",
}


@pytest.fixture
def files(data: Path) -> list[Path]:
    return sorted((data / "whowhen").rglob("*.json"))


def results(paths: list[Path]) -> list[ReadResult]:
    found = list(read_paths(paths))
    assert all(isinstance(result, ReadResult) for result in found)
    return [result for result in found if isinstance(result, ReadResult)]


def test_every_file_is_read_with_its_label_and_nothing_to_tell(files: list[Path]) -> None:
    assert len(files) == 130
    read = results(files)
    assert {result.format for result in read} == {"whowhen"}
    assert [note for result in read for note in result.warnings] == []
    for result in read:
        record = json.loads(result.path.read_bytes())
        (found,) = result.trajectories
        assert found.label is not None
        assert found.trajectory.id == f"{result.path.parent.name}/{result.path.stem}"
        assert (found.label.agent, found.label.step, found.label.reason) == (
            record["mistake_agent"],
            int(record["mistake_step"]),
            record["mistake_reason"],
        )
        assert found.reference_answer == record["ground_truth"]
        assert found.trajectory.task == record["question"]
        assert [step.content for step in found.trajectory.steps] == [
            entry["content"] for entry in record["history"]
        ]
        assert [step.index for step in found.trajectory.steps] == list(
            range(len(record["history"]))
        )


def test_labels_name_the_agent_of_their_step_but_for_the_known_ones(files: list[Path]) -> None:
    mismatches = set()
    for result in results(files):
        (found,) = result.trajectories
        assert found.label is not None
        assert found.label.step is not None
        if found.trajectory.by_index[found.label.step].agent != found.label.agent:
            mismatches.add(found.trajectory.id)
    present = {f"{path.parent.name}/{path.stem}" for path in files}
    assert mismatches == KNOWN_MISMATCHES & present
    assert len(mismatches) >= 5


def test_no_label_and_no_answer_reaches_a_prompt(files: list[Path]) -> None:
    for result in results(files):
        (found,) = result.trajectories
        record = json.loads(result.path.read_bytes())
        record_of_all = found.trajectory.model_dump()
        seen = json.dumps(record_of_all, ensure_ascii=False) + render(found.trajectory)
        reason = json.dumps(record["mistake_reason"], ensure_ascii=False)[1:-1]
        assert reason not in seen
        assert record["mistake_reason"] not in render(found.trajectory)
        assert "mistake_" not in seen
        assert record_of_all["reference_answer"] is None
        assert record["ground_truth"] not in (found.trajectory.id, found.trajectory.source)
        for prompt in record.get("system_prompt", {}).values():
            assert not prompt or json.dumps(prompt, ensure_ascii=False)[1:-1] not in seen


def test_hand_crafted_roles_become_agent_kind_and_addressee(examples: Path) -> None:
    trajectory = read_file(examples / "choir-trip.json").trajectories[0].trajectory
    assert trajectory.agents == (
        "human",
        "Orchestrator",
        "FileSurfer",
        "WebSurfer",
        "Assistant",
        "ComputerTerminal",
    )
    as_read = [(step.agent, step.kind, step.to) for step in trajectory.steps]
    assert as_read[1] == ("Orchestrator", "thought", None)
    assert as_read[2] == ("Orchestrator", "message", "FileSurfer")
    assert as_read[-1] == ("Orchestrator", "termination condition", None)
    assert trajectory.steps[-1].source_ref == "history[66]"


def record(**changes: Any) -> bytes:
    whole = {
        "question": "Why?",
        "history": [
            {"role": "user", "name": "A", "content": "one"},
            {"role": "user", "name": "B", "content": "two"},
        ],
        "mistake_agent": "B",
        "mistake_step": "1",
    }
    return json.dumps(whole | changes).encode()


@pytest.mark.parametrize("step", ["2", "-1", "one", "", "1.5", None, "9" * 5000, "٣"])
def test_a_label_that_is_no_index_is_not_used_and_told(
    read_bytes: Callable[..., ReadResult], step: str | None
) -> None:
    result = read_bytes(record(mistake_step=step))
    assert result.trajectories[0].label is None
    assert [note.count for note in result.warnings] == [1]


def test_a_label_without_an_agent_is_told(read_bytes: Callable[..., ReadResult]) -> None:
    result = read_bytes(record(mistake_agent=None))
    assert result.trajectories[0].label == Label(agent=None, step=1)
    assert [note.what for note in result.warnings] == ["label that names no agent"]


def test_a_run_without_a_label_is_read(read_bytes: Callable[..., ReadResult]) -> None:
    unlabelled = json.loads(record())
    del unlabelled["mistake_agent"], unlabelled["mistake_step"]
    result = read_bytes(json.dumps(unlabelled).encode())
    assert result.trajectories[0].label is None
    assert result.warnings == ()


def test_a_step_without_a_name_or_content_is_kept_and_told(
    read_bytes: Callable[..., ReadResult],
) -> None:
    history = [{"role": "user", "name": "A", "content": None}, {"role": "user", "name": " "}]
    result = read_bytes(record(history=history))
    assert [(step.agent, step.content) for step in result.trajectories[0].trajectory.steps] == [
        ("A", ""),
        ("agent-user", ""),
    ]
    assert [str(note) for note in result.warnings] == [
        "step without an agent's name, called agent-user (once, first at "
        f"{result.path}, history[1])"
    ]


@pytest.mark.parametrize("history", [[], ["text"], [{"role": "x", "content": ""}, 3]])
def test_a_history_that_is_none_is_an_error(
    read_bytes: Callable[..., ReadResult], history: list[Any]
) -> None:
    with pytest.raises(FormatError, match=r"run\.json.*(has no steps|is not an object)"):
        read_bytes(record(history=history))
