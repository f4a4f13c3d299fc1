"""Publishing a day of an entity at once does what its hours do one by one.

It brings the day's total, where that is of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from slicewise import codec
from slicewise.errors import CodecError, DataLoss, GapRefused
from slicewise.stores.online import keys
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.connecting import ReadTime
from slicewise.stores.online.operations.day_totals import WriteDayTotals
from slicewise.stores.online.operations.publish_days import DayEntry, DaysOutcome, PublishDays
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead
from slicewise.stores.online.steps import Change, Command, Time, Whole
from slicewise.stores.online.store import Store
from slicewise.windows.durations import DAY_US, HOUR_US
from tests.contract.conftest import Bench, racing
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.stored import (
    Event,
    StoreUnit,
    day_entry,
    hour_entry,
    micro_batch,
    offset_vector,
    running_of,
    seen_in,
    tag,
)


@pytest.fixture
def unit(bench: Bench) -> StoreUnit:
    """The deployed unit, which keeps ten days and no totals of five."""
    return replace(bench.unit, retention_us=10 * DAY_US, five_day_totals=False)


@pytest.fixture
def day(bench: Bench) -> int:
    """A day that is over: none of its hours is out of reach."""
    return bench.hour // 24 - 1


def hours_of(events: Sequence[Event]) -> dict[int, list[Event]]:
    hours: dict[int, list[Event]] = {}
    for event in events:
        hours.setdefault(event.time_us // HOUR_US, []).append(event)
    return hours


def events_in(*hours: int, entity: int = 1) -> list[Event]:
    """One event in each of these hours, at offsets 0, 1, ..."""
    return [Event(entity, hour * HOUR_US, 0, offset) for offset, hour in enumerate(hours)]


def published(
    store: Store,
    unit: StoreUnit,
    events: Sequence[Event],
    archive_version: int = 1,
    end: int | None = None,
) -> DaysOutcome:
    """Publishes one entity's events below `end` (all by default)."""
    end = len(events) if end is None else end
    entry = day_entry(unit, 1, archive_version, hours_of(events[:end]))
    return store.run(PublishDays(unit, archive_version, offset_vector(end), [entry]))


def counts(outcome: DaysOutcome) -> Mapping[int, tuple[int, int, int, tuple[int, ...]]]:
    return {
        hour: (of.published, of.stale, of.expired, of.left_over)
        for hour, of in outcome.hours.items()
    }


def fields_of(store: Store, unit: StoreUnit, day: int) -> dict[bytes, bytes]:
    """All that the day's hash has of an entity."""
    key = keys.day_key(store.store_id, tag(1), unit.storage_fingerprint, day)
    names = [keys.HOURS, keys.TOTAL]
    names += [name for hour in range(day * 24, day * 24 + 24) for name in keys.hour_fields(hour)]
    reply = store.run(Read([EntityRead((UnitRead(None, ((key, tuple(names)),)),))]))
    values = reply.entities[0][0].days[0]
    return {name: v for name, v in zip(names, values, strict=True) if v is not None}


def running(store: Store, unit: StoreUnit) -> list[tuple[int, int]]:
    hot = keys.hot_key(store.store_id, tag(1), unit.storage_fingerprint)
    reply = store.run(Read([EntityRead((UnitRead(hot, ()),))])).entities[0][0]
    return seen_in(unit, [part.row for part in running_of(reply).values()])


def ids(events: Sequence[Event]) -> list[tuple[int, int]]:
    return sorted((event.partition, event.offset) for event in events)


def test_a_day_at_once_leaves_the_bytes_that_its_hours_leave_one_by_one(
    bench: Bench, unit: StoreUnit, day: int
) -> None:
    store = bench.store
    events = events_in(day * 24, day * 24 + 3, day * 24 + 23)
    store.run(PutArchiveVersion("plays", 1, offset_vector(3)))
    for hour, some in hours_of(events).items():
        entry = hour_entry(unit, 1, 1, some)
        store.run(PublishHour(unit, hour, 1, offset_vector(3), [entry]))
    assert store.run(WriteDayTotals(unit, [tag(1)], day)) == 1
    one_by_one = fields_of(store, unit, day)
    store.run(PutArchiveVersion("plays", 2, offset_vector(3)))
    outcome = published(store, unit, events, archive_version=2)
    assert counts(outcome) == dict.fromkeys(hours_of(events), (1, 0, 0, ()))
    assert outcome.untotalled == ()
    at_once = fields_of(store, unit, day)
    assert at_once.keys() == one_by_one.keys()
    assert codec.unpack_hours(at_once[keys.HOURS]) == dict.fromkeys(hours_of(events), 2)
    for name in at_once.keys() - {keys.HOURS}:
        assert at_once[name][8:-4] == one_by_one[name][8:-4], name
    total = codec.unpack_day(at_once[keys.TOTAL])
    assert total.digest == codec.day_digest(at_once[keys.HOURS])
    assert seen_in(unit, [total.row]) == ids(events)


def test_it_is_the_same_again_and_replays_after_it_add_nothing(
    bench: Bench, unit: StoreUnit, day: int
) -> None:
    store = bench.store
    events = events_in(day * 24 + 1, day * 24 + 2)
    store.run(PutArchiveVersion("plays", 1, offset_vector(2)))
    published(store, unit, events)
    before = fields_of(store, unit, day)
    for _ in range(2):
        outcome = bench.connect().run(ApplyBatch(micro_batch(unit, events)))
        assert outcome.applied == 0
        published(bench.connect(), unit, events)
        assert fields_of(store, unit, day) == before
    assert running(store, unit) == []


def test_what_lies_beyond_stays_and_what_straddles_is_left_over(
    bench: Bench, unit: StoreUnit, day: int
) -> None:
    #  hour       0       1     |   offset vector 3: one running partial of hour 1 straddles it
    #  offsets   0 1     2 3
    store = bench.store
    first, second = day * 24, day * 24 + 1
    events = [
        Event(1, hour * HOUR_US, 0, offset)
        for offset, hour in enumerate((first, first, second, second))
    ]
    store.run(ApplyBatch(micro_batch(unit, events)))
    store.run(PutArchiveVersion("plays", 1, offset_vector(3)))
    store.run(PutArchiveVersion("plays", 2, offset_vector(4)))
    outcome = published(store, unit, events, end=3)
    assert counts(outcome) == {first: (1, 0, 0, ()), second: (0, 0, 0, (0,))}
    assert outcome.untotalled == (0,)
    assert running(store, unit) == ids(events[2:])
    fields = fields_of(store, unit, day)
    assert codec.unpack_hours(fields[keys.HOURS]) == {first: 1}
    assert keys.TOTAL not in fields, "a total of an hour that did not go in"
    outcome = published(store, unit, events, archive_version=2)
    assert (outcome.untotalled, running(store, unit)) == ((), [])


def test_an_older_archive_version_replaces_no_hour_of_a_newer(
    bench: Bench, unit: StoreUnit, day: int
) -> None:
    store = bench.store
    first, second = day * 24, day * 24 + 1
    events = events_in(first, second)
    for version in (1, 2):
        store.run(PutArchiveVersion("plays", version, offset_vector(2)))
    newer = hour_entry(unit, 1, 2, events[:1])
    store.run(PublishHour(unit, first, 2, offset_vector(2), [newer]))
    outcome = published(store, unit, events)
    assert counts(outcome) == {first: (0, 1, 0, ()), second: (1, 0, 0, ())}
    assert outcome.untotalled == (0,)
    fields = fields_of(store, unit, day)
    assert codec.unpack_hours(fields[keys.HOURS]) == {first: 2, second: 1}
    assert keys.TOTAL not in fields


def test_a_total_is_not_written_beside_another_hour_of_the_day(
    bench: Bench, unit: StoreUnit, day: int
) -> None:
    store = bench.store
    events = events_in(*range(day * 24, day * 24 + 3))
    store.run(PutArchiveVersion("plays", 1, offset_vector(3)))
    entry = hour_entry(unit, 1, 1, events[:1])
    store.run(PublishHour(unit, day * 24, 1, offset_vector(3), [entry]))
    rest = day_entry(unit, 1, 1, hours_of(events[1:]))
    outcome = store.run(PublishDays(unit, 1, offset_vector(3), [rest]))
    assert outcome.untotalled == (0,)
    assert keys.TOTAL not in fields_of(store, unit, day)
    assert store.run(WriteDayTotals(unit, [tag(1)], day)) == 1
    total = codec.unpack_day(fields_of(store, unit, day)[keys.TOTAL])
    assert seen_in(unit, [total.row]) == ids(events)


def test_a_total_that_stands_is_left_as_it_is(bench: Bench, unit: StoreUnit, day: int) -> None:
    store = bench.store
    events = events_in(day * 24, day * 24 + 1)
    store.run(PutArchiveVersion("plays", 1, offset_vector(2)))
    published(store, unit, events)
    writes: list[Command] = []

    def note(commands: Sequence[Command]) -> None:
        writes.extend(c for c in commands if not hasattr(c, "fields"))

    assert racing(store, store.steps(WriteDayTotals(unit, [tag(1)], day)), note) == 1
    assert all(isinstance(command, Whole | Time) for command in writes)


def test_an_hour_made_anew_under_its_archive_version_takes_the_total_with_it(
    bench: Bench, unit: StoreUnit, day: int
) -> None:
    #  the hours that the day names are the same: its total would count, of what stood before
    store = bench.store
    events = events_in(day * 24, day * 24 + 1)
    store.run(PutArchiveVersion("plays", 1, offset_vector(3)))
    entry = day_entry(unit, 1, 1, hours_of(events))
    assert store.run(PublishDays(unit, 1, offset_vector(3), [entry])).untotalled == ()
    anew = [events[1], Event(1, events[1].time_us, 0, 2)]
    second = hour_entry(unit, 1, 1, anew)
    store.run(PublishHour(unit, day * 24 + 1, 1, offset_vector(3), [second]))
    assert keys.TOTAL not in fields_of(store, unit, day)
    assert store.run(WriteDayTotals(unit, [tag(1)], day)) == 1
    total = codec.unpack_day(fields_of(store, unit, day)[keys.TOTAL])
    assert seen_in(unit, [total.row]) == ids([events[0], *anew])


def test_an_hour_that_no_read_can_reach_is_left_out_of_the_day(
    bench: Bench, unit: StoreUnit
) -> None:
    store = bench.store
    day = bench.hour // 24 - 3
    gone, kept = day * 24 + 3, day * 24 + 20
    age_us = store.run(ReadTime()) - (day * 24 + 12) * HOUR_US
    unit = replace(unit, retention_us=age_us)
    store.run(PutArchiveVersion("plays", 1, offset_vector(2)))
    outcome = published(store, unit, events_in(gone, kept))
    assert counts(outcome) == {gone: (0, 0, 1, ()), kept: (1, 0, 0, ())}
    assert outcome.untotalled == (0,)
    stored = fields_of(store, unit, day)
    assert codec.unpack_hours(stored[keys.HOURS]) == {kept: 1}
    assert keys.TOTAL not in stored
    assert not set(keys.hour_fields(gone)) & stored.keys()


def test_a_micro_batch_between_its_read_and_its_write_is_seen(
    bench: Bench, unit: StoreUnit, day: int
) -> None:
    store = bench.store
    events = events_in(day * 24, day * 24 + 1)
    store.run(PutArchiveVersion("plays", 1, offset_vector(2)))
    store.run(ApplyBatch(micro_batch(unit, events[:1])))
    other = bench.connect()

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Whole) and commands[0].key.endswith(b":hot"):
            other.run(ApplyBatch(micro_batch(unit, events)))

    entry = day_entry(unit, 1, 1, hours_of(events))
    steps = store.steps(PublishDays(unit, 1, offset_vector(2), [entry]))
    assert counts(racing(store, steps, race)) == dict.fromkeys(hours_of(events), (1, 0, 0, ()))
    assert running(store, unit) == []


def test_an_hour_between_its_read_and_its_write_keeps_the_total_out(
    bench: Bench, unit: StoreUnit, day: int
) -> None:
    store = bench.store
    events = events_in(*range(day * 24, day * 24 + 3))
    store.run(PutArchiveVersion("plays", 1, offset_vector(3)))
    other, third = bench.connect(), hour_entry(unit, 1, 1, events[2:])

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Whole) and commands[0].key.endswith(b":hot"):
            other.run(PublishHour(unit, day * 24 + 2, 1, offset_vector(3), [third]))

    entry = day_entry(unit, 1, 1, hours_of(events[:2]))
    steps = store.steps(PublishDays(unit, 1, offset_vector(3), [entry]))
    outcome = racing(store, steps, race)
    assert outcome.untotalled == (0,)
    stored = fields_of(store, unit, day)
    assert set(codec.unpack_hours(stored[keys.HOURS])) == set(hours_of(events))
    assert keys.TOTAL not in stored


def test_several_entities_and_days_keep_their_places(
    bench: Bench, unit: StoreUnit, day: int
) -> None:
    store = bench.store
    store.run(PutArchiveVersion("plays", 1, offset_vector(9)))
    entries: list[DayEntry] = []
    for entity in range(6):
        for of_day in (day - 1, day):
            hours = hours_of(events_in(of_day * 24, of_day * 24 + entity + 1, entity=entity))
            entries.append(day_entry(unit, entity, 1, hours))
    straddling = [Event(4, (day * 24 + 5) * HOUR_US, 0, o) for o in (8, 9)]
    store.run(ApplyBatch(micro_batch(unit, straddling)))
    outcome = store.run(PublishDays(unit, 1, offset_vector(9), entries))
    owner = next(i for i, entry in enumerate(entries) if entry.tag == tag(4) and entry.day == day)
    assert outcome.untotalled == (owner,)
    assert outcome.hours[day * 24 + 5].left_over == (owner,)
    assert outcome.hours[day * 24].published == 6


def test_a_day_in_pieces_is_read_and_written_piece_by_piece(
    bench: Bench, unit: StoreUnit, day: int
) -> None:
    store = bench.store
    events = events_in(*range(day * 24, day * 24 + 24))
    store.run(PutArchiveVersion("plays", 1, offset_vector(24)))
    store.run(ApplyBatch(micro_batch(unit, events)))
    hours = hours_of(events)
    pieces = [replace(day_entry(unit, 1, 1, {hour: hours[hour]}), row=None) for hour in hours]
    writes: list[Command] = []

    def note(commands: Sequence[Command]) -> None:
        writes.extend(c for c in commands if isinstance(c, Change))

    outcome = racing(store, store.steps(PublishDays(unit, 1, offset_vector(24), pieces)), note)
    assert counts(outcome) == dict.fromkeys(hours, (1, 0, 0, ()))
    assert outcome.untotalled == tuple(range(24))
    assert len(writes) == 24, "a piece that is decided before the one before it stands misses"
    assert running(store, unit) == []


def test_what_the_start_offsets_or_the_archive_refuse_is_refused(
    bench: Bench, unit: StoreUnit, day: int
) -> None:
    store = bench.store
    with pytest.raises(DataLoss):
        store.run(PublishDays(unit, 9, offset_vector(1), []))
    with pytest.raises(GapRefused):
        store.run(PublishDays(unit, 0, offset_vector(5), []))
    store.run(PutArchiveVersion("plays", 1, offset_vector(2)))
    two_days = day_entry(unit, 1, 1, hours_of(events_in(day * 24, day * 24 + 24)))
    another = day_entry(unit, 1, 2, hours_of(events_in(day * 24)))
    for entry in (two_days, another):
        with pytest.raises(CodecError):
            store.run(PublishDays(unit, 1, offset_vector(2), [entry]))
