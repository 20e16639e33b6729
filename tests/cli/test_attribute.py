from __future__ import annotations

import io
import json
import signal
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from faultattr_local.cli.app import app
from faultattr_local.cli.attribute import attribute, report, run_attribution
from faultattr_local.cli.intake import Intake, require_some
from faultattr_local.cli.progress import Lines, Live, clock, remaining
from faultattr_local.cli.table import Row
from faultattr_local.engine.base import ModelCard, Request
from faultattr_local.engine.scripted import ScriptedEngine
from faultattr_local.errors import InvalidReply, RunFolderError, UsageError
from faultattr_local.run.config import Config
from faultattr_local.run.preview import placeholder_reply
from faultattr_local.run.progress import Progress


class CountedEngine(ScriptedEngine):
    """A scripted engine that counts its starts."""

    starts = 0

    async def start(self) -> ModelCard:
        self.starts += 1
        return await super().start()


def placeholders(request: Request) -> Any:
    return json.loads(placeholder_reply(request).text)


def faultattr(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def plain() -> Console:
    return Console(file=io.StringIO(), markup=False, highlight=False, emoji=False)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Four chat traces, one broken, and a file that is no trace."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for name in ("a", "b", "c", "d"):
        chat = [
            {"role": "user", "content": f"Add two and two, {name}."},
            {"role": "assistant", "content": "Five."},
        ]
        (folder / f"{name}.json").write_text(json.dumps(chat))
    (folder / "c.json").write_text("{")
    (folder / "notes.txt").write_text("not a trace")
    return folder


def run(
    traces: Path,
    folder: Path,
    config: Config,
    engine: ScriptedEngine,
    limit: int | None = None,
    console: Console | None = None,
) -> tuple[list[Row], Intake, str]:
    err = console or plain()
    intake = Intake([traces], None, limit, lambda line: err.print(f"warning: {line}"))
    watching = Lines(err, "scripted")
    rows = run_attribution(config, require_some(intake), folder, watching, engine=engine)
    return rows, intake, text_of(err)


def test_a_bad_file_costs_one_line_and_the_others_go_on(
    traces: Path, tmp_path: Path, config: Config
) -> None:
    rows, intake, told = run(traces, tmp_path / "run", config, ScriptedEngine(placeholders))
    assert [row.trajectory for row in rows] == ["traces/a", "traces/b", "traces/d"]
    assert {row.status for row in rows} == {"attributed"}
    assert intake.unreadable == 1
    assert told.count("warning: not read: ") == 1
    assert "serving scripted: 1,000,000 tokens of context" in told
    assert "3 traces/d: step 0, user, confidence 0.25" in told
    out, err = plain(), plain()
    report(out, err, rows, intake, tmp_path / "my run")
    assert text_of(out).count("\n") == 4
    assert "3 attributed (0 accepted), 1 not readable" in text_of(err)
    assert "not .json, .jsonl, .ndjson, .traj: passed over" in text_of(err)
    assert f"faultattr show '{tmp_path}/my run' TRAJECTORY" in text_of(err)


def test_a_resumed_run_with_nothing_to_do_starts_no_engine(
    traces: Path, tmp_path: Path, config: Config
) -> None:
    first = CountedEngine(placeholders)
    before, _, _ = run(traces, tmp_path / "run", config, first)
    again = CountedEngine(placeholders)
    after, _, told = run(traces, tmp_path / "run", config, again)
    assert (first.starts, again.starts) == (1, 0)
    assert after == before
    assert "nothing is left to do; no engine was started" in told
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    assert len(manifest["sittings"]) == 1


def test_only_what_is_unscored_is_tried_again(traces: Path, tmp_path: Path, config: Config) -> None:
    def failing(request: Request) -> Any:
        return InvalidReply("empty") if request.trajectory == "traces/b" else placeholders(request)

    rows, _, _ = run(traces, tmp_path / "run", config, ScriptedEngine(failing))
    assert [row.status for row in rows] == ["attributed", "unscored", "attributed"]
    engine = CountedEngine(placeholders)
    rows, _, told = run(traces, tmp_path / "run", config, engine)
    assert [row.status for row in rows] == ["attributed"] * 3
    assert {request.trajectory for request in engine.requests} == {"traces/b"}
    assert "nothing is left" not in told


def test_limit_counts_trajectories_and_reads_no_further(
    traces: Path, tmp_path: Path, config: Config
) -> None:
    engine = ScriptedEngine(placeholders)
    rows, intake, told = run(traces, tmp_path / "run", config, engine, limit=2)
    assert [row.trajectory for row in rows] == ["traces/a", "traces/b"]
    assert intake.unreadable == 0, "c.json stands after the second"
    assert "warning" not in told


def test_a_folder_of_another_config_is_refused_before_the_engine_starts(
    traces: Path, tmp_path: Path, config: Config
) -> None:
    run(traces, tmp_path / "run", config, ScriptedEngine(placeholders))
    other = config.model_copy(update={"method": "one_shot"})
    engine = CountedEngine(placeholders)
    with pytest.raises(RunFolderError, match="was made with another config"):
        run(traces, tmp_path / "run", other, engine)
    assert engine.starts == 0


def test_the_total_is_reckoned_from_the_files_read(traces: Path) -> None:
    intake = Intake([traces], None, None, lambda line: None)
    assert intake.total() == "at least 0"
    intake.count_files()
    items = iter(intake)
    next(items)
    assert intake.total() == "about 4"
    assert len(list(items)) == 2
    assert intake.total() == "3"


def test_live_progress_tells_counts_rates_and_time_left() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    live = Live(console, "vllm, /models/x", lambda: "about 40")
    assert live.draw().plain == "starting vllm, /models/x ..."
    progress = Progress(working=8, done=10, unscored=1, prompt_tokens=4000, cached_tokens=3000)
    live.follow(progress)
    live.served(ModelCard("x", "x", 8192, 46000))
    assert live.began is not None
    live.began -= 20
    first, second = live.draw().plain.split("\n")
    assert first == "10 of about 40 done, 8 at work, 1 unscored  0:20, about 1:00 left"
    assert second == "200 tokens/s read, 0 written, 75% from the prefix cache"
    assert remaining(progress, "at least 40", 20) == ""
    assert clock(3725) == "1:02:05"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["-c", "smollm2-cpu"], "-o RUN_DIR: is missing. Give a folder, or --dry-run."),
        (["-m", "rafles", "-c", "smollm2-cpu"], "no method 'rafles'. Did you mean raffles?"),
        (["-c", "nowhere.yaml"], "nowhere.yaml: no such config."),
        (["-c", "smollm2-cpu", "-c", "raffles.max_iteration=3"], "Did you mean max_iterations?"),
        (["-c", "smollm2-cpu", "--format", "xml"], "--format xml: is not a known format."),
        (["-c", "smollm2-cpu", "--no-memory"], "--no-memory: has no effect on raffles."),
        (["-m", "safari", "-c", "smollm2-cpu", "--first-error"], "has no effect on safari."),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    traces: Path, arguments: list[str], line: str
) -> None:
    result = faultattr("attribute", traces, *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("faultattr: ")
    assert result.stderr.count("\n") == 1
    assert line in result.stderr
    assert result.stdout == ""


def test_nothing_readable_is_exit_code_2_and_leaves_no_folder(tmp_path: Path) -> None:
    result = faultattr("attribute", tmp_path / "none", "-c", "smollm2-cpu", "-o", tmp_path / "run")
    assert result.exit_code == 2
    assert "nothing could be read (1 not readable)" in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_missing_model_is_one_line(traces: Path, tmp_path: Path) -> None:
    model = f"engine.model={tmp_path}/no-model"
    result = faultattr(
        "attribute", traces, "-c", "smollm2-cpu", "-c", model, "-o", tmp_path / "run"
    )
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith(f"faultattr: {tmp_path}/no-model: ")
    assert "Traceback" not in result.output


def test_a_stopped_run_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, traces: Path) -> None:
    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("faultattr_local.run.config.load_config", stop)
    result = faultattr("attribute", traces, "-o", "run")
    assert result.exit_code == 130
    assert result.stderr == "faultattr: stopped; run the same command again to go on\n"


def test_an_interrupted_run_keeps_what_it_has_and_goes_on(
    traces: Path, tmp_path: Path, config: Config
) -> None:
    def interrupted(request: Request) -> Any:
        signal.raise_signal(signal.SIGINT)
        return placeholders(request)

    folder = tmp_path / "run"
    run(traces, folder, config, ScriptedEngine(placeholders), limit=1)
    with pytest.raises(KeyboardInterrupt):
        run(traces, folder, config, ScriptedEngine(interrupted, delay=0.01))
    sittings = json.loads((folder / "run.json").read_text())["sittings"]
    assert [sitting["outcome"] for sitting in sittings] == ["finished", "stopped"]
    engine = CountedEngine(placeholders)
    rows, _, _ = run(traces, folder, config, engine)
    assert len(rows) == 3
    assert "traces/a" not in {request.trajectory for request in engine.requests}


def test_dry_run_counts_and_writes_nothing(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    model = f"engine.model={tmp_path}/no-model"
    result = faultattr("attribute", traces, "-c", "smollm2-cpu", "-c", model, "--dry-run")
    table = [line.split("\t") for line in result.stdout.splitlines()[:4]]
    assert table[0] == ["trajectory", "steps", "agents", "characters", "prompt", "fits"]
    assert table[1][:3] == ["traces/a", "2", "2"]
    assert table[1][-1] == "unknown"
    assert "The first prompt, judge on traces/a, begins:" in result.stdout
    assert "no-model is not there: characters are counted" in result.stderr
    assert result.exit_code == 3, "c.json cannot be read"
    assert sorted(tmp_path.rglob("*")) == before


def test_help_names_every_option() -> None:
    text = faultattr("attribute", "--help").stdout
    named = {name for name in signature(attribute).parameters if name not in ("paths", "run_dir")}
    for option in (f"--{name.replace('_', '-')}" for name in named):
        assert option in text
    assert len(named) == 9


def test_usage_error_when_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    intake = Intake([tmp_path / "empty"], None, None, lambda line: None)
    with pytest.raises(UsageError, match="nothing could be read"):
        require_some(intake)
