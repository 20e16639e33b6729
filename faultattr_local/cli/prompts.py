"""`faultattr prompts`: what a method would send for a trace, without sending it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faultattr_local.cli.attribute import ConfigOption, FormatOption
from faultattr_local.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from faultattr_local.engine.base import Request
    from faultattr_local.run.preview import Desk
    from faultattr_local.trajectory import LabelledTrajectory


def prompts(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="See `faultattr methods`.")],
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")],
    config: ConfigOption = None,
    calls: Annotated[int, typer.Option(min=1, metavar="N", help="Calls to print.")] = 4,
    format: FormatOption = None,
) -> None:
    """Print what would be sent for a trace; nothing is sent.

    What the model would have written into later calls stands as <rationale> and the like,
    and numbers of it as the least that they can be. When piped, every message is printed
    as it would be sent, to the byte.
    """
    from faultattr_local.cli.terminal import logged_to, say, stderr, stdout
    from faultattr_local.formats import read_file
    from faultattr_local.methods.registry import METHODS
    from faultattr_local.run.attribute import shown
    from faultattr_local.run.config import load_config
    from faultattr_local.run.preview import desk, requests_of

    err = stderr()
    settings = load_config(config or [], {"method": method})
    with logged_to(err):
        result = read_file(trace, format)
        item = shown(first_of(result.trajectories, trace), settings)
        at = desk(settings)
        flow = METHODS[method].flow(item.trajectory, settings, at.setup)
        requests = requests_of(flow, calls)
    for number, request in enumerate(requests, 1):
        print_request(stdout(), request, number, at)
    for note in result.warnings:
        say(err, f"note: {note}", "dim")
    others = len(result.trajectories) - 1
    if others:
        say(err, f"note: the first of {others + 1} trajectories of {trace} is shown")
    if at.why:
        say(err, f"note: {at.why}")
    say(err, f"{len(requests)} calls. Nothing was sent.")


def first_of(found: tuple[LabelledTrajectory, ...], trace: Path) -> LabelledTrajectory:
    """The first trajectory of a file.

    Raises:
        UsageError: It has none.
    """
    if not found:
        raise UsageError("holds no trajectory", where=str(trace), fix="Give another file.")
    return found[0]


def print_request(out: Console, request: Request, number: int, at: Desk) -> None:
    """One call: its messages, each under its role, and the form of its answer."""
    import json

    def rule(text: str) -> None:
        out.print(f"=== {text} ===", style="bold cyan", soft_wrap=True)

    rule(f"call {number}: {request.role}")
    for message in request.messages:
        rule(f"{message.role}, {measured(message.content, at)}")
        print_message(out, message.content)
    temperature = request.sampling.temperature
    rule(f"answer, at most {request.max_tokens:,} tokens, temperature {temperature:g}")
    print_message(out, json.dumps(request.schema, ensure_ascii=False))
    out.print()


def print_message(out: Console, text: str) -> None:
    """Made visible on a terminal; as it is when piped."""
    from faultattr_local.cli.terminal import visible

    if out.is_terminal:
        out.print(visible(text), soft_wrap=True)
    else:
        out.file.write(f"{text}\n")


def measured(text: str, at: Desk) -> str:
    """The length of a message in tokens, or in characters without a tokenizer."""
    unit = "tokens" if at.counts else "characters"
    return f"{at.setup.count_tokens(text):,} {unit}"
