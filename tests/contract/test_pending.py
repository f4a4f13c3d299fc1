"""The pending events: each event stands once beyond its applied offset until the micro-batch lane
has it, and `m` says how many do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from slicewise import codec
from slicewise.errors import CodecError, DeploymentSuperseded, StoreUnavailable
from slicewise.features.declare.event_list import EventList
from slicewise.stores.online import keys
from slicewise.stores.online.memory.store import MemoryNode
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import ReadMetadata, ReadTime
from slicewise.stores.online.operations.event_lists import AddToList
from slicewise.stores.online.operations.pending import BeginRealtime, PendingOutcome, WritePending
from slicewise.stores.online.operations.publish_total import (
    AnnounceTotal,
    LifetimeEntry,
    PublishTotal,
)
from slicewise.stores.online.operations.reading import UnitReply
from slicewise.stores.online.redis.adapter import RedisNode
from slicewise.stores.online.steps import ABSENT, Change, Command, Fields, KeyChange, Passed
from slicewise.stores.online.store import Store
from slicewise.windows.durations import HOUR_US
from tests.contract.conftest import Bench, new_unit, node_with, racing
from tests.contract.test_apply_batch import hot
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.stored import (
    NO_COLUMNS,
    Event,
    StoreUnit,
    applied_offsets_of,
    hour_entry,
    is_pending,
    list_batch,
    list_unit,
    listed,
    low_of,
    micro_batch,
    offset_vector,
    pending_batch,
    read_list,
    rows_of,
    running_of,
    seen_in,
    tag,
    topic_partition,
)

BOUND = 1_000


def fields(reply: UnitReply) -> dict[bytes, bytes]:
    return dict(zip(reply.hot[::2], reply.hot[1::2], strict=True))


def pending_events(
    bench: Bench, entity: int = 1, unit: StoreUnit | None = None
) -> list[tuple[int, int]]:
    """(partition, offset) of the events in an entity's pending fields: each partition's in offset
    order, in fields that follow one another, all of which its head names; and `m` is the number of
    the events."""
    result = fields(hot(bench.store, unit or bench.unit, entity))
    inside = []
    for head in [name for name in result if name.startswith(b"o:")]:
        oldest, newest = codec.unpack_pending_numbers(result[head])
        for number in range(oldest, newest + 1):
            last, members = codec.unpack_pending(result.pop(keys.pending_field(head[2:], number)))
            rows = NO_COLUMNS.decode(members)
            assert rows.offset.tolist() == sorted(set(rows.offset.tolist()))
            assert last == rows.offset[-1]
            assert {
                keys.topic_partition_text(topic_partition(p)) for p in rows.partition.tolist()
            } == {head[2:]}
            inside += list(zip(rows.partition.tolist(), rows.offset.tolist(), strict=True))
    assert not [name for name in result if name.startswith(keys.PENDING_FIELDS)]
    assert result.get(keys.PENDING_COUNT) == (b"%d" % len(inside) if inside else None)
    return sorted(inside)


def skip(bench: Bench, entity: int = 1, partition: int = 0) -> bytes | None:
    return fields(hot(bench.store, bench.unit, entity)).get(
        keys.skip_field(topic_partition(partition))
    )


def events(
    bench: Bench, offsets: Sequence[int], entity: int = 1, partition: int = 0
) -> list[Event]:
    """Events of three hours, each beside its neighbours in another one."""
    return [Event(entity, bench.hour_us + o % 3 * HOUR_US + o, partition, o) for o in offsets]


def begun(bench: Bench) -> Bench:
    metadata = bench.store.run(ReadMetadata())
    bench.store.run(
        BeginRealtime("plays", offset_vector(), metadata.deployment_version, metadata.units)
    )
    return bench


def test_events_stand_until_the_micro_batch_lane_has_counted_them(bench: Bench) -> None:
    both = [*events(begun(bench), range(6)), Event(2, bench.hour_us, 0, 6)]
    assert bench.store.run(WritePending(pending_batch(bench.unit, both), BOUND)) == PendingOutcome(
        rows=7, written=7
    )
    bench.store.run(WritePending(pending_batch(bench.unit, events(bench, [3], partition=1)), BOUND))
    assert pending_events(bench) == [*((0, o) for o in range(6)), (1, 3)]
    bench.store.run(ApplyBatch(replace(micro_batch(bench.unit, both[:4]), realtime=True)))
    assert pending_events(bench) == [(0, 4), (0, 5), (1, 3)]
    assert pending_events(bench, 2) == [(0, 6)]
    bench.store.run(ApplyBatch(replace(micro_batch(bench.unit, both[2:]), realtime=True)))
    assert pending_events(bench) == [(1, 3)]
    assert pending_events(bench, 2) == []
    seen = seen_in(
        bench.unit, [part.row for part in running_of(hot(bench.store, bench.unit, 1)).values()]
    )
    assert seen == [(0, o) for o in range(6)]


def test_what_the_micro_batch_lane_has_is_already_applied_and_written_again_is_the_same(
    bench: Bench,
) -> None:
    #  offsets  0 1 2 | 3 4      applied offset at 2
    all_five = events(begun(bench), range(5))
    bench.store.run(ApplyBatch(micro_batch(bench.unit, all_five[:3])))
    for _ in range(3):
        outcome = bench.connect().run(WritePending(pending_batch(bench.unit, all_five), BOUND))
        assert outcome == PendingOutcome(rows=5, written=2, already_applied=3)
        assert pending_events(bench) == [(0, 3), (0, 4)]
    for _ in range(2):  # a replay of what was applied takes nothing from `m`
        bench.store.run(ApplyBatch(replace(micro_batch(bench.unit, all_five[:4]), realtime=True)))
        assert pending_events(bench) == [(0, 4)]


def test_what_lies_below_the_start_offsets_is_the_backfills(bench: Bench) -> None:
    metadata = bench.store.run(ReadMetadata())
    bench.store.run(
        AdvanceCommitted(
            offset_vector(), offset_vector(3), metadata.deployment_version, metadata.units
        )
    )
    second = new_unit()
    bench.deploy(bench.store, bench.unit, second)
    outcome = bench.store.run(WritePending(pending_batch(second, events(bench, range(5))), BOUND))
    assert outcome == PendingOutcome(rows=5, written=2, below=3)
    assert pending_events(bench, unit=second) == [(0, 3), (0, 4)]


def test_what_no_read_reaches_is_left_out_and_the_key_expires_with_its_latest(bench: Bench) -> None:
    #  the slice that has just expired | one that has not
    unit, now = bench.unit, bench.store.run(ReadTime())
    edge = (now - unit.retention_us) // unit.slice_us
    old, young = (
        Event(1, (edge - 1) * unit.slice_us, 0, 0),
        Event(1, (edge + 2) * unit.slice_us, 0, 1),
    )
    assert bench.store.run(WritePending(pending_batch(unit, [old]), BOUND)) == PendingOutcome(
        rows=1, expired=1
    )
    assert hot(bench.store, unit, 1).hot == []
    assert bench.store.run(
        WritePending(pending_batch(unit, [old, young]), BOUND)
    ) == PendingOutcome(rows=2, written=1, expired=1)
    end = -(((edge + 3) * unit.slice_us + unit.retention_us) // -1_000_000)
    assert expiry(bench.store, unit) == end
    later = Event(1, bench.hour_us, 0, 2)
    bench.store.run(WritePending(pending_batch(unit, [later]), BOUND))
    latest = -((bench.hour_us + unit.slice_us + unit.retention_us) // -1_000_000)
    assert expiry(bench.store, unit) == latest
    bench.store.run(WritePending(pending_batch(unit, [young._replace(offset=3)]), BOUND))
    assert expiry(bench.store, unit) == latest, "an earlier one shortens nothing"


def expiry(store: Store, unit: StoreUnit, entity: int = 1) -> int:
    """Second at which the hot hash expires; -1: never, -2: there is none."""
    key = keys.hot_key(store.store_id, tag(entity), unit.storage_fingerprint)
    node = node_with(store, key)
    if isinstance(node, RedisNode):
        return int(node.plain([(b"EXPIRETIME", key)])[0])
    assert isinstance(node, MemoryNode)
    result = node.server.hashes.get(key)
    return -2 if result is None else result.expiry or -1


def test_a_micro_batch_whose_applied_offset_is_not_written_any_more_takes_nothing_of_the_pending_events(
    bench: Bench,
) -> None:
    bench.store.run(WritePending(pending_batch(bench.unit, events(begun(bench), range(3))), BOUND))
    key = keys.hot_key(bench.store.store_id, tag(1), bench.unit.storage_fingerprint)
    applied_offset, passed = (
        keys.applied_field(topic_partition(0)),
        Passed(keys.topic_partition_text(topic_partition(0)), 1),
    )
    second = bench.store.run(ReadTime()) // 1_000_000
    for expiry_s, left in ((second - 1, [0, 1, 2]), (second + 600, [2])):
        bench.store.node.run(
            [
                Change(
                    (
                        KeyChange(
                            key,
                            [(applied_offset, ABSENT)],
                            [(applied_offset, b"1", expiry_s)],
                            (),
                            passed,
                        ),
                    )
                )
            ]
        )
        assert pending_events(bench) == [(0, o) for o in left]


@pytest.mark.parametrize(
    "torn", [b"", b"\x02" + bytes(10), bytes(12), b"\x09" + bytes(7) + b"\x05" + bytes(20)]
)
def test_a_torn_pending_field_is_named_and_nothing_is_written(bench: Bench, torn: bytes) -> None:
    some = events(begun(bench), range(5))
    bench.store.run(WritePending(pending_batch(bench.unit, some[:3]), BOUND))
    key = keys.hot_key(bench.store.store_id, tag(1), bench.unit.storage_fingerprint)
    applied_offset, name = (
        keys.applied_field(topic_partition(0)),
        keys.pending_field(keys.topic_partition_text(topic_partition(0)), 0),
    )
    bench.store.node.run([Change((KeyChange(key, [(applied_offset, ABSENT)], [(name, torn, 0)]),))])
    before = fields(hot(bench.store, bench.unit, 1))
    with pytest.raises((CodecError, StoreUnavailable), match="pending field"):
        bench.store.run(ApplyBatch(replace(micro_batch(bench.unit, some[:2]), realtime=True)))
    assert fields(hot(bench.store, bench.unit, 1)) == before
    with pytest.raises((CodecError, StoreUnavailable), match="pending field"):
        bench.connect().run(WritePending(pending_batch(bench.unit, some), BOUND))


def test_a_full_real_time_lane_leaves_its_hash_in_one_piece(bench: Bench) -> None:
    """A hash that was a table once stays one, which takes a quarter more."""
    some = events(begun(bench), range(60))
    for event in some:
        bench.store.run(WritePending(pending_batch(bench.unit, [event]), BOUND))
    values = [
        len(value)
        for name, value in fields(hot(bench.store, bench.unit, 1)).items()
        if is_pending(name)
    ]
    assert 900 < max(values) <= 1_024
    bench.store.run(ApplyBatch(replace(micro_batch(bench.unit, some), realtime=True)))
    assert pending_events(bench) == []
    key = keys.hot_key(bench.store.store_id, tag(1), bench.unit.storage_fingerprint)
    if isinstance(node := node_with(bench.store, key), RedisNode):  # memory has no encodings
        assert node.plain([(b"OBJECT", b"ENCODING", key)])[0] == b"listpack"


def test_at_the_bound_the_rest_is_skipped_and_the_mark_says_from_where_to_where(
    bench: Bench,
) -> None:
    def write(*offsets: int) -> PendingOutcome:
        return bench.store.run(
            WritePending(pending_batch(bench.unit, events(begun(bench), offsets)), 3)
        )

    assert write(0, 1) == PendingOutcome(rows=2, written=2)
    assert write(1, 2, 3, 4) == PendingOutcome(rows=4, written=2, skipped=2), (
        "one stands, one has room"
    )
    assert (pending_events(bench), skip(bench)) == ([(0, 0), (0, 1), (0, 2)], b"3:4")
    assert write(7) == PendingOutcome(rows=1, skipped=1)
    assert skip(bench) == b"3:7"
    bench.store.run(
        ApplyBatch(replace(micro_batch(bench.unit, events(bench, [0, 1])), realtime=True))
    )
    assert write(3, 8, 9) == PendingOutcome(rows=3, written=2, skipped=1)
    assert (pending_events(bench), skip(bench)) == ([(0, 2), (0, 3), (0, 8)], b"3:9")
    bench.store.run(
        ApplyBatch(replace(micro_batch(bench.unit, events(bench, range(2, 10))), realtime=True))
    )
    assert write(10, 11, 12, 13) == PendingOutcome(rows=4, written=3, skipped=1)
    assert skip(bench) == b"13:13", "the micro-batch lane has passed what was skipped before"


def numbers(bench: Bench) -> list[int]:
    """Numbers of the pending fields of entity 1 at partition 0."""
    result = fields(hot(bench.store, bench.unit, 1))
    return sorted(
        int(name.rsplit(b":", 1)[1]) for name in result if name.startswith(keys.PENDING_FIELDS)
    )


def test_fields_take_events_while_there_is_room_and_a_micro_batch_takes_what_it_passes(
    bench: Bench,
) -> None:
    #  fields      0     |   1   |   2   |  3       of three events each
    #  offsets  0  2  4  | 6 8 10| 12 ...| 18       an entity's offsets are not dense
    log, room = events(begun(bench), range(0, 20, 2)), codec.Room(3, 4096)
    for some in (log[:2], log[1:5], log[5:]):
        bench.store.run(WritePending(pending_batch(bench.unit, some), BOUND, room))
    assert (pending_events(bench), numbers(bench)) == ([(0, e.offset) for e in log], [0, 1, 2, 3])
    # how many events
    for passed, left in ((1, [0, 1, 2, 3]), (3, [1, 2, 3]), (5, [1, 2, 3]), (9, [3])):
        bench.store.run(ApplyBatch(replace(micro_batch(bench.unit, log[:passed]), realtime=True)))
        assert (pending_events(bench), numbers(bench)) == (
            [(0, e.offset) for e in log[passed:]],
            left,
        )
    bench.connect().run(WritePending(pending_batch(bench.unit, log), BOUND, room))
    bench.store.run(
        WritePending(pending_batch(bench.unit, events(bench, [20, 22, 24])), BOUND, room)
    )
    assert (pending_events(bench), numbers(bench)) == ([(0, o) for o in (18, 20, 22, 24)], [3, 4])
    bench.store.run(
        ApplyBatch(replace(micro_batch(bench.unit, events(bench, range(0, 26, 2))), realtime=True))
    )
    assert (pending_events(bench), numbers(bench)) == ([], [])
    assert not [name for name in fields(hot(bench.store, bench.unit, 1)) if name[:1] not in b"lr"]
    bench.store.run(WritePending(pending_batch(bench.unit, events(bench, [26])), BOUND, room))
    assert numbers(bench) == [0]


def test_a_field_has_room_in_bytes_too_and_what_is_larger_stands_alone(bench: Bench) -> None:
    log, member = (
        events(begun(bench), range(5)),
        len(NO_COLUMNS.encode(rows_of(events(bench, [0])))[0]),
    )
    of_two = codec.Room(100, codec.PENDING_HEAD + 2 * (codec.PENDING_SIZE + member))
    bench.store.run(WritePending(pending_batch(bench.unit, log), BOUND, of_two))
    assert (len(pending_events(bench)), numbers(bench)) == (5, [0, 1, 2])
    bench.store.run(ApplyBatch(replace(micro_batch(bench.unit, log), realtime=True)))
    more = events(bench, range(5, 8))
    bench.store.run(WritePending(pending_batch(bench.unit, more), BOUND, of_two._replace(bytes=1)))
    assert (len(pending_events(bench)), numbers(bench)) == (3, [0, 1, 2])


def test_what_was_skipped_and_comes_again_stays_skipped_where_later_events_stand(
    bench: Bench,
) -> None:
    #  offsets 0 1 2 stand, 3 4 are skipped, 0 1 applied, 5 6 stand, and 3 comes again
    log = events(begun(bench), range(8))
    bench.store.run(WritePending(pending_batch(bench.unit, log[:5]), 3))
    bench.store.run(ApplyBatch(replace(micro_batch(bench.unit, log[:2]), realtime=True)))
    assert bench.store.run(WritePending(pending_batch(bench.unit, log[5:7]), 3)) == PendingOutcome(
        rows=2, written=2
    )
    assert bench.store.run(WritePending(pending_batch(bench.unit, log[3:8]), 3)) == PendingOutcome(
        rows=5, written=2, skipped=3
    )
    assert (pending_events(bench), skip(bench)) == ([(0, 2), (0, 5), (0, 6)], b"3:7")


def test_a_micro_batch_planned_without_pending_events_deletes_where_one_began_meanwhile(
    bench: Bench,
) -> None:
    # the real-time lane writes between our read and our write: the first write must miss
    all_five, other = events(bench, range(5)), bench.connect()

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Fields) and commands[0].key.endswith(b":hot"):
            other.run(WritePending(pending_batch(bench.unit, all_five), BOUND))

    outcome = racing(
        bench.store, bench.store.steps(ApplyBatch(micro_batch(bench.unit, all_five[:4]))), race
    )
    assert (outcome.misses, outcome.applied) == (1, 4)
    assert pending_events(bench) == [(0, 4)]
    assert applied_offsets_of(hot(bench.store, bench.unit, 1)) == {0: 3}


def test_a_publish_leaves_pending_fields_to_the_micro_batch_lane(bench: Bench) -> None:
    some = [Event(1, bench.hour_us + o, 0, o) for o in range(4)]
    bench.store.run(WritePending(pending_batch(bench.unit, some), BOUND))
    bench.store.run(PutArchiveVersion("plays", 1, offset_vector(3)))
    assert (
        bench.store.run(
            PublishHour(
                bench.unit,
                bench.hour,
                1,
                offset_vector(3),
                [hour_entry(bench.unit, 1, 1, some[:3])],
            )
        ).published
        == 1
    )
    assert pending_events(bench) == [(0, o) for o in range(4)]
    outcome = bench.store.run(ApplyBatch(replace(micro_batch(bench.unit, some), realtime=True)))
    assert (outcome.compacted, outcome.applied) == (3, 1)
    assert pending_events(bench) == []


def test_totals_of_a_lifetime_leave_pending_fields_to_the_micro_batch_lane_and_nothing_expires(
    bench: Bench,
) -> None:
    #  offsets  0 1 | 2      the total and the committed offsets at 2; event 2 is of the same old hour
    unit = new_unit(lifetime=True, view="ever")
    bench.deploy(bench.store, bench.unit, unit)
    metadata = bench.store.run(ReadMetadata())
    bench.store.run(
        BeginRealtime("plays", offset_vector(), metadata.deployment_version, metadata.units)
    )
    first = bench.hour // 24 * 24 - 9 * 24
    old = [Event(1, first * HOUR_US + o, 0, o) for o in range(3)]
    assert bench.store.run(WritePending(pending_batch(unit, old), BOUND)).written == 3
    assert expiry(bench.store, unit) == -1
    bench.store.run(ApplyBatch(replace(micro_batch(unit, old[:2]), realtime=True)))
    bench.store.run(
        AdvanceCommitted(
            offset_vector(), offset_vector(2), metadata.deployment_version, metadata.units
        )
    )
    bench.store.run(AnnounceTotal(unit, first + 24, 1, offset_vector(2)))
    row = bytes(codec.unpack_total(hour_entry(unit, 1, 1, old[:2]).total).row)
    assert (
        bench.store.run(
            PublishTotal(unit, first + 24, 1, offset_vector(2), [LifetimeEntry(tag(1), row)])
        ).published
        == 1
    )
    assert running_of(hot(bench.store, unit, 1)) == {}
    assert pending_events(bench, unit=unit) == [(0, 2)]
    assert expiry(bench.store, unit) == -1


def test_pending_events_of_a_unit_that_is_not_deployed_is_refused_and_so_is_disorder(
    bench: Bench,
) -> None:
    with pytest.raises(DeploymentSuperseded):
        bench.store.run(WritePending(pending_batch(new_unit(), events(bench, [0])), BOUND))
    with pytest.raises(StoreUnavailable):
        bench.store.run(WritePending(pending_batch(bench.unit, events(bench, [5, 4])), BOUND))


# ------------------------------------------------------------ event lists
RANGE = EventList(range_us=6 * HOUR_US, rows=0, late_us=HOUR_US, most=4)


def test_events_of_a_list_are_there_once_and_the_applied_offset_says_up_to_where(
    bench: Bench,
) -> None:
    unit = list_unit(RANGE)
    bench.deploy(bench.store, unit)
    some = [Event(1, bench.hour_us + o, 0, o) for o in range(4)]
    bench.store.run(AddToList(list_batch(unit, some[:2])))
    for written, already in ((2, 2), (0, 4)):
        outcome = bench.store.run(WritePending(pending_batch(unit, some), BOUND))
        assert outcome == PendingOutcome(rows=4, written=written, already_applied=already)
    assert bench.store.run(AddToList(list_batch(unit, some))).already_applied == 4
    reply = read_list(bench.store, unit, 1)[1]
    assert (listed(reply), applied_offsets_of(reply)) == ([(0, o) for o in range(4)], {0: 3})


def test_a_list_is_cut_trimmed_and_refuses_what_lies_below_its_mark(bench: Bench) -> None:
    unit = list_unit(RANGE)
    bench.deploy(bench.store, unit)
    #  time    t   t+1  t+2  t+3  t+4  t+5 | t
    #  offset  0    1    2    3    4    5    6       room for four
    t = bench.hour_us
    outcome = bench.store.run(
        WritePending(pending_batch(unit, [Event(1, t + o, 0, o) for o in range(6)]), BOUND)
    )
    assert outcome == PendingOutcome(rows=6, written=6, cut=2)
    outcome = bench.store.run(
        WritePending(pending_batch(unit, [Event(1, t, 0, 6), Event(1, t + 9, 0, 7)]), BOUND)
    )
    assert outcome == PendingOutcome(rows=2, written=1, expired=1, cut=1)
    reply = read_list(bench.store, unit, 1)[1]
    assert (listed(reply), low_of(reply)) == ([(0, 3), (0, 4), (0, 5), (0, 7)], (t + 2, 2))
    too_old = Event(2, t - 7 * HOUR_US, 0, 8)
    assert bench.store.run(WritePending(pending_batch(unit, [too_old]), BOUND)) == PendingOutcome(
        rows=1, expired=1
    )
    assert read_list(bench.store, unit, 2)[1].hot == []
