"""A snapshot with known_at is of the events that had been applied by then, as brute force finds
them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slicewise.errors import BadRequest, DataLoss
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.training.arrival import Arrival, CommittedTimes, read_entries
from slicewise.training.dataset import DataSet, build_snapshot, build_training_set, rebuild
from slicewise.training.manifest import ARRIVAL_SUFFIX, SUFFIX, Manifest
from slicewise.training.writing import parquet_bytes
from tests.support.inputs.seeds import seeds
from tests.support.oracles.answers import HOUR, MINUTE, contained
from tests.support.oracles.repeats import USERS as USER_IDS
from tests.unit.training import test_repeats
from tests.unit.training.answering.test_arrival import (
    DEPLOYMENT,
    END,
    REFS,
    arrival_of,
    in_window,
    wanted,
    world,
)
from tests.unit.training.world import START, TOPIC, InMemoryArchive, same

AGES = [ref for ref in REFS if not ref.startswith("latest:")]
"""Features of windows that end: of the last rows an entity never leaves a snapshot again."""
USERS = ("", "Zoë", "ann", "bob")


def instants_until(known_at: int) -> list[int]:
    """Instants of some hours, and the very last one of which anything is known then."""
    return [*range(START + 35 * MINUTE, known_at, 100 * MINUTE), known_at]


@pytest.mark.parametrize("refs", [AGES, list(REFS)], ids=["windows", "last rows too"])
@pytest.mark.parametrize("seed", seeds([21, 22]))
def test_its_rows_are_of_the_events_that_were_applied_by_then(seed: int, refs: list[str]) -> None:
    raw, archive, entries = world(seed)
    absent = 0
    for known_at in (START + 2 * HOUR, START + 5 * HOUR, END):
        base = [offsets for at, offsets in entries if at <= known_at][-1]
        contents = list(contained(raw, base, {}))
        ats = instants_until(known_at)
        built = build_snapshot(
            DEPLOYMENT, archive, refs, ats, arrival=arrival_of(entries, known_at)
        )
        rows: list[dict[str, Any]] = []
        for at in ats:
            for user in USERS:
                own = [e for e in contents if e.columns["user"] == user]
                every = [e for e in raw if e.columns["user"] == user]
                if any(in_window(ref, own, at) for ref in refs):
                    rows.append({"user": user, "at": at, **{r: wanted(r, own, at) for r in refs}})
                elif any(in_window(ref, every, at) for ref in refs):
                    absent += 1
        actual = built.table.set_column(1, "at", built.table["at"].cast(pa.int64())).to_pylist()
        assert [(row["user"], row["at"]) for row in actual] == [
            (row["user"], row["at"]) for row in rows
        ]
        for row, right in zip(actual, rows, strict=True):
            assert all(same(row[ref], right[ref]) for ref in refs), (row, right)
        assert (built.manifest.kind, built.manifest.knowledge) == ("snapshot", "arrival")
        assert built.manifest.known_at_us == known_at
    assert absent > 3, "entities whose events had happened, and were not applied yet"


@pytest.mark.parametrize("seed", seeds([23]))
def test_its_rows_are_those_of_a_training_set_with_that_known_at(seed: int) -> None:
    _, archive, entries = world(seed)
    known_at = START + 4 * HOUR
    refs, arrival = list(REFS), arrival_of(entries, known_at)
    snapped = build_snapshot(DEPLOYMENT, archive, refs, instants_until(known_at), arrival=arrival)
    keys = snapped.table.select(["user", "at"])
    built = build_training_set(DEPLOYMENT, archive, keys, refs, "arrival", arrival=arrival)
    assert parquet_bytes(built.table) == parquet_bytes(snapped.table)
    assert built.manifest.arrival == snapped.manifest.arrival
    assert built.manifest.statistics == snapped.manifest.statistics


@pytest.mark.parametrize("seed", seeds([24]))
def test_of_all_events_it_is_the_snapshot_of_all_that_is_known_and_earlier_it_has_less(
    seed: int,
) -> None:
    _, archive, entries = world(seed)
    ats = instants_until(START + 3 * HOUR)
    kept = archive.reaches("plays").offset_vector
    every = [*entries, (END, {p: kept.get(p) for p in entries[0][1]})]
    now = build_snapshot(DEPLOYMENT, archive, AGES, ats)
    last = build_snapshot(DEPLOYMENT, archive, AGES, ats, arrival=arrival_of(every, END))
    assert parquet_bytes(last.table) == parquet_bytes(now.table)
    before: set[tuple[str, Any]] = set()
    for known_at in (START + 3 * HOUR, START + 7 * HOUR, END):
        arrival = arrival_of(every, known_at)
        table = build_snapshot(DEPLOYMENT, archive, AGES, ats, arrival=arrival).table
        rows = set(zip(table["user"].to_pylist(), table["at"].to_pylist(), strict=True))
        assert before <= rows
        before = rows
    assert len(before) == now.table.num_rows


def test_where_nothing_was_applied_yet_it_has_no_row() -> None:
    _, archive, _ = world(25)
    arrival = arrival_of([(START, {(TOPIC, 0): 0})], START + HOUR)
    built = build_snapshot(DEPLOYMENT, archive, AGES, [START + HOUR], arrival=arrival)
    assert built.table.num_rows == 0
    assert built.table.column_names == ["user", "at", *AGES]
    assert built.manifest.arrival["plays"]["entries"] == 1


def test_an_event_that_comes_again_counts_by_what_was_applied() -> None:
    records = test_repeats.plays()
    archive = InMemoryArchive(
        test_repeats.DEPLOYMENT.source("plays"), [test_repeats.given(records)], START * 2
    )
    refs, ats, rng = test_repeats.REFS, test_repeats.ENDS, np.random.default_rng(26)
    kept = archive.reaches("plays").offset_vector
    for _ in range(4):
        base = {p: int(rng.integers(end + 1)) for p, end in kept.offsets.items()}
        arrival = applied(base, max(ats))
        snapped = build_snapshot(test_repeats.DEPLOYMENT, archive, refs, ats, arrival=arrival)
        left = test_repeats.counted([r for r in records if r.offset < base[(TOPIC, r.partition)]])
        at_us = snapped.table["at"].cast(pa.int64()).to_pylist()
        for row, at in zip(snapped.table.to_pylist(), at_us, strict=True):
            test_repeats.check(row, left, row["user_id"], at)
        there = {
            (row["user_id"], at) for row, at in zip(snapped.table.to_pylist(), at_us, strict=True)
        }
        assert there == {
            (user, at)
            for at in ats
            for user in USER_IDS
            if test_repeats.values(left, user, at - 2 * HOUR, at)[0]
        }


def applied(base: dict[TopicPartition, int], known_at_us: int) -> Arrival:
    packed = pa.array([OffsetVector(base).pack()], pa.large_binary())
    at_us = np.array([START], np.int64)
    return Arrival({"plays": CommittedTimes("plays", at_us, packed)}, known_at_us)


def test_what_was_applied_and_is_not_archived_is_refused() -> None:
    _, archive, entries = world(27)
    arrival = arrival_of([*entries, (END - 1, {(TOPIC, 0): 10**6})], END)
    with pytest.raises(BadRequest, match="not archived yet"):
        build_snapshot(DEPLOYMENT, archive, AGES, [START + HOUR], arrival=arrival)


def test_a_known_at_before_the_first_entry_is_refused_by_its_name() -> None:
    _, archive, entries = world(28)
    arrival = Arrival(arrival_of(entries).times, START - 1)
    with pytest.raises(BadRequest, match="known_at") as refused:
        build_snapshot(DEPLOYMENT, archive, AGES, [START - HOUR], arrival=arrival)
    assert refused.value.where == "known_at"


def test_it_is_built_again_from_what_stands_beside_it(tmp_path: Path) -> None:
    _, archive, entries = world(29)
    known_at = START + 6 * HOUR
    built = build_snapshot(
        DEPLOYMENT,
        archive,
        AGES,
        [known_at, START + 2 * HOUR],
        arrival=arrival_of(entries, known_at),
    )
    built.to_parquet(tmp_path / "then.parquet")
    manifest = Manifest.read(tmp_path / f"then{SUFFIX}")
    beside = Arrival.of_table(read_entries(tmp_path / f"then{ARRIVAL_SUFFIX}"), known_at)

    def again(arrival: Arrival | None) -> DataSet:
        return rebuild(archive, manifest, None, "then", arrival)

    assert parquet_bytes(again(beside).table) == (tmp_path / "then.parquet").read_bytes()
    later = arrival_of(entries, END)
    for other in (later, None, Arrival({})):
        with pytest.raises(DataLoss, match="beside the data set"):
            again(other)
