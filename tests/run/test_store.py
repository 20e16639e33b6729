from __future__ import annotations

import json
import os
import resource

import pytest

from faultattr_local.errors import RunFolderError
from faultattr_local.run.manifest import Manifest
from faultattr_local.run.store import (
    Appender,
    RunFolder,
    cut_torn_line,
    read_lines,
    read_trajectory,
    read_verdicts,
)
from faultattr_local.verdict import Failure, Verdict


def verdict_of(item, status="attributed", **rest):
    one = item.trajectory
    return Verdict(trajectory=one.id, digest=one.digest, status=status, method="raffles", **rest)


def test_what_is_written_is_read(tmp_path, items):
    (tmp_path / "run.json").write_text("{}")
    with RunFolder(tmp_path) as folder:
        for item in items(3):
            folder.write_verdict(item, verdict_of(item))
    verdicts = read_verdicts(tmp_path)
    assert [name for name, _ in verdicts] == ["t/0", "t/1", "t/2"]
    item = items(3)[1]
    assert read_trajectory(tmp_path, (item.trajectory.id, item.trajectory.digest)) == item
    assert read_trajectory(tmp_path, (item.trajectory.id, "other")) is None


def test_of_two_verdicts_the_later_holds_and_unscored_ones_do_not_stand(tmp_path, items):
    (tmp_path / "run.json").write_text("{}")
    one, two = items(2)
    failure = Failure(error="InvalidReply", message="cut")
    with RunFolder(tmp_path) as folder:
        folder.write_verdict(one, verdict_of(one, "unscored", failure=failure))
        folder.write_verdict(two, verdict_of(two, "unscored", failure=failure))
        folder.write_verdict(one, verdict_of(one))
        assert [name for name, _ in folder.standing()] == ["t/0"]
    assert [one.status for one in read_verdicts(tmp_path).values()] == ["attributed", "unscored"]


@pytest.mark.parametrize("torn", [b'{"half": ', b"x" * 200_000, b"\xff\xfe"])
def test_a_torn_last_line_is_cut_and_the_rest_kept(tmp_path, items, torn, caplog):
    (tmp_path / "run.json").write_text("{}")
    with RunFolder(tmp_path) as folder:
        item = items(1)[0]
        folder.write_verdict(item, verdict_of(item))
    path = tmp_path / "verdicts-0.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert len(read_verdicts(tmp_path)) == 1
    assert "is torn and skipped" in caplog.text
    with RunFolder(tmp_path):
        pass
    assert path.read_bytes() == whole
    assert "cut a torn last line" in caplog.text


def test_a_file_that_is_one_torn_line_becomes_empty(tmp_path):
    path = tmp_path / "verdicts-0.jsonl"
    path.write_bytes(b"no newline")
    assert cut_torn_line(path) == 10
    assert path.read_bytes() == b""
    assert cut_torn_line(path) == 0


@pytest.mark.parametrize(
    ("damaged", "told"),
    [
        (b"{oops", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[1]", "is no record with trajectory, digest"),
        (b'{"trajectory": 1}', "is no record with trajectory, digest"),
    ],
)
def test_a_damaged_line_in_the_middle_is_told_with_its_number(tmp_path, damaged, told):
    good = b'{"trajectory": "t", "digest": "d"}\n'
    (tmp_path / "verdicts-0.jsonl").write_bytes(good + damaged + b"\n" + good)
    with pytest.raises(RunFolderError, match=rf"verdicts-0.jsonl, line 2: {told}.*Delete"):
        list(read_lines(tmp_path, "verdicts"))


def test_a_verdict_of_another_shape_is_told(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "verdicts-0.jsonl").write_text(
        json.dumps({"trajectory": "x", "digest": "d"}) + "\n"
    )
    with pytest.raises(RunFolderError, match="a Verdict of another shape: status: Field required"):
        read_verdicts(tmp_path)


def test_a_shard_has_one_writer_and_shards_write_beside_each_other(tmp_path):
    with RunFolder(tmp_path):
        with pytest.raises(RunFolderError, match="another process is writing here"):
            RunFolder(tmp_path)
        with RunFolder(tmp_path, "1"):
            assert (tmp_path / "calls-1.jsonl").exists()
    with RunFolder(tmp_path):
        pass


def test_half_a_surrogate_pair_is_written_and_read_again(tmp_path):
    with Appender(tmp_path / "calls-0.jsonl") as appender:
        call = {"key": "k", "trajectory": "t", "valid": True, "reply": {"text": "\ud83d"}}
        appender.write(json.dumps(call, ensure_ascii=False))
    assert list(read_lines(tmp_path, "calls")) == [call]


def test_a_line_that_cannot_be_written_is_told_and_cut_the_next_time(tmp_path):
    path = tmp_path / "calls-0.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Appender(path) as appender:
        appender.write("{}")
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
        try:
            with pytest.raises(RunFolderError, match=r"calls-0.jsonl: cannot be written: .*Make"):
                appender.write("x" * 100)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with Appender(path) as appender:
        appender.write("[]")
    assert path.read_text().splitlines() == ["{}", "[]"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "is not what was written there"),
        ("[]", "is not what was written there"),
        ('{"sittings": "x"}', "sittings"),
        ('{"sittings": [], "config": []}', "config"),
        ('{"sittings": [{}]}', "started"),
    ],
)
def test_a_damaged_run_json_is_told(tmp_path, content, told):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunFolderError, match=rf"run.json: .*{told}.*put its run.json back"):
        Manifest(tmp_path, "if_possible")


def test_verdicts_without_a_run_json_are_not_taken_up(tmp_path):
    (tmp_path / "verdicts-0.jsonl").write_text("{}\n")
    with pytest.raises(RunFolderError, match=r"verdicts but no run.json"):
        Manifest(tmp_path, "if_possible")


def test_a_trajectory_of_another_shape_is_told(tmp_path):
    (tmp_path / "trajectories-0.jsonl").write_text('{"trajectory": {"id": "x"}}\n')
    with pytest.raises(RunFolderError, match="a LabelledTrajectory of another shape"):
        read_trajectory(tmp_path, ("x", "d"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RunFolderError, match="cannot be made"):
        RunFolder(tmp_path / "run")


def test_a_path_that_is_a_file_is_told(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(RunFolderError, match="cannot be made"):
        RunFolder(tmp_path / "run")


@pytest.mark.parametrize(("name", "told"), [("absent", "does not exist"), (".", "is not a run")])
def test_a_folder_without_a_run_is_told(tmp_path, name, told):
    with pytest.raises(RunFolderError, match=told):
        read_verdicts(tmp_path / name)
