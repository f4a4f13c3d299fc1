"""Mutants without a rule of versions."""

from __future__ import annotations

from typing import Any

from slicewise.features.plan.changes import versions
from slicewise.lifecycle import sweep
from slicewise.lifecycle.sweep import SweepRules
from tests.simulation.mutants.rules import Mutant, flag, patched

_chosen = versions._chosen


def always_next(name: str, planned: Any, deployed: Any) -> int:
    """A version that stands is never looked for."""
    number = _chosen(name, planned, deployed)
    live = deployed.live_version("view", name).live
    return number if number == live else 0


def kept_names(self: SweepRules, name: str) -> bool:  # noqa: ARG001
    """Nothing is ever over."""
    return False


MUTANTS: dict[str, Mutant] = {
    "conditional": Mutant(
        "versions",
        "a command deploys on the version that it looked at, or not at all",
        world=flag("conditional", False),
    ),
    "promote-built": Mutant(
        "versions",
        "a version is promoted once its history is built",
        world=flag("requires_built", False),
    ),
    "build-hour": Mutant(
        "versions",
        "a build has the hour in which its version was applied",
        world=flag("skips_hour"),
    ),
    "read-again": Mutant(
        "versions",
        "a read whose deployment changed under it is planned again",
        world=flag("plans_again", False),
    ),
    "same-version": Mutant(
        "versions",
        "definitions that are changed back are the version that they were",
        patched(versions, "_chosen", always_next),
    ),
    "retired-swept": Mutant(
        "versions",
        "keys of a retired version are swept",
        patched(sweep.SweepRules, "is_over", kept_names),
    ),
}
