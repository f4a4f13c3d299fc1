"""A schema's place is recorded once, by whoever is first, and nobody planned before it goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, cast

import pytest

import slicewise as sw
from slicewise.errors import EpochSuperseded
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.projects import joined
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.committed import AdvanceCommitted, BeginBatch
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, ReadManifest
from slicewise.stores.online.store import Store
from slicewise.stores.recovery import schema_places as versions
from slicewise.stores.recovery.schema_places import LEASE_S, record_places, settled
from tests.support.stores.stored import TOPIC, cover

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
    return cast(KafkaLog, Log(cover(*offsets)))


def planned(**more: str) -> Deployment:
    schema = {"user": "string", "at_us": "timestamp_us", **more}
    source = sw.KafkaSource("plays", schema=schema, timestamp="at_us", max_lateness="1h")
    features = [sw.Feature("n", sw.count(), windows=["10m"])]
    return plan(Project.of("p", [sw.FeatureView("v", source=source, entity=["user"], features=features)]))


@pytest.fixture
def store(connect: Callable[[], Store]) -> Store:
    """With a source deployed, and folded up to 5."""
    made, first = connect(), planned()
    made.run(Initialise())
    made.run(Deploy(first, 0, {"plays": TOPIC}, cover()))
    marks = made.run(ReadMetadata())
    made.run(AdvanceCommitted(cover(), cover(5), marks.epoch, marks.units))
    return made


def opened(store: Store) -> tuple[Deployment, StoreMetadata]:
    """With another schema of it deployed."""
    opening = joined(planned(agent="string"), standing(store))
    return opening, store.run(Deploy(opening, store.run(ReadMetadata()).epoch, {"plays": TOPIC}))


def standing(store: Store) -> Deployment:
    return Deployment.from_json(store.run(ReadManifest(store.run(ReadMetadata()).units)) or "")


def place_of(store: Store) -> OffsetVector | None:
    (version,) = standing(store).source("plays").earlier
    return version.until


def test_the_place_is_the_logs_end_and_nothing_else_of_the_marks_moves(store: Store) -> None:
    before = store.run(ReadMetadata())
    deployment, marks = opened(store)
    assert place_of(store) is None
    after = record_places(store, log(9, 3), deployment, marks)
    assert place_of(store) == cover(9, 3), "of its topic alone"
    assert after.epoch == before.epoch + 2
    for name in ("ledger", "starts", "ready", "terms", "aliases", "topics", "known"):
        assert getattr(after, name) == getattr(before, name), name


def test_of_two_who_record_it_the_second_changes_nothing(store: Store) -> None:
    deployment, marks = opened(store)
    record_places(store, log(9), deployment, marks)
    with pytest.raises(EpochSuperseded):
        record_places(store, log(12), deployment, marks)
    assert place_of(store) == cover(9)


def test_a_batch_that_was_planned_before_is_refused_before_its_first_row(store: Store) -> None:
    old = store.run(ReadMetadata())
    deployment, opening = opened(store)
    for marks in (old, opening):
        if marks is opening:
            record_places(store, log(9), deployment, opening)
        with pytest.raises(EpochSuperseded):
            store.run(BeginBatch(cover(5), marks.epoch, marks.units))
    now = store.run(ReadMetadata())
    store.run(BeginBatch(cover(5), now.epoch, now.units))


def test_who_needs_a_place_waits_as_long_as_somebody_may_still_judge_and_records_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(store)
    ends, waited = [9], list[float]()

    def pause(seconds: float) -> None:
        waited.append(seconds)
        ends[0] = 11  # what came meanwhile lies below the place

    monkeypatch.setattr(versions, "KafkaLog", lambda _: nullcontext(log(*ends)))
    marks = settled(store, "kafka", pause)
    assert (waited, place_of(store), marks) == ([LEASE_S], cover(11), store.run(ReadMetadata()))
    assert settled(store, "kafka", pause) == marks
    assert waited == [LEASE_S], "there is nothing to wait for any more"


def test_a_place_that_somebody_recorded_meanwhile_stands(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment, marks = opened(store)

    def pause(_: float) -> Any:
        record_places(store, log(9), deployment, marks)

    monkeypatch.setattr(versions, "KafkaLog", lambda _: nullcontext(log(12)))
    assert settled(store, "kafka", pause) == store.run(ReadMetadata())
    assert place_of(store) == cover(9)
