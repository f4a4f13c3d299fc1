"""A batch is brought in run by run, each until it finds everything that it read still standing.

What folds partials and what keeps lists of events differ in their runs and in one attempt of a run, not in this.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slicewise.errors import StoreUnavailable
from slicewise.stores.online.port import MicroBatchOutcome
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import ATTEMPTS, Command, Steps, contended

Int64 = npt.NDArray[np.int64]
Attempt = Callable[[Int64], Generator[Sequence[Command], list[Any], tuple[MicroBatchOutcome, Int64]]]
"""Of rows: one read and one write of all their entities; the entities to take again."""


def require_order(offsets: Int64) -> None:
    """Raises StoreUnavailable unless offsets ascend and the store can compare them."""
    if not decisions.in_order(offsets):
        raise StoreUnavailable(
            "the rows of a batch are not in offset order, or beyond what the store can compare",
            expected=f"ascending offsets from 0 to {decisions.MAX_OFFSET}",
            next_step="see that nobody else writes to the topic's offsets; then start the stream again: slicewise up",
        )


def brought_in(runs: Iterable[Int64], entity: Int64, attempt: Attempt, what: str) -> Steps[MicroBatchOutcome]:
    """All runs, of each again the rows of the entities that missed. entity: of each row of the batch."""
    total = MicroBatchOutcome()
    for run in runs:
        rows = run
        for _ in range(ATTEMPTS):
            outcome, missed = yield from attempt(rows)
            total = decisions.added(total, outcome)
            if not len(missed):
                break
            rows = rows[np.isin(entity[rows], missed)]
        else:
            raise contended(what)
    return total
