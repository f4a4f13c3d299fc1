"""Event lists: each event once, in the total order; what is trimmed is named by the low-water
mark."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from slicewise.errors import DeploymentSuperseded, GapRefused, StoreUnavailable
from slicewise.features.declare.event_list import EventList
from slicewise.stores.online import keys
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import ReadMetadata, ReadTime
from slicewise.stores.online.operations.event_lists import AddToList
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.rules.decisions import LIST_SLACK_S
from slicewise.stores.online.steps import Command, Fields
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from tests.contract.conftest import Bench, node_with, racing
from tests.support.stores.stored import (
    Event,
    StoreUnit,
    applied_offsets_of,
    list_batch,
    list_unit,
    listed,
    low_of,
    offset_vector,
    read_list,
)

SEED = 20_261_121
RANGE = EventList(range_us=6 * HOUR_US, rows=0, late_us=HOUR_US, most=1_000)
ROWS = EventList(range_us=0, rows=3, late_us=HOUR_US, most=1_000)
BOTH = EventList(range_us=6 * HOUR_US, rows=3, late_us=HOUR_US, most=1_000)


def deployed(bench: Bench, keeps: EventList) -> StoreUnit:
    unit = list_unit(keeps)
    bench.deploy(bench.store, unit)
    return unit


def seen(bench: Bench, unit: StoreUnit, entity: int = 1) -> list[tuple[int, int]]:
    return sorted(listed(read_list(bench.store, unit, entity)[1]))


def some(
    bench: Bench, count: int, entities: int, rng: random.Random, partition: int = 0
) -> list[Event]:
    """Events of the last three hours, times out of order and often equal."""
    return [
        Event(
            rng.randrange(entities),
            bench.hour_us + rng.randrange(180) * MINUTE_US,
            partition,
            offset,
        )
        for offset in range(count)
    ]


def of(events: Sequence[Event], entity: int) -> list[tuple[int, int]]:
    return sorted((e.partition, e.offset) for e in events if e.entity == entity)


def test_replays_in_any_boundaries_by_any_connection_add_nothing(bench: Bench) -> None:
    print(f"seed {SEED}")
    rng, unit = random.Random(SEED), deployed(bench, RANGE)
    events = some(bench, 300, 5, rng)
    writers = [bench.store, bench.connect(), bench.connect()]
    applied = 0
    while applied < len(events):
        begin = rng.randrange(applied + 1)
        end = min(len(events), begin + rng.randrange(1, 80))
        if end > begin:
            rng.choice(writers).run(AddToList(list_batch(unit, events[begin:end])))
            applied = max(applied, end)
    for entity in range(5):
        assert seen(bench, unit, entity) == of(events, entity)
        assert applied_offsets_of(read_list(bench.store, unit, entity)[1]) == {
            0: of(events, entity)[-1][1]
        }


def test_members_stand_in_the_total_order_and_a_range_has_both_its_ends(bench: Bench) -> None:
    #  time       t      t      t+1    t+2        equal times: partition, then offset
    #  identity  (0,1)  (1,0)  (0,0)  (1,1)
    unit, t = deployed(bench, RANGE), bench.hour_us
    bench.store.run(AddToList(list_batch(unit, [Event(1, t + 1, 0, 0), Event(1, t, 0, 1)])))
    bench.store.run(AddToList(list_batch(unit, [Event(1, t, 1, 0), Event(1, t + 2, 1, 1)])))
    ranges = [(t, t + 1, 0), (t + 1, t + 1, 0), (t - 5, t, 1), (t, t + 2, 3), (t + 3, t + 9, 0)]
    reply = read_list(bench.store, unit, 1, ranges)[1]
    assert [listed(reply, i) for i in range(5)] == [
        [(0, 1), (1, 0), (0, 0)],
        [(0, 0)],
        [(1, 0)],
        [(1, 1), (0, 0), (1, 0)],
        [],
    ]


def test_the_backfill_brings_what_lies_below_the_start_offsets_and_moves_no_applied_offset(
    bench: Bench,
) -> None:
    #  offsets  0 1 2 | 3 4      committed offsets at 3 when the list is deployed
    events = [Event(1, bench.hour_us + o, 0, o) for o in range(5)]
    bench.store.run(
        AdvanceCommitted(
            offset_vector(),
            offset_vector(3),
            bench.store.run(ReadMetadata()).deployment_version,
            bench.store.run(ReadMetadata()).units,
        )
    )
    unit = list_unit(RANGE)
    bench.deploy(bench.store, bench.unit, unit)
    assert unit.storage_fingerprint not in bench.store.run(ReadMetadata()).ready
    outcome = bench.store.run(AddToList(list_batch(unit, events)))
    assert (outcome.applied, outcome.compacted) == (2, 3)
    for _ in range(2):
        bench.store.run(AddToList(list_batch(unit, events[:3], fill=offset_vector(3))))
    with pytest.raises(GapRefused):
        bench.store.run(AddToList(list_batch(unit, events[:4], fill=offset_vector(4))))
    assert seen(bench, unit) == of(events, 1)
    assert applied_offsets_of(read_list(bench.store, unit, 1)[1]) == {0: 4}


def test_what_is_too_old_for_every_window_is_trimmed_and_the_mark_says_so(bench: Bench) -> None:
    unit, now = deployed(bench, RANGE), bench.store.run(ReadTime())
    old, young = now - 7 * HOUR_US, now - HOUR_US
    bench.store.run(AddToList(list_batch(unit, [Event(1, young, 0, 0)])))
    bench.store.run(AddToList(list_batch(unit, [Event(1, old, 0, 1)])))
    reply = read_list(bench.store, unit, 1)[1]
    assert (listed(reply), low_of(reply), applied_offsets_of(reply)) == ([(0, 0)], (old, 1), {0: 1})


def test_a_list_that_nothing_can_reach_is_not_made(bench: Bench) -> None:
    unit, now = deployed(bench, RANGE), bench.store.run(ReadTime())
    outcome = bench.store.run(AddToList(list_batch(unit, [Event(1, now - 7 * HOUR_US, 0, 0)])))
    assert (outcome.applied, outcome.expired) == (0, 1)
    assert read_list(bench.store, unit, 1)[1].hot == []


def test_the_last_rows_before_any_at_are_kept_for_ever(bench: Bench) -> None:
    #  days ago   9  8  7  6  5 |  at may lie here: an hour  | now
    #  offset     0  1  2  3  4 |          5     6           |
    unit, now = deployed(bench, ROWS), bench.store.run(ReadTime())
    times = [now - d * DAY_US for d in (9, 8, 7, 6, 5)] + [
        now - 40 * MINUTE_US,
        now - 20 * MINUTE_US,
    ]
    events = [Event(1, t, 0, o) for o, t in enumerate(times)]
    for event in events:
        bench.store.run(AddToList(list_batch(unit, [event])))
    reply = read_list(bench.store, unit, 1)[1]
    assert sorted(listed(reply)) == [(0, o) for o in (2, 3, 4, 5, 6)]
    assert low_of(reply) == (times[1], 1)


def test_a_member_goes_only_when_neither_time_nor_rows_need_it(bench: Bench) -> None:
    #  hours ago  9  8  7 | 5  4  3     6 h of events, and the last 3 before an hour ago
    unit, now = deployed(bench, BOTH), bench.store.run(ReadTime())
    times = [now - h * HOUR_US for h in (9, 8, 7, 5, 4)]
    bench.store.run(AddToList(list_batch(unit, [Event(1, t, 0, o) for o, t in enumerate(times)])))
    reply = read_list(bench.store, unit, 1)[1]
    assert (sorted(listed(reply)), low_of(reply)) == ([(0, 2), (0, 3), (0, 4)], (times[1], 1))


def test_a_late_event_below_the_low_water_mark_is_not_added_and_is_already_applied(
    bench: Bench,
) -> None:
    unit, now = deployed(bench, ROWS), bench.store.run(ReadTime())
    bench.store.run(
        AddToList(list_batch(unit, [Event(1, now - d * DAY_US, 0, 9 - d) for d in (5, 4, 3, 2)]))
    )
    mark = low_of(read_list(bench.store, unit, 1)[1])
    outcome = bench.store.run(AddToList(list_batch(unit, [Event(1, now - 6 * DAY_US, 0, 20)])))
    reply = read_list(bench.store, unit, 1)[1]
    assert (outcome.applied, outcome.expired) == (0, 1)
    assert (low_of(reply), applied_offsets_of(reply), len(listed(reply))) == (mark, {0: 20}, 3)


def test_a_full_list_loses_its_oldest_and_says_how_many(bench: Bench) -> None:
    unit = deployed(bench, EventList(range_us=6 * HOUR_US, rows=0, late_us=HOUR_US, most=10))
    events = [Event(1, bench.hour_us + o, 0, o) for o in range(25)]
    outcome = bench.store.run(AddToList(list_batch(unit, events)))
    reply = read_list(bench.store, unit, 1)[1]
    assert (outcome.applied, outcome.cut) == (25, 15)
    assert (len(listed(reply)), low_of(reply)) == (10, (events[14].time_us, 14))


def test_a_hot_entity_is_cut_into_consecutive_atomic_runs(bench: Bench) -> None:
    unit = deployed(bench, EventList(6 * HOUR_US, 0, HOUR_US, 5_000))
    rng = random.Random(SEED)
    events = [Event(1, bench.hour_us + rng.randrange(3 * HOUR_US), 0, o) for o in range(2_000)]
    outcome = bench.store.run(
        AddToList(list_batch(unit, [*events[:1_500], Event(2, bench.hour_us, 0, 1_500)]))
    )
    assert (outcome.applied, outcome.entities) == (1_501, 4)
    assert seen(bench, unit) == of(events[:1_500], 1)


def test_a_read_that_no_longer_stands_is_taken_again(bench: Bench) -> None:
    # Another writer adds between our read and our write: the first write must miss.
    events = [Event(1, bench.hour_us + o, 0, o) for o in range(6)]
    unit, other = deployed(bench, RANGE), bench.connect()

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Fields) and commands[0].key.endswith(b":list"):
            other.run(AddToList(list_batch(unit, events[:4])))

    outcome = racing(bench.store, bench.store.steps(AddToList(list_batch(unit, events))), race)
    assert (outcome.misses, outcome.already_applied, outcome.applied) == (1, 4, 2)
    assert seen(bench, unit) == of(events, 1)


def test_a_zombie_whose_mark_was_passed_misses(bench: Bench) -> None:
    # It read the list before others filled and cut it: what it would add lies below the mark by
    # then.
    keeps = EventList(range_us=6 * HOUR_US, rows=0, late_us=HOUR_US, most=3)
    unit, other = deployed(bench, keeps), bench.connect()
    late = Event(1, bench.hour_us, 0, 0)
    newer = [Event(1, bench.hour_us + 10 + o, 1, o) for o in range(5)]

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Fields) and commands[0].key.endswith(b":list"):
            other.run(AddToList(list_batch(unit, newer)))

    racing(bench.store, bench.store.steps(AddToList(list_batch(unit, [late]))), race)
    reply = read_list(bench.store, unit, 1)[1]
    assert (listed(reply), low_of(reply)) == ([(1, 2), (1, 3), (1, 4)], (newer[1].time_us, 1))


def test_lists_expire_by_their_newest_event_and_those_of_rows_never(bench: Bench) -> None:
    ranges, last = list_unit(RANGE, "00000000000000e1"), list_unit(ROWS, "00000000000000e2")
    bench.deploy(bench.store, ranges, last)
    for unit in (ranges, last):
        bench.store.run(AddToList(list_batch(unit, [Event(1, bench.hour_us, 0, 0)])))
    results = {unit.storage_fingerprint: expiries(bench, unit) for unit in (ranges, last)}
    expiry_s = -((bench.hour_us + 1 + RANGE.range_us) // -1_000_000) + LIST_SLACK_S
    assert results == {"00000000000000e1": (expiry_s, expiry_s), "00000000000000e2": (None, None)}


def expiries(bench: Bench, unit: StoreUnit) -> tuple[int | None, int | None]:
    """Seconds at which hash and sorted set expire."""
    from slicewise.stores.online.memory.store import MemoryNode
    from slicewise.stores.online.redis.adapter import RedisNode
    from tests.support.stores.stored import tag

    names = (unit.storage_fingerprint, bench.store.store_id)
    both = (
        keys.list_key(names[1], tag(1), names[0]),
        keys.members_key(names[1], tag(1), names[0]),
    )
    node = node_with(bench.store, both[0])
    if isinstance(node, RedisNode):
        at = node.plain([(b"EXPIRETIME", key) for key in both])
    else:
        assert isinstance(node, MemoryNode)
        at = [node.server.hashes[both[0]].expiry or -1, node.server.lists[both[1]].expiry or -1]
    return tuple(None if expiry == -1 else expiry for expiry in at)  # type: ignore[return-value]


def test_a_list_that_must_keep_more_is_built_again_under_another_name(bench: Bench) -> None:
    # What the longer window needs was trimmed, or has expired with its key and its mark: never
    # answered short.
    unit = deployed(bench, RANGE)
    bench.store.run(AddToList(list_batch(unit, [Event(1, bench.hour_us, 0, 0)])))
    deployment_version, digest = (
        bench.store.run(ReadMetadata()).deployment_version,
        bench.store.run(ReadMetadata()).units,
    )
    bench.store.run(AdvanceCommitted(offset_vector(), offset_vector(1), deployment_version, digest))
    assert unit.storage_fingerprint in bench.store.run(ReadMetadata()).ready
    less = list_unit(EventList(HOUR_US, 0, HOUR_US, 1_000))
    bench.deploy(bench.store, less)
    assert (
        bench.store.run(ReadMetadata()).name(unit.storage_fingerprint) == unit.storage_fingerprint
    )
    bench.deploy(bench.store, unit)  # as at first, but less was kept meanwhile
    metadata = bench.store.run(ReadMetadata())
    assert unit.storage_fingerprint not in metadata.ready
    assert metadata.starts[unit.storage_fingerprint] == offset_vector(1)
    assert (
        metadata.name(unit.storage_fingerprint)
        == f"{unit.storage_fingerprint}.{metadata.deployment_version}"
    )
    assert metadata.retired == metadata.deployment_version
    assert seen(bench, unit) == []
    bench.store.run(MarkReady(unit, offset_vector(1)))
    assert unit.storage_fingerprint in bench.store.run(ReadMetadata()).ready


def test_a_list_of_two_views_is_one_unit_of_both(bench: Bench) -> None:
    one, other = list_unit(RANGE, view="one"), list_unit(RANGE, view="other")
    bench.deploy(bench.store, one, other)
    metadata = bench.store.run(ReadMetadata())
    assert dict(metadata.aliases) == {"one": ("00000000000000ee",), "other": ("00000000000000ee",)}


def test_a_list_that_is_not_deployed_is_refused(bench: Bench) -> None:
    with pytest.raises(DeploymentSuperseded):
        bench.store.run(AddToList(list_batch(list_unit(RANGE), [Event(1, bench.hour_us, 0, 0)])))


def test_rows_out_of_offset_order_are_refused(bench: Bench) -> None:
    unit = deployed(bench, RANGE)
    with pytest.raises(StoreUnavailable):
        bench.store.run(
            AddToList(
                list_batch(unit, [Event(1, bench.hour_us, 0, 5), Event(1, bench.hour_us, 0, 4)])
            )
        )
