"""One column of a source names an event, so that a producer's retry counts once; checked as it is
written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
