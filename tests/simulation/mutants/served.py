"""Mutants without a rule of who answers: what a loss of the store must not take back, and what is
no loss."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slicewise.offsets.vector import OffsetVector
from slicewise.serving.answering.memory.high_water import HighWater
from slicewise.serving.answering.memory.pending import Pending
from slicewise.stores.online.rules.decisions import still_lost
from tests.simulation.mutants.rules import Mutant, patched


def of_this_server_run(high_water: Any) -> None:
    high_water._before, high_water._top = high_water._top, OffsetVector()


def pending_of_this_server_run(pending: Any) -> None:
    pending._before, pending._now = pending._now, {}


def forgotten(pending: Any, *_: Any) -> None:
    pending._before = {}


def of_anybody(
    pending: Any,
    unit: str,
    tag: bytes,  # noqa: ARG001
    base: OffsetVector,
    topics: Iterable[str],
) -> OffsetVector:
    wanted = OffsetVector()
    for (of, _), key in pending._before.items():
        wanted = wanted.join(key) if of == unit else wanted
    return still_lost(base, wanted, topics)


SECTION = "a store that forgets"
MUTANTS = {
    "seen-runs": Mutant(
        SECTION,
        "committed offsets that were seen are missed in all later server runs",
        patched(HighWater, "_restarted", of_this_server_run),
    ),
    "pending": Mutant(
        SECTION,
        "what answers held beyond the committed offsets is missed after a loss",
        patched(Pending, "saw", lambda *_: None),
    ),
    "pending-runs": Mutant(
        SECTION,
        "what answers held beyond the committed offsets is missed in all later server runs",
        patched(Pending, "restarted", pending_of_this_server_run),
    ),
    "pending-until": Mutant(
        SECTION,
        "it is missed until the committed offsets are there",
        patched(Pending, "forget", forgotten),
    ),
    "pending-others": Mutant(
        SECTION,
        "what an entity's answers held is missed in no other's",
        patched(Pending, "lacking", of_anybody),
    ),
}
OF_SLICES = {name: MUTANTS[name] for name in ("seen-runs", "pending", "pending-runs")}
"""Mutants that a batch that has not ended shows too, and committed offsets alone."""
