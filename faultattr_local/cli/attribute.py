"""`faultattr attribute`: find the decisive fault of each trajectory, kept in a run folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from faultattr_local.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from faultattr_local.cli.intake import Intake
    from faultattr_local.cli.progress import Watch
    from faultattr_local.cli.table import Row
    from faultattr_local.engine.base import Engine
    from faultattr_local.run.config import Config
    from faultattr_local.run.manifest import Resume
    from faultattr_local.run.store import Key
    from faultattr_local.trajectory import LabelledTrajectory

SOME_UNSCORED = 3

ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "-c",
        "--config",
        metavar="FILE|KEY=VALUE",
        help="A YAML file, a shipped config's name, or KEY=VALUE.",
    ),
]
MethodOption = Annotated[
    str | None, typer.Option("-m", "--method", help="See `faultattr methods`.", metavar="NAME")
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="See `faultattr formats`; else found out."),
]


def attribute(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    run_dir: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="RUN_DIR", help="Where to record; needed unless --dry-run."
        ),
    ] = None,
    method: MethodOption = None,
    config: ConfigOption = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Take the first N trajectories.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and count; send and write nothing.")
    ] = False,
    resume: Annotated[
        Literal["never", "if_possible", "always"],
        typer.Option(help="What to do when RUN_DIR holds a run already."),
    ] = "if_possible",
    format: FormatOption = None,
    no_memory: Annotated[
        bool, typer.Option("--no-memory", help="SAFARI without its short-term memory.")
    ] = False,
    show_reference_answer: Annotated[
        bool, typer.Option("--show-reference-answer", help="Show the right answer to the model.")
    ] = False,
    first_error: Annotated[
        bool, typer.Option("--first-error", help="RAFFLES: the first error of a reasoning chain.")
    ] = False,
) -> None:
    """Find the decisive faulty step of each failed run.

    Exit code 0: all attributed. 2: nothing could be done. 3: some trajectories are unscored,
    or some files could not be read.
    """
    from faultattr_local.cli.intake import Intake
    from faultattr_local.cli.terminal import logged_to, say, stderr, stdout, warning
    from faultattr_local.run.config import default_config, files_of, load_config

    known_method(method)
    flags = {
        "method": method,
        "safari.memory": False if no_memory else None,
        "show_reference_answer": True if show_reference_answer else None,
        "raffles.first_error": True if first_error else None,
    }
    overrides = {key: value for key, value in flags.items() if value is not None}
    settings = load_config(config or [], overrides)
    refuse_without_effect(settings, no_memory=no_memory, first_error=first_error)
    err = stderr()
    intake = Intake(paths, format, limit, warning(err))
    if dry_run:
        from faultattr_local.cli.dry_run import print_dry_run

        with logged_to(err):
            too_long = print_dry_run(stdout(), err, settings, intake)
        raise typer.Exit(SOME_UNSCORED if too_long or intake.unreadable else 0)
    if run_dir is None:
        raise UsageError("is missing", where="-o RUN_DIR", fix="Give a folder, or --dry-run.")
    if files_of(config or []) != files_of([*(config or []), "engine.kind=any"]):
        say(err, f"config: {default_config()}, this machine's default, since -c names none")
    with logged_to(err):
        rows = attributed(settings, intake, run_dir, resume, err)
        report(stdout(), err, rows, intake, run_dir)
    failed = intake.unreadable or any(row.failure for row in rows)
    raise typer.Exit(SOME_UNSCORED if failed else 0)


def known_method(name: str | None) -> None:
    """Refuse a method that there is not.

    Raises:
        UsageError: With the nearest one.
    """
    import difflib

    from faultattr_local.methods.registry import METHODS

    if name is not None and name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=1)
        fix = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(METHODS)}."
        raise UsageError(f"there is no method {name!r}", where="--method", fix=fix)


def refuse_without_effect(config: Config, *, no_memory: bool, first_error: bool) -> None:
    """Refuse a flag that the method does not know, instead of passing it over.

    Raises:
        UsageError: Says which.
    """
    for flag, given, methods in (
        ("--no-memory", no_memory, ("safari", "auto")),
        ("--first-error", first_error, ("raffles", "auto")),
    ):
        if given and config.method not in methods:
            raise UsageError(
                f"has no effect on {config.method}",
                where=flag,
                fix=f"Use it with --method {' or '.join(methods)}.",
            )


def attributed(
    config: Config, intake: Intake, run_dir: Path, resume: Resume, err: Console
) -> list[Row]:
    """Run with the config's engine, its progress on `err`."""
    from faultattr_local.cli.intake import require_some
    from faultattr_local.cli.progress import watch
    from faultattr_local.cli.terminal import say

    items = require_some(intake)
    if err.is_terminal:
        intake.count_files()
    if config.show_reference_answer:
        say(err, "the reference answer is shown to the model, where the trace has one")
    with watch(err, engine_line(config), intake.total) as watching:
        return run_attribution(config, items, run_dir, watching, resume=resume)


def run_attribution(
    config: Config,
    items: Iterable[LabelledTrajectory],
    run_dir: Path,
    watching: Watch,
    *,
    engine: Engine | None = None,
    resume: Resume = "if_possible",
) -> list[Row]:
    """Attribute what is not attributed yet; the standing verdicts in the order of the items.

    Args:
        config: Its engine is used when no other is given.
        items: Read only as they are wanted.
        run_dir: Where the run is recorded.
        watching: Told as the run goes.
        engine: Wins over the config's.
        resume: What to do when the folder holds a run.

    Raises:
        EngineError, UsageError: As `faultattr_local.attribute`.
    """
    import asyncio

    from faultattr_local.cli.table import row_of
    from faultattr_local.run.attribute import Run, key_of

    run = Run(config, engine=engine, run_dir=run_dir, resume=resume)
    keys: list[Key] = []
    rows: dict[Key, Row] = {}

    def noted() -> Iterator[LabelledTrajectory]:
        for item in items:
            keys.append(key_of(run.shown(item)))
            yield item

    async def go() -> None:
        watching.follow(run.progress)
        async for item, verdict in run.verdicts(noted(), on_start=watching.served):
            rows[key_of(item)] = row = row_of(verdict)
            watching.verdict(row)

    asyncio.run(go())
    if not rows:
        watching.nothing_to_do()
    return [rows[key] if key in rows else row_of(run.earlier[key]) for key in keys]


def report(out: Console, err: Console, rows: list[Row], intake: Intake, run_dir: Path) -> None:
    """The table on `out`; counts, notes and the way on, on `err`."""
    from faultattr_local.cli.table import print_verdicts, summary
    from faultattr_local.cli.terminal import say

    print_verdicts(out, rows)
    for note in intake.notes.listed():
        say(err, f"note: {note}", "dim")
    unread = f", {intake.unreadable} not readable" if intake.unreadable else ""
    say(err, f"{summary(rows)}{unread}. Run folder: {run_dir}")
    say(err, f"Reasons: faultattr show {quoted(run_dir)} TRAJECTORY")


def quoted(path: Path) -> str:
    """A path as a shell takes it."""
    import shlex

    return shlex.quote(str(path))


def engine_line(config: Config) -> str:
    """The engine of a config in a few words."""
    engine: Any = config.engine
    if engine is None:
        return "no engine"
    what = getattr(engine, "model", None) or ", ".join(getattr(engine, "urls", ()))
    return f"{engine.kind}, {what}"
