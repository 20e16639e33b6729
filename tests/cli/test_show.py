from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from faultattr_local.cli.app import app
from faultattr_local.cli.page import shortened
from faultattr_local.engine.base import Request
from faultattr_local.errors import InvalidReply
from faultattr_local.run.preview import placeholder_reply
from faultattr_local.trajectory import Step, Trajectory

Make = Callable[..., Path]
COLUMNS = (
    "trajectory",
    "agent",
    "step",
    "confidence",
    "accepted",
    "rounds",
    "seconds",
    "status",
    "failure",
)


def placeholders(request: Request) -> Any:
    return json.loads(placeholder_reply(request).text)


def show(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["show", *map(str, arguments)])


def test_the_summary_is_stable_columns_when_piped(
    run_folder: Make, shops: list[Trajectory]
) -> None:
    def script(request: Request) -> Any:
        if request.trajectory == "mart/2":
            return InvalidReply("the answer was cut\tat 9 tokens")
        return placeholders(request)

    result = show(run_folder(shops, script=script))
    lines = result.stdout.splitlines()
    head = [line for line in lines if line.startswith("# ")]
    table = [line.split("\t") for line in lines if not line.startswith("# ")]
    assert result.exit_code == 0
    assert head[0].startswith("# method raffles, model scripted")
    assert head[-1] == "# 2 attributed (0 accepted), 1 unscored"
    assert table[0] == list(COLUMNS)
    by_name = {row[0]: row[1:] for row in table[1:]}
    assert by_name["shop/1"][:5] == ["Planner", "0", "0.25", "no", "2"]
    assert by_name["shop/1"][6:] == ["attributed", ""]
    assert by_name["mart/2"][-1] == "InvalidReply: the answer was cut at 9 tokens"
    assert all(len(row) == 9 for row in table)


def test_raffles_shows_every_argument_and_assessment(
    run_folder: Make, shops: list[Trajectory]
) -> None:
    def script(request: Request) -> Any:
        answer = placeholders(request)
        if request.role == "judge":
            answer["fault"] = {"agent": "Clerk", "step": 2}
            answer["primacy"]["citations"] = [{"step": 2, "quote": "two pears cost"}]
            answer["decisiveness"]["rationale"] = "Nobody looked again."
        elif request.role == "evaluator:primacy":
            answer |= {"rationale": "Well argued.", "confidence": 81}
        return answer

    result = show(run_folder(shops[:1], script=script), "shop/1")
    text = result.stdout
    assert result.exit_code == 0, result.output
    assert "  step 2, Clerk" in text
    assert "> step 2, Clerk  message" in text
    assert "  step 0, Planner" in text
    assert "Iteration 2: step 2, Clerk, 181 of 400" in text
    assert "step 2: found" in text
    assert "step 0: NOT FOUND" in text
    assert "Nobody looked again." in text
    assert "Evaluator 81 of 100" in text
    assert "Well argued." in text
    assert "rule 100 of 100" in text
    assert "8 requests" in text


def test_safari_shows_its_turns(run_folder: Make, shops: list[Trajectory]) -> None:
    def script(request: Request) -> Any:
        answer = placeholders(request)
        if "confidence" in answer:
            answer |= {"rationale": "It is borne out.", "confidence": 90}
        return answer

    text = show(run_folder(shops[:1], "safari", script), "shop/1").stdout
    assert 'Turn 1: read {"offset": 1, "limit": 1}' in text
    assert "hypothesis: step 0, Planner" in text
    assert "evidence: <evidence>" in text
    assert "Evaluator 90 of 100" in text
    assert "It is borne out." in text
    assert "hypothesis: <hypothesis>" in text, "the memory"
    assert "mean confidence 90 of 100" in text


def test_a_simple_method_shows_its_path(run_folder: Make, shops: list[Trajectory]) -> None:
    text = show(run_folder(shops[:1], "step_by_step"), "shop/1").stdout
    assert "Decisions" in text
    assert "step 3, Planner: no, confidence 0: <rationale>" in text


def test_an_unscored_trajectory_shows_why(run_folder: Make, shops: list[Trajectory]) -> None:
    folder = run_folder(shops[:1], script=lambda request: InvalidReply("the answer is empty"))
    text = show(folder, "shop/1").stdout
    assert "unscored: nothing was decided" in text
    assert "InvalidReply: the answer is empty" in text
    assert "2 requests (2 invalid)" in text


@pytest.mark.parametrize("colour", [False, True])
def test_a_hostile_trace_cannot_steer_the_terminal(
    run_folder: Make, shops: list[Trajectory], colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if colour:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")

    def script(request: Request) -> Any:
        answer = placeholders(request)
        if request.role == "judge":
            answer["fault"] = {"agent": "Clerk\x1b[31m", "step": 2}
        return answer

    folder = run_folder(shops, script=script)
    result = CliRunner().invoke(app, ["show", str(folder), "shop/2"], color=True)
    summary = CliRunner().invoke(app, ["show", str(folder)], color=True)
    assert r"\x1b[2J\x1b]0;owned\x07[bold]Two pears[/bold] cost \u202e6.00 :smile:" in (
        result.stdout.replace("\x1b[2m", "").replace("\x1b[0m", "")
    )
    assert r"Clerk\x1b[31m" in result.stdout
    assert r"Clerk\x1b[31m" in summary.stdout
    for text in (result.stdout, summary.stdout):
        assert ("\x1b[1" in text) == colour
        assert "\x1b[2J" not in text
        assert "\x1b]" not in text
        assert "Clerk\x1b[31m" not in text


def test_a_part_of_the_id_is_enough(run_folder: Make, shops: list[Trajectory]) -> None:
    folder = run_folder(shops)
    assert show(folder, "MART").stdout.startswith("mart/2")
    several = show(folder, "shop")
    assert several.exit_code == 2
    assert several.stderr == "faultattr: shop: is a part of 2 ids. Which? shop/1, shop/2.\n"
    absent = show(folder, "bank")
    assert absent.exit_code == 2
    assert absent.stderr.endswith("It has: shop/1, shop/2, mart/2.\n")


def test_the_exact_id_wins_over_longer_ones(run_folder: Make, trajectory: Trajectory) -> None:
    longer = trajectory.model_copy(update={"id": "shop/11"})
    assert show(run_folder([longer, trajectory]), "shop/1").stdout.startswith("shop/1\n")


def test_json_is_the_verdict(run_folder: Make, shops: list[Trajectory]) -> None:
    verdict = json.loads(show(run_folder(shops), "shop/2", "--json").stdout)
    assert verdict["trajectory"] == "shop/2"
    assert verdict["fault"]["step"] == 0
    assert len(verdict["iterations"]) == 2


def test_long_steps_are_shortened_in_the_middle_unless_asked(run_folder: Make) -> None:
    content = "A" * 2000 + "MIDDLE" + "Z" * 2000
    long = Trajectory(id="long", task="t", steps=(Step(index=7, agent="One", content=content),))
    folder = run_folder([long])
    short = show(folder, "long").stdout
    assert "MIDDLE" not in short
    assert "[... 2,806 characters; --full shows them ...]" in short
    assert "MIDDLE" in show(folder, "long", "--full").stdout


def test_shortened_counts_what_it_leaves_out() -> None:
    text = "".join(chr(65 + at % 26) for at in range(1000))
    start, told, end = shortened(text, 90).split("\n")
    assert text.startswith(start)
    assert text.endswith(end)
    assert f"{1000 - len(start) - len(end)} characters" in told
    assert shortened(text, 1000) == text


def test_what_is_no_run_folder_is_told_in_one_line(tmp_path: Path) -> None:
    result = show(tmp_path)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "is not a run folder" in result.stderr


def test_a_closed_pipe_is_quiet(run_folder: Make, shops: list[Trajectory]) -> None:
    many = [shops[0].model_copy(update={"id": f"{at}" * 300}) for at in range(1, 400)]
    folder = run_folder(many, "binary_search")
    command = [sys.executable, "-c", "from faultattr_local.cli import main; main()"]
    ended = subprocess.run(
        f"{' '.join(map(repr, command))} show {folder} | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.startswith("# method binary_search")
    assert ended.stderr == ""
