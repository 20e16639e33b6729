"""`faultattr show`: a run folder as a summary, or one verdict with its reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faultattr_local.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from faultattr_local.run.store import Key
    from faultattr_local.verdict import Verdict

LISTED = 10
"""Candidates that an error names."""


def show(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR")],
    trajectory: Annotated[
        str | None, typer.Argument(metavar="[TRAJECTORY]", help="Its id, or a part of it.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Shorten nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Show what a run found, or one verdict with its reasons."""
    from faultattr_local.cli.terminal import logged_to, stderr, stdout, visible_json
    from faultattr_local.run.store import read_trajectory, read_verdicts

    with logged_to(stderr()):
        verdicts = read_verdicts(run_dir)
        if trajectory is None:
            if as_json:
                raise UsageError("needs a TRAJECTORY", where="--json", fix="Name one of the run.")
            print_summary(stdout(), run_dir, verdicts)
            return
        key = chosen(verdicts, trajectory, run_dir)
        if as_json:
            typer.echo(visible_json(verdicts[key].model_dump_json(indent=2)))
            return
        from faultattr_local.cli.verdict_page import print_verdict

        print_verdict(stdout(), verdicts[key], read_trajectory(run_dir, key), full=full)


def chosen(verdicts: Mapping[Key, Verdict], part: str, run_dir: Path) -> Key:
    """The one trajectory of that id, or with that in its id.

    A changed trace under an old id is a trajectory of its own; the later is taken.

    Raises:
        UsageError: None has it, or several; says which there are.
    """
    exact = [key for key in verdicts if key[0] == part]
    if exact:
        return exact[-1]
    found = {name: key for key in verdicts if part.casefold() in (name := key[0]).casefold()}
    if len(found) == 1:
        return next(iter(found.values()))
    names = list(found) or list(dict.fromkeys(name for name, _ in verdicts))
    more = f", and {len(names) - LISTED} more" if len(names) > LISTED else ""
    listed = ", ".join(names[:LISTED]) + more
    if found:
        raise UsageError(f"is a part of {len(found)} ids", where=part, fix=f"Which? {listed}.")
    raise UsageError(f"is no trajectory of {run_dir}", where=part, fix=f"It has: {listed}.")


def print_summary(out: Console, run_dir: Path, verdicts: Mapping[Key, Verdict]) -> None:
    """The head of the run, then its table."""
    from faultattr_local.cli.table import print_verdicts, row_of, summary
    from faultattr_local.cli.terminal import say
    from faultattr_local.run.manifest import Manifest

    rows = [row_of(verdicts[key]) for key in sorted(verdicts, key=in_natural_order)]
    manifest = Manifest(run_dir, "if_possible").content
    sign = "" if out.is_terminal else "# "
    for line in (*head(manifest), summary(rows)):
        say(out, sign + line)
    if out.is_terminal:
        out.print()
    print_verdicts(out, rows)


def in_natural_order(key: Key) -> list[tuple[int, str]]:
    """Sorts run/2 before run/10."""
    parts = re.split(r"(\d+)", key[0])
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def head(manifest: Mapping[str, Any]) -> list[str]:
    """What the run was made with, a line each, from its run.json."""
    config, model = manifest.get("config", {}), manifest.get("model", {})
    engine = (manifest.get("sent", {}).get("engine") or {}).get("kind", "given from Python")
    lines = [
        f"method {config.get('method')}, model {model.get('name')} "
        f"({model.get('context_tokens')} tokens of context), engine {engine}"
    ]
    if config.get("show_reference_answer"):
        lines.append("the reference answer was shown to the model, where the trace has one")
    for sitting in manifest.get("sittings", []):
        ended = f"{sitting.get('outcome')} {sitting.get('ended')}"
        told = ended if "ended" in sitting else "not ended: it goes on, or was killed"
        lines.append(f"started {sitting['started']} on {sitting['host']}, {told}")
    for change in manifest.get("changes", []):
        told = "; ".join(f"{key} {what}" for key, what in change.items() if key != "time")
        lines.append(f"went on at {change['time']} with another {told}")
    return lines
