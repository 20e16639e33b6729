"""Finds the decisive faulty step in a failed run of an LLM agent system, on local weights.

    from faultattr_local import attribute, load_config, read_trajectories

    trajectories = read_trajectories("failed_runs/")
    for verdict in attribute(trajectories, method="raffles", config=load_config(["my.yaml"])):
        print(verdict.trajectory, verdict.fault)

Importing the package loads no model library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faultattr_local.formats import read_trajectories
    from faultattr_local.run.attribute import attribute
    from faultattr_local.run.config import load_config
    from faultattr_local.trajectory import Step, Trajectory
    from faultattr_local.verdict import Verdict

__all__ = [
    "Step",
    "Trajectory",
    "Verdict",
    "attribute",
    "load_config",
    "read_trajectories",
]

_HOMES = {
    "Step": "faultattr_local.trajectory",
    "Trajectory": "faultattr_local.trajectory",
    "Verdict": "faultattr_local.verdict",
    "attribute": "faultattr_local.run.attribute",
    "load_config": "faultattr_local.run.config",
    "read_trajectories": "faultattr_local.formats",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `faultattr --help` stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
