"""One column of a source names an event, so that a producer's retry counts once; checked as it is
written.

The events below an event in its partition decide whether it is a duplicate, and no clock.

Of the events of one entity (as the view takes them) in one partition that have an id, in the order
of their offsets: the clock at an event is the largest Kafka time up to and with it. An event that
lies more than STEP_BACK_US before the clock is out of place: it counts, and is not remembered.
Another is a duplicate if one of the `most` in place before it has its id, at a clock that lies at
most `within_us` before its own.

Clocks and numbers only grow, so that what is remembered of the past is short (`remembered`), and a
judge who begins `look_back_us` of Kafka time before the oldest event that he is asked about comes
to the same (docs/adr/0064).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.kernel.hashing import hash_stored
from slicewise.calls import checked_call
from slicewise.errors import DefinitionError
from slicewise.features.schema.types import LONG, STRING, column_type
from slicewise.windows.durations import DAY_US, HOUR_US, format_duration, parse_duration

WITHIN = "1h"
MOST = 1_000
MAX_MOST = 10_000
SECOND_US = 1_000_000
LONGEST_US = 7 * DAY_US
STEP_BACK_US = HOUR_US
"""An event whose Kafka time lies further before the latest of its entity and partition is not
looked at."""


@dataclass(frozen=True)
class Dedupe:
    """Rule by which events of one entity in one partition that have the same id count once: the one
    with the lowest offset.

    column: the source's column that holds an event's id (string, or an integer type); null: the
    event has none, and counts. within: how far apart the Kafka times of the two may lie. most: they
    are known to be two while no more than so many events of the entity (with an id, in that
    partition) lie between them; the store remembers as many, in 16 bytes each.
    """

    column: str
    within: str = WITHIN
    most: int = MOST

    def planned(self, schema: Mapping[str, str], where: str) -> EventIds:
        """The same as data. DefinitionError for what cannot name an event, or remembers nothing or
        too much."""
        if not isinstance(self.column, str) or self.column not in schema:
            raise DefinitionError(
                f"dedupe names {self.column!r}, which is no column",
                where=where,
                expected="one of " + ", ".join(schema),
                next_step='name the column that holds the id of an event: dedupe=sw.dedupe("event_id")',
            )
        if column_type(schema[self.column]) not in (STRING, LONG):
            raise DefinitionError(
                f"dedupe names {self.column!r}, which is {schema[self.column]}",
                where=where,
                expected="a column of type string, or of integers",
                next_step=(
                    "a value that other events may have names none of them; choose the producer's "
                    "own id"
                ),
            )
        within_us = parse_duration(self.within)
        if not SECOND_US <= within_us <= LONGEST_US:
            raise DefinitionError(
                f"dedupe within {self.within!r}",
                where=where,
                expected=f"from 1s to {format_duration(LONGEST_US)}",
                next_step=(
                    "give the longest time after which a producer of yours may still send an "
                    "event again"
                ),
            )
        if (
            isinstance(self.most, bool)
            or not isinstance(self.most, int)
            or not 1 <= self.most <= MAX_MOST
        ):
            raise DefinitionError(
                f"dedupe remembers {self.most!r} events",
                where=where,
                expected=f"a whole number from 1 to {MAX_MOST}",
                next_step="leave most= out for " + str(MOST),
            )
        return EventIds(self.column, within_us, self.most)


@checked_call
def dedupe(column: str, *, within: str = WITHIN, most: int = MOST) -> Dedupe:
    """For sw.KafkaSource(dedupe=…): of events of one entity and partition with equal ids, the first
    counts.

    See Dedupe for what the arguments mean; docs/adr/0064 for what it does not do.
    """
    return Dedupe(column, within, most)


@dataclass(frozen=True)
class EventIds:
    """Ids of a source and of its units: the column by which events are told apart, over how long
    and over how many."""

    column: str
    within_us: int
    most: int

    @property
    def look_back_us(self) -> int:
        """Events so much older, by Kafka's time, than the oldest that are judged decide nothing
        about these."""
        return self.within_us + STEP_BACK_US


def refuse_by_event(exact: Sequence[str], emits: bool, where: str) -> None:
    """Refuse, of a source with dedupe, what keeps events one by one or reads the log by itself:
    only the micro-batch lane of slices knows an event that comes again. exact: columns over exact
    windows. Raises DefinitionError."""
    if not exact and not emits:
        return
    what = f"the exact window of {exact[0]}" if exact else "emit="
    raise DefinitionError(
        f"{what}, of a source whose events count once by their id",
        where=where,
        expected=(
            "windows that are made of slices, and no emit=: these alone leave out an event that "
            "comes again"
        ),
        next_step=(
            "leave it out, or leave dedupe= out and let the producers be idempotent "
            "(enable.idempotence=true)"
        ),
    )


Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Judged:
    """Per event, in the order in which they were given."""

    duplicate: Flags
    in_order: Flags
    remembered: Flags
    """Events in place by which events after all of these can still be found to be duplicates."""
    clock: Ints


def judge(group: Ints, ids: NDArray[np.uint64], kafka_us: Ints, rule: EventIds) -> Judged:
    """About events with ids. group: numbers of (entity, partition); each group's events in the
    order of their offsets.

    ids: hashes (`hashed`); kafka_us: Kafka timestamps, microseconds UTC. What was remembered may
    stand before a group's events, with its clocks as times.
    """
    n = len(group)
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    begins = np.ones(n, np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    segment = np.cumsum(begins) - 1
    # a running maximum per group: over ranks of the times, so that groups can be laid one above the
    # other
    times, rank = np.unique(kafka_us[order], return_inverse=True)
    floor = segment * max(1, len(times))
    clock = times[np.maximum.accumulate(floor + rank) - floor] if n else times
    in_order = kafka_us[order] >= clock - STEP_BACK_US
    nth = np.cumsum(in_order)
    duplicate = np.zeros(n, np.bool_)
    placed = np.flatnonzero(in_order)
    # stable: of equal ids in the order of offsets
    by = placed[np.lexsort((ids[order][placed], segment[placed]))]
    later, before = by[1:], by[:-1]
    duplicate[later] = (
        (segment[later] == segment[before])
        & (ids[order][later] == ids[order][before])
        & (clock[later] - clock[before] <= rule.within_us)
        & (nth[later] - nth[before] <= rule.most)
    )
    ends = np.append(np.flatnonzero(begins)[1:], n) - 1
    remembered = in_order.copy()
    if n:
        remembered &= nth > nth[ends][segment] - rule.most
        remembered &= clock >= clock[ends][segment] - rule.within_us
    back = np.empty(n, np.int64)
    back[order] = np.arange(n)
    return Judged(duplicate[back], in_order[back], remembered[back], clock[back])


def hashed(column: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.uint64], Flags]:
    """64 bits of each id, and which events have an id. Two different ids of an entity share their
    bits with a probability of most / 2^64."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(flat, pa.ChunkedArray):
        flat = pa.concat_arrays(flat.chunks)
    present = np.asarray(flat.is_valid().to_numpy(zero_copy_only=False))
    if pa.types.is_integer(flat.type):
        return hash_stored(
            flat.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
        ), present
    return hash_stored(flat.cast(pa.string()).fill_null("").cast(pa.binary())), present


def duplicates_among(
    group: Ints, offset: Ints, ids: pa.Array, kafka_us: Ints, rule: EventIds
) -> Flags:
    """Per event, in any order: whether it is a duplicate among these. group: as for `judge`;
    offset: in its place."""
    duplicates = np.zeros(len(group), np.bool_)
    numbers, present = hashed(ids)
    rows = np.flatnonzero(present)
    rows = rows[np.argsort(offset[rows], kind="stable")]
    duplicates[rows] = judge(group[rows], numbers[rows], kafka_us[rows], rule).duplicate
    return duplicates
