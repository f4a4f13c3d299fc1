"""Offset vectors of archive versions: immutable, one growing history, kept for as long as any hour
may name them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from slicewise.errors import DataLoss, GapRefused, ServerRunChanged
from slicewise.stores.online import keys
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.archive_versions import (
    CountArchiveVersions,
    PutArchiveVersion,
    ReadArchiveVersions,
    TrimArchiveVersions,
)
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata, ReadTime
from slicewise.stores.online.steps import ABSENT, Change, Command, Fields, KeyChange, Whole
from slicewise.windows.durations import HOUR_US
from tests.contract.conftest import Bench, new_unit, racing
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.stored import Event, hour_entry, micro_batch, offset_vector


def trim(bench: Bench, *live: tuple[int, int]) -> int:
    store = bench.store
    return store.run(
        TrimArchiveVersions(
            "plays",
            store.run(CountArchiveVersions("plays")),
            store.run(ReadMetadata()).deployment_version,
            live,
        )
    )


def test_what_an_archive_version_stands_for_never_changes(bench: Bench) -> None:
    bench.store.run(PutArchiveVersion("plays", 1, offset_vector(5)))
    bench.store.run(PutArchiveVersion("plays", 1, offset_vector(5)))
    for archive_version, offsets in ((1, offset_vector(6)), (0, offset_vector(5))):
        with pytest.raises(GapRefused):
            bench.store.run(PutArchiveVersion("plays", archive_version, offsets))
    assert bench.connect().run(ReadArchiveVersions("plays")) == {1: offset_vector(5)}


def test_offset_vectors_only_grow_so_that_no_other_archive_takes_a_forgotten_archive_versions_place(
    bench: Bench,
) -> None:
    for archive_version in (2, 4, 6):
        bench.store.run(
            PutArchiveVersion(
                "plays", archive_version, offset_vector(10 * archive_version, archive_version)
            )
        )
    assert trim(bench, (6, 6)) == 2
    for archive_version, offsets in (
        (4, offset_vector(61, 4)),
        (7, offset_vector(59, 9)),
        (7, offset_vector(90, 5)),
    ):
        with pytest.raises(GapRefused):
            bench.store.run(PutArchiveVersion("plays", archive_version, offsets))
    bench.store.run(PutArchiveVersion("plays", 4, offset_vector(40, 4)))
    bench.store.run(PutArchiveVersion("plays", 7, offset_vector(60, 7)))
    assert set(bench.store.run(ReadArchiveVersions("plays"))) == {4, 6, 7}


def test_what_no_hour_names_is_forgotten_and_the_newest_stays(bench: Bench) -> None:
    for archive_version in range(1, 9):
        bench.store.run(PutArchiveVersion("plays", archive_version, offset_vector(archive_version)))
    assert trim(bench, (2, 3), (0, 0), (6, 6)) == 4
    assert set(bench.store.run(ReadArchiveVersions("plays"))) == {2, 3, 6, 8}
    assert trim(bench, (2, 3), (6, 6)) == 0
    assert trim(bench) == 3
    assert set(bench.store.run(ReadArchiveVersions("plays"))) == {8}


def test_an_archive_version_that_another_run_announced_meanwhile_is_not_forgotten(
    bench: Bench,
) -> None:
    store = bench.store
    for archive_version in (1, 2):
        store.run(PutArchiveVersion("plays", archive_version, offset_vector(archive_version)))
    count, deployment_version = (
        store.run(CountArchiveVersions("plays")),
        store.run(ReadMetadata()).deployment_version,
    )
    bench.connect().run(PutArchiveVersion("plays", 1, offset_vector(1)))
    assert store.run(TrimArchiveVersions("plays", count, deployment_version, [])) == 0
    count = store.run(CountArchiveVersions("plays"))
    bench.deploy(store, bench.unit, new_unit(view="other"))
    assert store.run(TrimArchiveVersions("plays", count, deployment_version, [])) == 0, (
        "a unit that the hours were not read of"
    )
    assert set(store.run(ReadArchiveVersions("plays"))) == {1, 2}
    assert trim(bench) == 1


def test_two_announcements_at_once_are_both_counted(bench: Bench) -> None:
    other, seen = bench.connect(), list[Sequence[Command]]()

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Whole) and not seen:
            seen.append(commands)
            other.run(PutArchiveVersion("plays", 1, offset_vector(1)))

    racing(bench.store, bench.store.steps(PutArchiveVersion("plays", 2, offset_vector(2))), race)
    assert bench.store.run(CountArchiveVersions("plays")) == 2 * bench.nodes
    assert bench.store.run(ReadArchiveVersions("plays")) == {
        1: offset_vector(1),
        2: offset_vector(2),
    }


def test_a_micro_batch_that_read_an_archive_version_which_is_forgotten_since_reads_again(
    bench: Bench,
) -> None:
    # The hour was compacted to another archive version between the two reads.
    store, unit, hour = bench.store, bench.unit, bench.hour
    events = [Event(1, bench.hour_us, 0, o) for o in range(3)]
    store.run(PutArchiveVersion("plays", 1, offset_vector(1)))
    store.run(PutArchiveVersion("plays", 2, offset_vector(2)))
    store.run(PublishHour(unit, hour, 1, offset_vector(1), [hour_entry(unit, 1, 1, events[:1])]))
    applying = bench.connect()

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[-1], Fields) and commands[-1].fields == [keys.HOURS]:
            other = bench.connect()
            other.run(
                PublishHour(unit, hour, 2, offset_vector(2), [hour_entry(unit, 1, 2, events[:2])])
            )
            count = other.run(CountArchiveVersions("plays"))
            other.run(
                TrimArchiveVersions(
                    "plays", count, other.run(ReadMetadata()).deployment_version, [(2, 2)]
                )
            )

    outcome = racing(applying, applying.steps(ApplyBatch(micro_batch(unit, events))), race)
    assert (outcome.applied, outcome.misses) == (1, 1)
    assert set(store.run(ReadArchiveVersions("plays"))) == {2}


def test_an_archive_version_that_a_kept_hour_names_and_nobody_knows_is_an_error(
    bench: Bench,
) -> None:
    store, unit = bench.store, bench.unit
    events = [Event(1, bench.hour_us, 0, o) for o in range(2)]
    store.run(PutArchiveVersion("plays", 1, offset_vector(1)))
    store.run(PutArchiveVersion("plays", 2, offset_vector(2)))
    store.run(
        PublishHour(unit, bench.hour, 1, offset_vector(1), [hour_entry(unit, 1, 1, events[:1])])
    )
    trim(bench)  # as if no hour named it
    with pytest.raises(DataLoss):
        bench.connect().run(ApplyBatch(micro_batch(unit, events)))
    with pytest.raises(DataLoss):
        bench.connect().run(PublishHour(unit, bench.hour, 1, offset_vector(1), []))


def test_a_late_event_of_an_hour_that_expired_needs_no_offset_vector(bench: Bench) -> None:
    # Its day stands because a later hour does; what the hour's archive version stood for may be
    # forgotten.
    store, unit = bench.store, bench.unit
    short = new_unit(view="short", retention_us=3 * HOUR_US)
    bench.deploy(store, unit, short)
    now_hour = store.run(ReadTime()) // HOUR_US
    late = Event(1, (now_hour - 9) * HOUR_US, 0, 7)
    day = keys.day_key(
        store.store_id, b"user:int64:1", short.storage_fingerprint, (now_hour - 9) // 24
    )
    hours = b"\x91\x92" + b"\xce" + (now_hour - 9).to_bytes(4, "big") + b"\x05"
    expiry = store.run(ReadTime()) // 1_000_000 + 600
    store.node.run(
        [Change((KeyChange(day, [(keys.HOURS, ABSENT)], [(keys.HOURS, hours, expiry)]),))]
    )
    outcome = store.run(ApplyBatch(micro_batch(short, [late])))
    assert (outcome.expired, outcome.rows) == (1, 1)


def test_an_emptied_store_has_no_offset_vectors_of_the_old_store_id(
    bench: Bench, empty: object
) -> None:
    bench.store.run(PutArchiveVersion("plays", 1, offset_vector(1)))
    assert callable(empty)
    empty()
    with bench.connect() as other:
        other.run(Initialise())
        for call in (
            lambda: bench.store.run(PutArchiveVersion("plays", 2, offset_vector(2))),
            lambda: bench.store.run(ReadMetadata()),
        ):
            with pytest.raises(ServerRunChanged):
                call()
        assert other.run(ReadArchiveVersions("plays")) == {}
