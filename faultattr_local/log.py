"""The log: a trajectory as the model reads it, every step under a numbered header.

Numbered, delimited steps matter more than any wording of a prompt (arXiv 2608.24361).
"""

from __future__ import annotations

from collections.abc import Iterator

from faultattr_local.trajectory import Step, Trajectory


def mark(trajectory: Trajectory) -> str:
    """Four characters that tell a step header from text that imitates one.

    Drawn from the digest of the trajectory: the same in every run, and not known while
    the steps are written.
    """
    return trajectory.digest[:4]


def header(step: Step, mark: str) -> str:
    """The line above a step: its number, its agent, its kind, and the mark."""
    addressee = f" to {step.to}" if step.to else ""
    return f"--- step {step.index} | {step.agent}{addressee} | {step.kind} | {mark} ---"


def rendered_steps(trajectory: Trajectory) -> Iterator[tuple[Step, str]]:
    """Each step with its header and text, ending in a newline."""
    sign = mark(trajectory)
    for step in trajectory.steps:
        yield step, f"{header(step, sign)}\n{step.text}\n"


def render(trajectory: Trajectory) -> str:
    """The whole log as one string."""
    return "".join(text for _, text in rendered_steps(trajectory))


def quote_stands_in(quote: str, step: Step) -> bool:
    """Whether the quote stands in the step, white space and case aside."""
    wanted = "".join(quote.split()).casefold()
    return bool(wanted) and wanted in "".join(step.text.split()).casefold()
