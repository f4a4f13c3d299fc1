"""However entities are cut into shares, their values are those of the whole, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import slicewise as sw
from slicewise.errors import DataLoss
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.training import writing
from slicewise.training.answering.spines import reach, spans
from slicewise.training.archive import Archived
from slicewise.training.arrival import Arrival, CommittedTimes
from slicewise.training.dataset import (
    build_snapshot,
    build_training_set,
    reach_of,
)
from slicewise.training.manifest import ARRIVAL_SUFFIX, SUFFIX, beside
from slicewise.training.requests.training_request import TrainingRequest, training_request
from slicewise.training.requests.unit_requests import resolve
from slicewise.training.scaled import request as requests
from slicewise.training.scaled import share, values
from slicewise.training.scaled.building import (
    ScaledSet,
    request_of,
    set_of,
    snapshot_of,
    snapshot_request_of,
)
from slicewise.training.scaled.request import ROW, SHARE, ScaledRequest
from slicewise.training.scaled.share import answer_share, present_share, present_spine
from slicewise.training.snapshots import spans_of
from tests.support.inputs.seeds import seeds
from tests.support.oracles.answers import HOUR, MINUTE
from tests.unit.training.world import PLAYS, START, InMemoryArchive, random_events, view

END = START + 7 * HOUR


def sums(entity: list[str], name: str) -> sw.FeatureView:
    windows = (sw.sliding("1h"), sw.session("10m", max_length="2h"))
    features = [
        sw.Feature("seconds", sw.sum("seconds"), windows),
        sw.Feature("n", sw.count(), windows),
    ]
    return sw.FeatureView(name, source=PLAYS, entity=entity, features=features)


listed = sw.FeatureView(
    "listed",
    source=PLAYS,
    entity=["user"],
    features=[sw.Feature("songs", sw.last_k("song", k=2), [sw.exact_range("1h"), sw.rows(3)])],
)
overflown = sw.FeatureView(
    "overflown",
    source=PLAYS,
    entity=["user"],
    columns={"huge": "stars * 4000000000000000000"},
    features=[sw.Feature("huge", sw.sum("huge"), ["3h"])],
)
DEPLOYMENT = plan(
    Project.of(
        "test",
        [
            view(["user"], ("3h",), name="users"),
            sums(["user", "device"], "pairs"),
            sums([], "everyone"),
            listed,
            overflown,
        ],
    )
)
REFS = [f"{unit.view}:{feature.column}" for unit in DEPLOYMENT.units for feature in unit.features]


def spine(rng: np.random.Generator, rows: int) -> pa.Table:
    """Rows in no order, some of them twice, of entities with events and without."""
    users = [["ann", "bob", "Zoë", "", "nobody"][i] for i in rng.integers(5, size=rows)]
    at_us = START + rng.integers(7 * 60, size=rows) * MINUTE + rng.integers(3, size=rows)
    return pa.table(
        {
            "user": users,
            "device": rng.integers(4, size=rows),
            "label": rng.random(rows),
            "at": pa.array(at_us, pa.timestamp("us", "UTC")),
        }
    )


def by_shares(
    question: TrainingRequest,
    archive: InMemoryArchive,
    knowledge: str,
    arrival: Arrival | None,
    folder: Path,
    shares: int,
) -> ScaledSet:
    """The set that Spark's job builds, in one process: rows and events are brought together by
    share, answered, and left in files."""
    folder.mkdir()
    reaches = reach_of(question, archive, knowledge)
    own = spans(reaches, question.requested, question.spine, knowledge, arrival)
    request = request_of(question, knowledge, reaches, own, arrival, shares, folder)
    answer_by_shares(request, archive, reaches)
    return set_of(request, question, reaches, arrival)


def answer_by_shares(
    request: ScaledRequest, archive: InMemoryArchive, reaches: Mapping[str, Archived]
) -> None:
    for position in range(len(request.requested)):
        left, right = shared(request, archive, reaches, position)
        for number in range(request.shares):
            own = (table.filter(pc.equal(table[SHARE], number)) for table in (left, right))
            answer_share(str(request.folder), position, number, *own)


def shared(
    request: ScaledRequest,
    archive: InMemoryArchive,
    reaches: Mapping[str, Archived],
    position: int,
) -> tuple[pa.Table, pa.Table]:
    """Rows and events of a unit with their shares."""
    unit = request.requested[position].unit
    rows = pq.read_table(request.folder / requests.SPINE)
    rows = rows.select([ROW, *request.columns(position)]).combine_chunks()
    source = DEPLOYMENT.source("plays")
    version = reaches["plays"].archive_version
    events = numbered(archive.events(source, unit.reads, *request.spans[position], version))
    names = [name for name, _ in unit.entity]
    left, right = (
        table.append_column(SHARE, shares_of(table, names, request.shares))
        for table in (rows, events)
    )
    return left, right


def numbered(events: pa.Table) -> pa.Table:
    """The events with their topic's position in place of its id."""
    position = events.column_names.index("topic_id")
    return events.set_column(position, "topic_id", pa.array([0] * len(events), pa.int32()))


def shares_of(table: pa.Table, names: list[str], shares: int) -> pa.Array:
    entities = zip(*(table[name].to_pylist() for name in names), strict=True)
    own = [crc32(repr(entity).encode()) % shares for entity in entities]
    return pa.array(own if names else [0] * len(table), pa.int64())


def present_by_shares(request: ScaledRequest, archive: InMemoryArchive) -> None:
    """The spine of a snapshot as Spark's job makes it, in one process."""
    for position in request.presenting:
        unit = request.requested[position].unit
        source = DEPLOYMENT.source("plays")
        events = numbered(archive.events(source, unit.reads, *request.spans[position], 9))
        own = shares_of(events, [name for name, _ in unit.entity], request.shares)
        for number in range(request.shares):
            some = events.filter(pc.equal(own, number))
            present_share(str(request.folder), position, number, some)
    request.write_spine(present_spine(request))


@pytest.mark.parametrize("knowledge", ["event_time", "arrival"])
@pytest.mark.parametrize("views", [("users", "listed", "everyone"), ("pairs",), ("everyone",)])
def test_a_snapshot_by_shares_is_that_of_the_whole(
    views: tuple[str, ...], knowledge: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (share, values, writing):
        monkeypatch.setattr(module, "RUN_ROWS", 5)
    refs = [ref for ref in REFS if ref.startswith(tuple(f"{view}:" for view in views))]
    archive = InMemoryArchive(DEPLOYMENT.source("plays"), [random_events(5, 300)], END)
    ats = [START + hours * HOUR for hours in (1, 3, 6)]
    arrival = None
    if knowledge == "arrival":
        ends = dict(archive.reaches("plays").offset_vector.offsets)
        arrival = replace(entries(np.random.default_rng(5), ends), known_at_us=max(ats))
    local = build_snapshot(DEPLOYMENT, archive, refs, ats, arrival=arrival)
    refs_of, requested = resolve(DEPLOYMENT, refs)
    reaches = reach(DEPLOYMENT, archive, requested, max(ats))
    own = spans_of(requested, np.array(ats))
    request = snapshot_request_of(
        DEPLOYMENT, refs_of, reaches, own, tuple(ats), 3, tmp_path, arrival
    )
    present_by_shares(request, archive)
    answer_by_shares(request, archive, reaches)
    scaled = snapshot_of(request, reaches)
    assert scaled.whole().table.equals(local.table)
    assert scaled.write(tmp_path / "a.parquet") == local.write(tmp_path / "b.parquet")
    for suffix in (".parquet", ARRIVAL_SUFFIX)[: 1 + (knowledge == "arrival")]:
        files = (beside(tmp_path / f"{one}.parquet", suffix) for one in "ab")
        assert next(files).read_bytes() == next(files).read_bytes()
    assert local.table.num_rows > 2


def entries(rng: np.random.Generator, ends: Mapping[tuple[str, int], int]) -> Arrival:
    """Knowledge by arrival: the stream comes on by some events each quarter of an hour."""
    at_us = START + np.arange(28, dtype=np.int64) * 15 * MINUTE
    offsets = {p: np.sort(rng.integers(end + 1, size=28)).tolist() for p, end in ends.items()}
    packed = [OffsetVector({p: some[i] for p, some in offsets.items()}).pack() for i in range(28)]
    return Arrival({"plays": CommittedTimes("plays", at_us, pa.array(packed, pa.large_binary()))})


def with_tokens(
    rng: np.random.Generator, rows: pa.Table, ends: Mapping[tuple[str, int], int]
) -> pa.Table:
    """The rows with tokens of all units that contain some of the events."""
    texts = []
    for at in rows["at"].cast(pa.int64()).to_pylist():
        offsets = OffsetVector({p: int(rng.integers(end + 1)) for p, end in ends.items()})
        parts = [
            tokens.encode(
                unit.storage_fingerprint,
                unit.definition_fingerprint,
                offsets,
                {},
                "live",
                {f.column: f.window.bounds("live", at, unit.slice_us) for f in unit.features},
            )
            for unit in DEPLOYMENT.units
        ]
        texts.append(tokens.join(parts))
    return rows.append_column("token", pa.array(texts))


@pytest.mark.parametrize("knowledge", ["event_time", "arrival", "token"])
@pytest.mark.parametrize("seed", [*seeds([1]), pytest.param(2, marks=pytest.mark.long)])
def test_shares_give_the_files_of_the_whole(
    seed: int, knowledge: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    for module in (share, values, writing):
        monkeypatch.setattr(module, "RUN_ROWS", 37)
    monkeypatch.setattr(share, "BATCH_ROWS", 5)
    events = random_events(seed, 400)
    archive = InMemoryArchive(DEPLOYMENT.source("plays"), [events[:200], events[200:]], END)
    ends = archive.reaches("plays").offset_vector.offsets
    rows = spine(rng, 120)
    arrival = entries(rng, ends) if knowledge == "arrival" else None
    if knowledge == "token":
        rows = with_tokens(rng, rows, ends)
    question = training_request(DEPLOYMENT, rows, REFS, knowledge)
    local = build_training_set(DEPLOYMENT, archive, rows, REFS, knowledge, arrival=arrival)
    wanted = local.to_parquet(tmp_path / "local.parquet")
    assert wanted.errors, "some values overflow"
    for shares in (1, 3):
        folder = tmp_path / str(shares)
        scaled = by_shares(question, archive, knowledge, arrival, folder, shares)
        assert scaled.whole().table.equals(local.table)
        assert scaled.whole().manifest == local.manifest
        for suffix in (".parquet", ".csv")[:shares]:
            written = scaled.write(tmp_path / f"scaled{suffix}")
            local.write(tmp_path / f"local{suffix}")
            assert written.to_json() == wanted.to_json()
            for name in (suffix, SUFFIX):
                files = (beside(tmp_path / f"{one}.parquet", name) for one in ("scaled", "local"))
                assert next(files).read_bytes() == next(files).read_bytes()


def test_a_row_that_was_not_answered_leaves_what_stood_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (share, values):
        monkeypatch.setattr(module, "RUN_ROWS", 10)
    archive = InMemoryArchive(DEPLOYMENT.source("plays"), [random_events(3, 50)], END)
    rows = spine(np.random.default_rng(3), 25)
    question = training_request(DEPLOYMENT, rows, ["users:n_3h"], "event_time")
    scaled = by_shares(question, archive, "event_time", None, tmp_path / "s", 2)
    scaled.write(tmp_path / "set.parquet")
    before = {path.name: path.read_bytes() for path in tmp_path.glob("set.*")}
    assert len(before) == 3
    (part,) = (scaled.values.request.values(0) / "2").glob("*1.arrow")
    part.unlink()
    with pytest.raises(DataLoss, match=r"every row from row 20 on once"):
        scaled.write(tmp_path / "set.parquet")
    assert {path.name: path.read_bytes() for path in tmp_path.glob("set.*")} == before
    assert not list(tmp_path.glob(".*")), "what was begun is gone"
