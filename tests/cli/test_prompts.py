from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from faultattr_local.cli.app import app

TRACE = [
    {"role": "user", "content": "Add two and two."},
    {"role": "assistant", "content": "Five\x1b[31m, [bold]sure[/bold]."},
]


def prompts(tmp_path: Path, *arguments: str, colour: bool = False) -> tuple[str, str]:
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps(TRACE))
    model = f"engine.model={tmp_path}/no-model"
    command = ["prompts", *arguments[:1], str(trace), "-c", "smollm2-cpu", "-c", model]
    env = {"FORCE_COLOR": "1", "TERM": "xterm"} if colour else {}
    result = CliRunner().invoke(app, [*command, *arguments[1:]], env=env, color=True)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def test_the_first_round_is_printed_as_sent(tmp_path: Path) -> None:
    text, told = prompts(tmp_path, "raffles")
    assert text.count("=== call ") == 4
    assert "=== call 2: evaluator:fault_condition ===" in text
    assert "=== system, " in text
    assert "Five\x1b[31m, [bold]sure[/bold]." in text, "to the byte when piped"
    assert '"maxLength": ' in text
    assert "4 calls. Nothing was sent." in told
    assert "characters are counted, not tokens" in told


def test_on_a_terminal_control_characters_are_spelled_out(tmp_path: Path) -> None:
    text, _ = prompts(tmp_path, "raffles", "--calls", "1", colour=True)
    assert r"Five\x1b[31m, [bold]sure[/bold]." in text
    assert "Five\x1b" not in text


def test_calls_bounds_what_is_printed(tmp_path: Path) -> None:
    text, _ = prompts(tmp_path, "safari", "--calls", "2")
    assert text.count("=== call ") == 2


def test_an_unknown_method_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["prompts", "nonesuch", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "method: Input should be 'raffles'" in result.stderr
