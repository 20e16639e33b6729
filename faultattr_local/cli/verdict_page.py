"""One verdict in full: the blamed step among its neighbours, and every reason given."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from faultattr_local.cli.page import Page
from faultattr_local.cli.terminal import one_line
from faultattr_local.methods.answers import acts_at

if TYPE_CHECKING:
    from rich.console import Console

    from faultattr_local.trajectory import LabelledTrajectory, Step
    from faultattr_local.verdict import Assessment, Fault, Iteration, Rationale, Turn, Verdict

NEIGHBOURS = 2
"""Steps shown before and after the blamed one."""
BLAMED, NEIGHBOUR, OBSERVATION = 1200, 300, 400
"""Characters shown of each."""


def print_verdict(
    out: Console, verdict: Verdict, item: LabelledTrajectory | None, *, full: bool
) -> None:
    """Print everything that a verdict holds.

    Args:
        out: Where to.
        verdict: Of one trajectory.
        item: The trajectory as it was read; None when the run folder has lost it.
        full: Shorten no text.
    """
    page = Page(out, full=full)
    _decision(page, verdict, item)
    if verdict.fault is not None:
        _surroundings(page, verdict.fault, item)
    for iteration in verdict.iterations:
        _iteration(page, iteration)
    for turn in verdict.turns:
        _turn(page, turn)
    if verdict.path:
        page.heading("Decisions")
        for line in verdict.path:
            page.text(line, 2)
    if verdict.fault and not verdict.iterations and not verdict.turns:
        _rationales(page, verdict.fault.rationales)
    _usage(page, verdict)


def _decision(page: Page, verdict: Verdict, item: LabelledTrajectory | None) -> None:
    page.line((verdict.trajectory, "bold"))
    if verdict.failure is not None:
        page.line(("  unscored: nothing was decided", "bold red"))
        page.text(f"{verdict.failure.error}: {verdict.failure.message}", 2, "red")
    elif verdict.fault is None:
        page.line(("  no decisive fault", "bold cyan"))
    else:
        fault = verdict.fault
        sound = "bold green" if verdict.accepted else "bold yellow"
        page.line((f"  step {fault.step}, {one_line(fault.agent)}", sound))
        if item is not None and not acts_at(item.trajectory, fault):
            page.line(("  but another agent acts at that step: see the log below", "bold red"))
    if not verdict.accepted and verdict.failure is None:
        page.line(("  not accepted: the best of what was left", "yellow"))
    sure = "" if verdict.confidence is None else f", confidence {verdict.confidence:.2f}"
    page.text(f"{verdict.method}{sure}; {verdict.reason}".rstrip("; "), 2)


def _surroundings(page: Page, fault: Fault, item: LabelledTrajectory | None) -> None:
    page.heading("The step in its log")
    if item is None:
        page.text("The run folder does not hold this trajectory.", 2, "yellow")
        return
    steps = item.trajectory.steps
    at = next((at for at, step in enumerate(steps) if step.index == fault.step), None)
    if at is None:
        page.text(f"The trajectory has no step {fault.step}.", 2, "yellow")
        return
    for step in steps[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]:
        _step(page, step, blamed=step.index == fault.step)


def _step(page: Page, step: Step, *, blamed: bool) -> None:
    to = f" to {step.to}" if step.to else ""
    where = f"  {step.source_ref}" if step.source_ref else ""
    arrow, style = ("> ", "bold red") if blamed else ("  ", "bold")
    page.line(
        (f"{arrow}step {step.index}, {step.agent}{to}", style), (f"  {step.kind}{where}", "dim")
    )
    most = BLAMED if blamed else NEIGHBOUR
    page.text(step.text, 4, "" if blamed else "dim", most=most)


def _iteration(page: Page, iteration: Iteration) -> None:
    fault = iteration.fault
    named = f"step {fault.step}, {fault.agent}" if fault else "no fault"
    sure = f", {iteration.confidence} of {iteration.greatest}" if iteration.greatest else ""
    page.heading(f"Iteration {iteration.number}: {named}{sure}")
    if iteration.cited is not None:
        page.text(f"{iteration.cited:.0%} of the citations stand in the log", 2, "dim")
    rationales = fault.rationales if fault else iteration.rationales
    by_criterion = {one.criterion: one for one in iteration.assessments}
    for criterion, rationale in rationales.items():
        _rationales(page, {criterion: rationale})
        if criterion in by_criterion:
            _assessment(page, by_criterion.pop(criterion))
    for criterion, one in by_criterion.items():
        page.line((f"  {criterion}", "bold"))
        _assessment(page, one)


def _rationales(page: Page, rationales: dict[str, Rationale]) -> None:
    for criterion, rationale in rationales.items():
        page.line((f"  {criterion}", "bold"))
        page.text(rationale.text, 4)
        for cited in rationale.citations:
            found, style = ("found", "green") if cited.found else ("NOT FOUND", "bold red")
            page.text(f'"{one_line(cited.quote)}"', 6, "italic")
            page.line((f"        step {cited.step}: ", "dim"), (found, style))


def _assessment(page: Page, one: Assessment) -> None:
    by = "rule" if one.by == "rule" else "Evaluator"
    note = "  no quote of the argument stands" if one.unfounded else ""
    page.confidence(f"    {by} ", one.confidence, note)
    page.text(one.rationale, 6)


def _turn(page: Page, turn: Turn) -> None:
    given = json.dumps(turn.arguments, ensure_ascii=False) if turn.arguments else ""
    page.heading(f"Turn {turn.number}: {turn.action} {given}".rstrip())
    if turn.evicted:
        page.text(f"{turn.evicted} messages were dropped to stay in the budget", 2, "dim")
    if turn.fault is not None:
        page.line((f"  hypothesis: step {turn.fault.step}, {turn.fault.agent}", "bold"))
    for claim in turn.claims:
        page.text(claim.claim, 4)
        page.text(f"evidence: {claim.evidence}", 6, "italic")
        page.confidence("      Evaluator ", claim.confidence, "")
        page.text(claim.rationale, 8)
    if turn.confidence is not None:
        page.text(f"mean confidence {turn.confidence:.0f} of 100", 4, "bold")
    if turn.observation:
        page.line(("  observed", "bold"))
        page.text(turn.observation, 4, "dim", most=OBSERVATION)
    if turn.memory:
        page.line(("  memory", "bold"))
        for key, value in turn.memory.items():
            written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            page.text(f"{key}: {written}", 4, "dim")


def _usage(page: Page, verdict: Verdict) -> None:
    used = verdict.usage
    invalid = f" ({used.invalid_replies} invalid)" if used.invalid_replies else ""
    page.heading("Cost")
    page.text(
        f"{used.requests} requests{invalid}, {used.prompt_tokens:,} tokens read "
        f"({used.cached_tokens:,} from the prefix cache), {used.output_tokens:,} written, "
        f"{used.seconds:.1f} s",
        2,
    )
