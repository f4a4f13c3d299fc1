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

from slicewise.aggregates.kernel.ragged import Int64
from slicewise.errors import StoreUnavailable
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded.splitting import Values
from slicewise.stores.online.steps import ATTEMPTS, Command, Steps

S = TypeVar("S")
R = TypeVar("R")
Outcome = TypeVar("Outcome", bound=Values)


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
    raise StoreUnavailable(
        f"other writers changed what was read {ATTEMPTS} times in a row",
        where=where,
        next_step="see which processes write to this store",
    )


# ------------------------------------------------------------------ batches
def added(outcomes: Sequence[Outcome], none: Outcome) -> Outcome:
    """The sum of the parts' outcomes."""
    if not outcomes:
        return none
    return type(none)(*map(sum, zip(*map(astuple, outcomes), strict=True)))


Attempt = Callable[[Int64], Generator[Sequence[Command], list[Any], tuple[Outcome, Int64]]]
"""Attempt at rows: one read and one write of all their entities; the entities to take again."""
_Left = tuple[Int64, Outcome]
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
    runs: Iterable[Int64], entity: Int64, attempt: Attempt[Outcome], total: Outcome, where: str
) -> Steps[Outcome]:
    """All runs, of each again the rows of the entities that missed. entity: of each row of the
    batch. total: of no rows."""
    for rows in runs:
        run: Steps[Outcome] = change_while(
            partial(_attempted, entity, attempt), (rows, total), where
        )
        total = yield from run
    return total


def _attempted(
    entity: Int64, attempt: Attempt[Outcome], left: _Left[Outcome]
) -> Generator[Sequence[Command], list[Any], Missed[_Left[Outcome]] | Outcome]:
    rows, total = left
    outcome, missed = yield from attempt(rows)
    total = added([total, outcome], total)
    return Missed((rows[np.isin(entity[rows], missed)], total)) if len(missed) else total
