"""The best entries of few partials are found by comparing Python's own numbers and bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

from slicewise.aggregates.kernel.fields import IDENTITY
from slicewise.aggregates.kernel.values import ValueType, is_decimal, is_instant
from slicewise.aggregates.scalar import Groups, Run, Scalars
from slicewise.errors import CodecError

Entry = tuple[int, bytes, Any, int]
"""Rank, identity, stored payload, and whether it is a value: entries in ascending order are in rank
order."""
Best = list[Entry]
"""The k best, the best first."""
_WIDTH = IDENTITY.itemsize
_MOST = 2**63 - 1
_CODES = {"<i8": "q", "<f8": "d", "|u1": "B"}


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
        plain = not any(is_decimal(t.arrow) or is_instant(t.arrow) for t in (by, payload))
        return plain and by.dtype is not None

    def combine(
        self,
        columns: Sequence[Sequence[Any]],
        runs: Sequence[Run],
        groups: Groups,
        cached: Sequence[Best] = (),
    ) -> list[Best]:
        identities, ranks, payloads, valid = columns
        counts = list(map(len, valid))
        entries = list(
            zip(
                self._ranks(ranks, counts),
                _cut(identities, counts),
                self._payloads(payloads, counts),
                b"".join(valid),
                strict=True,
            )
        )
        if len(entries) == len(counts) and set(counts) == {1}:
            of_run = [self._best(entries[a:b]) for a, b in runs]
        else:
            at = list(accumulate(counts, initial=0))
            of_run = [self._best(entries[at[a] : at[b]]) for a, b in runs]
        of_run += cached
        return [
            of_run[group[0]]
            if len(group) == 1
            else self._best(list(chain.from_iterable([of_run[run] for run in group])))
            for group in groups
        ]

    def finish(self, combined: Sequence[Best]) -> Scalars:
        values = []
        for entries in combined:
            both = [
                (self._by(rank), self.payload.load_one(payload) if is_value else None)
                for rank, _, payload, is_value in entries
            ]
            values.append(self.value(both))
        return Scalars(values)

    def _best(self, entries: list[Entry]) -> Best:
        if self.k == 1:
            return [min(entries)] if entries else []
        entries.sort()  # identities are unlike: no payload is compared
        return entries[: self.k]

    def _ranks(self, column: Sequence[bytes], counts: Sequence[int]) -> list[int]:
        """Integers that ascend in rank order."""
        double = self.by.dtype == "<f8"
        numbers = _numbers(column, "q" if double else _CODES[str(self.by.dtype)], counts)
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

    def _payloads(self, column: Sequence[Any], counts: Sequence[int]) -> Sequence[Any]:
        if self.payload.dtype is not None:
            return _numbers(column, _CODES[self.payload.dtype], counts)
        if list(map(len, column)) != counts:
            raise _unlike("payloads")
        return list(chain.from_iterable(column))


def _numbers(column: Sequence[bytes], code: str, counts: Sequence[int]) -> list[Any]:
    one = struct.calcsize(f"<{code}")
    if list(map(len, column)) != [one * n for n in counts]:
        raise _unlike("values")
    return list(struct.unpack(f"<{sum(counts)}{code}", b"".join(column)))


def _cut(column: Sequence[bytes], counts: Sequence[int]) -> list[bytes]:
    if list(map(len, column)) != [_WIDTH * n for n in counts]:
        raise _unlike("identities")
    whole = b"".join(column)
    return [whole[at : at + _WIDTH] for at in range(0, len(whole), _WIDTH)]


def _unlike(what: str) -> CodecError:
    return CodecError(
        f"lists of {what} and of what is valid of unlike lengths",
        expected="one item each per entry",
    )
