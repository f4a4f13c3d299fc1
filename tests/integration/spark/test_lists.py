"""Event lists on real servers: the stream and the backfill bring the same events, and every answer
is brute force's."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import redis

import slicewise as sw
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import ListUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.event_list import ListMerged, merge_list, plan_list
from slicewise.reading.exchange import ListShape, ReadShape, Stored
from slicewise.spark.lake.backfill import backfill
from slicewise.spark.lake.compact_run import Request, compact
from slicewise.spark.runtime.status_sinks import Metrics
from slicewise.stores.online import keys
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.reading import Read, TagRead
from tests.support.platform.lake import Lake, lake

pytestmark = pytest.mark.timeout(900)
SEED = 20_261_121
USERS = ("ada", "bob", "eve")
WINDOWS: list[sw.Window | str] = [
    sw.exact_range("20m"),
    sw.exact_range("90m", closed="left"),
    sw.rows(5),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("lake")) as running:
        yield running


def made(count: int, seed: int) -> list[dict[str, Any]]:
    """Plays of the last two hours, in no order of time, many at the same instant."""
    print(f"seed {seed}")
    chance, now = random.Random(seed), time.time_ns() // 1_000
    return [
        {
            "user_id": chance.choice(USERS),
            "song_id": chance.choice(["a", "b", None]),
            "n": chance.choice([None, chance.randrange(-100, 100)]),
            "played": now
            - chance.choice([chance.randrange(7_200_000_000), 60_000_000 * chance.randrange(120)]),
        }
        for _ in range(count)
    ]


def view_of(
    name: str, source: sw.KafkaSource, windows: Sequence[sw.Window | str] = WINDOWS, **more: Any
) -> sw.FeatureView:
    features = [
        sw.Feature("n", sw.sum("n"), windows),
        sw.Feature("songs", sw.last_k("song_id", k=3), windows),
    ]
    return sw.FeatureView(
        name, source=source, entity=more.pop("entity", ["user_id"]), features=features, **more
    )


def listed(deployment: Deployment, view: str) -> ListUnit:
    return next(unit for unit in deployment.view(view) if isinstance(unit, ListUnit))


def answered(shared: Lake, unit: ListUnit, at: int) -> dict[str, dict[str, Any]]:
    """User -> column -> value, as serving merges it."""
    planned = plan_list(unit, unit.features, "at", at)
    users: Sequence[str] = USERS if unit.entity else ("",)
    with shared.store() as store:
        metadata = store.run(ReadMetadata())
        assert unit.storage_fingerprint in metadata.ready
        shape = ReadShape(
            store.store_id, (ListShape(metadata.name(unit.storage_fingerprint), planned.ranges),)
        )
        partitions: Sequence[int | None] = (
            sorted(p for _, p in metadata.topic_partitions) if unit.per_partition else [None]
        )
        values = [list(users)] if unit.entity else []
        targets = [
            (i, p, tag)
            for p in dict.fromkeys(partitions)
            for i, tag in enumerate(keys.entity_tags(unit.entity, values, p, len(users)))
        ]
        reply = store.run(Read([TagRead(shape, tag) for _, _, tag in targets]))
    stored = [
        Stored(i, p, units[0].hot, units[0].days)
        for (i, p, _), units in zip(targets, reply.entities, strict=True)
    ]
    merged: ListMerged = merge_list(planned, stored, len(users), reply.only.metadata.committed)
    assert not merged.short
    results: dict[str, dict[str, Any]] = {user: {} for user in users}
    for i, feature in enumerate(unit.features):
        finished, where = merged.column(i)
        for user, value in zip(users, finished.values.to_pylist()[where], strict=True):
            results[user][feature.column] = value
    return results


def brute(log: Sequence[Sequence[Mapping[str, Any]]], at: int, user: str | None) -> dict[str, Any]:
    """log: per partition its events in offset order."""
    rows = sorted(
        (e["played"], p, o, e)
        for p, part in enumerate(log)
        for o, e in enumerate(part)
        if e["played"] <= at and user in (None, e["user_id"])
        for e in [_Row(e)]
    )
    events = [(t, e) for t, _, _, e in rows]
    minutes = 60_000_000
    chosen = {
        "exact_20m": [e for t, e in events if t >= at - 20 * minutes],
        "exact_90m_left": [e for t, e in events if at - 90 * minutes <= t < at],
        "rows_5": [e for _, e in events][-5:],
    }
    results: dict[str, Any] = {}
    for name, some in chosen.items():
        numbers = [e["n"] for e in some if e["n"] is not None]
        results[f"n_{name}"] = sum(numbers) if numbers else None
        results[f"songs_{name}"] = [e["song_id"] for e in some if e["song_id"] is not None][
            :-4:-1
        ] or None
    return results


class _Row(dict[str, Any]):
    """An event that sorts by what stands before it."""

    def __lt__(self, other: object) -> bool:
        raise AssertionError("two events of one identity")


def check(shared: Lake, unit: ListUnit, log: Sequence[Sequence[Mapping[str, Any]]]) -> int:
    now, compared = time.time_ns() // 1_000, 0
    edge = log[0][len(log[0]) // 2]["played"]  # the very instant of an event, and beside it
    for at in (now, edge, edge - 1, edge + 20 * 60_000_000, edge + 20 * 60_000_000 + 1):
        if at > now:
            continue
        for user, values in answered(shared, unit, at).items():
            assert values == brute(log, at, user or None), (user, at)
            compared += len(values)
    return compared


def test_stream_backfill_and_rebuild_answer_alike(shared: Lake) -> None:
    source = shared.source("lists")
    first = view_of("first", source)
    sharing = sw.FeatureView(
        "sharing", source=source, entity=["user_id"],
        features=[sw.Feature("best", sw.argmax("song_id", by="n"), [sw.exact_range("5m")])],
    )  # fmt: skip
    everyone = view_of("everyone", source, entity=[])
    deployment = shared.deploy(first, sharing, everyone)
    assert (
        listed(deployment, "first").storage_fingerprint
        == listed(deployment, "sharing").storage_fingerprint
    )
    log = [made(400, SEED), made(300, SEED + 1)]
    for partition in (0, 1):
        shared.produce("lists", log[partition][:200], partition)
    status = shared.apply(deployment, "lists")
    assert status.records == 400
    for partition in (0, 1):
        shared.produce("lists", log[partition][200:], partition)
    shared.apply(deployment, "lists")
    compared = check(shared, listed(deployment, "first"), log) + check(
        shared, listed(deployment, "everyone"), log
    )
    print(f"{compared} values after the stream")
    with redis.Redis.from_url(shared.settings.redis_url) as client:
        names = sorted(key.decode() for key in client.scan_iter("*") if client.type(key) == b"zset")
        assert len(names) == 3 + 2, (
            "one list per user for two views, and the global one's per partition"
        )

    # a view of other columns comes later: all of it lies below its start offsets, and the archive
    # brings it
    later = view_of("later", source, where="n IS NOT NULL AND n >= -1000")
    rows = view_of(
        "by_rows",
        source,
        [sw.rows(5), sw.exact_range("20m"), sw.exact_range("90m", closed="left")],
        where="true",
    )
    deployment = shared.deploy(first, sharing, everyone, later, rows)
    with shared.context() as context:
        report = backfill(context, None).to_json()
    assert report["ready"]
    print({storage_unit["view"]: storage_unit["events"] for storage_unit in report["units"]})
    assert (
        sum(
            storage_unit["events"]
            for storage_unit in report["units"]
            if storage_unit["view"] == "by_rows"
        )
        == 700
    )
    check(shared, listed(deployment, "by_rows"), log)
    with_entities = [
        [e if e["n"] is not None else {**e, "user_id": "-"} for e in part] for part in log
    ]
    check(shared, listed(deployment, "later"), with_entities)

    # more events; a compaction run leaves lists alone; a second backfill adds nothing
    more = [made(50, SEED + 2), made(50, SEED + 3)]
    for partition in (0, 1):
        shared.produce("lists", more[partition], partition)
        log[partition] += more[partition]
    shared.apply(deployment, "lists")
    with shared.context() as context:
        compact(context, Request(None))
        assert backfill(context, None).to_json()["units"] == []
    for view in ("first", "by_rows", "everyone"):
        check(shared, listed(deployment, view), log)

    # a longer window: the list of both views is built again, from the archive, under another name
    longer = view_of("longer", source, [sw.exact_range("3h")])
    with_longer = shared.deploy(first, sharing, everyone, later, rows, longer)
    unit = listed(with_longer, "first")
    with shared.store() as store:
        metadata = store.run(ReadMetadata())
        assert unit.storage_fingerprint not in metadata.ready
        assert metadata.starts[unit.storage_fingerprint] == OffsetVector(
            {
                topic_partition: len(log[topic_partition[1]])
                for topic_partition in metadata.starts[unit.storage_fingerprint]
            }
        )
    with shared.context() as context:
        assert backfill(context, None).to_json()["ready"]
    check(shared, unit, log)


def test_an_entity_beyond_its_capacity_is_counted_and_refused(shared: Lake) -> None:
    source = shared.source("full")
    view = view_of("full", source, [sw.exact_range("20m"), sw.rows(5)], capacity=10)
    deployment = shared.deploy(view)
    now = time.time_ns() // 1_000
    shared.produce(
        "full",
        [{"user_id": "ada", "song_id": "a", "n": i, "played": now - 1000 + i} for i in range(25)],
    )
    status = shared.apply(deployment, "full")
    unit = listed(deployment, "full")
    assert status.left_out[unit.storage_fingerprint]["over_capacity"] == 15
    metrics = Metrics()
    metrics.show(status)
    assert any(
        sample.name == "slicewise_stream_rows_left_out_total"
        and sample.labels["reason"] == "over_capacity"
        for metric in metrics.registry.collect()
        for sample in metric.samples
    )
    planned = plan_list(unit, unit.features, "at", time.time_ns() // 1_000)
    with shared.store() as store:
        name = store.run(ReadMetadata()).name(unit.storage_fingerprint)
        shape = ReadShape(store.store_id, (ListShape(name, planned.ranges),))
        reply = store.run(Read([TagRead(shape, keys.entity_tags(unit.entity, [["ada"]])[0])]))
    (result,) = reply.entities[0]
    merged = merge_list(
        planned, [Stored(0, None, result.hot, result.days)], 1, reply.only.metadata.committed
    )
    assert {(short.span, short.low_us) for short in merged.short} == {(0, now - 1000 + 14)}
