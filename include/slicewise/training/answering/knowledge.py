"""An event (hour H, partition p, offset o) is known to a row exactly if
`o < max(base[p], compacted_beyond[H][p])`.

Base and offset vector are those of the row's token; by arrival there is a base alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from slicewise.offsets.vector import TopicPartition
from slicewise.training.arrival import SourceArrival
from slicewise.training.events.unit_events import UnitEvents
from slicewise.training.ranges import Ints
from slicewise.training.tables.spine import AlikeTokens
from slicewise.windows.durations import HOUR_US

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TokenOffsets:
    """Knowledge of each of q rows, over a fixed list of partitions.

    base: int64 [q, partitions], first offset not contained. The `compacted_beyond` arrays list,
    sorted by (row, hour, partition), the offset vectors of hours whose compaction ran ahead of the
    base.
    """

    topic_partitions: tuple[TopicPartition, ...]
    base: npt.NDArray[np.int64]
    beyond_row: Ints
    beyond_hour: Ints
    beyond_partition: Ints
    beyond_offset: Ints

    @staticmethod
    def of(
        tokens: Sequence[AlikeTokens], rows: int, topic_partitions: Sequence[TopicPartition]
    ) -> TokenOffsets:
        """The offset vectors of the tokens' rows; partitions that hold no event at hand are left
        out."""
        number = {topic_partition: i for i, topic_partition in enumerate(topic_partitions)}
        base = np.zeros((rows, len(topic_partitions)), np.int64)
        compacted_beyond: list[tuple[int, int, int, int]] = []
        for alike in tokens:
            for i, topic_partition in enumerate(alike.topic_partitions):
                if topic_partition in number:
                    base[alike.row, number[topic_partition]] = alike.base[:, i]
            compacted_beyond += [
                (int(alike.row[at]), hour, number[topic_partition], offset)
                for at, hour, topic_partition, offset in alike.beyond
                if topic_partition in number
            ]
        table = np.array(sorted(compacted_beyond), np.int64).reshape(-1, 4)
        return TokenOffsets(
            tuple(topic_partitions), base, table[:, 0], table[:, 1], table[:, 2], table[:, 3]
        )

    @staticmethod
    def of_arrival(
        arrived: SourceArrival, topic_partitions: Sequence[TopicPartition]
    ) -> TokenOffsets:
        """The offset vectors of rows that know what was applied by an instant."""
        number = {topic_partition: i for i, topic_partition in enumerate(arrived.topic_partitions)}
        entries = np.zeros((len(arrived.base), len(topic_partitions)), np.int64)
        for i, topic_partition in enumerate(topic_partitions):
            if topic_partition in number:
                entries[:, i] = arrived.base[:, number[topic_partition]]
        none = np.zeros(0, np.int64)
        return TokenOffsets(tuple(topic_partitions), entries[arrived.row], none, none, none, none)

    def take(self, rows: Ints) -> TokenOffsets:
        """The offset vectors of these rows, renumbered in the order given; no row twice."""
        new = np.full(len(self.base), -1, np.int64)
        new[rows] = np.arange(len(rows), dtype=np.int64)
        kept = np.flatnonzero(new[self.beyond_row] >= 0)
        row = new[self.beyond_row[kept]]
        kept, row = _by_row(kept, row)
        return TokenOffsets(
            self.topic_partitions,
            self.base[rows],
            row,
            self.beyond_hour[kept],
            self.beyond_partition[kept],
            self.beyond_offset[kept],
        )

    def contain(
        self, row: Ints, time_us: Ints, topic_partition: npt.NDArray[np.integer[Any]], offset: Ints
    ) -> Flags:
        """Per event whether the row knows it."""
        contained: Flags = offset < self.base[row, topic_partition]
        if len(self.beyond_row):
            contained |= offset < self._compacted_beyond(row, time_us // HOUR_US, topic_partition)
        return contained

    def _compacted_beyond(
        self, row: Ints, hour: Ints, topic_partition: npt.NDArray[np.integer[Any]]
    ) -> Ints:
        first = int(self.beyond_hour.min())
        hours = int(self.beyond_hour.max()) - first + 1
        width = len(self.topic_partitions)

        def key(r: Ints, h: Ints, p: npt.NDArray[np.integer[Any]]) -> Ints:
            return (r * hours + (h - first)) * width + p

        keys = key(self.beyond_row, self.beyond_hour, self.beyond_partition)
        inside = (hour >= first) & (hour < first + hours)
        wanted = key(row, np.where(inside, hour, first), topic_partition)
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(inside & (keys[at] == wanted), self.beyond_offset[at], 0)


def applied_events(events: UnitEvents, arrived: SourceArrival) -> UnitEvents:
    """The events that had been applied by the one instant at which all rows know."""
    assert len(arrived.base) == 1
    rows = events.source.rows
    offset_vectors = TokenOffsets.of_arrival(arrived, events.topic_partitions)
    first = np.zeros(len(rows.time), np.int64)  # any row: all know the same
    contained = offset_vectors.contain(first, rows.time, events.topic_partition, rows.offset)
    if contained.all():
        return events
    chosen = np.flatnonzero(contained).astype(np.int64)
    return replace(
        events,
        source=events.source.take(chosen),
        topic_partition=events.topic_partition[chosen],
    )


def _by_row(kept: Ints, row: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(row, kind="stable")  # within a row (hour, partition) stay sorted
    return kept[order].astype(np.int64), row[order]
