"""Ids: an event that comes again counts once, whatever is replayed, by whomever, in whatever
boundaries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slicewise import codec
from slicewise.features.schema.dedupe import EventIds
from slicewise.stores.online import keys
from slicewise.stores.online.operations.apply_batch import ApplyBatch, MicroBatch, MicroBatchOutcome
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.ids import Ids, unremembered
from slicewise.stores.online.steps import Command, Fields
from slicewise.stores.online.store import Store
from slicewise.windows.durations import HOUR_US, MINUTE_US
from tests.contract.conftest import Bench, new_unit, racing
from tests.contract.test_apply_batch import seen
from tests.support.oracles.repeats import Sent, duplicates
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.stored import (
    Event,
    StoreUnit,
    hour_entry,
    micro_batch,
    offset_vector,
    tag,
    topic_partition,
)

SEED = 20_261_122
RULE = EventIds("event_id", HOUR_US, 8)
Named = tuple[Event, int | None, int]
"""Event, id, Kafka time."""


def batch(
    unit: StoreUnit, named: Sequence[Named], rule: EventIds = RULE, keep_us: int = 50 * HOUR_US
) -> MicroBatch:
    return replace(
        micro_batch(unit, [event for event, _, _ in named]),
        ids=Ids(
            rule,
            np.array([event_id or 0 for _, event_id, _ in named], np.uint64),
            np.array([event_id is not None for _, event_id, _ in named]),
            np.array([kafka_us for _, _, kafka_us in named], np.int64),
            keep_us,
        ),
    )


def some(
    bench: Bench, count: int, entities: int, rng: random.Random, partition: int = 0
) -> list[Named]:
    named: list[Named] = []
    clock = bench.hour_us
    for offset in range(count):
        clock += rng.randrange(4 * MINUTE_US)
        at = bench.hour_us + rng.randrange(2 * HOUR_US)
        event, event_id = (
            Event(rng.randrange(entities), at, partition, offset),
            offset if rng.random() < 0.95 else None,
        )
        if named and rng.random() < 0.4:
            before, event_id, _ = rng.choice(named[-20:])
            event = before._replace(offset=offset)
        named.append((event, event_id, clock - rng.choice((0, 0, 0, 30 * MINUTE_US))))
    return named


def wanted(named: Sequence[Named], entity: int, rule: EventIds = RULE) -> list[tuple[int, int]]:
    own = [entry for entry in named if entry[0].entity == entity]
    again = duplicates(
        [Sent(0, event_id, kafka_us) for _, event_id, kafka_us in own], rule.within_us, rule.most
    )
    return sorted(
        (e.partition, e.offset) for (e, _, _), double in zip(own, again, strict=True) if not double
    )


def remembered(
    store: Store, unit: StoreUnit, entity: int, partition: int = 0
) -> codec.Remembered | None:
    key = keys.ids_key(store.store_id, tag(entity), unit.storage_fingerprint)
    ((raw,),) = store.node.run([Fields(key, [keys.ids_field(topic_partition(partition))])])
    return None if raw is None else codec.unpack_ids(raw)


def test_replays_in_any_boundaries_by_any_connection_count_each_id_once(bench: Bench) -> None:
    rng = random.Random(SEED)
    named = some(bench, 300, 5, rng)
    writers = [bench.store, bench.connect(), bench.connect()]
    applied, total = 0, MicroBatchOutcome()
    while applied < len(named):
        begin = rng.randrange(applied + 1)
        end = min(len(named), begin + rng.randrange(1, 60))
        if end > begin:
            done = rng.choice(writers).run(ApplyBatch(batch(bench.unit, named[begin:end])))
            total = replace(
                total,
                duplicates=total.duplicates + done.duplicates,
                applied=total.applied + done.applied,
            )
            applied = max(applied, end)
    want = [wanted(named, entity) for entity in range(5)]
    assert [seen(bench.store, bench.unit, entity) for entity in range(5)] == want
    assert total.applied == sum(map(len, want))
    assert total.applied + total.duplicates == 300
    assert total.duplicates > 50


def test_partitions_remember_ids_of_their_own(bench: Bench) -> None:
    # one id in two partitions: two events, as far as anyone here can know
    for partition in (0, 1):
        event = Event(1, bench.hour_us, partition, 5)
        bench.store.run(ApplyBatch(batch(bench.unit, [(event, 7, bench.hour_us)])))
    assert seen(bench.store, bench.unit, 1) == [(0, 5), (1, 5)]


def test_the_lowest_offset_wins_also_with_another_content(bench: Bench) -> None:
    first, other = Event(1, bench.hour_us, 0, 0), Event(1, bench.hour_us + HOUR_US, 0, 1)
    done = bench.store.run(
        ApplyBatch(batch(bench.unit, [(first, 7, bench.hour_us), (other, 7, bench.hour_us)]))
    )
    assert (done.applied, done.duplicates) == (1, 1)
    assert seen(bench.store, bench.unit, 1) == [(0, 0)]


def test_what_is_remembered_is_bounded_in_number_and_in_kafkas_time(bench: Bench) -> None:
    unit, hour = bench.unit, bench.hour_us
    many = [(Event(1, hour, 0, o), o, hour + o) for o in range(30)]
    bench.store.run(ApplyBatch(batch(unit, many[:20])))
    bench.store.run(ApplyBatch(batch(unit, many[20:])))
    remembered_ids = remembered(bench.store, unit, 1)
    assert remembered_ids is not None
    assert (remembered_ids.last, len(remembered_ids.ids)) == (29, RULE.most)
    later = hour + 2 * HOUR_US
    bench.store.run(ApplyBatch(batch(unit, [(Event(1, hour, 0, 30), 30, later)])))
    remembered_ids = remembered(bench.store, unit, 1)
    assert remembered_ids is not None
    assert remembered_ids.ids.tolist() == [30]
    # an id that is out of the look-back time is another event's
    bench.store.run(ApplyBatch(batch(unit, [(Event(1, hour, 0, 31), 29, later)])))
    assert (0, 31) in seen(bench.store, unit, 1)


def test_events_without_an_id_count_and_leave_nothing(bench: Bench) -> None:
    events = [(Event(1, bench.hour_us, 0, o), None, bench.hour_us) for o in range(3)]
    done = bench.store.run(ApplyBatch(batch(bench.unit, events)))
    assert (done.applied, done.duplicates) == (3, 0)
    assert remembered(bench.store, bench.unit, 1) is None


def test_events_that_are_compacted_already_are_remembered(bench: Bench) -> None:
    # the archive ran ahead of the stream: offset 0 is in its hour, its repetition at offset 1 is
    # not
    unit, hour = bench.unit, bench.hour_us
    first, again = Event(1, hour, 0, 0), Event(1, hour, 0, 1)
    bench.store.run(PutArchiveVersion(unit.source, 1, offset_vector(1)))
    assert (
        bench.store.run(
            PublishHour(unit, bench.hour, 1, offset_vector(1), [hour_entry(unit, 1, 1, [first])])
        ).published
        == 1
    )
    done = bench.store.run(ApplyBatch(batch(unit, [(first, 7, hour), (again, 7, hour)])))
    assert (done.compacted, done.duplicates, done.applied) == (1, 1, 0)
    assert seen(bench.store, unit, 1) == []


def test_ids_below_the_start_offsets_are_known_by_a_stream_that_begins_before_it(
    bench: Bench,
) -> None:
    hour = bench.hour_us
    first, again = (Event(1, hour, 0, 0), 7, hour), (Event(1, hour, 0, 1), 7, hour)
    metadata = bench.store.run(ReadMetadata())
    bench.store.run(ApplyBatch(batch(bench.unit, [first])))
    bench.store.run(
        AdvanceCommitted(
            offset_vector(), offset_vector(1), metadata.deployment_version, metadata.units
        )
    )
    second = new_unit()
    bench.deploy(bench.store, bench.unit, second)
    metadata = bench.store.run(ReadMetadata())
    assert unremembered(metadata.committed, [metadata.starts[second.storage_fingerprint]]) == {
        topic_partition(): 1
    }
    bench.store.run(ApplyBatch(batch(second, [first, again])))
    assert seen(bench.store, second, 1) == []
    bench.store.run(
        AdvanceCommitted(
            offset_vector(), offset_vector(2), metadata.deployment_version, metadata.units
        )
    )
    metadata = bench.store.run(ReadMetadata())
    assert unremembered(metadata.committed, [metadata.starts[second.storage_fingerprint]]) == {}


def test_a_read_that_no_longer_stands_is_judged_again(bench: Bench) -> None:
    # Another writer applies between our read and our write: what it remembered we must know.
    hour = bench.hour_us
    named: list[Named] = [(Event(1, hour, 0, o), o % 3, hour) for o in range(6)]
    other = bench.connect()

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Fields) and commands[0].key.endswith(b":hot"):
            other.run(ApplyBatch(batch(bench.unit, named[:2])))

    outcome = racing(bench.store, bench.store.steps(ApplyBatch(batch(bench.unit, named))), race)
    assert (outcome.misses, outcome.already_applied, outcome.applied, outcome.duplicates) == (
        1,
        2,
        1,
        3,
    )
    assert seen(bench.store, bench.unit, 1) == [(0, 0), (0, 1), (0, 2)]


def test_where_the_applied_offset_has_expired_the_ids_still_say_what_was_applied(
    bench: Bench,
) -> None:
    # an event so old that nothing of it is written, not even the applied offset; its id is
    # remembered all the same, and a conflict that lies in what is kept does not count
    unit, hour = bench.unit, bench.hour_us
    old = Event(1, hour - unit.retention_us - 2 * HOUR_US, 0, 0)
    assert bench.store.run(ApplyBatch(batch(unit, [(old, 7, hour)]))).expired == 1
    done = bench.store.run(
        ApplyBatch(batch(unit, [(old, 7, hour), (Event(1, hour, 0, 1), 7, hour)]))
    )
    assert (done.already_applied, done.duplicates, done.applied) == (1, 1, 0)
    assert seen(bench.store, unit, 1) == []


def test_what_is_remembered_expires_by_kafkas_time(bench: Bench) -> None:
    unit, hour = bench.unit, bench.hour_us
    bench.store.run(ApplyBatch(batch(unit, [(Event(1, hour, 0, 0), 7, hour - 60 * HOUR_US)])))
    assert remembered(bench.store, unit, 1) is None
    bench.store.run(
        ApplyBatch(batch(unit, [(Event(1, hour, 0, 1), 8, hour - 60 * HOUR_US)], keep_us=0))
    )
    remembered_ids = remembered(bench.store, unit, 1)
    assert remembered_ids is not None
    assert remembered_ids.last == 1
