"""Totals of a lifetime: an entity's hour is in its total, in its day or running, in one change, and
nothing expires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from slicewise import codec
from slicewise.errors import GapRefused
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import TotalUntil
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.archive_versions import (
    CountArchiveVersions,
    PutArchiveVersion,
)
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import ReadMetadata, ReadTime
from slicewise.stores.online.operations.day_totals import WriteDayTotals
from slicewise.stores.online.operations.publish_days import ReadHours
from slicewise.stores.online.operations.publish_total import (
    AnnounceTotal,
    LifetimeEntry,
    MarkTotal,
    PublishTotal,
    ReadTotalVersions,
)
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead, UnitReply
from slicewise.stores.online.steps import Change, Command
from slicewise.stores.online.store import Store
from slicewise.windows.durations import DAY_US, HOUR_US
from slicewise.windows.segments import FIVE_DAYS
from tests.contract.conftest import Bench, new_unit, racing
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.stored import (
    TOPIC,
    Event,
    StoreUnit,
    applied_offsets_of,
    hour_entry,
    micro_batch,
    offset_vector,
    running_of,
    seen_in,
    tag,
)

AGO = 400 * DAY_US
"""Long before what any retention keeps."""


@dataclass
class Lived:
    """A unit with a lifetime, deployed on an empty log; `first`: midnight of a day that passed long
    ago."""

    bench: Bench
    unit: StoreUnit
    first: int

    @property
    def store(self) -> Store:
        return self.bench.store

    @property
    def total_until(self) -> int:
        """The first hour of the day after."""
        return self.first + 24

    def event(self, offset: int, hour: int = 0, entity: int = 1) -> Event:
        return Event(entity, (self.first + hour) * HOUR_US + offset, 0, offset)

    def apply(self, *events: Event) -> int:
        return self.store.run(ApplyBatch(micro_batch(self.unit, events))).applied

    def reach(self, offset: int) -> None:
        """Moves the committed offset of partition 0 up to this one."""
        metadata = self.store.run(ReadMetadata())
        start = offset_vector(metadata.committed.get((TOPIC, 0)))
        self.store.run(
            AdvanceCommitted(
                start, offset_vector(offset), metadata.deployment_version, metadata.units
            )
        )

    def entry(self, events: Sequence[Event], since: int | None = None) -> LifetimeEntry:
        total = hour_entry(self.unit, events[0].entity, 1, events).total
        return LifetimeEntry(tag(events[0].entity), bytes(codec.unpack_total(total).row), since)

    def read(self, entity: int = 1) -> UnitReply:
        """Hot, then `c` of the first day."""
        name = self.unit.storage_fingerprint
        hot = keys.hot_key(self.store.store_id, tag(entity), name)
        day = keys.day_key(self.store.store_id, tag(entity), name, self.first // 24)
        return self.store.run(
            Read(
                [
                    EntityRead(
                        (UnitRead(hot, ((day, (keys.HOURS, keys.hour_fields(self.first)[0])),)),)
                    )
                ]
            )
        ).entities[0][0]

    def total(self, entity: int = 1) -> tuple[int, int, list[tuple[int, int]]] | None:
        """Total-until hour, archive version and events of the total."""
        hot = self.read(entity).hot
        raw = dict(zip(hot[::2], hot[1::2], strict=True)).get(keys.LIFETIME)
        if raw is None:
            return None
        lifetime = codec.unpack_lifetime(raw)
        return lifetime.total_until, lifetime.archive_version, seen_in(self.unit, [lifetime.row])

    def running(self, entity: int = 1) -> list[tuple[int, int]]:
        return seen_in(self.unit, [part.row for part in running_of(self.read(entity)).values()])


@pytest.fixture
def lived(bench: Bench) -> Lived:
    unit = new_unit(lifetime=True)
    bench.deploy(bench.store, unit, topics={"plays": TOPIC})
    first = (bench.store.run(ReadTime()) - AGO) // DAY_US * 24
    return Lived(bench, unit, first)


def ids(events: Sequence[Event]) -> list[tuple[int, int]]:
    return sorted((e.partition, e.offset) for e in events)


def test_a_unit_that_begins_with_nothing_has_its_total_until_hour_from_the_deployment(
    lived: Lived,
) -> None:
    result = lived.store.run(ReadMetadata()).totals_until[lived.unit.storage_fingerprint]
    kept_us = lived.store.run(ReadTime()) - lived.unit.retention_us
    assert result.archive_version == 0
    assert result.hour % 24 == 0
    assert kept_us - DAY_US < result.hour * HOUR_US <= kept_us


def test_what_was_compacted_and_what_ran_below_the_offset_vector_go_into_the_total_and_the_rest_stays(
    lived: Lived,
) -> None:
    # hour 0: offsets 0 1 2, compacted to archive version 1; hour 5: 3; offset vector of archive
    # version 2: 4; beyond it, in hour 0: 4
    events = [
        lived.event(0),
        lived.event(1),
        lived.event(2),
        lived.event(3, hour=5),
        lived.event(4, hour=1),
    ]
    store, unit = lived.store, lived.unit
    assert lived.apply(*events) == 5
    lived.reach(5)
    store.run(PutArchiveVersion("plays", 1, offset_vector(3)))
    assert (
        store.run(
            PublishHour(
                unit, lived.first, 1, offset_vector(3), [hour_entry(unit, 1, 1, events[:3])]
            )
        ).stale
        == 1
    )  # below the metadata
    store.run(AnnounceTotal(unit, lived.total_until, 2, offset_vector(4)))
    days = [lived.first // 24]
    outcome = store.run(
        PublishTotal(unit, lived.total_until, 2, offset_vector(4), [lived.entry(events[:4])], days)
    )
    assert (outcome.published, outcome.left_over) == (1, ())
    assert lived.total() == (lived.total_until, 2, ids(events[:4]))
    assert lived.running() == ids(events[4:])
    assert applied_offsets_of(lived.read()) == {0: 4}
    # written anew it takes its equal's place, as it would a damaged one's; what is added to is not
    # added to twice
    wrong = lived.entry(events[:1])
    assert (
        store.run(
            PublishTotal(unit, lived.total_until, 2, offset_vector(4), [wrong], days)
        ).published
        == 1
    )
    assert (
        store.run(
            PublishTotal(
                unit, lived.total_until, 2, offset_vector(4), [lived.entry(events[:4])], days
            )
        ).published
        == 1
    )
    assert (
        store.run(
            PublishTotal(
                unit,
                lived.total_until,
                2,
                offset_vector(4),
                [lived.entry(events[:1], since=0)],
                days,
            )
        ).stale
        == 1
    )
    assert lived.total() == (lived.total_until, 2, ids(events[:4]))
    # a replay of everything, by whoever comes: nothing is added, also without the applied offset's
    # memory of it
    assert lived.apply(*events) == 0
    assert store.run(ReadTotalVersions(unit)) == (2,)


def test_later_hours_are_added_and_an_unfinished_move_is_left_over(lived: Lived) -> None:
    first, second = [lived.event(0), lived.event(1, hour=3)], [lived.event(2, hour=30)]
    store, unit = lived.store, lived.unit
    lived.reach(3)
    store.run(AnnounceTotal(unit, lived.total_until, 1, offset_vector(3)))
    store.run(PublishTotal(unit, lived.total_until, 1, offset_vector(3), [lived.entry(first)]))
    store.run(AnnounceTotal(unit, lived.total_until + 24, 2, offset_vector(3)))
    entry = lived.entry(second, since=lived.total_until)
    assert (
        store.run(
            PublishTotal(unit, lived.total_until + 24, 2, offset_vector(3), [entry])
        ).published
        == 1
    )
    assert lived.total() == (lived.total_until + 24, 2, ids(first + second))
    store.run(AnnounceTotal(unit, lived.total_until + 48, 3, offset_vector(3)))
    assert store.run(
        PublishTotal(unit, lived.total_until + 48, 3, offset_vector(3), [entry])
    ).left_over == (0,)
    # an older total never replaces a newer; one that is further in time and older in archive
    # version is neither
    assert (
        store.run(
            PublishTotal(unit, lived.total_until, 1, offset_vector(3), [lived.entry(first)])
        ).stale
        == 1
    )
    assert store.run(
        PublishTotal(unit, lived.total_until + 48, 1, offset_vector(3), [lived.entry(first)])
    ).left_over == (0,)
    assert lived.total() == (lived.total_until + 24, 2, ids(first + second))


def test_a_running_partial_that_straddles_the_offset_vector_leaves_the_entity_over(
    lived: Lived,
) -> None:
    events = [lived.event(o) for o in range(4)]
    lived.apply(*events)
    lived.reach(4)
    lived.store.run(AnnounceTotal(lived.unit, lived.total_until, 1, offset_vector(2)))
    outcome = lived.store.run(
        PublishTotal(lived.unit, lived.total_until, 1, offset_vector(2), [lived.entry(events[:2])])
    )
    assert outcome.left_over == (0,)
    assert lived.total() is None
    assert lived.running() == ids(events)


def test_a_total_never_runs_beyond_the_committed_offsets(lived: Lived) -> None:
    lived.reach(1)
    lived.store.run(AnnounceTotal(lived.unit, lived.total_until, 1, offset_vector(2)))
    with pytest.raises(GapRefused, match="ahead of every token"):
        lived.store.run(
            PublishTotal(
                lived.unit,
                lived.total_until,
                1,
                offset_vector(2),
                [lived.entry([lived.event(0), lived.event(1)])],
            )
        )


def test_a_total_until_hour_is_the_first_hour_of_a_day(lived: Lived) -> None:
    with pytest.raises(GapRefused, match="a total-until hour at hour"):
        lived.store.run(PublishTotal(lived.unit, lived.total_until + 1, 0, offset_vector(), []))
    with pytest.raises(GapRefused, match="a total-until hour at hour"):
        lived.store.run(MarkTotal(lived.unit, lived.total_until + 1, 0, 0))


def test_a_micro_batch_that_read_a_running_partial_which_a_total_takes_reads_again(
    lived: Lived,
) -> None:
    events = [lived.event(0), lived.event(1), lived.event(2)]
    lived.apply(*events[:2])
    lived.reach(2)
    lived.store.run(AnnounceTotal(lived.unit, lived.total_until, 1, offset_vector(2)))
    other = lived.bench.connect()
    done: list[object] = []

    def race(commands: Sequence[Command]) -> None:
        if not done and any(b":hot" in getattr(command, "key", b"") for command in commands):
            done.append(
                other.run(
                    PublishTotal(
                        lived.unit,
                        lived.total_until,
                        1,
                        offset_vector(2),
                        [lived.entry(events[:2])],
                    )
                )
            )

    outcome = racing(
        lived.store, lived.store.steps(ApplyBatch(micro_batch(lived.unit, events))), race
    )
    assert done
    assert (outcome.applied, outcome.misses) == (1, 1)
    assert lived.total() == (lived.total_until, 1, ids(events[:2]))
    assert lived.running() == ids(events[2:])


def test_a_total_until_hour_is_marked_while_nobody_announced_and_never_goes_back(
    lived: Lived,
) -> None:
    store, unit = lived.store, lived.unit
    total_until = store.run(ReadMetadata()).totals_until[unit.storage_fingerprint]
    store.run(AnnounceTotal(unit, total_until.hour + 24, 1, offset_vector()))
    count = store.run(CountArchiveVersions("plays"))
    store.run(PutArchiveVersion("plays", 1, offset_vector()))  # another run announces an hour
    after = store.run(CountArchiveVersions("plays"))
    assert not store.run(MarkTotal(unit, total_until.hour + 24, 1, count))
    assert store.run(MarkTotal(unit, total_until.hour + 24, 1, after))
    assert not store.run(MarkTotal(unit, total_until.hour, 2, after))
    assert not store.run(MarkTotal(unit, total_until.hour + 48, 0, after))
    assert store.run(ReadMetadata()).totals_until[unit.storage_fingerprint] == TotalUntil(
        total_until.hour + 24, 1
    )
    store.run(AnnounceTotal(unit, total_until.hour + 24, 2, offset_vector()))
    assert store.run(ReadTotalVersions(unit)) == (1, 2)
    assert store.run(
        MarkTotal(
            unit, total_until.hour + 24, 2, store.run(CountArchiveVersions("plays")), whole=True
        )
    )
    assert store.run(ReadTotalVersions(unit)) == (2,)
    assert store.run(ReadHours(unit)) == {}


def test_an_hour_at_or_beyond_the_total_until_hour_is_published_without_expiry_and_leaves_its_day_into_the_total(
    lived: Lived,
) -> None:
    store, unit = lived.store, lived.unit
    total_until = store.run(ReadMetadata()).totals_until[unit.storage_fingerprint].hour
    lived.first = total_until
    events = [lived.event(0), lived.event(1)]
    lived.apply(*events)
    lived.reach(2)
    store.run(PutArchiveVersion("plays", 1, offset_vector(2)))
    assert (
        store.run(
            PublishHour(unit, total_until, 1, offset_vector(2), [hour_entry(unit, 1, 1, events)])
        ).published
        == 1
    )
    assert lived.read().days[0][0] is not None
    assert lived.running() == []
    older = lived.entry(events[:1])
    assert store.run(
        PublishTotal(unit, total_until + 24, 0, offset_vector(), [older], [total_until // 24])
    ).left_over == (0,)  # the hour holds more
    store.run(AnnounceTotal(unit, total_until + 24, 2, offset_vector(2)))
    assert (
        store.run(
            PublishTotal(
                unit,
                total_until + 24,
                2,
                offset_vector(2),
                [lived.entry(events)],
                [total_until // 24],
            )
        ).published
        == 1
    )
    assert lived.read().days[0] == [None, None]
    assert lived.total() == (total_until + 24, 2, ids(events))
    assert (
        store.run(
            PublishHour(unit, total_until, 1, offset_vector(2), [hour_entry(unit, 1, 1, events)])
        ).stale
        == 1
    )  # it is in the total


def test_a_five_day_total_of_such_a_unit_does_not_expire_and_leaves_with_its_last_day(
    lived: Lived,
) -> None:
    #  day   0 1 2 3 4 |  the last of a five-day total, which the total-until hour passes
    store, unit = lived.store, lived.unit
    last = (
        store.run(ReadMetadata()).totals_until[unit.storage_fingerprint].hour // 24 // FIVE_DAYS + 1
    ) * FIVE_DAYS - 1
    lived.first = last * 24
    events = [lived.event(0)]
    lived.apply(*events)
    lived.reach(1)
    store.run(PutArchiveVersion("plays", 1, offset_vector(1)))
    store.run(PublishHour(unit, lived.first, 1, offset_vector(1), [hour_entry(unit, 1, 1, events)]))
    seen: list[Command] = []
    assert racing(store, store.steps(WriteDayTotals(unit, [tag(1)], last)), seen.extend) == 1
    written = [
        field_set
        for command in seen
        if isinstance(command, Change)
        for at in command.keys
        for field_set in at.sets
    ]
    assert [(field, expiry) for field, _, expiry in written] == [
        (keys.TOTAL, 0),
        (keys.FIVE_DAY_TOTAL, 0),
    ]
    key = keys.day_key(store.store_id, tag(1), unit.storage_fingerprint, last)
    fields = (keys.HOURS, keys.TOTAL, keys.FIVE_DAY_TOTAL)

    def present() -> list[bool]:
        read = store.run(Read([EntityRead((UnitRead(None, ((key, fields),)),))])).entities[0][0]
        return [value is not None for value in read.days[0]]

    assert present() == [True] * 3
    store.run(AnnounceTotal(unit, lived.total_until, 2, offset_vector(1)))
    assert (
        store.run(
            PublishTotal(
                unit, lived.total_until, 2, offset_vector(1), [lived.entry(events)], [last]
            )
        ).published
        == 1
    )
    assert present() == [False] * 3
