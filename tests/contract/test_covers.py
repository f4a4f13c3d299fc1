"""Covers of archive seqs: immutable, one growing history, kept for as long as any hour may name them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from slicewise.errors import DataLoss, GapRefused, IncarnationChanged
from slicewise.stores.online import keys
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.archive_versions import (
    CountArchiveVersions,
    PutArchiveVersion,
    ReadArchiveVersions,
    TrimArchiveVersions,
)
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata, ReadTime
from slicewise.stores.online.operations.publish_hour import PublishHour
from slicewise.stores.online.steps import ABSENT, Change, Command, Fields, KeyChange, Whole
from slicewise.windows.durations import HOUR_US
from tests.contract.conftest import Bench, new_unit, racing
from tests.support.stores.stored import Event, cover, fold_batch, hour_entry


def trim(bench: Bench, *live: tuple[int, int]) -> int:
    store = bench.store
    return store.run(
        TrimArchiveVersions("plays", store.run(CountArchiveVersions("plays")), store.run(ReadMetadata()).epoch, live)
    )


def test_what_a_seq_stands_for_never_changes(bench: Bench) -> None:
    bench.store.run(PutArchiveVersion("plays", 1, cover(5)))
    bench.store.run(PutArchiveVersion("plays", 1, cover(5)))
    for seq, offsets in ((1, cover(6)), (0, cover(5))):
        with pytest.raises(GapRefused):
            bench.store.run(PutArchiveVersion("plays", seq, offsets))
    assert bench.connect().run(ReadArchiveVersions("plays")) == {1: cover(5)}


def test_covers_only_grow_so_that_no_other_archive_takes_a_forgotten_seqs_place(bench: Bench) -> None:
    for seq in (2, 4, 6):
        bench.store.run(PutArchiveVersion("plays", seq, cover(10 * seq, seq)))
    assert trim(bench, (6, 6)) == 2
    for seq, offsets in ((4, cover(61, 4)), (7, cover(59, 9)), (7, cover(90, 5))):
        with pytest.raises(GapRefused):
            bench.store.run(PutArchiveVersion("plays", seq, offsets))
    bench.store.run(PutArchiveVersion("plays", 4, cover(40, 4)))
    bench.store.run(PutArchiveVersion("plays", 7, cover(60, 7)))
    assert set(bench.store.run(ReadArchiveVersions("plays"))) == {4, 6, 7}


def test_what_no_hour_names_is_forgotten_and_the_newest_stays(bench: Bench) -> None:
    for seq in range(1, 9):
        bench.store.run(PutArchiveVersion("plays", seq, cover(seq)))
    assert trim(bench, (2, 3), (0, 0), (6, 6)) == 4
    assert set(bench.store.run(ReadArchiveVersions("plays"))) == {2, 3, 6, 8}
    assert trim(bench, (2, 3), (6, 6)) == 0
    assert trim(bench) == 3
    assert set(bench.store.run(ReadArchiveVersions("plays"))) == {8}


def test_a_seq_that_another_run_announced_meanwhile_is_not_forgotten(bench: Bench) -> None:
    store = bench.store
    for seq in (1, 2):
        store.run(PutArchiveVersion("plays", seq, cover(seq)))
    count, epoch = store.run(CountArchiveVersions("plays")), store.run(ReadMetadata()).epoch
    bench.connect().run(PutArchiveVersion("plays", 1, cover(1)))
    assert store.run(TrimArchiveVersions("plays", count, epoch, [])) == 0
    count = store.run(CountArchiveVersions("plays"))
    bench.deploy(store, bench.unit, new_unit(view="other"))
    assert store.run(TrimArchiveVersions("plays", count, epoch, [])) == 0, "a unit that the hours were not read of"
    assert set(store.run(ReadArchiveVersions("plays"))) == {1, 2}
    assert trim(bench) == 1


def test_two_announcements_at_once_are_both_counted(bench: Bench) -> None:
    other, seen = bench.connect(), list[Sequence[Command]]()

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Whole) and not seen:
            seen.append(commands)
            other.run(PutArchiveVersion("plays", 1, cover(1)))

    racing(bench.store, bench.store.steps(PutArchiveVersion("plays", 2, cover(2))), race)
    assert bench.store.run(CountArchiveVersions("plays")) == 2 * bench.nodes
    assert bench.store.run(ReadArchiveVersions("plays")) == {1: cover(1), 2: cover(2)}


def test_a_fold_that_read_a_seq_which_is_forgotten_since_reads_again(bench: Bench) -> None:
    # The hour was compacted to another seq between the two reads.
    store, unit, hour = bench.store, bench.unit, bench.hour
    events = [Event(1, bench.hour_us, 0, o) for o in range(3)]
    store.run(PutArchiveVersion("plays", 1, cover(1)))
    store.run(PutArchiveVersion("plays", 2, cover(2)))
    store.run(PublishHour(unit, hour, 1, cover(1), [hour_entry(unit, 1, 1, events[:1])]))
    folding = bench.connect()

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[-1], Fields) and commands[-1].fields == [keys.HOURS]:
            other = bench.connect()
            other.run(PublishHour(unit, hour, 2, cover(2), [hour_entry(unit, 1, 2, events[:2])]))
            count = other.run(CountArchiveVersions("plays"))
            other.run(TrimArchiveVersions("plays", count, other.run(ReadMetadata()).epoch, [(2, 2)]))

    outcome = racing(folding, folding.steps(ApplyBatch(fold_batch(unit, events))), race)
    assert (outcome.applied, outcome.misses) == (1, 1)
    assert set(store.run(ReadArchiveVersions("plays"))) == {2}


def test_a_seq_that_a_kept_hour_names_and_nobody_knows_is_an_error(bench: Bench) -> None:
    store, unit = bench.store, bench.unit
    events = [Event(1, bench.hour_us, 0, o) for o in range(2)]
    store.run(PutArchiveVersion("plays", 1, cover(1)))
    store.run(PutArchiveVersion("plays", 2, cover(2)))
    store.run(PublishHour(unit, bench.hour, 1, cover(1), [hour_entry(unit, 1, 1, events[:1])]))
    trim(bench)  # as if no hour named it
    with pytest.raises(DataLoss):
        bench.connect().run(ApplyBatch(fold_batch(unit, events)))
    with pytest.raises(DataLoss):
        bench.connect().run(PublishHour(unit, bench.hour, 1, cover(1), []))


def test_a_late_event_of_an_hour_that_expired_needs_no_cover(bench: Bench) -> None:
    # Its day stands because a later hour does; what the hour's seq stood for may be forgotten.
    store, unit = bench.store, bench.unit
    short = new_unit(view="short", retention_us=3 * HOUR_US)
    bench.deploy(store, unit, short)
    now_hour = store.run(ReadTime()) // HOUR_US
    late = Event(1, (now_hour - 9) * HOUR_US, 0, 7)
    day = keys.day_key(store.generation, b"user:int64:1", short.storage_fingerprint, (now_hour - 9) // 24)
    stands = b"\x91\x92" + b"\xce" + (now_hour - 9).to_bytes(4, "big") + b"\x05"
    expiry = store.run(ReadTime()) // 1_000_000 + 600
    store.node.run([Change((KeyChange(day, [(keys.HOURS, ABSENT)], [(keys.HOURS, stands, expiry)]),))])
    outcome = store.run(ApplyBatch(fold_batch(short, [late])))
    assert (outcome.expired, outcome.rows) == (1, 1)


def test_an_emptied_store_has_no_covers_of_the_old_generation(bench: Bench, empty: object) -> None:
    bench.store.run(PutArchiveVersion("plays", 1, cover(1)))
    assert callable(empty)
    empty()
    with bench.connect() as other:
        other.run(Initialise())
        for call in (
            lambda: bench.store.run(PutArchiveVersion("plays", 2, cover(2))),
            lambda: bench.store.run(ReadMetadata()),
        ):
            with pytest.raises(IncarnationChanged):
                call()
        assert other.run(ReadArchiveVersions("plays")) == {}
