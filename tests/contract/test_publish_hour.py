"""Publishing: an entity's hour is compacted or running, never both and never neither."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from slicewise import codec
from slicewise.errors import DataLoss, GapRefused
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import HoldBuilds, ReadMetadata
from slicewise.stores.online.operations.day_totals import WriteDayTotals
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead, UnitReply
from slicewise.stores.online.steps import Command, Whole
from slicewise.stores.online.store import Store
from slicewise.windows.durations import DAY_US, HOUR_US
from slicewise.windows.segments import FIVE_DAYS, FIVE_DAYS_US
from tests.contract.conftest import Bench, new_unit, racing
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.stored import (
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


def whole(store: Store, unit: StoreUnit, entity: int, hour: int) -> UnitReply:
    """Hot, then of the hour's day: c, d and the hour's fields."""
    day = keys.day_key(
        store.store_id, tag(entity), unit.storage_fingerprint, hour * HOUR_US // DAY_US
    )
    fields = (keys.HOURS, keys.TOTAL, *keys.hour_fields(hour))
    hot = keys.hot_key(store.store_id, tag(entity), unit.storage_fingerprint)
    return store.run(Read([EntityRead((UnitRead(hot, ((day, fields),)),))])).entities[0][0]


def running(reply: UnitReply, unit: StoreUnit) -> list[tuple[int, int]]:
    return seen_in(unit, [part.row for part in running_of(reply).values()])


def compacted(reply: UnitReply, unit: StoreUnit) -> list[tuple[int, int]]:
    """The content of the hour; total and slices agree."""
    total, slices = reply.days[0][2], reply.days[0][3]
    if total is None or slices is None:
        assert total is slices is None
        return []
    rows = codec.unpack_slices(slices)
    parts = unit.layout.decode_blocks([rows.block], [len(rows.numbers)])
    assert codec.unpack_total(total).archive_version == rows.archive_version
    inside = seen_in(unit, unit.layout.encode_rows(parts))
    assert inside == seen_in(unit, [codec.unpack_total(total).row])
    return inside


def ids(events: list[Event]) -> list[tuple[int, int]]:
    return sorted((e.partition, e.offset) for e in events)


def test_what_the_hour_contains_leaves_hot_and_what_lies_beyond_stays(bench: Bench) -> None:
    #            hour           next hour
    #  offsets  0 1 2 | 4 5      3            offset vector 3: offsets 4 and 5 came after the archive
    s = bench.unit.slice_us
    events = [
        Event(1, bench.hour_us + at, 0, o) for o, at in enumerate([0, s, s, HOUR_US, 2 * s, 3 * s])
    ]
    store, unit = bench.store, bench.unit
    store.run(ApplyBatch(micro_batch(unit, events)))
    store.run(PutArchiveVersion("plays", 1, offset_vector(3)))
    entry, before = hour_entry(unit, 1, 1, events[:3]), whole(store, unit, 1, bench.hour)
    outcome = store.run(PublishHour(unit, bench.hour, 1, offset_vector(3), [entry]))
    assert (outcome.published, outcome.stale, outcome.left_over) == (1, 0, ())
    reply = whole(store, unit, 1, bench.hour)
    stay = set(reply.hot[::2])
    gone = [n + v for n, v in zip(before.hot[::2], before.hot[1::2], strict=True) if n not in stay]
    written = len(entry.total) + len(entry.slices) + len(entry.minutes or b"")
    assert outcome.change == (len(gone), sum(map(len, gone)), written)
    assert len(gone) == 2, "a running partial for each slice of the hour"
    again = store.run(PublishHour(unit, bench.hour, 1, offset_vector(3), [entry]))
    assert again.change.partials == 0
    reply = whole(store, unit, 1, bench.hour)
    assert compacted(reply, unit) == ids(events[:3])
    assert running(reply, unit) == ids(events[3:])
    assert codec.unpack_hours(reply.days[0][0]) == {bench.hour: 1}
    assert applied_offsets_of(reply) == {0: 5}


def test_a_publish_twice_is_the_same_and_replays_after_it_add_nothing(bench: Bench) -> None:
    events = [Event(1, bench.hour_us, 0, o) for o in range(4)]
    store, unit = bench.store, bench.unit
    store.run(PutArchiveVersion("plays", 1, offset_vector(4)))
    entry = hour_entry(unit, 1, 1, events)
    for step in range(3):  # before the stream came so far, after, and after a replay
        assert store.run(PublishHour(unit, bench.hour, 1, offset_vector(4), [entry])).published == 1
        outcome = bench.connect().run(ApplyBatch(micro_batch(unit, events)))
        assert (outcome.applied, outcome.compacted + outcome.already_applied) == (0, 4), step
    reply = whole(store, unit, 1, bench.hour)
    assert compacted(reply, unit) == ids(events)
    assert running(reply, unit) == []
    assert applied_offsets_of(reply) == {0: 3}, (
        "the applied offset moves though all rows were dropped"
    )


def test_a_straddled_entity_is_left_over_until_a_later_offset_vector(bench: Bench) -> None:
    #  offsets  0 1 | 2       one running partial holds all three, the offset vector is 2
    events = [Event(1, bench.hour_us, 0, o) for o in range(3)] + [Event(2, bench.hour_us, 0, 3)]
    store, unit = bench.store, bench.unit
    store.run(ApplyBatch(micro_batch(unit, events)))
    store.run(PutArchiveVersion("plays", 1, offset_vector(2)))
    store.run(PutArchiveVersion("plays", 2, offset_vector(4)))
    outcome = store.run(
        PublishHour(unit, bench.hour, 1, offset_vector(2), [hour_entry(unit, 1, 1, events[:2])])
    )
    assert (outcome.published, outcome.left_over) == (0, (0,))
    reply = whole(store, unit, 1, bench.hour)
    assert (running(reply, unit), compacted(reply, unit)) == (ids(events[:3]), [])
    entries = [hour_entry(unit, 1, 2, events[:3]), hour_entry(unit, 2, 2, events[3:])]
    assert store.run(PublishHour(unit, bench.hour, 2, offset_vector(4), entries)).published == 2
    reply = whole(store, unit, 1, bench.hour)
    assert (running(reply, unit), compacted(reply, unit)) == ([], ids(events[:3]))


def test_an_older_archive_version_never_replaces_a_newer(bench: Bench) -> None:
    events = [Event(1, bench.hour_us, 0, o) for o in range(4)]
    store, unit = bench.store, bench.unit
    store.run(PutArchiveVersion("plays", 1, offset_vector(2)))
    store.run(PutArchiveVersion("plays", 2, offset_vector(4)))
    store.run(PublishHour(unit, bench.hour, 2, offset_vector(4), [hour_entry(unit, 1, 2, events)]))
    for archive_version, offsets in ((1, offset_vector(2)), (0, offset_vector())):
        outcome = bench.connect().run(
            PublishHour(
                unit,
                bench.hour,
                archive_version,
                offsets,
                [hour_entry(unit, 1, archive_version, events[:2])],
            )
        )
        assert (outcome.published, outcome.stale) == (0, 1)
    assert compacted(whole(store, unit, 1, bench.hour), unit) == ids(events)


def test_a_micro_batch_between_a_publish_read_and_its_write_is_seen(bench: Bench) -> None:
    # Without the check of the applied offsets the event would be in the hour and in hot.
    events = [Event(1, bench.hour_us, 0, o) for o in range(2)]
    store, unit = bench.store, bench.unit
    store.run(PutArchiveVersion("plays", 1, offset_vector(2)))
    store.run(ApplyBatch(micro_batch(unit, events[:1])))
    other = bench.connect()

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Whole) and commands[0].key.endswith(b":hot"):
            other.run(ApplyBatch(micro_batch(unit, events)))

    entry = hour_entry(unit, 1, 1, events)
    outcome = racing(
        store, store.steps(PublishHour(unit, bench.hour, 1, offset_vector(2), [entry])), race
    )
    assert outcome.published == 1
    assert other.run(ApplyBatch(micro_batch(unit, events))).applied == 0
    reply = whole(store, unit, 1, bench.hour)
    assert (running(reply, unit), compacted(reply, unit)) == ([], ids(events))


def test_offsets_behind_the_start_offsets_must_wait(bench: Bench) -> None:
    # It would claim the hour, keep the backfill from it, and lack what lies between the two.
    metadata = bench.store.run(ReadMetadata())
    bench.store.run(
        AdvanceCommitted(
            OffsetVector(), offset_vector(10), metadata.deployment_version, metadata.units
        )
    )
    second = new_unit()
    bench.deploy(bench.store, bench.unit, second)
    bench.store.run(PutArchiveVersion("plays", 1, offset_vector(9)))
    with pytest.raises(GapRefused):
        bench.store.run(PublishHour(second, bench.hour, 1, offset_vector(9), []))
    with pytest.raises(GapRefused):
        bench.store.run(PublishHour(second, bench.hour, 0, offset_vector(9), []))
    assert bench.store.run(PublishHour(second, bench.hour, 0, offset_vector(10), [])).published == 0


def test_an_archive_version_that_nobody_registered_is_not_published(bench: Bench) -> None:
    with pytest.raises(DataLoss):
        bench.store.run(PublishHour(bench.unit, bench.hour, 9, offset_vector(1), []))
    bench.store.run(PutArchiveVersion("plays", 9, offset_vector(1)))
    with pytest.raises(DataLoss):
        bench.store.run(PublishHour(bench.unit, bench.hour, 9, offset_vector(2), []))


def test_an_hour_that_no_read_can_reach_is_not_written(bench: Bench) -> None:
    hour = bench.hour - bench.unit.retention_us // HOUR_US - 2
    events = [Event(1, hour * HOUR_US, 0, 0)]
    bench.store.run(PutArchiveVersion("plays", 1, offset_vector(1)))
    outcome = bench.store.run(
        PublishHour(bench.unit, hour, 1, offset_vector(1), [hour_entry(bench.unit, 1, 1, events)])
    )
    assert (outcome.published, outcome.expired) == (0, 1)
    assert whole(bench.store, bench.unit, 1, hour).days[0][0] is None


def test_a_day_total_is_of_all_its_hours_and_valid_until_one_is_published(bench: Bench) -> None:
    store, unit = bench.store, bench.unit
    day = bench.hour_us // DAY_US - 1
    hours = [day * 24 + 3, day * 24 + 7]
    events = [Event(1, hour * HOUR_US + i, 0, i) for i, hour in enumerate(hours)]
    for archive_version in (1, 2):
        store.run(PutArchiveVersion("plays", archive_version, offset_vector(2 + archive_version)))
    for hour, event in zip(hours, events, strict=True):
        store.run(PublishHour(unit, hour, 1, offset_vector(3), [hour_entry(unit, 1, 1, [event])]))
    assert store.run(WriteDayTotals(unit, [tag(1), tag(2)], day)) == 1
    reply = whole(store, unit, 1, hours[0])
    assert reply.days[0][1] is not None
    total = codec.unpack_day(reply.days[0][1])
    assert total.digest == codec.day_digest(reply.days[0][0] or b"")
    assert seen_in(unit, [total.row]) == ids(events)
    late = Event(1, hours[0] * HOUR_US, 0, 3)
    store.run(
        PublishHour(
            unit, hours[0], 2, offset_vector(4), [hour_entry(unit, 1, 2, [events[0], late])]
        )
    )
    reply = whole(store, unit, 1, hours[0])
    assert reply.days[0][1] is not None
    assert codec.unpack_day(reply.days[0][1]).digest != codec.day_digest(reply.days[0][0] or b"")
    assert store.run(WriteDayTotals(unit, [tag(1)], day)) == 1
    reply = whole(store, unit, 1, hours[0])
    assert seen_in(unit, [codec.unpack_day(reply.days[0][1] or b"").row]) == ids([*events, late])


@pytest.mark.parametrize("exchange", [0, 1])
def test_a_day_total_raced_by_a_publish_is_not_written(bench: Bench, exchange: int) -> None:
    store, unit = bench.store, bench.unit
    events = [Event(1, bench.hour_us, 0, o) for o in range(2)]
    for archive_version in (1, 2):
        store.run(PutArchiveVersion("plays", archive_version, offset_vector(archive_version)))
    store.run(
        PublishHour(unit, bench.hour, 1, offset_vector(1), [hour_entry(unit, 1, 1, events[:1])])
    )
    other, seen = bench.connect(), list[Sequence[Command]]()
    store.run(HoldBuilds({unit.storage_fingerprint: 0}))

    def race(commands: Sequence[Command]) -> None:
        if len(seen) == exchange:
            other.run(
                PublishHour(unit, bench.hour, 2, offset_vector(2), [hour_entry(unit, 1, 2, events)])
            )
        seen.append(commands)

    assert (
        racing(store, store.steps(WriteDayTotals(unit, [tag(1)], bench.hour_us // DAY_US)), race)
        == 0
    )
    assert whole(store, unit, 1, bench.hour).days[0][1] is None


def five_day_total_of(bench: Bench, unit: StoreUnit, day: int) -> bytes | None:
    """The five-day total, as it stands in its last day."""
    store, last = bench.store, day // FIVE_DAYS * FIVE_DAYS + FIVE_DAYS - 1
    key = keys.day_key(store.store_id, tag(1), unit.storage_fingerprint, last)
    return (
        store.run(Read([EntityRead((UnitRead(None, ((key, (keys.FIVE_DAY_TOTAL,)),)),))]))
        .entities[0][0]
        .days[0][0]
    )


def compacted_hours(bench: Bench, unit: StoreUnit, day: int) -> list[bytes | None]:
    """The `c` of all days of the five-day total."""
    first = day // FIVE_DAYS * FIVE_DAYS
    return [whole(bench.store, unit, 1, i * 24).days[0][0] for i in range(first, first + FIVE_DAYS)]


def test_a_five_day_total_is_of_all_its_days_and_names_what_they_hold(bench: Bench) -> None:
    #  day   0    1    2    3    4
    #        |    e0   |    e1   |     the last day has no events, the entity of tag 2 none at all
    store, unit = bench.store, bench.unit
    first = (bench.hour_us // FIVE_DAYS_US - 1) * FIVE_DAYS
    hours = [(first + day) * 24 + 3 for day in (1, 3)]
    events = [Event(1, hour * HOUR_US, 0, i) for i, hour in enumerate(hours)]
    unit = replace(unit, retention_us=30 * DAY_US)
    for archive_version in (1, 2):
        store.run(PutArchiveVersion("plays", archive_version, offset_vector(2 + archive_version)))
    for hour, event in zip(hours, events, strict=True):
        store.run(PublishHour(unit, hour, 1, offset_vector(3), [hour_entry(unit, 1, 1, [event])]))
    assert store.run(WriteDayTotals(unit, [tag(1), tag(2)], first + 3)) == 1
    assert five_day_total_of(bench, unit, first) is None, "a day of it has no total yet"
    assert store.run(WriteDayTotals(unit, [tag(1), tag(2)], first + 1)) == 1
    total = codec.unpack_day(five_day_total_of(bench, unit, first) or b"")
    assert total.digest == codec.five_day_digest(compacted_hours(bench, unit, first))
    assert seen_in(unit, [total.row]) == ids(events)
    late = Event(1, hours[0] * HOUR_US, 0, 3)
    store.run(
        PublishHour(
            unit, hours[0], 2, offset_vector(4), [hour_entry(unit, 1, 2, [events[0], late])]
        )
    )
    assert total.digest != codec.five_day_digest(compacted_hours(bench, unit, first)), (
        "out of date by the publish alone"
    )
    assert store.run(WriteDayTotals(unit, [tag(1)], first + 3)) == 1
    assert five_day_total_of(bench, unit, first) is not None
    assert codec.unpack_day(five_day_total_of(bench, unit, first) or b"") == total, (
        "the other day's total is out of date"
    )
    assert store.run(WriteDayTotals(unit, [tag(1)], first + 1)) == 1
    assert seen_in(
        unit, [codec.unpack_day(five_day_total_of(bench, unit, first) or b"").row]
    ) == ids([*events, late])


def test_a_five_day_total_expires_with_its_last_day_and_is_kept_only_where_a_window_reads_it(
    bench: Bench,
) -> None:
    store = bench.store
    first = (bench.hour_us // FIVE_DAYS_US - 1) * FIVE_DAYS
    hour = first * 24 + 5
    store.run(PutArchiveVersion("plays", 1, offset_vector(1)))
    for five_day_totals, retention_us in ((False, 30 * DAY_US), (True, 30 * DAY_US)):
        unit = replace(bench.unit, retention_us=retention_us, five_day_totals=five_day_totals)
        store.run(
            PublishHour(
                unit,
                hour,
                1,
                offset_vector(1),
                [hour_entry(unit, 1, 1, [Event(1, hour * HOUR_US, 0, 0)])],
            )
        )
        assert store.run(WriteDayTotals(unit, [tag(1)], first)) == 1
        assert (five_day_total_of(bench, unit, first) is not None) is five_day_totals
    # the five-day total has been out of reach since it ended
    unit = replace(bench.unit, retention_us=0)
    late = Event(1, hour * HOUR_US, 0, 1)
    store.run(PutArchiveVersion("plays", 2, offset_vector(2)))
    total = five_day_total_of(bench, unit, first)
    keep = replace(unit, retention_us=30 * DAY_US)
    store.run(
        PublishHour(
            keep,
            hour,
            2,
            offset_vector(2),
            [hour_entry(unit, 1, 2, [Event(1, hour * HOUR_US, 0, 0), late])],
        )
    )
    assert store.run(WriteDayTotals(unit, [tag(1)], first)) == 1
    assert five_day_total_of(bench, unit, first) == total


@pytest.mark.parametrize("exchange", [2, 3])
def test_a_five_day_total_raced_by_a_publish_is_not_written(bench: Bench, exchange: int) -> None:
    store = bench.store
    unit = replace(bench.unit, retention_us=30 * DAY_US)
    first = (bench.hour_us // FIVE_DAYS_US - 1) * FIVE_DAYS
    hours = [first * 24, (first + 2) * 24]
    for archive_version in (1, 2):
        store.run(PutArchiveVersion("plays", archive_version, offset_vector(archive_version + 1)))
    for at, hour in enumerate(hours):
        store.run(
            PublishHour(
                unit,
                hour,
                1,
                offset_vector(2),
                [hour_entry(unit, 1, 1, [Event(1, hour * HOUR_US, 0, at)])],
            )
        )
    plain = replace(unit, five_day_totals=False)
    store.run(WriteDayTotals(plain, [tag(1)], first + 2))
    other, seen = bench.connect(), list[Sequence[Command]]()
    store.run(HoldBuilds({unit.storage_fingerprint: 0}))

    def race(commands: Sequence[Command]) -> None:
        if len(seen) == exchange:
            events = [Event(1, hours[1] * HOUR_US, 0, o) for o in (1, 2)]
            other.run(
                PublishHour(unit, hours[1], 2, offset_vector(3), [hour_entry(unit, 1, 2, events)])
            )
        seen.append(commands)

    assert racing(store, store.steps(WriteDayTotals(unit, [tag(1)], first)), race) == 1
    assert five_day_total_of(bench, unit, first) is None
