"""What methods there are, what decides them, and how each is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from faultattr_local.methods.auto import auto
from faultattr_local.methods.binary_search import BinarySearchConfig, binary_search
from faultattr_local.methods.flow import Flow, Setup
from faultattr_local.methods.one_shot import OneShotConfig, one_shot
from faultattr_local.methods.raffles import RafflesConfig, raffles
from faultattr_local.methods.safari import SafariConfig, safari
from faultattr_local.methods.step_by_step import StepByStepConfig, step_by_step
from faultattr_local.methods.tool_caller import ToolCallerConfig, tool_caller
from faultattr_local.settings import Section
from faultattr_local.trajectory import Trajectory


class MethodSections(Section):
    """The settings of every method, each under its own name."""

    raffles: RafflesConfig = RafflesConfig()
    """The RAFFLES loop."""
    safari: SafariConfig = SafariConfig()
    """The SAFARI loop."""
    one_shot: OneShotConfig = OneShotConfig()
    """The whole log once."""
    step_by_step: StepByStepConfig = StepByStepConfig()
    """A growing log, yes or no at each step."""
    binary_search: BinarySearchConfig = BinarySearchConfig()
    """Which half, again and again."""
    tool_caller: ToolCallerConfig = ToolCallerConfig()
    """A Planner that picks steps for a Judge."""


@dataclass(frozen=True)
class Method:
    """A method as it is listed and started.

    Attributes:
        name: As `--method` takes it.
        summary: What it does, in one line.
        source: Where it comes from.
        sections: The config sections that decide its verdicts.
        flow: Starts it on one trajectory.
    """

    name: str
    summary: str
    source: str
    sections: tuple[str, ...]
    flow: Callable[[Trajectory, MethodSections, Setup], Flow]


_WHO_AND_WHEN = "arXiv 2505.00212"
_RAFFLES = "arXiv 2509.06822"
_SAFARI = "arXiv 2606.24626"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "raffles",
            "a Judge proposes, Evaluators test, until one candidate is believed",
            _RAFFLES,
            ("raffles",),
            lambda trajectory, of, setup: raffles(trajectory, of.raffles, setup),
        ),
        Method(
            "safari",
            "an Investigator reads and searches a log too long for any context",
            _SAFARI,
            ("safari",),
            lambda trajectory, of, setup: safari(trajectory, of.safari, setup),
        ),
        Method(
            "auto",
            "RAFFLES where the log fits the context, SAFARI where it does not",
            f"{_RAFFLES}, {_SAFARI}",
            ("raffles", "safari"),
            lambda trajectory, of, setup: auto(trajectory, of.raffles, of.safari, setup),
        ),
        Method(
            "one_shot",
            "the whole log once",
            _WHO_AND_WHEN,
            ("one_shot",),
            lambda trajectory, of, setup: one_shot(trajectory, of.one_shot, setup),
        ),
        Method(
            "step_by_step",
            "a growing log, yes or no at each step; the first yes is taken",
            _WHO_AND_WHEN,
            ("step_by_step",),
            lambda trajectory, of, setup: step_by_step(trajectory, of.step_by_step, setup),
        ),
        Method(
            "binary_search",
            "which half holds the fault, until one step is left",
            _WHO_AND_WHEN,
            ("binary_search",),
            lambda trajectory, of, setup: binary_search(trajectory, of.binary_search, setup),
        ),
        Method(
            "tool_caller",
            "a Planner picks steps for a Judge, at most three times",
            f"baseline in {_RAFFLES}",
            ("tool_caller",),
            lambda trajectory, of, setup: tool_caller(trajectory, of.tool_caller, setup),
        ),
    )
}
