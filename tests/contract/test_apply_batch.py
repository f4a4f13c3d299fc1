"""Folding: every event once, whatever is replayed, by whomever, in whatever boundaries."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from slicewise.errors import DeploymentSuperseded, StoreUnavailable
from slicewise.stores.online import keys
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead, UnitReply
from slicewise.stores.online.steps import Command, Fields
from slicewise.stores.online.store import Store
from slicewise.windows.durations import HOUR_US, MINUTE_US
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

SEED = 20_260_101


def hot(store: Store, unit: StoreUnit, entity: int) -> UnitReply:
    key = keys.hot_key(store.store_id, tag(entity), unit.storage_fingerprint)
    return store.run(Read([EntityRead((UnitRead(key),))])).entities[0][0]


def seen(store: Store, unit: StoreUnit, entity: int) -> list[tuple[int, int]]:
    return seen_in(unit, [part.row for part in running_of(hot(store, unit, entity)).values()])


def some(
    bench: Bench, count: int, entities: int, rng: random.Random, partition: int = 0
) -> list[Event]:
    return [
        Event(
            rng.randrange(entities), bench.hour_us + rng.randrange(2 * HOUR_US), partition, offset
        )
        for offset in range(count)
    ]


def of(events: Sequence[Event], entity: int) -> list[tuple[int, int]]:
    return sorted((e.partition, e.offset) for e in events if e.entity == entity)


def test_a_batch_is_in_every_entity_and_slice_once(bench: Bench) -> None:
    events = some(bench, 400, 7, random.Random(SEED))
    outcome = bench.store.run(ApplyBatch(micro_batch(bench.unit, events)))
    assert (outcome.rows, outcome.applied, outcome.entities) == (400, 400, 7)
    for entity in range(7):
        assert seen(bench.store, bench.unit, entity) == of(events, entity)
        for (number, _), part in running_of(hot(bench.store, bench.unit, entity)).items():
            inside = [
                e
                for e in events
                if e.entity == entity and e.time_us // bench.unit.slice_us == number
            ]
            assert (part.first, part.last) == (inside[0].offset, inside[-1].offset)
        assert applied_offsets_of(hot(bench.store, bench.unit, entity)) == {
            0: of(events, entity)[-1][1]
        }


def test_replays_in_any_boundaries_by_any_connection_add_nothing(bench: Bench) -> None:
    rng = random.Random(SEED)
    events = some(bench, 300, 5, rng)
    writers = [bench.store, bench.connect(), bench.connect()]
    applied = 0
    while applied < len(events):
        begin = rng.randrange(applied + 1)
        end = min(len(events), begin + rng.randrange(1, 80))
        if end > begin:
            rng.choice(writers).run(ApplyBatch(micro_batch(bench.unit, events[begin:end])))
            applied = max(applied, end)
    for entity in range(5):
        assert seen(bench.store, bench.unit, entity) == of(events, entity)


def test_partitions_have_applied_offsets_and_partials_of_their_own(bench: Bench) -> None:
    rng = random.Random(SEED)
    both = [some(bench, 50, 3, rng, partition) for partition in (0, 1)]
    for events in both:
        bench.store.run(ApplyBatch(micro_batch(bench.unit, events)))
    for entity in range(3):
        assert seen(bench.store, bench.unit, entity) == sorted(
            of(both[0], entity) + of(both[1], entity)
        )


def test_late_and_early_events_land_in_their_own_slices(bench: Bench) -> None:
    #  offsets   0         1              2
    #  slices    |  k  |  k+1  |  k-5  |          arrival is not the order of time
    s = bench.unit.slice_us
    events = [Event(1, bench.hour_us + at, 0, o) for o, at in enumerate([0, s, -5 * s])]
    for event in events:
        bench.store.run(ApplyBatch(micro_batch(bench.unit, [event])))
    k = bench.hour_us // s
    assert {number for number, _ in running_of(hot(bench.store, bench.unit, 1))} == {
        k - 5,
        k,
        k + 1,
    }
    assert seen(bench.store, bench.unit, 1) == of(events, 1)


def test_a_hot_entity_is_cut_into_consecutive_atomic_runs(bench: Bench) -> None:
    unit = StoreUnit(storage_fingerprint="00000000000000bb", slice_us=MINUTE_US // 6)
    bench.deploy(bench.store, bench.unit, unit)
    rng = random.Random(SEED)
    events = [Event(1, bench.hour_us + rng.randrange(3 * HOUR_US), 0, o) for o in range(3_000)]
    outcome = bench.store.run(ApplyBatch(micro_batch(unit, events)))
    assert outcome.applied == 3_000
    assert outcome.entities > 1, "one run would have touched more slices than a script may"
    assert seen(bench.store, unit, 1) == of(events, 1)


def test_what_no_read_can_reach_is_not_written(bench: Bench) -> None:
    old = bench.hour_us - bench.unit.retention_us - 2 * HOUR_US
    outcome = bench.store.run(ApplyBatch(micro_batch(bench.unit, [Event(1, old, 0, 0)])))
    assert outcome.expired == 1
    assert hot(bench.store, bench.unit, 1).hot == []
    outcome = bench.store.run(
        ApplyBatch(micro_batch(bench.unit, [Event(1, old, 0, 1), Event(1, bench.hour_us, 0, 2)]))
    )
    assert outcome.expired == 1
    assert seen(bench.store, bench.unit, 1) == [(0, 2)]
    assert applied_offsets_of(hot(bench.store, bench.unit, 1)) == {0: 2}


def test_events_below_the_start_offsets_are_the_backfills(bench: Bench) -> None:
    # A micro-batch may begin anywhere at or below the committed offsets; what lies below a unit's
    # start offsets is brought by its backfill, before or after.
    #  offsets  0 1 2 | 3 4      committed offsets at 3 when the second unit is deployed
    events = [Event(1, bench.hour_us + o, 0, o) for o in range(5)]
    units = bench.store.run(ReadMetadata()).units
    bench.store.run(ApplyBatch(micro_batch(bench.unit, events[:3])))
    bench.store.run(
        AdvanceCommitted(
            offset_vector(),
            offset_vector(3),
            bench.store.run(ReadMetadata()).deployment_version,
            units,
        )
    )
    second = new_unit()
    bench.deploy(bench.store, bench.unit, second)
    bench.store.run(ApplyBatch(micro_batch(second, events)))
    assert seen(bench.store, second, 1) == [(0, 3), (0, 4)]
    assert applied_offsets_of(hot(bench.store, second, 1)) == {0: 4}
    entry = hour_entry(second, 1, 0, events[:3])
    assert (
        bench.store.run(PublishHour(second, bench.hour, 0, offset_vector(3), [entry])).published
        == 1
    )
    assert seen(bench.store, second, 1) == [(0, 3), (0, 4)]


def test_a_micro_batch_of_a_unit_that_is_not_deployed_is_refused(bench: Bench) -> None:
    with pytest.raises(DeploymentSuperseded):
        bench.store.run(ApplyBatch(micro_batch(new_unit(), [Event(1, bench.hour_us, 0, 0)])))


def test_a_read_that_no_longer_stands_is_taken_again(bench: Bench) -> None:
    # Another writer applies between our read and our write: the first write must miss.
    events = [Event(1, bench.hour_us + o, 0, o) for o in range(6)]
    other = bench.connect()

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Fields) and commands[0].key.endswith(b":hot"):
            other.run(ApplyBatch(micro_batch(bench.unit, events[:4])))

    outcome = racing(
        bench.store, bench.store.steps(ApplyBatch(micro_batch(bench.unit, events))), race
    )
    assert (outcome.misses, outcome.already_applied, outcome.applied) == (1, 4, 2)
    assert seen(bench.store, bench.unit, 1) == of(events, 1)


def test_rows_out_of_offset_order_are_refused(bench: Bench) -> None:
    with pytest.raises(StoreUnavailable):
        bench.store.run(
            ApplyBatch(
                micro_batch(
                    bench.unit, [Event(1, bench.hour_us, 0, 5), Event(1, bench.hour_us, 0, 4)]
                )
            )
        )
