"""Builds of views on real servers: a backfill and a rebuild hold each event once, whatever ran when
and how often."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import redis

import slicewise as sw
from slicewise.cli import rebuilding
from slicewise.errors import DataLoss, DeploymentSuperseded, UnknownName
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.projects import joined, promoted
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import StorageUnit
from slicewise.lifecycle.jobs import hour_text
from slicewise.lifecycle.sweep import rules_of, verdict
from slicewise.spark.lake import unit_build
from slicewise.spark.lake.backfill import backfill
from slicewise.spark.lake.compact_run import Request, compact
from slicewise.spark.lake.compaction import UnitTable
from slicewise.stores.lake import slices
from slicewise.stores.lake.catalog import Catalog
from slicewise.stores.lake.slices import Header
from slicewise.stores.online.model import phases
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.publish_days import ReadHours
from slicewise.stores.online.operations.status import PutStatus, ReadStatus
from slicewise.stores.online.port import Operation
from slicewise.stores.online.redis import sweep as store_sweep
from slicewise.windows.durations import DAY_US, HOUR_US
from tests.support.platform.lake import Lake, lake
from tests.support.platform.lake_plays import (
    MINUTE_US,
    by_song,
    by_user,
    check,
    events,
    over,
    unit_of,
)

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("lake")) as running:
        yield running


def test_a_backfill_builds_a_new_unit_from_exactly_what_lies_below_its_start(shared: Lake) -> None:
    shared.topic("filled")
    first = by_user(shared, "filled")
    deployment = shared.deploy(first)
    now = time.time_ns() // 1000
    days_ago = events(over(50), 9, 1000)
    # the open hour too
    old = days_ago + events(over(4), 200, 30_000_000) + events(now - 5 * MINUTE_US, 12, 1000)
    shared.produce("filled", old)
    shared.apply(deployment, "filled")
    second = by_song(shared, "filled")
    deployment = shared.deploy(first, second)
    unit = unit_of(deployment, "filled_by_song")
    with shared.store() as store:
        metadata = store.run(ReadMetadata())
        assert unit.storage_fingerprint not in metadata.ready
        assert sum(metadata.starts[unit.storage_fingerprint].offsets.values()) == len(old)
    new = events(over(4), 40, 30_000_000)
    shared.produce("filled", new)
    shared.apply(deployment, "filled")
    phase_texts: list[str] = []
    with shared.context() as context, pytest.MonkeyPatch.context() as patched:
        run = context.store.run

        def noted(operation: Operation[Any]) -> Any:
            result = run(operation)
            if not isinstance(operation, PutStatus) or operation.part != phases.PART:
                return result
            phase = phases.phases_of(run(ReadStatus(phases.PART))).get(unit.storage_fingerprint)
            phase_texts.extend([phase.text] if phase is not None else [])
            return result

        patched.setattr(context.store, "run", noted)
        report = backfill(context, "filled_by_song")
        assert phases.phases_of(context.store.run(ReadStatus(phases.PART))) == {}, "it is over"
    hours = f"hours 1 to {len(report.hours)} of {len(report.hours)}"
    assert phase_texts == [
        "the archive takes in what the log of source filled holds",
        f"Spark computes {hours}",
        f"{hours} are written to the store",
        "totals of days are written to the store",
    ]
    assert report.more["ready"] is True
    assert {hour["seq"] for hour in report.hours} == {0}
    ended = {event["played"] // DAY_US for event in old} - {now // DAY_US}
    totals = {day["day"]: day["totals"] for day in report.days}
    assert sorted(totals) == [hour_text(day * 24)[:10] for day in sorted(ended)], (
        "a first read finds every total"
    )
    assert totals[min(totals)] == len({(event["song_id"], event["user_id"]) for event in days_ago})
    check(shared, unit, old + new)
    with shared.store() as store:
        assert unit.storage_fingerprint in store.run(ReadMetadata()).ready
    with shared.context() as context:
        compact(context, Request(over(4) // HOUR_US))
    check(shared, unit, old + new)
    with shared.context() as context:
        assert backfill(context, "filled_by_song").hours == []


def test_a_version_is_built_to_the_bytes_of_a_view_that_stood_from_the_start(shared: Lake) -> None:
    shared.topic("versioned")

    def later(name: str) -> sw.FeatureView:
        return replace(by_user(shared, "versioned"), name=name, where="n >= 10")

    live = by_user(shared, "versioned")
    stands = shared.deploy(live, later("versioned_twin"))
    old = events(over(50), 30, 1000) + events(over(4), 200, 30_000_000)
    shared.produce("versioned", old)
    shared.apply(stands, "versioned")
    views = [later("versioned_by_user"), later("versioned_twin")]
    after = shared.deploy_planned(joined(plan(Project.of("lake", views)), stands))
    version, twin = (unit_of(after, f"versioned_{name}") for name in ("by_user@2", "twin"))
    assert unit_of(after, "versioned_by_user") == unit_of(stands, "versioned_by_user")
    new = events(over(4), 40, 30_000_000)
    shared.produce("versioned", new)
    shared.apply(after, "versioned")
    with shared.context() as context:
        report = backfill(context, "versioned_by_user@2")
    assert report.more["ready"] is True
    (built,) = report.built
    assert built["events"] == len(old + new), "archived events of the hours that were computed"
    sent = [event for event in old + new if event["n"] >= 10]

    def checked(deployment: Deployment, live_name: str, version_name: str) -> None:
        check(shared, unit_of(deployment, live_name), old + new)
        check(shared, unit_of(deployment, version_name), sent)
        check(shared, twin, sent)

    checked(after, "versioned_by_user", "versioned_by_user@2")
    with shared.context() as context:
        for hours_ago in (50, 4, 3):
            compact(context, Request(over(hours_ago) // HOUR_US))
        rows = [_stored(context.catalog, unit) for unit in (version, twin)]
    assert rows[0] == rows[1]
    assert rows[0]
    checked(after, "versioned_by_user", "versioned_by_user@2")
    moved = shared.deploy_planned(promoted(after, "versioned_by_user@2"))
    with shared.store() as store:
        assert version.storage_fingerprint in store.run(ReadMetadata()).ready
    checked(moved, "versioned_by_user@1", "versioned_by_user")


def _stored(catalog: Catalog, unit: StorageUnit) -> list[str]:
    """All compacted rows of a unit, partials as they are stored."""
    table = slices.load(catalog, unit.storage_fingerprint)
    assert table is not None
    rows = slices.scan_slices(table, sorted(slices.headers(table)))
    return sorted(map(repr, rows.to_pylist()))


def test_a_view_that_comes_back_begins_anew_and_holds_each_event_once(shared: Lake) -> None:
    # Its first build leaves all that can be left: running partials, an hour published at an
    # archive's archive version, rows in Iceberg, and a writer that began before it was left out.
    shared.topic("returned")
    first, second = by_user(shared, "returned"), by_song(shared, "returned")
    deployment = shared.deploy(first, second)
    unit = unit_of(deployment, "returned_by_song")
    name = unit.storage_fingerprint
    compacted, running = events(over(3), 60, 30_000_000), events(over(2), 20, 30_000_000)
    shared.produce("returned", compacted)
    shared.apply(deployment, "returned")
    with shared.context() as context:
        assert compact(context, Request(over(3) // HOUR_US)).left_over == 0
    shared.produce("returned", running)
    shared.apply(deployment, "returned")
    check(shared, unit, compacted + running)

    with shared.context() as zombie:
        before = zombie.store.run(ReadMetadata())
        without = shared.deploy(first)
        away = events(over(3), 30, 40_000_000) + events(over(1), 30, 40_000_000)
        shared.produce("returned", away)
        shared.apply(without, "returned")
        deployment = shared.deploy(first, second)
        with shared.store() as store:
            metadata = store.run(ReadMetadata())
            assert name not in metadata.ready
            assert metadata.name(name) != before.name(name)
            total = len(compacted + running + away)
            assert sum(metadata.starts[name].offsets.values()) == total
        later = events(over(3), 12, 50_000_000)
        shared.produce("returned", later)
        shared.apply(deployment, "returned")
        with pytest.raises(DeploymentSuperseded):
            compact(zombie, Request(over(3) // HOUR_US))

    with shared.context() as context:
        while not backfill(context, "returned_by_song").more["ready"]:
            pass  # what straddles the archive's offset vector waits for the next archive
    sent = compacted + running + away + later
    check(shared, unit, sent)
    with shared.context() as context:
        compact(context, Request(over(3) // HOUR_US))
    check(shared, unit, sent)
    with closing(redis.Redis.from_url(shared.settings.redis_url)) as client:
        old = [
            key
            for key in client.scan_iter(match="sw:*")
            if before.name(name).encode() in key.split(b":")
        ]
        assert old, "what the first build left"
        deployed_now = store_sweep.deployed(shared.settings.redis_url)
        assert deployed_now is not None
        rules = rules_of(deployed_now.metadata, deployed_now.manifest)
        counts = store_sweep.sweep(
            shared.settings.redis_url,
            deployed_now,
            lambda key, at, now, fields: verdict(key, at, now, rules, fields),
        )
        assert counts["retired"] >= len(old)
        assert client.exists(*old) == 0
    check(shared, unit, sent)


def test_a_view_that_is_built_again_takes_compacted_rows_as_they_are_and_goes_on_where_it_was_stopped(
    shared: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.topic("renewed")
    deployment = shared.deploy(by_user(shared, "renewed"))
    (unit,) = deployment.units
    old, late = (
        events(over(30), 60, 30_000_000) + events(over(3), 60, 30_000_000),
        events(over(3), 20, 40_000_000),
    )
    shared.produce("renewed", old)
    shared.apply(deployment, "renewed")
    with shared.context() as context:
        compact(context, Request(None))
        before = context.unit_table(unit).headers()
    # beyond the offset vector of the hour, and below the start offsets of what is built again
    shared.produce("renewed", late)
    shared.apply(deployment, "renewed")
    with pytest.raises(UnknownName, match="renewed_by_usr"):
        rebuilding.plans(shared.settings, "renewed_by_usr")
    (planned,) = rebuilding.plans(shared.settings, "renewed_by_user")
    assert (planned.ready, planned.hours) == (True, 2)
    assert (planned.rows, planned.bytes) > (0, 0)
    assert rebuilding.begin(shared.settings, [planned]) == ["renewed_by_user"]
    (begun,) = rebuilding.plans(shared.settings, None)
    assert begun.unit == planned.unit
    assert not begun.ready
    assert rebuilding.begin(shared.settings, [begun]) == [], "what was begun goes on"
    shared.produce("renewed", later := events(over(3), 9, 50_000_000))
    shared.apply(deployment, "renewed")

    published: list[int] = []
    honest = UnitTable.publish

    def dies(
        self: UnitTable, hours: Mapping[int, Header], silent: frozenset[int], share: float
    ) -> Any:
        if published:
            raise DataLoss("the job died here")
        published.extend(hours)
        return honest(self, hours, silent, share)

    monkeypatch.setattr(unit_build, "TOGETHER", 1)
    monkeypatch.setattr(UnitTable, "publish", dies)
    with shared.context() as context, pytest.raises(DataLoss, match="died here"):
        backfill(context, None)
    monkeypatch.setattr(UnitTable, "publish", honest)
    with shared.context() as context:
        report = backfill(context, "renewed_by_user")
        assert report.more["ready"]
        headers = context.unit_table(unit).headers()
        done = context.store.run(ReadHours(unit))
    assert published == [over(30) // HOUR_US], "what stands goes before what is computed"
    assert [hour["hour"] for hour in report.hours] == [hour_text(over(3) // HOUR_US)], (
        "the other was done"
    )
    assert headers[over(30) // HOUR_US] == before[over(30) // HOUR_US], (
        "nothing is written of what holds all"
    )
    assert headers[over(3) // HOUR_US].archive_version == 0
    assert done == {hour: header.archive_version for hour, header in headers.items()}
    check(shared, unit, [*old, *late, *later])
    with shared.context() as context:
        again_clean = compact(context, Request(None))
        assert [hour["hour"] for hour in again_clean.hours] == [hour_text(over(3) // HOUR_US)], (
            "what came later"
        )
    check(shared, unit, [*old, *late, *later])
