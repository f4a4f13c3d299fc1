"""A read still stands when it is changed: who finds that it does not reads and decides again.

A batch is brought in run by run. Micro-batches of partials and lists of events differ in their runs
and in one attempt of a run, not in this.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from slicewise.errors import StoreUnavailable
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import ATTEMPTS, Command, Steps, contended

Int64 = npt.NDArray[np.int64]
S = TypeVar("S")
R = TypeVar("R")


@dataclass(frozen=True)
class Missed(Generic[S]):
    """Another writer was quicker: what is to be decided again, with what came of the rest so
    far."""

    again: S


def change_while(
    decide: Callable[[S], Generator[Sequence[Command], list[Any], Missed[S] | R]],
    begin: S,
    where: str,
) -> Steps[R]:
    """Reads, decides and changes while other writers come between; what `decide` returns once
    nobody did.

    where: named when this never ends, as StoreUnavailable.
    """
    state = begin
    for _ in range(ATTEMPTS):
        outcome = yield from decide(state)
        if not isinstance(outcome, Missed):
            return outcome
        state = outcome.again
    raise contended(where)


# ------------------------------------------------------------------ batches
@dataclass(frozen=True)
class MicroBatchOutcome:
    """rows: all; applied, already_applied (at or below an entity's last), compacted (below their
    hour's offset vector), expired, duplicates (the id came before): parts of them. entities:
    written. misses: reads that no longer stood. cut: events that an event list's capacity left
    out."""

    rows: int = 0
    applied: int = 0
    already_applied: int = 0
    compacted: int = 0
    expired: int = 0
    entities: int = 0
    misses: int = 0
    cut: int = 0
    duplicates: int = 0


def added(a: MicroBatchOutcome, b: MicroBatchOutcome) -> MicroBatchOutcome:
    """The outcome of two parts of a batch together."""
    return MicroBatchOutcome(*(x + y for x, y in zip(astuple(a), astuple(b), strict=True)))


Attempt = Callable[
    [Int64], Generator[Sequence[Command], list[Any], tuple[MicroBatchOutcome, Int64]]
]
"""Attempt at rows: one read and one write of all their entities; the entities to take again."""
_Left = tuple[Int64, MicroBatchOutcome]
"""Rows of a run that are still to be brought in, and the outcome so far."""


def require_order(offsets: Int64) -> None:
    """Raises StoreUnavailable unless offsets ascend and the store can compare them."""
    if not decisions.in_order(offsets):
        raise StoreUnavailable(
            "the rows of a batch are not in offset order, or beyond what the store can compare",
            expected=f"ascending offsets from 0 to {decisions.MAX_OFFSET}",
            next_step=(
                "see that nobody else writes to the topic's offsets; then start the stream again: "
                "slicewise up"
            ),
        )


def applied_in_runs(
    runs: Iterable[Int64], entity: Int64, attempt: Attempt, where: str
) -> Steps[MicroBatchOutcome]:
    """All runs, of each again the rows of the entities that missed. entity: of each row of the
    batch."""
    total = MicroBatchOutcome()
    for rows in runs:
        total = yield from change_while(partial(_attempted, entity, attempt), (rows, total), where)
    return total


def _attempted(
    entity: Int64, attempt: Attempt, left: _Left
) -> Generator[Sequence[Command], list[Any], Missed[_Left] | MicroBatchOutcome]:
    rows, total = left
    outcome, missed = yield from attempt(rows)
    total = added(total, outcome)
    return Missed((rows[np.isin(entity[rows], missed)], total)) if len(missed) else total
