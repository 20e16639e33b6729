import re
from pathlib import Path

from faultattr_local.formats import FORMATS, ReadResult, read_paths
from faultattr_local.trajectory import LabelledTrajectory


def read(examples: Path) -> list[tuple[str, str, LabelledTrajectory]]:
    results = [result for result in read_paths([examples]) if isinstance(result, ReadResult)]
    for result in results:
        assert result.errors == ()
        assert not result.format or result.warnings == ()
    return [(r.path.name, r.format, found) for r in results for found in r.trajectories]


def test_every_format_has_an_example_and_one_is_long(examples: Path) -> None:
    runs = read(examples)
    assert {format for _, format, _ in runs} == set(FORMATS)
    assert max(len(found.trajectory.steps) for _, _, found in runs) >= 60


def test_the_table_of_truths_fits_the_files(examples: Path) -> None:
    rows = re.findall(
        r"^\| `(\S+)`.*?\| (\S+).*?\| (\d+) \| step (\d+) \| (\S+) \|$",
        (examples / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    runs = {found.trajectory.id: (name, format, found) for name, format, found in read(examples)}
    assert len(rows) == len(runs)
    unseen = list(runs.values())
    for name, format, steps, step, agent in rows:
        run = next(run for run in unseen if run[0] == name)
        unseen.remove(run)
        trajectory, label = run[2].trajectory, run[2].label
        assert run[1] == format
        assert len(trajectory.steps) == int(steps)
        assert trajectory.by_index[int(step)].agent == agent
        assert label is None or (label.agent, label.step) == (agent, int(step))
