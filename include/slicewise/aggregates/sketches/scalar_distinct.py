"""Distinct values of few partials are counted as a set of Python's own, and as registers beyond
it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates import scalar_lists as lists
from slicewise.aggregates.kernel.hashing import hash_one
from slicewise.aggregates.kernel.values import ValueType
from slicewise.aggregates.scalar import Groups, Run, Scalars
from slicewise.aggregates.sketches.hyperloglog import estimates, registers_and_ranks
from slicewise.errors import CodecError

Registers = NDArray[np.uint8]
Distinct = tuple[frozenset[Any], Registers | None]
"""The set of stored values, or no set and the registers."""


@dataclass(frozen=True)
class ScalarDistinct:
    """Partials of a distinct count: (values, registers)."""

    value: ValueType
    threshold: int
    precision: int

    def combine(
        self,
        columns: Sequence[Sequence[Any]],
        runs: Sequence[Run],
        groups: Groups,
        cached: Sequence[Distinct] = (),
    ) -> list[Distinct]:
        of_row, registers = columns
        counts = lists.counts_of(self.value, of_row)
        stored = lists.values(self.value, of_row, counts)
        at = list(accumulate(counts, initial=0))
        size = 1 << self.precision
        if not {0, size}.issuperset(map(len, registers)):
            raise CodecError(f"a distinct count with other than {size} registers")
        of_run = [
            self._state(
                frozenset(stored[at[a] : at[b]]),
                [np.frombuffer(raw, np.uint8) for raw in registers[a:b] if raw],
            )
            for a, b in runs
        ]
        of_run += cached
        return [
            of_run[group[0]]
            if len(group) == 1
            else self._state(
                frozenset().union(*[of_run[run][0] for run in group]),
                [dense for run in group if (dense := of_run[run][1]) is not None],
            )
            for group in groups
        ]

    def finish(self, combined: Sequence[Distinct]) -> Scalars:
        return Scalars(
            [
                len(stored)
                if dense is None
                else estimates(dense.reshape(1, -1), self.precision).tolist()[0]
                for stored, dense in combined
            ]
        )

    def _state(self, stored: frozenset[Any], dense: Sequence[Registers]) -> Distinct:
        if not dense and len(stored) <= self.threshold:
            texts = 0 if self.value.dtype is not None else sum(map(len, stored))
            if texts <= 1 << self.precision:
                return stored, None
        whole = np.zeros(1 << self.precision, np.uint8)
        for one in dense:
            np.maximum(whole, one, out=whole)
        if stored:
            hashes = np.fromiter(map(hash_one, stored), np.uint64, len(stored))
            register, rank = registers_and_ranks(hashes, self.precision)
            np.maximum.at(whole, register, rank)
        return frozenset(), whole
