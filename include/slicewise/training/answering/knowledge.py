"""An event (hour H, place p, offset o) is known to a row exactly if `o < max(base[p], cover_H[p])`.

Base and cover are those of the row's token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slicewise.offsets.token import Token
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.training.ranges import Ints
from slicewise.windows.durations import HOUR_US

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Covers:
    """Knowledge of each of q rows, over a fixed list of places.

    base: int64 [q, places], first offset not contained. The `ahead` arrays list, sorted by (row,
    hour, place), the covers of hours whose compaction ran ahead of the base.
    """

    places: tuple[TopicPartition, ...]
    base: npt.NDArray[np.int64]
    ahead_row: Ints
    ahead_hour: Ints
    ahead_place: Ints
    ahead_offset: Ints

    @staticmethod
    def of(tokens: Sequence[Token], places: Sequence[TopicPartition]) -> Covers:
        """The covers of the tokens' rows; places that hold no event at hand are left out."""
        number = {place: i for i, place in enumerate(places)}
        base = np.zeros((len(tokens), len(places)), np.int64)
        ahead: list[tuple[int, int, int, int]] = []
        for row, token in enumerate(tokens):
            _put(base[row], token.base, number)
            for hour, cover in token.ahead.items():
                ahead += [
                    (row, hour, number[place], offset) for place, offset in cover.offsets.items() if place in number
                ]
        table = np.array(sorted(ahead), np.int64).reshape(-1, 4)
        return Covers(tuple(places), base, table[:, 0], table[:, 1], table[:, 2], table[:, 3])

    def take(self, rows: Ints) -> Covers:
        """The covers of these rows, renumbered in the order given; no row twice."""
        new = np.full(len(self.base), -1, np.int64)
        new[rows] = np.arange(len(rows), dtype=np.int64)
        kept = np.flatnonzero(new[self.ahead_row] >= 0)
        row = new[self.ahead_row[kept]]
        kept, row = _by_row(kept, row)
        return Covers(
            self.places,
            self.base[rows],
            row,
            self.ahead_hour[kept],
            self.ahead_place[kept],
            self.ahead_offset[kept],
        )

    def contain(self, row: Ints, time_us: Ints, place: Ints, offset: Ints) -> Flags:
        """Per event whether the row knows it."""
        known = offset < self.base[row, place]
        if len(self.ahead_row):
            known |= offset < self._ahead(row, time_us // HOUR_US, place)
        return known

    def _ahead(self, row: Ints, hour: Ints, place: Ints) -> Ints:
        first = int(self.ahead_hour.min())
        hours = int(self.ahead_hour.max()) - first + 1
        width = len(self.places)

        def key(r: Ints, h: Ints, p: Ints) -> Ints:
            return (r * hours + (h - first)) * width + p

        keys = key(self.ahead_row, self.ahead_hour, self.ahead_place)
        inside = (hour >= first) & (hour < first + hours)
        wanted = key(row, np.where(inside, hour, first), place)
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(inside & (keys[at] == wanted), self.ahead_offset[at], 0)


def _by_row(kept: Ints, row: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(row, kind="stable")  # within a row (hour, place) stay sorted
    return kept[order].astype(np.int64), row[order]


def _put(row: npt.NDArray[np.int64], cover: OffsetVector, number: dict[TopicPartition, int]) -> None:
    for place, offset in cover.offsets.items():
        if place in number:
            row[number[place]] = offset
