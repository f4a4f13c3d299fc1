"""Rows by arrival have exactly the events before their instants that were applied by then, as brute
force finds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import BadRequest, CodecError, DataLoss
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.lake.committed import reduced
from slicewise.training.arrival import Arrival, CommittedTimes, refuse_later
from slicewise.training.dataset import build_training_set, rebuild
from slicewise.training.manifest import Manifest
from slicewise.training.writing import parquet_bytes
from slicewise.windows.session import Session
from tests.support.inputs.seeds import seeds
from tests.support.oracles.answers import HOUR, MINUTE, OracleEvent, contained, session
from tests.unit.training.world import (
    AGGREGATES,
    PLAYS,
    START,
    TOPIC,
    InMemoryArchive,
    expected,
    oracle_events,
    random_events,
    same,
    view,
)

END = START + 12 * HOUR
GAP = 5 * MINUTE
listening = view(["user"], ["10m", "3h"])
visits = sw.FeatureView(
    "visits",
    source=PLAYS,
    entity=["user"],
    where="seconds >= 10 OR seconds IS NULL",
    slice="1m",
    features=[
        sw.Feature("n", sw.count(), [sw.session("5m", max_length="1h")]),
        sw.Feature("seconds", sw.sum("seconds"), [sw.session("5m", max_length="1h")]),
    ],
)
latest = sw.FeatureView(
    "latest",
    source=PLAYS,
    entity=["user"],
    where="seconds >= 10 OR seconds IS NULL",
    features=[sw.Feature("seconds", sw.sum("seconds"), [sw.rows(3)])],
)
DEPLOYMENT = plan(Project.of("test", [listening, visits, latest]))
REFS = {f"{unit.view}:{f.column}": (unit, f) for unit in DEPLOYMENT.units for f in unit.features}
Entries = list[tuple[int, dict[TopicPartition, int]]]


def world(seed: int) -> tuple[list[OracleEvent], InMemoryArchive, Entries]:
    """Events that came in another order than they happened, and entries of how far the stream had
    come: it falls behind, stops, and catches up."""
    print(f"seed {seed}")
    events = random_events(seed, 300)
    archive = InMemoryArchive(DEPLOYMENT.source("plays"), [events[:200], events[200:]], END)
    rng = np.random.default_rng(seed)
    ends = {(TOPIC, p): archive.reaches("plays").offset_vector.get((TOPIC, p)) for p in range(3)}
    entries: Entries = [(START, dict.fromkeys(ends, 0))]
    for at in np.sort(rng.integers(START, END, 40)).tolist():
        before = entries[-1][1]
        entries.append((at, {p: min(ends[p], before[p] + int(rng.integers(9))) for p in ends}))
    return oracle_events(events), archive, entries


def entry_table(entries: Entries) -> pa.Table:
    return pa.table(
        {
            "at_us": pa.array([at for at, _ in entries], pa.int64()),
            "packed": pa.array([OffsetVector(o).pack() for _, o in entries], pa.large_binary()),
        }
    )


def arrival_of(
    entries: Entries, known_at_us: int | None = None, spine: list[dict[str, Any]] | None = None
) -> Arrival:
    """Knowledge of all of these entries, or of those that are read for a spine."""
    instants = [row["at"] for row in spine or ()] or [at for at, _ in entries] or [START]
    if known_at_us is not None:
        instants = [known_at_us]
    kept = reduced(entry_table(entries), np.unique(np.array(instants, np.int64)))
    assert len(kept) <= len(instants) + 1
    return Arrival({"plays": CommittedTimes.of("plays", kept)}, known_at_us)


def in_window(ref: str, events: list[OracleEvent], end: int) -> list[OracleEvent]:
    unit, feature = REFS[ref]
    window = feature.window
    if isinstance(window, Session):
        return session(events, (end - HOUR) // MINUTE * MINUTE, end, GAP)
    if window.most_rows:
        chosen = [e for e in events if e.time <= end]
        return sorted(chosen, key=lambda e: (e.time, e.partition, e.offset))[-3:]
    start, end_us = window.bounds_columns("event_time", np.array([end]), unit.slice_us)
    return [e for e in events if start[0] <= e.time < end_us[0]]


def wanted(ref: str, events: list[OracleEvent], end: int) -> Any:
    name = REFS[ref][1].feature
    chosen = in_window(ref, events, end)
    return expected(name if name in AGGREGATES else "seconds", chosen, end)


def rows_at(seed: int, latest_us: int = END) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {"user": ["ann", "bob", "Zoë", "nobody"][i % 4], "at": int(rng.integers(START, latest_us))}
        for i in range(40)
    ]


def compare(
    rows: list[Mapping[str, Any]],
    spine: list[dict[str, Any]],
    raw: list[OracleEvent],
    contents: list[dict[TopicPartition, int]],
) -> int:
    less = 0
    for given, row, base in zip(spine, rows, contents, strict=True):
        own = [e for e in raw if e.columns["user"] == given["user"]]
        some = list(contained(own, base, {}))
        less += len(some) < len(own)
        for ref in REFS:
            value = wanted(ref, some, given["at"])
            assert same(row[ref], value), (ref, given, row[ref], value)
    return less


@pytest.mark.parametrize("seed", seeds([1, 2, 3]))
def test_each_row_knows_what_was_applied_by_its_own_instant(seed: int) -> None:
    raw, archive, entries = world(seed)
    spine = rows_at(seed)
    built = build_training_set(
        DEPLOYMENT, archive, spine, list(REFS), "arrival", arrival=arrival_of(entries, spine=spine)
    )
    contents = [[o for at, o in entries if at <= row["at"]][-1] for row in spine]
    assert compare(built.table.to_pylist(), spine, raw, contents) > 5
    (noted,) = built.manifest.arrival.values()
    assert 0 < noted["entries"] <= len(spine)
    assert built.manifest.known_at_us == 0


@pytest.mark.parametrize("seed", seeds([4, 5]))
def test_with_known_at_every_row_knows_what_was_applied_by_that_instant(seed: int) -> None:
    raw, archive, entries = world(seed)
    known_at = START + 7 * HOUR
    spine = rows_at(seed, known_at)
    built = build_training_set(
        DEPLOYMENT, archive, spine, list(REFS), "arrival", arrival=arrival_of(entries, known_at)
    )
    contents = [o for at, o in entries if at <= known_at][-1]
    assert compare(built.table.to_pylist(), spine, raw, [contents] * len(spine)) > 5
    assert built.manifest.known_at_us == known_at


def test_an_entry_counts_from_its_very_instant_on() -> None:
    times = arrival_of([(START, {(TOPIC, 0): 1}), (START + 9, {(TOPIC, 0): 5})]).times["plays"]
    instants = np.array([START, START + 8, START + 9, START + 10**9])
    assert times.newest(instants).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("seed", seeds([6, 11, 12]))
def test_of_entries_that_come_twice_and_in_any_order_those_are_read_that_count(seed: int) -> None:
    _, _, entries = world(seed)
    spine = rows_at(seed)
    at_us = np.array([row["at"] for row in spine])
    whole = arrival_of(entries).of("plays", at_us)
    some = arrival_of([*entries[::-1], *entries[3:9]], spine=spine).of("plays", at_us)
    assert whole.digest == some.digest
    assert np.array_equal(whole.base[whole.row], some.base[some.row])
    assert whole.joined() == some.joined()


def test_of_one_instant_the_greatest_bytes_count_and_what_never_counts_is_left() -> None:
    less, more = {(TOPIC, 0): 5}, {(TOPIC, 0): 6}
    entries: Entries = [(START, {}), (START + 5, more), (START + 5, less), (START + 9, less)]
    kept = reduced(entry_table(entries), np.array([START + 5, START + 8]))
    assert kept["at_us"].to_pylist() == [START, START + 5], "the first stays: there it begins"
    assert OffsetVector.unpack(kept["packed"][1].as_py()) == OffsetVector(more)
    assert not len(reduced(entry_table([]), np.array([START])))


def test_a_partition_or_a_topic_that_comes_later_was_at_its_begin_before() -> None:
    other = "1" * 32
    entries: Entries = [
        (START, {}),
        (START + 1, {(TOPIC, 0): 4}),
        (START + 2, {(TOPIC, 0): 5, (TOPIC, 1): 7}),
        (START + 3, {(TOPIC, 0): 5, (TOPIC, 1): 7, (other, 0): 2}),
    ]
    arrived = arrival_of(entries).of("plays", np.array([START + 3, START, START + 1, START + 2]))
    assert arrived.topic_partitions == ((TOPIC, 0), (TOPIC, 1), (other, 0))
    assert arrived.base[arrived.row].tolist() == [[5, 7, 2], [0, 0, 0], [4, 0, 0], [5, 7, 0]]
    assert arrived.joined() == OffsetVector(entries[-1][1])


@pytest.mark.parametrize("raw", [b"", b"\xc1", b"\x01", OffsetVector({(TOPIC, 0): 4}).pack()[:-1]])
def test_bytes_that_are_no_offset_vector_are_refused(raw: bytes) -> None:
    table = pa.table({"at_us": [START], "packed": pa.array([raw], pa.large_binary())})
    with pytest.raises(CodecError):
        Arrival({"plays": CommittedTimes.of("plays", table)}).of("plays", np.array([START]))


def test_a_row_before_the_first_entry_is_refused_by_its_number() -> None:
    _, archive, entries = world(7)
    spine = [{"user": "ann", "at": START + HOUR}, {"user": "bob", "at": START - 1}]
    with pytest.raises(BadRequest, match="row 1"):
        build_training_set(
            DEPLOYMENT, archive, spine, list(REFS), "arrival", arrival=arrival_of(entries)
        )
    with pytest.raises(BadRequest, match="its stream first ran"):
        build_training_set(
            DEPLOYMENT, archive, spine, list(REFS), "arrival", arrival=arrival_of([])
        )


def test_what_was_applied_and_is_not_archived_is_refused() -> None:
    _, archive, entries = world(8)
    beyond = [*entries, (END - 1, {(TOPIC, 0): 10**6})]
    with pytest.raises(BadRequest, match="not archived yet"):
        build_training_set(
            DEPLOYMENT,
            archive,
            [{"user": "ann", "at": END}],
            list(REFS),
            "arrival",
            arrival=arrival_of(beyond),
        )


def test_a_row_after_known_at_is_refused_by_its_number() -> None:
    with pytest.raises(BadRequest, match="row 2"):
        refuse_later(np.array([START, START + 5, START + 6]), START + 5)


def test_without_entries_knowledge_by_arrival_is_refused() -> None:
    _, archive, _ = world(9)
    with pytest.raises(BadRequest, match="nothing says what was known"):
        build_training_set(DEPLOYMENT, archive, rows_at(9), list(REFS), "arrival")


def test_it_is_built_again_to_the_same_bytes_from_the_entries_that_were_written() -> None:
    _, archive, entries = world(10)
    spine = rows_at(10)
    for known_at in (None, END):
        arrival = arrival_of(entries[:20], known_at, spine)
        built = build_training_set(
            DEPLOYMENT, archive, spine, list(REFS), "arrival", arrival=arrival
        )
        manifest = Manifest.from_json(built.manifest.to_json(), "test")
        assert built.spine is not None
        written = Arrival.of_table(arrival.table(built.spine.at_us), known_at)
        again = rebuild(archive, manifest, built.spine.table, "test", written)
        assert parquet_bytes(again.table) == parquet_bytes(built.table)
        for other in (arrival_of(entries[:5], known_at), None, Arrival({})):
            with pytest.raises(DataLoss, match="beside the data set"):
                rebuild(archive, manifest, built.spine.table, "test", other)
