"""`faultattr attribute --dry-run`: what would be sent, whether it fits, and how it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultattr_local import log
from faultattr_local.cli.intake import Intake, require_some
from faultattr_local.cli.table import print_table
from faultattr_local.cli.terminal import one_line, say, visible
from faultattr_local.errors import LogTooLong
from faultattr_local.methods.flow import message_tokens
from faultattr_local.methods.registry import METHODS
from faultattr_local.run.attribute import shown
from faultattr_local.run.config import Config
from faultattr_local.run.preview import Desk, desk, requests_of

if TYPE_CHECKING:
    from rich.console import Console

    from faultattr_local.engine.base import Request
    from faultattr_local.trajectory import Trajectory

HEAD = 400
"""Characters shown of each message of the first prompt."""


def print_dry_run(out: Console, err: Console, config: Config, intake: Intake) -> int:
    """A line for each trajectory, then the head of the first prompt.

    Returns:
        How many trajectories do not fit.

    Raises:
        UsageError: Nothing could be read.
    """
    at = desk(config)
    unit = "tokens" if at.counts else "characters"
    names = ("trajectory", "steps", "agents", unit, "prompt", "fits")
    rows: list[tuple[str, ...]] = []
    too_long: list[str] = []
    first: Request | None = None
    for item in require_some(intake):
        trajectory = shown(item, config).trajectory
        row, request, problem = examined(trajectory, config, at)
        rows.append(row)
        first = first or request
        if problem:
            too_long.append(problem)
    print_table(out, names, rows)
    for problem in too_long:
        say(err, problem, "red")
    if first is not None:
        print_head(out, first)
    for note in intake.notes.listed():
        say(err, f"note: {note}", "dim")
    if at.why:
        say(err, f"note: {at.why}")
    unread = f", {intake.unreadable} not readable" if intake.unreadable else ""
    fit = f", {len(too_long)} too long for {config.method}" if too_long else ""
    say(err, f"{len(rows)} trajectories read{unread}{fit}. Nothing was sent or written.")
    return len(too_long)


def examined(
    trajectory: Trajectory, config: Config, at: Desk
) -> tuple[tuple[str, ...], Request | None, str]:
    """The row of a trajectory, its first request, and why it does not fit."""
    problem, prompt, request = "", "-", None
    try:
        found = requests_of(METHODS[config.method].flow(trajectory, config, at.setup), 1)
        request = found[0] if found else None
    except LogTooLong as error:
        problem = str(error)
    if request is not None:
        count = at.setup.count_tokens
        prompt = str(message_tokens(request.messages, count) if at.counts else characters(request))
    known = at.counts and at.context_tokens is not None
    fits = "no" if problem else "yes" if known else "unknown"
    size = at.setup.count_tokens(log.render(trajectory))
    row = (
        one_line(trajectory.id),
        str(len(trajectory.steps)),
        str(len(trajectory.agents)),
        str(size),
        prompt,
        fits,
    )
    return row, request, problem


def characters(request: Request) -> int:
    """Characters of a prompt."""
    return sum(len(message.content) for message in request.messages)


def print_head(out: Console, request: Request) -> None:
    """How the first prompt begins."""
    out.print()
    say(out, f"The first prompt, {request.role} on {request.trajectory}, begins:", "bold")
    for message in request.messages:
        text = visible(message.content)
        left = len(text) - HEAD
        out.print(f"[{message.role}]", style="cyan")
        out.print(text[:HEAD], soft_wrap=True)
        if left > 0:
            out.print(f"[{left:,} characters more]", style="dim")
