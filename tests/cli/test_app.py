from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from faultattr_local.cli.app import app

HEAVY = {"vllm", "torch", "transformers", "outlines", "ray", "tokenizers", "numpy"}


def modules_after(code: str) -> set[str]:
    """Names of the modules that a fresh interpreter has loaded after some code."""
    tell = "import sys, json; print(json.dumps(sorted(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", f"{code}\n{tell}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(ended.stdout.splitlines()[-1]))


def test_importing_the_package_loads_no_model_library() -> None:
    names = """
import faultattr_local as package
for name in package.__all__:
    getattr(package, name)
"""
    assert not HEAVY & modules_after(names)


def test_help_loads_little() -> None:
    code = """
import sys
sys.argv = ["faultattr", "--help"]
from faultattr_local.cli import main
try:
    main()
except SystemExit as done:
    assert not done.code
"""
    loaded = modules_after(code)
    assert not HEAVY & loaded
    assert not {"pydantic", "rich", "yaml", "jinja2", "asyncio", "httpx"} & loaded
    assert len(loaded) < 350


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.stdout == f"faultattr {version('faultattr-local')}\n"


@pytest.mark.parametrize(
    ("command", "row"),
    [
        ("methods", "one_shot\tthe whole log once\tarXiv 2505.00212"),
        ("engines", "vllm\t"),
        ("formats", "whowhen\tWho&When: "),
    ],
)
def test_lists(command: str, row: str) -> None:
    result = CliRunner().invoke(app, [command])
    assert result.exit_code == 0
    assert any(line.startswith(row) for line in result.stdout.splitlines())


def test_a_fault_of_the_program_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faultattr_local.formats.FORMATS", None)
    result = CliRunner().invoke(app, ["formats"])
    assert isinstance(result.exception, AttributeError)
