"""An aggregate that keeps the identity of every event: lost and doubled events both show in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.exact.counting import Count
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Items
from slicewise.aggregates.kernel.ragged import Ragged
from slicewise.aggregates.operations import Finished
from slicewise.aggregates.stored_form import State
from slicewise.codec import Layout

Int64 = NDArray[np.int64]
SEEN = np.dtype([("partition", "<i8"), ("offset", "<i8")])


@dataclass(frozen=True)
class Identities(Aggregate):
    """The sorted multiset of (partition, offset) of its events: nothing is deduplicated."""

    kind = "identities"

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None

    def stored(self) -> Mapping[str, Any]:
        return {"form": "identities"}

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (Items("seen", SEEN),)

    @property
    def output_type(self) -> pa.DataType:
        return pa.int64()

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        seen = np.empty(len(rows), SEEN)
        seen["partition"], seen["offset"] = rows.partition, rows.offset
        return _grouped(seen, groups, n_groups)

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        seen = partials.items("seen")
        return _grouped(seen.values, np.repeat(groups, np.diff(seen.offsets)), n_groups)

    def finish_columns(self, partials: Columns) -> Finished:
        return Finished(pa.array(np.diff(partials.items("seen").offsets)))

    def accumulate(self, state: State, event: Event) -> State:
        return (tuple(sorted((*state[0], (event.partition, event.offset)))),)

    def combine(self, a: State, b: State) -> State:
        return (tuple(sorted(a[0] + b[0])),)

    def finish(self, state: State) -> Any:
        return len(state[0])


def _grouped(seen: NDArray[Any], groups: Int64, n_groups: int) -> Columns:
    order = np.lexsort((seen["offset"], seen["partition"], groups))
    offsets = np.searchsorted(groups[order], np.arange(n_groups + 1)).astype(np.int64)
    return Columns(n_groups, {"seen": Ragged(offsets, seen[order])})


IDENTITIES = Layout.of([Identities().bind({}), Count().bind({})])
"""The multiset, and a count."""
