"""A data set holds what brute force over the archived events gives, and is built again to the same
bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slicewise as sw
from slicewise.errors import BadRequest, DataLoss, UnknownName
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.offsets import token as tokens
from slicewise.offsets.gaps import AcceptedGap
from slicewise.offsets.vector import OffsetVector
from slicewise.training.answering import local
from slicewise.training.dataset import build_snapshot, build_training_set, rebuild
from slicewise.training.manifest import Manifest
from slicewise.training.snapshots import instants
from slicewise.training.tables.instants import as_timestamps
from tests.support.inputs.seeds import seeds
from tests.support.oracles.answers import HOUR, MINUTE, OracleEvent, contained, inside
from tests.unit.training.world import (
    AGGREGATES,
    START,
    TOPIC,
    InMemoryArchive,
    expected,
    oracle_events,
    random_events,
    same,
    view,
)

WINDOWS = ("10m", "3h")
END = START + 7 * HOUR


def _deployment() -> Deployment:
    users = view(["user"], WINDOWS, name="users")
    everyone = view([], WINDOWS, name="everyone")
    churn = sw.FeatureSet(
        "churn", features=["users:n_10m", "everyone:n_3h", "users:mean_minutes_3h"]
    )
    return plan(
        Project.of("test", [users, everyone, view(["device"], WINDOWS, name="devices"), churn])
    )


DEPLOYMENT = _deployment()
REFS = [f"{v}:{name}_{w}" for v in ("users", "everyone") for name in AGGREGATES for w in WINDOWS]


def _archive(seed: int, n: int = 500) -> tuple[list[dict[str, Any]], InMemoryArchive]:
    events = random_events(seed, n)
    return events, InMemoryArchive(
        DEPLOYMENT.source("plays"), [events[: n // 2], events[n // 2 :]], END
    )


def _own(raw: Sequence[OracleEvent], ref: str, row: Mapping[str, Any]) -> list[OracleEvent]:
    return [e for e in raw if ref.startswith("everyone:") or e.columns["user"] == row["user"]]


def _name(ref: str) -> tuple[str, str]:
    name, _, window = ref.partition(":")[2].rpartition("_")
    return name, window


@pytest.mark.parametrize("seed", seeds([1, 2]))
def test_a_training_set_by_event_time_is_brute_force(seed: int) -> None:
    events, archive = _archive(seed)
    raw = oracle_events(events)
    rng = np.random.default_rng(seed)
    spine: list[dict[str, Any]] = [
        {
            "user": ["ann", "bob", "nobody"][i % 3],
            "at": START + int(rng.integers(6 * HOUR)),
            "label": i,
        }
        for i in range(30)
    ]
    # a row twice, and one at several instants
    spine += [spine[0], {**spine[0], "at": spine[0]["at"] + 1}]
    built = build_training_set(DEPLOYMENT, archive, pa.Table.from_pylist(spine), REFS, "event_time")
    assert built.table.column_names == ["user", "at", "label", *REFS]
    for given, row in zip(spine, built.table.to_pylist(), strict=True):
        assert (row["user"], row["label"]) == (given["user"], given["label"])
        for ref in REFS:
            name, window = _name(ref)
            length = 10 * MINUTE if window == "10m" else 3 * HOUR
            start = (given["at"] - length) // MINUTE * MINUTE
            wanted = expected(name, inside(_own(raw, ref, given), start, given["at"]), given["at"])
            assert same(row[ref], wanted), (seed, ref, given, row[ref], wanted)


def _tokens(
    rng: np.random.Generator, archive: InMemoryArchive, at: int
) -> tuple[str, dict[str, Any]]:
    """A joined token of both units with random offset vectors and hours compacted beyond, and its
    parts."""
    whole = archive.reaches("plays").offset_vector
    base = {(TOPIC, p): int(rng.integers(whole.get((TOPIC, p)) + 1)) for p in range(3)}
    compacted_beyond = {
        (START // HOUR) + int(h): {
            (TOPIC, p): int(rng.integers(whole.get((TOPIC, p)) + 1)) for p in range(3)
        }
        for h in rng.choice(6, 2, replace=False)
    }
    texts: list[str] = []
    intervals: dict[str, tuple[int, int]] = {}
    for name in ("users", "everyone"):
        (unit,) = DEPLOYMENT.view(name)
        own = {f.column: f.window.bounds("live", at, unit.slice_us) for f in unit.features}
        intervals |= {f"{name}:{column}": interval for column, interval in own.items()}
        offset_vectors = {hour: OffsetVector(offsets) for hour, offsets in compacted_beyond.items()}
        texts.append(
            tokens.encode(
                unit.storage_fingerprint,
                unit.definition_fingerprint,
                OffsetVector(base),
                offset_vectors,
                "live",
                own,
            )
        )
    return tokens.join(texts), {"base": base, "ahead": compacted_beyond, "bounds": intervals}


@pytest.mark.parametrize(
    ("seed", "at_once"), [(3, 20_000), pytest.param(4, 5, marks=pytest.mark.long)]
)
def test_a_training_set_by_token_holds_exactly_what_the_tokens_hold(
    seed: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "EVENTS_AT_ONCE", at_once)
    monkeypatch.setattr(local, "ITEMS_AT_ONCE", 200)
    events, archive = _archive(seed)
    raw = oracle_events(events)
    rng = np.random.default_rng(seed)
    spine, parts = [], []
    for i in range(25):
        at = START + int(rng.integers(6 * HOUR))
        text, part = _tokens(rng, archive, at)
        spine.append(
            {
                "user": ["ann", "bob", "nobody"][i % 3],
                "at": as_timestamps(np.array([at]))[0],
                "token": text,
            }
        )
        parts.append(part)
    built = build_training_set(DEPLOYMENT, archive, spine, REFS, "token")
    some_left_out = 0
    for given, part, row in zip(spine, parts, built.table.to_pylist(), strict=True):
        in_token = contained(raw, part["base"], part["ahead"])
        some_left_out += len(raw) - len(in_token)
        for ref in REFS:
            start, end = part["bounds"][ref]
            wanted = expected(_name(ref)[0], inside(_own(in_token, ref, given), start, end), end)
            assert same(row[ref], wanted), (seed, ref, row[ref], wanted)
    assert some_left_out > 0


def test_a_token_beyond_the_archive_is_refused_and_says_from_when() -> None:
    events, archive = _archive(5)
    text, _ = _tokens(np.random.default_rng(5), archive, START + HOUR)
    first = tokens.decode_all(text)[0]
    beyond = OffsetVector({(TOPIC, 0): archive.reaches("plays").offset_vector.get((TOPIC, 0)) + 1})
    text = tokens.encode(first.unit, first.definition, beyond, {}, "live", first.bounds)
    with pytest.raises(BadRequest, match=r"(?s)beyond the archive of 'plays'.*2026-01-01T07:00:00"):
        build_training_set(
            DEPLOYMENT,
            archive,
            [{"user": "ann", "at": START, "token": text}],
            ["users:n_10m"],
            "token",
        )
    assert events


def test_an_instant_after_the_archive_is_refused() -> None:
    with pytest.raises(BadRequest, match="later than the archive of 'plays'"):
        build_training_set(
            DEPLOYMENT,
            _archive(6)[1],
            [{"user": "ann", "at": END + 1}],
            ["users:n_10m"],
            "event_time",
        )


def test_a_quiet_source_is_complete_when_its_log_holds_nothing_more() -> None:
    _, archive = _archive(6)
    archive.log_ends_us = END + 5 * HOUR
    spine = [{"user": "ann", "at": END + HOUR}]
    built = build_training_set(DEPLOYMENT, archive, spine, ["users:n_10m"], "event_time")
    assert built.table["users:n_10m"].to_pylist() == [0]
    assert built.manifest.sources["plays"]["until_us"] == END + 5 * HOUR


@pytest.mark.parametrize("knowledge", ["event_time", "snapshot"])
def test_a_data_set_is_rebuilt_to_the_same_bytes_after_more_was_archived(
    tmp_path: Path, knowledge: str
) -> None:
    events, archive = _archive(7)
    path = tmp_path / "churn.parquet"
    if knowledge == "snapshot":
        built = build_snapshot(DEPLOYMENT, archive, REFS, [START + HOUR, START + 2 * HOUR])
    else:
        spine = [{"user": "ann", "at": START + i * 17 * MINUTE} for i in range(20)]
        built = build_training_set(DEPLOYMENT, archive, spine, REFS, "event_time")
    built.to_parquet(path)
    # An event that came late: it lies in windows of the data set, and is archived afterwards.
    late = [{**events[0], "user": "ann", "offset": 10_000, "played_at": START + 50 * MINUTE}]
    later = InMemoryArchive(DEPLOYMENT.source("plays"), [events[:250], events[250:], late], END)
    manifest = Manifest.read(tmp_path / "churn.manifest.json")
    spine_path = tmp_path / "churn.spine.parquet"
    again = rebuild(later, manifest, spine_path if spine_path.exists() else None, "churn")
    again.to_parquet(tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == path.read_bytes()
    assert (tmp_path / "again.manifest.json").read_bytes() == (
        tmp_path / "churn.manifest.json"
    ).read_bytes()
    if knowledge == "event_time":
        now = build_training_set(DEPLOYMENT, later, spine, REFS, "event_time")
        assert now.table != built.table  # else the late event proves nothing


def test_rows_whose_windows_touch_lost_events_are_counted_in_the_manifest_and_rebuilt_with_it(
    tmp_path: Path,
) -> None:
    _, archive = _archive(9)
    spine = [{"user": "ann", "at": START + HOUR + i * 5 * MINUTE} for i in range(6)]
    whole = build_training_set(DEPLOYMENT, archive, spine, ["users:n_10m"], "event_time")
    assert "incomplete" not in whole.manifest.to_json()
    lost = (START + HOUR + 2 * MINUTE, START + HOUR + 4 * MINUTE)
    archive.accepted_gaps = (AcceptedGap("plays", TOPIC, 0, 3, 7, *lost, "ada", "a disk", END),)
    built = build_training_set(
        DEPLOYMENT, archive, spine, ["users:n_10m", "users:n_3h"], "event_time"
    )
    # [at - 10m, at) holds minute 2 to 4 for at = +5m, +10m; from +15m on it begins later; 3 h hold
    # it from +5m on
    assert dict(built.manifest.incomplete) == {"users:n_10m": 2, "users:n_3h": 5}
    manifest = built.to_parquet(tmp_path / "a.parquet")
    again = rebuild(archive, Manifest.read(tmp_path / "a.manifest.json"), spine, "a")
    assert again.to_parquet(tmp_path / "b.parquet") == manifest
    snapshot = build_snapshot(
        DEPLOYMENT, archive, ["users:n_10m"], [START + HOUR, START + HOUR + 5 * MINUTE]
    )
    later = [row for row in snapshot.to_arrow().to_pylist() if row["at"].minute == 5]
    assert dict(snapshot.manifest.incomplete) == {"users:n_10m": len(later)}


def test_a_rebuild_of_another_spine_or_archive_is_refused(tmp_path: Path) -> None:
    _, archive = _archive(8)
    spine = [{"user": "ann", "at": START + HOUR}]
    manifest = build_training_set(DEPLOYMENT, archive, spine, REFS, "event_time").to_parquet(
        tmp_path / "a.parquet"
    )
    with pytest.raises(BadRequest, match="the spine is not the one"):
        rebuild(archive, manifest, [{"user": "bob", "at": START + HOUR}], "a")
    with pytest.raises(DataLoss, match="the same bytes"):
        rebuild(InMemoryArchive(DEPLOYMENT.source("plays"), [[]], END), manifest, spine, "a")
    with pytest.raises(BadRequest, match="no manifest"):
        Manifest.from_json(json.dumps({"format": 9}), "a")


def test_a_snapshot_has_every_entity_with_an_event_in_some_window() -> None:
    events, archive = _archive(9, 60)
    raw = oracle_events(events)
    ats = list(instants(START + HOUR, START + 6 * HOUR, HOUR))
    refs = ["users:n_10m", "users:seconds_3h", "everyone:n_3h"]
    rows = build_snapshot(DEPLOYMENT, archive, refs, ats).table
    wanted = []
    for at in ats:
        for user in sorted({e.columns["user"] for e in raw}):
            own = [e for e in raw if e.columns["user"] == user]
            in_window = inside(own, (at - 3 * HOUR) // MINUTE * MINUTE, at)
            if in_window:
                short = inside(own, (at - 10 * MINUTE) // MINUTE * MINUTE, at)
                wanted.append((user, at, len(short), expected("seconds", in_window, at)))
    at_us = rows["at"].cast(pa.int64()).to_pylist()
    actual = list(
        zip(
            rows["user"].to_pylist(),
            at_us,
            rows[refs[0]].to_pylist(),
            rows[refs[1]].to_pylist(),
            strict=True,
        )
    )
    assert actual == wanted
    assert len(set(at_us)) == 5


def test_a_snapshot_of_a_global_view_has_one_row_per_instant() -> None:
    rows = build_snapshot(
        DEPLOYMENT, _archive(10)[1], ["everyone:n_3h"], [START + HOUR, START + 2 * HOUR]
    ).table
    assert rows.column_names == ["at", "everyone:n_3h"]
    assert rows.num_rows == 2


def test_a_snapshot_over_two_entity_keys_is_refused() -> None:
    with pytest.raises(BadRequest, match="views of different entities: device, user"):
        build_snapshot(DEPLOYMENT, _archive(11)[1], ["users:n_10m", "devices:n_10m"], [START])


def test_a_feature_set_is_answered_in_its_order() -> None:
    built = build_training_set(
        DEPLOYMENT, _archive(12)[1], [{"user": "ann", "at": START}], "churn", "event_time"
    )
    assert built.table.column_names[2:] == list(DEPLOYMENT.feature_set("churn").features)


def test_a_pandas_spine_with_aware_instants_and_nullable_results() -> None:
    frame = pd.DataFrame(
        {
            "user": ["ann", "nobody"],
            "at": pd.to_datetime([START, START + HOUR], unit="us", utc=True),
        }
    )
    built = build_training_set(
        DEPLOYMENT, _archive(13)[1], frame, ["users:stars_10m"], "event_time"
    ).to_pandas()
    assert str(built["users:stars_10m"].dtype) == "Int64"


@pytest.mark.parametrize(
    ("spine", "features", "knowledge", "message"),
    [
        ([{"user": "a", "at": START}], "churn", "hindsight", "knowledge 'hindsight'"),
        ([{"user": "a", "at": START}], [], "event_time", "no features"),
        ([{"user": "a", "at": START}], ["users:n_10m"] * 2, "event_time", "stand twice"),
        ([{"user": "a", "at": START}], "churn", "token", "no tokens"),
        ([{"user": "a", "at": START, "token": "x"}], "churn", "token", "not a token|cut or changed"),
        ([{"user": "a", "at": None}, {"user": "a", "at": START}], "churn", "event_time", "null"),
        (pd.DataFrame({"user": ["a"], "at": pd.to_datetime(["2026-01-01"])}), "churn", "event_time", "no time zone"),
        ([{"user": "a", "at": START, "users:n_10m": 1}], "churn", "event_time", "already"),
        ("nowhere.parquet", "churn", "event_time", "cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(
    spine: Any, features: Any, knowledge: str, message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        build_training_set(DEPLOYMENT, _archive(14)[1], spine, features, knowledge)


def test_an_unknown_feature_names_the_near_ones() -> None:
    with pytest.raises(UnknownName, match="users"):
        build_training_set(
            DEPLOYMENT, _archive(15)[1], [{"user": "a", "at": START}], ["usrs:n_10m"], "event_time"
        )


def test_only_what_the_windows_reach_is_read() -> None:
    _, archive = _archive(16)
    build_training_set(
        DEPLOYMENT, archive, [{"user": "a", "at": START + 3 * HOUR}], ["users:n_10m"], "event_time"
    )
    assert archive.reads == [(START + 3 * HOUR - 10 * MINUTE, START + 3 * HOUR)]


def test_written_parquet_reads_back(tmp_path: Path) -> None:
    built = build_training_set(
        DEPLOYMENT, _archive(17)[1], [{"user": "ann", "at": START + HOUR}], REFS, "event_time"
    )
    built.to_parquet(tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == built.table.to_pylist()
