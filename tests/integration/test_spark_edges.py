"""What is gone is never passed over in silence: snapshots that data sets name, covers by time, holes of the log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import slicewise as sw
from slicewise.cover import Cover
from slicewise.slices import HOUR_US
from slicewise.spark import maintain_run
from slicewise.spark.compact_run import Request, compact
from slicewise.spark.maintain_run import Maintenance
from slicewise.stores.iceberg.log import load
from slicewise.stores.iceberg.records import records
from slicewise.stores.iceberg.schemas import LEDGER
from slicewise.training.dataset import build_training_set, rebuild
from slicewise.training.offline import IcebergArchive, Offline
from tests.support.lake import Lake, lake

pytestmark = [
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.timeout(600),
    # py4j and librdkafka leave sockets to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

USERS = ("ada", "bob", "eve")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("edges")) as running:
        yield running


def over(hours_ago: int) -> int:
    """Start of an hour that is over."""
    return (time.time_ns() // 1000 // HOUR_US - hours_ago) * HOUR_US


def events(start_us: int, count: int) -> list[dict[str, Any]]:
    return [
        {"user_id": USERS[i % 3], "song_id": f"s{i % 5}", "n": i, "played": start_us + i * 17_000_000}
        for i in range(count)
    ]


def view(shared: Lake, name: str) -> sw.FeatureView:
    features = [sw.Feature("plays", sw.count(), windows=["1h"])]
    return sw.FeatureView(f"{name}_by_user", source=shared.source(name), entity=["user_id"], features=features)


def test_a_data_set_is_built_again_after_maintenance_and_its_snapshot_stays(
    shared: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.topic("kept")
    shared.deploy(view(shared, "kept"))
    monkeypatch.setattr(maintain_run, "KEEP_SNAPSHOTS", 1)
    with shared.context() as context:
        shared.produce("kept", events(over(3), 60))
        context.archive("kept")
        archive = IcebergArchive(context.catalog, shared.settings.kafka_bootstrap, shared.clock)
        spine = [{"user_id": user, "at": over(2)} for user in USERS]
        built = build_training_set(context.deployment, archive, spine, ["kept_by_user:plays_1h"], "event_time")
        assert [row["kept_by_user:plays_1h"] for row in built.to_arrow().to_pylist()] == [20, 20, 20]
        Offline(context.deployment, archive, shared.clock).record(built.manifest, "kept")
        named = built.manifest.archived()["kept"].snapshot_id
        others = []
        for _ in range(3):
            shared.produce("kept", events(over(3), 30))
            others.append(context.archive("kept").state.snapshot_id)

        report = Maintenance(shared.session, shared.settings, context.catalog, shared.clock, keep_days=0).run()
        table = load(context.catalog, "kept")
        assert table is not None
        left = {each.snapshot_id for each in table.snapshots()}
        assert named in left
        assert others[0] not in left, "what nothing names goes"
        assert next(each for each in report["tables"] if each["table"] == "log.kept")["held"] == 1
        log = f"{shared.settings.catalog_name}.log.kept"
        text = f"SELECT count(*) AS n FROM {log} VERSION AS OF {named} WHERE kind = 'good'"
        seen = shared.session.sql(text).collect()
        assert seen[0].n == 60, "and it can be read"
        again = rebuild(archive, built.manifest, spine, "test")
        assert again.to_arrow().equals(built.to_arrow())


def test_the_ledger_is_recorded_by_time_and_a_rerun_records_nothing(shared: Lake) -> None:
    shared.topic("timed")
    shared.topic("other")
    deployment = shared.deploy(view(shared, "timed"), view(shared, "other"))
    topic = shared.topic("timed").topic_id("timed")

    def rows() -> list[dict[str, Any]]:
        with shared.context() as context:
            found = [row for row in records(context.catalog, LEDGER) if row["source"] == "timed"]
        return sorted(found, key=lambda row: row["time"])

    def run() -> None:
        with shared.context() as context:
            compact(context, Request(over(3) // HOUR_US))

    run()
    shared.produce("timed", events(over(3), 30), partition=1)
    run()  # archived, not applied: the ledger stands where it stood
    assert [Cover.unpack(row["cover"]).get((topic, 1)) for row in rows()] == [0]
    shared.fold(deployment, "timed")
    run()
    run()
    found = rows()
    assert [Cover.unpack(row["cover"]).get((topic, 1)) for row in found] == [0, 30]
    assert {place[0] for row in found for place in Cover.unpack(row["cover"])} <= {topic}, "no other source's places"
    with shared.store() as store:
        marks = store.marks()
    assert {(row["epoch"], row["generation"]) for row in found} == {(marks.epoch, marks.generation)}
