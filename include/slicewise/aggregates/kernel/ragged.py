"""Lists of rows are two flat arrays; offsets begin at 0 and never decrease."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
LONG = 64
"""Lists of on average so many items are copied one by one: an index per item would take longer."""


def offsets_of(lengths: NDArray[Any]) -> Int64:
    """Offsets [n+1] of consecutive runs with these lengths [n]."""
    offsets = np.empty(len(lengths) + 1, np.int64)
    offsets[0] = 0
    lengths.cumsum(out=offsets[1:])
    return offsets


def runs(starts: Int64, offsets: Int64) -> Int64:
    """Indices of runs laid end to end: run i begins at starts[i], long offsets[i+1] -
    offsets[i]."""
    return (starts - offsets[:-1]).repeat(offsets[1:] - offsets[:-1]) + np.arange(offsets[-1])


def ascending(values: Int64, *, merging: bool = False) -> Int64:
    """The distinct values, ascending. By sorting: where most are distinct, the hash table of
    `np.unique` takes twenty times as long. merging: they come in ascending runs, which are
    merged."""
    ordered = np.sort(values, kind="stable" if merging else None)
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def gather_into(whole: NDArray[Any], rows: Int64, table: NDArray[Any], ufunc: np.ufunc) -> None:
    """ufunc of whole[rows[i]] and table[i] in place, one i after the other: a row may come often.

    Row by row: over rows of some thousand registers NumPy's `at` and `reduceat` take ten times as
    long.
    """
    for row, values in zip(rows.tolist(), table, strict=True):
        into = whole[row]
        ufunc(into, values, out=into)


def picked(offsets: Int64, indices: Int64) -> tuple[Int64, Int64]:
    """The offsets of rows picked from lists with these offsets, and the items that they hold."""
    starts = offsets[indices]
    lengths = offsets_of(offsets[indices + 1] - starts)
    return lengths, runs(starts, lengths)


@dataclass(frozen=True, eq=False)
class Ragged:
    """Row i holds `values[offsets[i]:offsets[i+1]]`."""

    offsets: Int64
    values: NDArray[Any]

    @staticmethod
    def empty(n: int, dtype: Any) -> Ragged:
        """n rows without items."""
        return Ragged(np.zeros(n + 1, np.int64), np.empty(0, np.dtype(dtype)))

    @staticmethod
    def of(rows: Sequence[Sequence[Any]], dtype: Any) -> Ragged:
        """From Python lists; items of a structured dtype are tuples."""
        offsets = offsets_of(np.fromiter((len(row) for row in rows), np.int64, len(rows)))
        flat = [item for row in rows for item in row]
        return Ragged(offsets, np.array(flat, np.dtype(dtype)))

    @property
    def lengths(self) -> Int64:
        """Items per row [n]."""
        return self.offsets[1:] - self.offsets[:-1]

    def row_numbers(self) -> Int64:
        """For each item the row that it stands in [m]."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.lengths)

    def take(self, indices: Int64) -> Ragged:
        """These rows, in this order; a row may be taken more than once."""
        if len(indices) == 0 or len(self.values) < LONG * len(self.offsets):
            return self.gather(*picked(self.offsets, indices))
        starts, ends = self.offsets[indices], self.offsets[indices + 1]
        lists = [self.values[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        return Ragged(offsets_of(ends - starts), np.concatenate(lists))

    def gather(self, offsets: Int64, items: Int64) -> Ragged:
        """These items, as rows with these offsets."""
        return Ragged(offsets, self.values[items])

    @staticmethod
    def concat(parts: Sequence[Ragged]) -> Ragged:
        """All rows of all parts, one after the other."""
        return Ragged(
            offsets_of(np.concatenate([part.lengths for part in parts])),
            np.concatenate([part.values for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class RaggedBytes:
    """Row i holds the strings offsets[i] to offsets[i+1]; string j is data[ends[j]:ends[j+1]]."""

    offsets: Int64
    ends: Int64
    data: NDArray[np.uint8]

    @staticmethod
    def empty(n: int) -> RaggedBytes:
        """n rows without strings."""
        return RaggedBytes(np.zeros(n + 1, np.int64), np.zeros(1, np.int64), np.empty(0, np.uint8))

    @staticmethod
    def of(rows: Sequence[Sequence[bytes]]) -> RaggedBytes:
        """From Python lists of byte strings."""
        offsets = offsets_of(np.fromiter((len(row) for row in rows), np.int64, len(rows)))
        flat = [item for row in rows for item in row]
        ends = offsets_of(np.fromiter((len(item) for item in flat), np.int64, len(flat)))
        return RaggedBytes(offsets, ends, np.frombuffer(b"".join(flat), np.uint8))

    @staticmethod
    def from_strings(offsets: Int64, strings: pa.Array) -> RaggedBytes:
        """From a LargeBinaryArray without nulls, split into rows by `offsets`; no copy."""
        start, stop = strings.offset, strings.offset + len(strings) + 1
        _, ends_buffer, data_buffer = strings.buffers()
        if ends_buffer is None or len(ends_buffer) == 0 or data_buffer is None:
            return RaggedBytes(offsets, np.zeros(len(strings) + 1, np.int64), np.empty(0, np.uint8))
        ends = np.frombuffer(ends_buffer, np.int64)[start:stop]
        data = np.frombuffer(data_buffer, np.uint8)[ends[0] : ends[-1]]
        return RaggedBytes(offsets, ends - ends[0], data)

    def strings(self) -> pa.Array:
        """All strings as one LargeBinaryArray, without a copy."""
        buffers = [None, pa.py_buffer(self.ends), pa.py_buffer(np.ascontiguousarray(self.data))]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self.ends) - 1, buffers)

    @property
    def lengths(self) -> Int64:
        """Strings per row [n]."""
        return self.offsets[1:] - self.offsets[:-1]

    def row_numbers(self) -> Int64:
        """For each string the row that it stands in [m]."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.lengths)

    def byte_lengths(self) -> Int64:
        """Bytes of all strings per row [n]."""
        at = self.ends[self.offsets]
        return at[1:] - at[:-1]

    def take(self, indices: Int64) -> RaggedBytes:
        """These rows, in this order; a row may be taken more than once."""
        return self.gather(*picked(self.offsets, indices))

    def gather(self, offsets: Int64, items: Int64) -> RaggedBytes:
        """These strings, as rows with these offsets."""
        return RaggedBytes.from_strings(offsets, self.strings().take(pa.array(items)))

    @staticmethod
    def concat(parts: Sequence[RaggedBytes]) -> RaggedBytes:
        """All rows of all parts, one after the other."""
        lengths = np.concatenate([part.ends[1:] - part.ends[:-1] for part in parts])
        return RaggedBytes(
            offsets_of(np.concatenate([part.lengths for part in parts])),
            offsets_of(lengths),
            np.concatenate([part.data for part in parts]),
        )
