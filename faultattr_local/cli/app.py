"""The commands put together, and the one place where errors become a line and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from faultattr_local.cli.attribute import attribute
from faultattr_local.cli.lists import engines, formats, methods
from faultattr_local.cli.prompts import prompts
from faultattr_local.cli.show import show
from faultattr_local.errors import FaultattrError

INTERRUPTED = 130


class OneLineErrors(TyperGroup):
    """Ends a user's mistake in one line; a fault of the program keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except FaultattrError as error:
            _tell(str(error))
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            resumable = ctx.invoked_subcommand == "attribute"
            _tell("stopped" + "; run the same command again to go on" * resumable)
            raise typer.Exit(INTERRUPTED) from error


def _tell(line: str) -> None:
    from faultattr_local.cli.terminal import one_line

    sys.stdout.flush()
    typer.echo(f"faultattr: {one_line(line)}", err=True)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"faultattr {version('faultattr-local')}")
        raise typer.Exit


app = typer.Typer(
    cls=OneLineErrors,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def faultattr(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Find the decisive faulty step in a failed run of an LLM agent system."""


for _command in (attribute, show, prompts, methods, engines, formats):
    app.command()(_command)
