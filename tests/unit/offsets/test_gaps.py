"""A loss is accepted against the archive that was looked at, kept once, and never taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from slicewise.cli import gaps as local
from slicewise.clock import ManualClock
from slicewise.errors import CommitConflict, DataLoss
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import Source
from slicewise.local import deploy
from slicewise.offsets.gaps import AcceptedGap, from_json, joined, to_json
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.stores.lake import gaps as archive
from slicewise.stores.lake.archive import archive_state, load
from slicewise.stores.lake.catalog import Catalog, open_catalog, tables
from slicewise.stores.lake.records import append
from slicewise.stores.lake.schemas import LOG, OFFSET_VECTOR, log_table
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.status import PutStatus, ReadStatus, publish_gaps
from slicewise.stores.online.port import OnlineStore

TOPIC = "a" * 32
TOPIC_PARTITION = (TOPIC, 0)
NOW = 1_700_000_000_000_000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"SLICEWISE_STATE": str(tmp_path / "state")})


@pytest.fixture
def catalog(settings: Settings) -> Catalog:
    return open_catalog(settings)


@pytest.fixture
def store() -> OnlineStore:
    opened = open_memory(MemoryServer(ManualClock(NOW)))
    opened.run(Initialise())
    return opened


def deployment() -> Deployment:
    source = sw.KafkaSource(
        "plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t", max_lateness="1h"
    )
    features = [sw.Feature("n", sw.count(), windows=["10s"])]
    return plan(
        Project.of("p", [sw.FeatureView("v", source=source, entity=["user"], features=features)])
    )


def source() -> Source:
    return deployment().sources[0]


def accepted_gap(first: int, end: int, at_us: int = NOW) -> AcceptedGap:
    return AcceptedGap("plays", TOPIC, 0, first, end, 0, NOW, "ada", "a disk", at_us)


def offset_vectors(catalog: Catalog, archive_version: int, offset: int) -> None:
    """An archive's commit, as far as offset vectors go."""
    row = {
        "archive_seq": archive_version,
        "archive_time": NOW,
        "kind": OFFSET_VECTOR,
        "topic_id": TOPIC,
        "partition": 0,
        "offset": offset,
    }
    append(catalog, log_table(source()), [row])


def loaded(catalog: Catalog) -> Any:
    table = load(catalog, "plays")
    assert table is not None
    return table


def test_a_loss_that_was_looked_at_before_another_archive_is_not_accepted(catalog: Catalog) -> None:
    offset_vectors(catalog, 1, 10)
    looked_at = loaded(catalog)
    state = archive_state(looked_at)
    offset_vectors(catalog, 2, 25)
    with pytest.raises(CommitConflict, match="another archive came first"):
        archive.accept(
            catalog, looked_at, state, [accepted_gap(10, 20)], OffsetVector({TOPIC_PARTITION: 20})
        )
    after = loaded(catalog)
    assert (archive_state(after).archive_version, archive_state(after).offset_vector) == (
        2,
        OffsetVector({TOPIC_PARTITION: 25}),
    )
    assert archive.accepted(after) == ()


def test_of_two_that_accept_what_they_saw_at_one_snapshot_the_later_fails(catalog: Catalog) -> None:
    offset_vectors(catalog, 1, 10)
    one, other = loaded(catalog), loaded(catalog)
    states = archive_state(one), archive_state(other)
    assert (
        archive.accept(
            catalog, one, states[0], [accepted_gap(10, 20)], OffsetVector({TOPIC_PARTITION: 20})
        )
        == 2
    )
    with pytest.raises(CommitConflict):
        archive.accept(
            catalog, other, states[1], [accepted_gap(10, 30)], OffsetVector({TOPIC_PARTITION: 30})
        )
    assert archive.accepted(loaded(catalog)) == (accepted_gap(10, 20),)
    assert archive_state(loaded(catalog)).offset_vector == OffsetVector({TOPIC_PARTITION: 20})
    properties = loaded(catalog).properties
    assert properties["commit.retry.num-retries"] == "20", (
        "the table's own writers try again as before"
    )


def test_a_table_loaded_after_its_state_is_no_base_to_accept_on(catalog: Catalog) -> None:
    offset_vectors(catalog, 1, 10)
    state = archive_state(loaded(catalog))
    offset_vectors(catalog, 2, 25)
    with pytest.raises(CommitConflict):
        archive.accept(
            catalog,
            loaded(catalog),
            state,
            [accepted_gap(10, 20)],
            OffsetVector({TOPIC_PARTITION: 20}),
        )


def test_an_archive_with_two_offset_vectors_is_refused(catalog: Catalog) -> None:
    offset_vectors(catalog, 1, 10)
    offset_vectors(catalog, 2, 20)
    offset_vectors(catalog, 2, 20)
    assert archive_state(loaded(catalog)).offset_vector == OffsetVector({TOPIC_PARTITION: 20})
    offset_vectors(catalog, 2, 25)
    with pytest.raises(DataLoss, match="archive 2 has two offset vectors"):
        archive_state(loaded(catalog))


def test_what_readers_are_told_of_losses_only_grows(store: OnlineStore) -> None:
    older, newer = accepted_gap(10, 20), accepted_gap(30, 40, NOW + 1)

    def published() -> tuple[AcceptedGap, ...]:
        return from_json(store.run(ReadStatus("holes:plays")) or "[]", "test")

    publish_gaps(store, "plays", [])
    assert store.run(ReadStatus("holes:plays")) is None
    publish_gaps(store, "plays", [older, newer])
    publish_gaps(store, "plays", [older])  # a run that was paused since it read the archive
    assert published() == (older, newer)
    store.run(PutStatus("holes:plays", "torn"))
    publish_gaps(store, "plays", [older])
    assert published() == (older,), "the archive is where accepted gaps are kept"
    store.run(PutStatus("holes:plays", "torn"))
    publish_gaps(store, "plays", [])
    assert published() == ()
    assert joined([newer, older], [older]) == (older, newer)


class Log:
    """A topic whose first 20 of 30 records are gone."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def earliest(self, _topic: str) -> OffsetVector:
        return OffsetVector({TOPIC_PARTITION: 20})

    def latest(self, _topic: str) -> OffsetVector:
        return OffsetVector({TOPIC_PARTITION: 30})


@pytest.fixture
def platform(settings: Settings, store: OnlineStore, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A deployed view over a topic that was never archived, and that has lost its beginning."""

    @contextmanager
    def connected(_settings: Settings) -> Iterator[OnlineStore]:
        yield store

    def first_times_us(_log: Log, _topic: str) -> dict[int, int]:
        return {0: NOW}

    store.run(
        Deploy(
            deployment(),
            store.run(ReadMetadata()).deployment_version,
            {"plays": TOPIC},
            OffsetVector(),
        )
    )
    for name in ("connected", "looked_at"):
        monkeypatch.setattr(deploy, name, connected)
    monkeypatch.setattr(local, "KafkaLog", Log)
    monkeypatch.setattr(local, "first_times_us", first_times_us)
    return settings


def test_to_look_at_a_loss_makes_no_table(platform: Settings, catalog: Catalog) -> None:
    [shown] = local.plans(platform, ManualClock(NOW))
    assert [(lost.first, lost.end) for lost in shown.loss.missing] == [(0, 20)]
    assert tables(catalog) == []


def test_a_loss_may_come_before_the_first_archive(
    platform: Settings, catalog: Catalog, store: OnlineStore
) -> None:
    [shown], [late] = (local.plans(platform, ManualClock(NOW)) for _ in range(2))
    assert local.accept(platform, ManualClock(NOW), shown, "ada", "a disk") == 1
    assert archive_state(loaded(catalog)).offset_vector == OffsetVector({TOPIC_PARTITION: 20})
    assert store.run(ReadStatus("holes:plays")) == to_json(archive.accepted(loaded(catalog)))
    with pytest.raises(CommitConflict):
        local.accept(platform, ManualClock(NOW), late, "bob", "the same disk")
    assert (LOG, "plays") in tables(catalog)
