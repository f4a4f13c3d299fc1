"""The best entries of few partials are found by comparing Python's own numbers and bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from slicewise.aggregates import scalar_lists as lists
from slicewise.aggregates.kernel.values import ValueType, is_decimal, is_instant
from slicewise.aggregates.scalar import Groups, Run, Scalars

Entry = tuple[int, bytes, Any, int]
"""Rank, identity, stored payload, and whether it is a value: entries in ascending order are in rank
order."""
Entries = list[Entry]
"""The k best, the best first."""
_MOST = 2**63 - 1
_IDENTITY = itemgetter(0)


def leaves_plain(kind: ValueType) -> bool:
    """Tells whether values of the type leave as they are loaded, without another form."""
    return not (is_decimal(kind.arrow) or is_instant(kind.arrow))


@dataclass(frozen=True)
class ScalarRanks:
    """Partials of argmin, argmax, top-k and bottom-k; combined to their k best entries."""

    k: int
    largest: bool
    by: ValueType
    payload: ValueType
    value: Callable[[list[tuple[Any, Any]]], Any]
    """The finished value of the entries' (by, payload), the best first."""

    @staticmethod
    def takes(by: ValueType, payload: ValueType) -> bool:
        """Tells whether entries of these types have this form: those that are ranked by a number,
        and whose values leave as Python's own."""
        return leaves_plain(by) and leaves_plain(payload) and by.dtype is not None

    def combine(
        self,
        columns: Sequence[Sequence[Any]],
        runs: Sequence[Run],
        groups: Groups,
        cached: Sequence[Entries] = (),
    ) -> list[Entries]:
        identities, ranks, payloads, valid = columns
        counts = list(map(len, valid))
        entries = list(
            zip(
                self._ranks(ranks, counts),
                lists.identities(identities, counts),
                lists.values(self.payload, payloads, counts),
                b"".join(valid),
                strict=True,
            )
        )
        return lists.kept(entries, counts, runs, groups, cached, self._best)

    def finish(self, combined: Sequence[Entries]) -> Scalars:
        values = []
        for entries in combined:
            both = [
                (self._by(rank), self.payload.load_one(payload) if is_value else None)
                for rank, _, payload, is_value in entries
            ]
            values.append(self.value(both))
        return Scalars(values)

    def _best(self, entries: list[Entry]) -> Entries:
        if self.k == 1:
            return [min(entries)] if entries else []
        entries.sort()  # identities are unlike: no payload is compared
        return entries[: self.k]

    def _ranks(self, column: Sequence[bytes], counts: Sequence[int]) -> list[int]:
        """Integers that ascend in rank order."""
        double = self.by.dtype == "<f8"
        numbers = lists.values(self.by, column, counts, bits=double)
        if double:
            numbers = [bits ^ _MOST if bits < 0 else bits for bits in numbers]
        return [-number for number in numbers] if self.largest else numbers

    def _by(self, rank: int) -> Any:
        """The value that has this rank."""
        number = -rank if self.largest else rank
        if self.by.dtype == "<f8":
            bits = number ^ _MOST if number < 0 else number
            return struct.unpack("<d", struct.pack("<q", bits))[0]
        return self.by.load_one(number)


Placed = tuple[bytes, Any]
"""Identity and stored value: entries in ascending order are in the order of events."""


@dataclass(frozen=True)
class ScalarListing:
    """Partials of first-k and last-k, also of distinct values; combined to their k entries in the
    order of events."""

    k: int
    newest: bool
    distinct: bool
    value: ValueType

    def combine(
        self,
        columns: Sequence[Sequence[Any]],
        runs: Sequence[Run],
        groups: Groups,
        cached: Sequence[list[Placed]] = (),
    ) -> list[list[Placed]]:
        identities, stored = columns
        counts = lists.counts_of(self.value, stored)
        entries = list(
            zip(
                lists.identities(identities, counts),
                lists.values(self.value, stored, counts),
                strict=True,
            )
        )
        return lists.kept(entries, counts, runs, groups, cached, self._kept)

    def finish(self, combined: Sequence[list[Placed]]) -> Scalars:
        results = []
        for entries in combined:
            loaded = [self.value.load_one(stored) for _, stored in entries]
            results.append((loaded[::-1] if self.newest else loaded) or None)
        return Scalars(results)

    def _kept(self, entries: list[Placed]) -> list[Placed]:
        entries.sort(key=_IDENTITY)
        if self.distinct:
            latest = {stored: identity for identity, stored in entries}
            entries = sorted([(identity, stored) for stored, identity in latest.items()])
        return entries[-self.k :] if self.newest else entries[: self.k]
