"""An event's identity is its own, and the total order of events is the order of identities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.kernel.fields import IDENTITY, SIGN_BIT
from slicewise.aggregates.kernel.ragged import Int64

Identity = tuple[int, int, int, int, int]
"""(event time with its sign bit flipped, topic id high and low half, partition, offset)."""


EVERY = slice(None)


@dataclass(frozen=True)
class Event:
    """One event in row form.

    `time` in microseconds UTC. `columns` holds Python values: int, float, str,
    bool, Decimal or None; instants are integer microseconds, dates integer days.
    """

    time: int
    topic_hi: int
    topic_lo: int
    partition: int
    offset: int
    columns: Mapping[str, Any]

    def identity(self) -> Identity:
        """The identity that the total order compares."""
        time = (self.time + SIGN_BIT) & (2**64 - 1)
        return (time, self.topic_hi, self.topic_lo, self.partition, self.offset)


@dataclass(frozen=True, eq=False)
class Rows:
    """Events in column form; all arrays have the same length.

    `time` int64 microseconds UTC, `topic_hi` and `topic_lo` uint64 (the halves of
    the topic id), `partition` int32, `offset` int64, `columns` name -> Arrow array.
    """

    time: Int64
    topic_hi: NDArray[np.uint64]
    topic_lo: NDArray[np.uint64]
    partition: NDArray[np.int32]
    offset: Int64
    columns: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return len(self.time)

    def identities(self, indices: Int64 | slice = EVERY) -> NDArray[np.void]:
        """Identities, of dtype IDENTITY, of these events."""
        time = self.time[indices]
        out = np.empty(len(time), IDENTITY)
        out["time"] = time.view(np.uint64) ^ np.uint64(SIGN_BIT)
        out["topic_hi"] = self.topic_hi[indices]
        out["topic_lo"] = self.topic_lo[indices]
        out["partition"] = self.partition[indices]
        out["offset"] = self.offset[indices]
        return out

    def take(self, indices: Int64, names: Iterable[str] | None = None) -> Rows:
        """These events, in this order, with these columns (None: all)."""
        chosen = pa.array(indices)
        return Rows(
            self.time[indices],
            self.topic_hi[indices],
            self.topic_lo[indices],
            self.partition[indices],
            self.offset[indices],
            {
                name: self.columns[name].take(chosen)
                for name in (self.columns if names is None else names)
            },
        )

    def slice(self, first: int, beyond: int) -> Rows:
        """The events from one row to another, without a copy."""
        return Rows(
            self.time[first:beyond],
            self.topic_hi[first:beyond],
            self.topic_lo[first:beyond],
            self.partition[first:beyond],
            self.offset[first:beyond],
            {name: array.slice(first, beyond - first) for name, array in self.columns.items()},
        )

    def present(self, column: str, names: Iterable[str], groups: Int64) -> tuple[Rows, Int64]:
        """The events whose column is not null, with these columns, and their groups."""
        if self.columns[column].null_count == 0:
            return self, groups
        valid = np.flatnonzero(self.columns[column].is_valid().to_numpy(zero_copy_only=False))
        return self.take(valid, names), groups[valid]

    def events(self) -> list[Event]:
        """The same events in row form."""
        names = list(self.columns)
        lists = [_python_values(array) for array in self.columns.values()]
        return [
            Event(
                int(self.time[i]),
                int(self.topic_hi[i]),
                int(self.topic_lo[i]),
                int(self.partition[i]),
                int(self.offset[i]),
                {name: values[i] for name, values in zip(names, lists, strict=True)},
            )
            for i in range(len(self))
        ]

    @staticmethod
    def from_events(events: Sequence[Event], types: Mapping[str, pa.DataType]) -> Rows:
        """Column form of these events; `types` names the columns to keep."""
        return Rows(
            np.array([event.time for event in events], np.int64),
            np.array([event.topic_hi for event in events], np.uint64),
            np.array([event.topic_lo for event in events], np.uint64),
            np.array([event.partition for event in events], np.int32),
            np.array([event.offset for event in events], np.int64),
            {
                name: pa.array([event.columns[name] for event in events], kind)
                for name, kind in types.items()
            },
        )


def _python_values(array: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    elif pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_list(array.type) and pa.types.is_date32(array.type.value_type):
        array = array.cast(pa.list_(pa.int32()))
    values: list[Any] = array.to_pylist()
    return values
