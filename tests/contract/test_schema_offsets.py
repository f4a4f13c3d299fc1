"""A schema's offset is recorded once, by whoever is first, and nobody planned before it goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, cast

import pytest

import slicewise as sw
from slicewise.errors import DeploymentSuperseded
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.projects import joined
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.committed import AdvanceCommitted, BeginBatch
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, ReadManifest
from slicewise.stores.online.store import Store
from slicewise.stores.recovery import schema_offsets as versions
from slicewise.stores.recovery.schema_offsets import LEASE_S, record_schema_offsets, settled
from tests.support.stores.stored import TOPIC, offset_vector

OTHER = "e" * 32


class Log:
    """A log that ends where the test says."""

    def __init__(self, end: OffsetVector) -> None:
        self.end = end

    def check_topic(self, topic: str, topic_id: str) -> None:
        assert (topic, topic_id) == ("plays", TOPIC)

    def latest(self, topic: str) -> OffsetVector:
        assert topic == "plays"
        return self.end.join(OffsetVector({(OTHER, 0): 99}))


def log(*offsets: int) -> KafkaLog:
    return cast(KafkaLog, Log(offset_vector(*offsets)))


def planned(**more: str) -> Deployment:
    schema = {"user": "string", "at_us": "timestamp_us", **more}
    source = sw.KafkaSource("plays", schema=schema, timestamp="at_us", max_lateness="1h")
    features = [sw.Feature("n", sw.count(), windows=["10m"])]
    return plan(
        Project.of("p", [sw.FeatureView("v", source=source, entity=["user"], features=features)])
    )


@pytest.fixture
def store(connect: Callable[[], Store]) -> Store:
    """With a source deployed, and applied up to 5."""
    made, first = connect(), planned()
    made.run(Initialise())
    made.run(Deploy(first, 0, {"plays": TOPIC}, offset_vector()))
    metadata = made.run(ReadMetadata())
    made.run(
        AdvanceCommitted(
            offset_vector(), offset_vector(5), metadata.deployment_version, metadata.units
        )
    )
    return made


def opened(store: Store) -> tuple[Deployment, StoreMetadata]:
    """With another schema of it deployed."""
    opening = joined(planned(agent="string"), deployed(store))
    return opening, store.run(
        Deploy(opening, store.run(ReadMetadata()).deployment_version, {"plays": TOPIC})
    )


def deployed(store: Store) -> Deployment:
    return Deployment.from_json(store.run(ReadManifest(store.run(ReadMetadata()).units)) or "")


def topic_partition_of(store: Store) -> OffsetVector | None:
    (version,) = deployed(store).source("plays").earlier
    return version.until


def test_the_offsets_are_the_logs_end_and_nothing_else_of_the_metadata_moves(store: Store) -> None:
    before = store.run(ReadMetadata())
    deployment, metadata = opened(store)
    assert topic_partition_of(store) is None
    after = record_schema_offsets(store, log(9, 3), deployment, metadata)
    assert topic_partition_of(store) == offset_vector(9, 3), "of its topic alone"
    assert after.deployment_version == before.deployment_version + 2
    for name in ("committed", "starts", "ready", "builds", "aliases", "topics", "lost_offsets"):
        assert getattr(after, name) == getattr(before, name), name


def test_of_two_who_record_it_the_second_changes_nothing(store: Store) -> None:
    deployment, metadata = opened(store)
    record_schema_offsets(store, log(9), deployment, metadata)
    with pytest.raises(DeploymentSuperseded):
        record_schema_offsets(store, log(12), deployment, metadata)
    assert topic_partition_of(store) == offset_vector(9)


def test_a_batch_that_was_planned_before_is_refused_before_its_first_row(store: Store) -> None:
    old = store.run(ReadMetadata())
    deployment, opening = opened(store)
    for metadata in (old, opening):
        if metadata is opening:
            record_schema_offsets(store, log(9), deployment, opening)
        with pytest.raises(DeploymentSuperseded):
            store.run(BeginBatch(offset_vector(5), metadata.deployment_version, metadata.units))
    now = store.run(ReadMetadata())
    store.run(BeginBatch(offset_vector(5), now.deployment_version, now.units))


def test_who_needs_offsets_waits_as_long_as_somebody_may_still_judge_and_records_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(store)
    ends, waited = [9], list[float]()

    def pause(seconds: float) -> None:
        waited.append(seconds)
        ends[0] = 11  # what came meanwhile lies below the offset

    monkeypatch.setattr(versions, "KafkaLog", lambda _: nullcontext(log(*ends)))
    metadata = settled(store, "kafka", pause)
    assert (waited, topic_partition_of(store), metadata) == (
        [LEASE_S],
        offset_vector(11),
        store.run(ReadMetadata()),
    )
    assert settled(store, "kafka", pause) == metadata
    assert waited == [LEASE_S], "there is nothing to wait for any more"


def test_offsets_that_somebody_recorded_meanwhile_stand(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, metadata = opened(store)

    def pause(_: float) -> Any:
        record_schema_offsets(store, log(9), deployment, metadata)

    monkeypatch.setattr(versions, "KafkaLog", lambda _: nullcontext(log(12)))
    assert settled(store, "kafka", pause) == store.run(ReadMetadata())
    assert topic_partition_of(store) == offset_vector(9)
