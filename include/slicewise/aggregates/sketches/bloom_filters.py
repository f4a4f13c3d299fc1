"""The set of values alone decides whether they stand as hashes or as bits; bits are only ever set.

While the hashes of the distinct values take no more room than the bits would, they are kept;
beyond it the bits of a Bloom filter (Bloom 1970) of fixed geometry. The share of bits that are set
is known, and with it the probability that a stranger is taken for a member: where that is beyond
the declared error, no value is called a member.
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
from slicewise.aggregates.kernel.fields import Field, Items
from slicewise.aggregates.kernel.hashing import GOLDEN, hash_one, mixed, mixed_one
from slicewise.aggregates.kernel.ragged import Int64, Ragged, gather_into, offsets_of
from slicewise.aggregates.kernel.values import non_null
from slicewise.aggregates.operations import Finished
from slicewise.aggregates.registry import register
from slicewise.aggregates.sketches.membership import (
    Answers,
    Filter,
    Membership,
    Words,
    distinct_pairs,
)
from slicewise.aggregates.stored_form import State
from slicewise.errors import CodecError

HASHES, BITS, FULL = b"\x00", b"\x01", b"\x02"
"""First byte of a filter: ascending hashes; bits; bits beyond the declared error."""
_ONES = np.array([bin(byte).count("1") for byte in range(256)], np.int64)


def _examples(cls: type[Any]) -> Sequence[Aggregate]:
    return [
        cls("x", 1, 0.5).bind({"x": pa.string()}),
        cls("x", 40, 0.001).bind({"x": pa.int64()}),
        cls("x", 5, 0.1).bind({"x": pa.decimal128(12, 3)}),
    ]


@dataclass(frozen=True)
class BloomBits(Filter):
    """The partial that `bloom` and `bloom_fill` share: `hashes` ascending, or `bits`."""

    form = "bloom"

    @cached_property
    def probes(self) -> int:
        """Bits per value: the least number for which half of the bits set is within the error."""
        return next(k for k in range(1, 64) if self.share * 2**k >= 1)

    @cached_property
    def bits(self) -> int:
        """Bits of the filter: a twentieth more than `capacity` values need to set half of them, and
        1,024."""
        return -(-(self.capacity * self.probes * 15_149 // 10_000 + 1_024) // 64) * 64

    @property
    def geometry(self) -> Mapping[str, int]:
        return {"bits": self.bits, "probes": self.probes}

    @cached_property
    def most_set(self) -> int:
        """The most bits set with which a stranger is taken for a member no more often than
        declared."""
        low, high = 0, self.bits
        while low < high:
            middle = (low + high + 1) // 2
            within = middle**self.probes <= self.share * self.bits**self.probes
            low, high = (middle, high) if within else (low, middle - 1)
        return low

    @property
    def most_hashes(self) -> int:
        """Hashes that take the room of the bits."""
        return self.bits // 64

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (Items("hashes", "<u8"), Items("bits", "|u1"))

    def longest(self, events: int) -> Mapping[str, int]:
        hashes, full = min(events, self.most_hashes), events > self.most_hashes
        return {"hashes": hashes, "bits": self.bits // 8 if full else 0}

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        array, groups, _ = non_null(rows.columns[self.column], groups)
        none = np.empty((0, self.bits // 8), np.uint8)
        return self._union(self.hashes(array), groups, none, np.empty(0, np.int64), n_groups)

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        hashes, bits = partials.items("hashes"), partials.items("bits")
        dense = np.flatnonzero(bits.lengths)
        if (bits.lengths[dense] != self.bits // 8).any() or hashes.lengths[dense].any():
            raise CodecError(f"{self.describe()} with other than {self.bits} bits")
        table = bits.values.reshape(-1, self.bits // 8)
        return self._union(
            hashes.values, groups[hashes.row_numbers()], table, groups[dense], n_groups
        )

    def _union(
        self, hashes: Words, groups: Int64, table: NDArray[np.uint8], of: Int64, n_groups: int
    ) -> Columns:
        group, hashes = distinct_pairs(groups, hashes)
        dense = np.bincount(group, minlength=n_groups) > self.most_hashes
        dense[of] = True
        whole = np.zeros((int(dense.sum()), self.bits // 8), np.uint8)
        if len(whole):
            row_of = np.cumsum(dense) - 1
            gather_into(whole, row_of[of], table, np.bitwise_or)
            into = dense[group]
            at = self._positions(hashes[into]) + row_of[group[into]] * self.bits
            flags = np.zeros(whole.size * 8, np.uint8)
            flags[at.reshape(-1)] = 1
            whole |= np.packbits(flags, bitorder="little").reshape(whole.shape)
            group, hashes = group[~into], hashes[~into]
        kept = Ragged(offsets_of(np.bincount(group, minlength=n_groups)), hashes)
        return Columns(
            n_groups,
            {
                "hashes": kept,
                "bits": Ragged(offsets_of(dense * (self.bits // 8)), whole.reshape(-1)),
            },
        )

    def _positions(self, hashes: Words) -> Int64:
        """The bits [probes, n] of values with these hashes."""
        positions, bits = np.empty((self.probes, len(hashes)), np.int64), np.uint64(self.bits)
        for probe in range(self.probes):
            words = mixed(hashes + np.uint64(probe * GOLDEN % 2**64))
            # NumPy divides by one number in a fraction of the time of `%`
            positions[probe] = words - words // bits * bits
        return positions

    def _positions_of_one(self, value: int) -> list[int]:
        return [
            mixed_one((value + probe * GOLDEN) % 2**64) % self.bits for probe in range(self.probes)
        ]

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.column]
        return (
            state
            if value is None
            else self.combine(state, ((hash_one(self.value.store_one(value)),), ()))
        )

    def combine(self, a: State, b: State) -> State:
        hashes = sorted({*a[0], *b[0]})
        if not a[1] and not b[1] and len(hashes) <= self.most_hashes:
            return (tuple(hashes), ())
        none = (0,) * (self.bits // 8)
        bits = [x | y for x, y in zip(a[1] or none, b[1] or none, strict=True)]
        for value in hashes:
            for position in self._positions_of_one(value):
                bits[position // 8] |= 1 << position % 8
        return ((), tuple(bits))


@register(_examples)
@dataclass(frozen=True)
class Bloom(BloomBits, Membership):
    """Tells whether a value was seen. A value that was seen is never false; others are true with a
    probability of at most `error`.

    The reader's row holds the value, or a list of values, in the column of this name. Where more
    values were seen than `capacity`, and the error cannot be kept, what was not seen is still
    false, and all else null with error `over_capacity`. Partial: the 8-byte hashes of the values
    while these take no more room than the filter's bits, then the bits.
    """

    kind = "bloom"

    def finish_columns(self, partials: Columns) -> Finished:
        hashes, bits = partials.items("hashes"), partials.items("bits")
        filters: list[bytes | None] = []
        for row in range(partials.n):
            some = hashes.values[hashes.offsets[row] : hashes.offsets[row + 1]]
            dense = bits.values[bits.offsets[row] : bits.offsets[row + 1]]
            if len(dense):
                filters.append(
                    (FULL if int(_ONES[dense].sum()) > self.most_set else BITS) + dense.tobytes()
                )
            else:
                filters.append(HASHES + some.tobytes() if len(some) else None)
        return Finished(pa.array(filters, pa.large_binary()))

    def finish(self, state: State) -> bytes | None:
        hashes, bits = state
        if bits:
            full = sum(bin(byte).count("1") for byte in bits) > self.most_set
            return (FULL if full else BITS) + bytes(bits)
        return (
            HASHES + b"".join(value.to_bytes(8, "little") for value in hashes) if hashes else None
        )

    def contained(self, stored: bytes, hashes: Words) -> Answers:
        if stored[:1] == HASHES:
            return np.isin(hashes, np.frombuffer(stored, "<u8", offset=1)).tolist()  # type: ignore[no-any-return]
        bits = np.frombuffer(stored, np.uint8, offset=1)
        positions = self._positions(hashes)
        members = (
            ((bits[positions >> 3] >> (positions & 7).astype(np.uint8)) & 1).all(axis=0).tolist()
        )
        return [None if member else False for member in members] if stored[:1] == FULL else members


@register(_examples)
@dataclass(frozen=True)
class BloomFill(BloomBits):
    """The share of bits that are set in the filter of `bloom` with the same parameters; of no
    events null.

    A stranger is taken for a member with this share to the power of the bits per value.
    """

    kind = "bloom_fill"

    @property
    def output_type(self) -> pa.DataType:
        return pa.float64()

    def finish_columns(self, partials: Columns) -> Finished:
        hashes, bits = partials.items("hashes"), partials.items("bits")
        fills = np.zeros(partials.n)
        for row in np.flatnonzero(bits.lengths).tolist():
            fills[row] = (
                int(_ONES[bits.values[bits.offsets[row] : bits.offsets[row + 1]]].sum()) / self.bits
            )
        for row in np.flatnonzero(hashes.lengths).tolist():
            some = hashes.values[hashes.offsets[row] : hashes.offsets[row + 1]]
            fills[row] = len(np.unique(self._positions(some))) / self.bits
        empty = (hashes.lengths == 0) & (bits.lengths == 0)
        return Finished(pa.array(fills, mask=empty))

    def finish(self, state: State) -> float | None:
        hashes, bits = state
        if bits:
            return sum(bin(byte).count("1") for byte in bits) / self.bits
        return (
            len({position for value in hashes for position in self._positions_of_one(value)})
            / self.bits
            if hashes
            else None
        )
