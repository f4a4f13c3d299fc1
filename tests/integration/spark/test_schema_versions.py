"""A source's schema changes in place, on real servers: stream, archive, compaction, backfill,
training and the reader of the emission judge each record by the schema of its offset, whichever of
them comes first.

The records before and after the offset differ in which schema takes them; what counts is told by
hand.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import DeploymentSuperseded
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.projects import joined
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.backfill import backfill
from slicewise.spark.lake.compact_run import Request, compact
from slicewise.spark.records.log_reader import LogReader
from slicewise.stores.lake.archive import load
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, ReadManifest
from slicewise.stores.recovery.schema_offsets import settled
from slicewise.windows.durations import HOUR_US
from tests.support.platform.lake import COLUMNS, Lake, expected, lake

pytestmark = pytest.mark.timeout(900)

NAME = "changed"
BEFORE = {**COLUMNS, "price": "decimal(6,2)", "note": "string"}
AFTER = {**COLUMNS, "price": "decimal(12,2)", "agent": "string"}
START = (time.time_ns() // 1000 // HOUR_US - 3) * HOUR_US


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("lake")) as running:
        yield running


def planned(schema: dict[str, str], required: Sequence[str], *, agents: bool) -> Deployment:
    source = sw.KafkaSource(
        NAME, schema=schema, timestamp="played", max_lateness="7d", required=required
    )
    plays = sw.Feature("plays", sw.count(), windows=["10m", "1d"])
    paid = sw.Feature("paid", sw.sum("price"), windows=["1d"])
    views = [
        sw.FeatureView("by_user", source=source, entity=["user_id"], features=[plays]),
        sw.FeatureView("paying", source=source, entity=["user_id"], features=[paid]),
    ]
    if agents:
        views.append(sw.FeatureView("by_agent", source=source, entity=["agent"], features=[plays]))
    return plan(Project.of("lake", views))


def event(n: int, price: str | None = None, **more: Any) -> dict[str, Any]:
    """The n-th; a price as text of a JSON number."""
    given = {} if price is None else {"price": price}
    return {
        "user_id": f"u{n % 2}",
        "song_id": "s",
        "n": n,
        "played": START + n * 60_000_000,
        **given,
        **more,
    }


# agent is no column yet
OLD_GOOD = [event(n, "1.25", note="x") for n in range(6)] + [event(6, "2.50", agent=7)]
OLD_BAD = [event(7, "12345.00"), event(8, note=5)]  # more digits than it has; another type
NEW_GOOD = [event(9, "12345.00", agent="web", note=5), event(10, "0.75", agent="app")]
# without what is required now; of another type
NEW_BAD = [event(11, "1.00"), event(12, "1.00", agent=7)]


def written(events: Sequence[dict[str, Any]]) -> list[bytes]:
    """With prices as JSON numbers that keep their digits."""
    texts = []
    for item in events:
        rest = json.dumps({name: value for name, value in item.items() if name != "price"})
        texts.append(
            (rest[:-1] + f', "price": {item["price"]}}}' if "price" in item else rest).encode()
        )
    return texts


def deployed(shared: Lake, deployment: Deployment) -> None:
    log = shared.topic(NAME)
    with shared.store() as store:
        store.run(
            Deploy(
                deployment,
                store.run(ReadMetadata()).deployment_version,
                {NAME: log.topic_id(NAME)},
                log.earliest(NAME),
            )
        )


def counted(
    shared: Lake, deployment: Deployment, view: str, events: Sequence[dict[str, Any]]
) -> None:
    (unit,) = deployment.view(view)
    wanted: Any = expected(events, [name for name, _ in unit.entity], unit.slice_us)
    if view == "paying":  # its one partial is a sum
        wanted = {entity: Counter[int]() for entity in wanted}
        for item in events:
            wanted[item["user_id"],][item["played"] // unit.slice_us] += Decimal(item["price"])
    assert shared.contents(unit, list(wanted)) == wanted


def judged(shared: Lake) -> tuple[list[int], Counter[str], list[str | None]]:
    """Offsets of good archived records over both partitions, and reasons of bad ones. Gives also
    what the good ones of the first partition hold of a column that is gone."""
    table = load(open_catalog(shared.settings), NAME)
    assert table is not None
    fields = ("kind", "partition", "offset", "reason", "note")
    rows = table.scan(selected_fields=fields).to_arrow().to_pylist()
    good = sorted((row for row in rows if row["kind"] == "good"), key=lambda row: row["offset"])
    notes = [row["note"] for row in good if row["partition"] == 0]
    return (
        [row["offset"] for row in good],
        Counter(row["reason"] for row in rows if row["kind"] == "bad"),
        notes,
    )


def test_every_engine_judges_a_record_by_the_schema_of_its_offset(shared: Lake) -> None:
    first = planned(BEFORE, ["user_id"], agents=False)
    shared.topic(NAME)
    with shared.store() as store:
        store.run(Initialise())
    deployed(shared, first)
    old = written([*OLD_GOOD, *OLD_BAD])
    shared.produce(NAME, old[:4])
    shared.apply(first, NAME)
    with shared.context() as context:
        compact(context, Request(None))
    shared.produce(NAME, old[4:])  # neither applied nor archived when the schema changes

    opening = joined(planned(AFTER, ["user_id", "agent"], agents=True), first)
    units = {unit.view: unit.storage_fingerprint for unit in first.units}
    after_units = {unit.view: unit.storage_fingerprint for unit in opening.units}
    assert units["by_user"] == after_units["by_user"]
    assert units["paying"] != after_units["paying"]
    with shared.context() as stale:  # a job that began before
        deployed(shared, opening)
        with pytest.raises(DeploymentSuperseded, match="another schema"):
            stale.archive(NAME)
    with pytest.raises(DeploymentSuperseded, match="no recorded offsets yet"):
        shared.query(opening, NAME)
    with shared.store() as store:
        text = settled(store, shared.settings.kafka_bootstrap, time.sleep).units
        now = Deployment.from_json(store.run(ReadManifest(text)) or "")
    log = KafkaLog(shared.settings.kafka_bootstrap)
    topic_id = log.topic_id(NAME)
    assert now.source(NAME).earlier[-1].until == OffsetVector({(topic_id, 0): len(old)})
    assert [dict(ends) for _, ends in now.source(NAME).judged_by(topic_id)] == [{0: len(old)}, {}]

    new = written([*NEW_GOOD, *NEW_BAD])
    shared.produce(NAME, new)
    # all beyond
    shared.produce(NAME, written([event(13, "1.00", agent="web"), event(14, "1.00")]), partition=1)
    status = shared.apply(now, NAME)
    reasons = {
        "out_of_range:price": 1,
        "wrong_type:note": 1,
        "missing_required:agent": 2,
        "wrong_type:agent": 1,
    }
    assert {reason: status.bad[reason] for reason in status.bad} == reasons
    good = [*OLD_GOOD, *NEW_GOOD, event(13, "1.00", agent="web")]
    counted(shared, now, "by_user", good)

    with shared.context() as context:
        while not backfill(context, None).more["ready"]:
            pass
        compact(context, Request(None))
        # the note of records before the offsets are kept, also of those that were archived after it
        # was removed
        notes = [*["x"] * 6, None, None, None]
        assert judged(shared) == (sorted([*range(7), 9, 10, 0]), Counter(reasons), notes)
        for view in ("by_user", "paying"):
            counted(shared, now, view, good)
        # agents of records before the offset are none, whatever they say
        counted(shared, now, "by_agent", [e for e in good if isinstance(e.get("agent"), str)])
        for hour in sorted(context.unit_table(now.view("paying")[0]).headers()):
            compact(context, Request(hour, only=True, from_raw=True))
    for view in ("by_user", "paying"):
        counted(shared, now, view, good)

    at = datetime.fromtimestamp((START + HOUR_US) / 1e6, UTC)
    spine = [{"user_id": user, "at": at + timedelta(minutes=1)} for user in ("u0", "u1")]
    refs = ["by_user:plays_1d", "paying:paid_1d"]
    rows = (
        sw.training_set(spine, refs, deployment=now, settings=shared.settings)
        .to_arrow()
        .to_pylist()
    )
    for row in rows:
        own = [e for e in good if e["user_id"] == row["user_id"]]
        assert row["by_user:plays_1d"] == len(own)
        assert row["paying:paid_1d"] == sum(Decimal(e["price"]) for e in own)

    reader = LogReader(shared.settings, now.source(NAME), topic_id, ["user_id", "agent"], {0: 0})
    try:
        verdicts: list[bool] = []
        agents: list[str | None] = []
        while len(verdicts) < len(old) + len(new):
            for frame in reader.take(100, 10.0):
                verdicts += frame.good.tolist()
                agents += frame.columns["agent"].to_pylist()
    finally:
        reader.close()
    assert [n for n, verdict in enumerate(verdicts) if verdict] == [*range(7), 9, 10]
    assert agents == [None] * 9 + ["web", "app", None, None]
