"""A value is its fingerprint and the lesser of its two buckets; the state is the sorted set of
these.

The buckets of a cuckoo filter (Fan, Andersen, Kaminsky, Mitzenmacher 2014) hang on each other by
the fingerprint alone, so that the lesser one and the fingerprint say all that a table could,
whatever was kicked out of where: the set is the table laid out in one order. Beyond `capacity`
nothing but that is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Fixed, Items
from slicewise.aggregates.kernel.hashing import hash_one, mixed, mixed_one
from slicewise.aggregates.kernel.ragged import Int64, Ragged, offsets_of
from slicewise.aggregates.kernel.values import non_null
from slicewise.aggregates.operations import Finished
from slicewise.aggregates.registry import register
from slicewise.aggregates.sketches.membership import Answers, Membership, Words, distinct_pairs
from slicewise.aggregates.stored_form import State

SLOTS = 4
ENTRIES, FULL = b"\x00", b"\x02"
"""First byte of a filter: ascending entries; nothing, as there were too many."""


def _examples(cls: type[Any]) -> Sequence[Aggregate]:
    return [
        cls("x", 4, 0.5).bind({"x": pa.string()}),
        cls("x", 1_000).bind({"x": pa.int64()}),
        cls("x", 50_000, 1e-6).bind({"x": pa.decimal128(12, 3)}),
    ]


@register(_examples)
@dataclass(frozen=True)
class Cuckoo(Membership):
    """Tells whether a value was seen. A value that was seen is never false; others are true with a
    probability of at most `error`.

    The reader's row holds the value, or a list of values, in the column of this name. Where more
    than `capacity` values were seen, null with error `over_capacity`. Partial: `entries`, 4 bytes
    a value (8 where bucket and fingerprint need more than 32 bits), ascending; or `beyond`.
    """

    kind = "cuckoo"
    form = "cuckoo"

    @cached_property
    def bucket_bits(self) -> int:
        """The bits of a bucket's number: the table has the least power of two of buckets for a load
        of 95 %."""
        return next(bits for bits in range(64) if SLOTS * 19 * 2**bits >= 20 * self.capacity)

    @cached_property
    def fingerprint_bits(self) -> int:
        """The least for which a value meets one of the eight slots of its buckets within the
        error."""
        return next(bits for bits in range(64) if self.share * 2**bits >= 2 * SLOTS)

    @property
    def geometry(self) -> Mapping[str, int]:
        return {
            "buckets": 1 << self.bucket_bits,
            "fingerprint": self.fingerprint_bits,
            "capacity": self.capacity,
        }

    @property
    def dtype(self) -> str:
        """The NumPy dtype of an entry."""
        return "<u4" if self.bucket_bits + self.fingerprint_bits <= 32 else "<u8"

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (Items("entries", self.dtype), Fixed("beyond", "|u1"))

    @property
    def most_items(self) -> int:
        return self.capacity

    def _entries(self, hashes: Words) -> Words:
        mask = np.uint64((1 << self.bucket_bits) - 1)
        fingerprint = hashes >> np.uint64(64 - self.fingerprint_bits)
        bucket = hashes & mask
        lesser = np.minimum(bucket, bucket ^ (mixed(fingerprint) & mask))
        entries: Words = (lesser << np.uint64(self.fingerprint_bits)) | fingerprint
        return entries

    def _entry(self, value: int) -> int:
        mask = (1 << self.bucket_bits) - 1
        fingerprint = value >> (64 - self.fingerprint_bits)
        bucket = value & mask
        return (
            min(bucket, bucket ^ (mixed_one(fingerprint) & mask)) << self.fingerprint_bits
            | fingerprint
        )

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        array, groups, _ = non_null(rows.columns[self.column], groups)
        return self._union(
            self._entries(self.hashes(array)), groups, np.zeros(n_groups, bool), n_groups
        )

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        entries = partials.items("entries")
        beyond = np.zeros(n_groups, bool)
        beyond[groups[partials.fixed("beyond") != 0]] = True
        return self._union(
            entries.values.astype(np.uint64), groups[entries.row_numbers()], beyond, n_groups
        )

    def _union(
        self, entries: Words, groups: Int64, beyond: NDArray[np.bool_], n_groups: int
    ) -> Columns:
        group, entries = distinct_pairs(groups, entries)
        beyond = beyond | (np.bincount(group, minlength=n_groups) > self.capacity)
        kept = ~beyond[group]
        offsets = offsets_of(np.bincount(group[kept], minlength=n_groups))
        stored = Ragged(offsets, entries[kept].astype(self.dtype))
        return Columns(n_groups, {"entries": stored, "beyond": beyond.astype(np.uint8)})

    def finish_columns(self, partials: Columns) -> Finished:
        entries, beyond = partials.items("entries"), partials.fixed("beyond").tolist()
        filters: list[bytes | None] = []
        for row in range(partials.n):
            some = entries.values[entries.offsets[row] : entries.offsets[row + 1]]
            filters.append(FULL if beyond[row] else ENTRIES + some.tobytes() if len(some) else None)
        return Finished(pa.array(filters, pa.large_binary()))

    def contained(self, stored: bytes, hashes: Words) -> Answers:
        if stored[:1] == FULL:
            return [None] * len(hashes)
        wanted = self._entries(hashes).astype(self.dtype)
        return np.isin(wanted, np.frombuffer(stored, self.dtype, offset=1)).tolist()  # type: ignore[no-any-return]

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.column]
        return (
            state
            if value is None
            else self.combine(state, ((self._entry(hash_one(self.value.store_one(value))),), 0))
        )

    def combine(self, a: State, b: State) -> State:
        entries = sorted({*a[0], *b[0]})
        if a[1] or b[1] or len(entries) > self.capacity:
            return ((), 1)
        return (tuple(entries), 0)

    def finish(self, state: State) -> bytes | None:
        entries, beyond = state
        if beyond:
            return FULL
        width = np.dtype(self.dtype).itemsize
        return (
            ENTRIES + b"".join(entry.to_bytes(width, "little") for entry in entries)
            if entries
            else None
        )
