"""Events that come again, on real servers: stream, archive, compaction, backfill, training and the
check leave out the same ones, wherever in the log the two stand.

What counts is told by an account that goes through the log event by event
(tests/support/oracles/repeats.py).
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from confluent_kafka import Producer

import slicewise as sw
from slicewise.checks.model import Predicted
from slicewise.checks.recompute.queries import archived_since, viewed
from slicewise.checks.recompute.repeats import counted_once, since_us
from slicewise.checks.repeats import repeats
from slicewise.checks.run import CheckRun
from slicewise.clock import ManualClock
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import StorageUnit
from slicewise.features.schema.dedupe import EventIds
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.archive import Archiver
from slicewise.spark.lake.backfill import backfill
from slicewise.spark.lake.compact_run import Request, compact
from slicewise.spark.microbatch.streaming import plan_stream
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.training.archiving.offline import IcebergArchive
from slicewise.training.events.rows import events_of, row_logic
from slicewise.windows.durations import HOUR_US, MINUTE_US
from tests.support.oracles.repeats import USERS, Record, Sent, duplicates, history, once
from tests.support.platform.lake import COLUMNS, Lake, expected, lake

pytestmark = pytest.mark.timeout(900)

NAME = "retried"
MOST = 20
SEED = 20_261_122


@dataclass
class ByAccount:
    """Answers as the online store should, by the account."""

    deployment: Deployment
    records: Sequence[Record]
    offset_vector: OffsetVector
    now_us: int
    once: bool = True

    def read(
        self, refs: Sequence[str], entities: Sequence[Mapping[str, Any]], at_us: int | None
    ) -> list[Predicted]:
        unit, _ = self.deployment.resolve(refs[0])
        mode, at = ("live", self.now_us) if at_us is None else ("at", at_us)
        own = [self.deployment.resolve(ref)[1] for ref in refs]
        spans = {f.column: f.window.bounds(mode, at, unit.slice_us) for f in own}  # type: ignore[arg-type]
        text = tokens.encode(
            unit.storage_fingerprint,
            unit.definition_fingerprint,
            self.offset_vector,
            {},
            mode,
            spans,
        )
        counted = (
            once(self.records, [n for n, _ in unit.entity], HOUR_US, MOST)
            if self.once
            else self.records
        )
        results = []
        for entity in entities:
            events = [
                r.event
                for r in counted
                if all(r.event[name] == entity[name] for name, _ in unit.entity)
            ]
            values = {
                ref: sum(
                    spans[f.column][0] <= event["played"] < spans[f.column][1] for event in events
                )
                for ref, f in zip(refs, own, strict=True)
            }
            results.append(Predicted(values, (tokens.decode(text),), text))
        return results


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("lake")) as running:
        yield running


def produce(shared: Lake, records: Sequence[Record]) -> None:
    producer = Producer({"bootstrap.servers": shared.settings.kafka_bootstrap, "log_level": 2})
    for record in records:
        value = json.dumps(record.event).encode()
        producer.produce(
            NAME, value, partition=record.partition, timestamp=record.kafka_us // 1_000
        )
    assert producer.flush(30) == 0


def view(name: str, entity: list[str]) -> sw.FeatureView:
    source = sw.KafkaSource(
        NAME,
        schema={**COLUMNS, "event_id": "string"},
        timestamp="played",
        max_lateness="7d",
        dedupe=sw.dedupe("event_id", within="1h", most=MOST),
    )
    return sw.FeatureView(
        name,
        source=source,
        entity=entity,
        features=[sw.Feature("plays", sw.count(), windows=["10m", "1d"])],
    )


def check(shared: Lake, unit: StorageUnit, records: Sequence[Record]) -> None:
    """The store holds the events that count, each once, and no other."""
    entity = [name for name, _ in unit.entity]
    counted = once(records, entity, HOUR_US, MOST)
    assert len(counted) < len(records) * 0.9, (
        "a history in which hardly anything comes again proves nothing"
    )
    wanted = expected([entry.event for entry in counted], entity, unit.slice_us)
    assert shared.contents(unit, list(wanted)) == wanted


def test_every_engine_leaves_out_the_same_events(
    shared: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_hour = time.time_ns() // 1000 // HOUR_US
    records = history(random.Random(SEED), (now_hour - 6) * HOUR_US, 480)
    first, second, third, fourth = records[:160], records[:280], records[:380], records
    shared.topic(NAME)
    deployment = shared.deploy(view("by_user", ["user_id"]))
    (unit,) = deployment.units

    # what comes again in one batch, in the next one, and after its hour was compacted
    produce(shared, first[:70])
    shared.apply(deployment, NAME)
    produce(shared, first[70:])
    status = shared.apply(deployment, NAME)
    check(shared, unit, first)
    assert sum(reasons["duplicate"] for reasons in status.left_out.values()) > 0
    with shared.context() as context:
        assert compact(context, Request(None)).left_over == 0
    check(shared, unit, first)
    produce(shared, second[len(first) :])
    shared.apply(deployment, NAME)
    check(shared, unit, second)
    with shared.context() as context:
        compact(context, Request(None))
        check(shared, unit, second)
        hours = sorted(context.unit_table(unit).headers())
        before = rows_of(context, unit, hours)
        with monkeypatch.context() as many:  # as if they were: combined by several tasks
            many.setattr("slicewise.spark.lake.compaction._DRIVER_EVENTS", -1)
            for hour in hours[1:3]:
                compact(context, Request(hour, only=True, from_raw=True))
        assert rows_of(context, unit, hours).equals(before)

    # the archive runs ahead of a stream that is down
    produce(shared, third[len(second) :])
    with shared.context() as context:
        compact(context, Request(None))
    check(shared, unit, third)

    # a view that begins here knows what came before it: its stream begins earlier than the
    # committed offsets
    shared.apply(deployment, NAME)
    deployment = shared.deploy(
        view("by_user", ["user_id"]), view("by_song", ["song_id", "user_id"])
    )
    (late,) = deployment.view("by_song")
    with shared.store() as store:
        metadata = store.run(ReadMetadata())
        planned = plan_stream(
            deployment, deployment.source(NAME), metadata, KafkaLog(shared.settings.kafka_bootstrap)
        )
        assert all(
            0 < planned.start[p] < metadata.committed.get((planned.topic_id, p)) for p in (0, 1)
        )
    produce(shared, fourth[len(third) :])
    shared.apply(deployment, NAME)
    with shared.context() as context:
        while not backfill(context, "by_song").more["ready"]:
            pass  # what straddles the archive's offset vector waits for the next archive
    check(shared, unit, fourth)
    check(shared, late, fourth)
    with shared.context() as context:
        compact(context, Request(None))
    check(shared, unit, fourth)
    check(shared, late, fourth)

    # training, and the check's SQL, over the archive
    source = deployment.source(NAME)
    span = (now_hour - 4) * HOUR_US, (now_hour - 2) * HOUR_US
    with shared.context() as context:
        archive = IcebergArchive(context.catalog, shared.settings.kafka_bootstrap, shared.clock)
        archive_version = archive.reaches(NAME).archive_version
        table = f"{shared.settings.catalog_name}.log.`{NAME}`"
        for tested in (unit, late):
            requested = [
                r
                for r in once(fourth, [n for n, _ in tested.entity], HOUR_US, MOST)
                if span[0] <= r.event["played"] < span[1]
            ]
            kept, refused = row_logic(
                tested, events_of(archive, source, tested, *span, archive_version), span
            )
            assert sorted(kept["event_time"].to_pylist()) == sorted(
                r.event["played"] for r in requested
            )
            assert refused["duplicate"] > 0
            assert tested.dedupe is not None
            events = archived_since(table, source, since_us(source, tested.dedupe, span[0]))
            text = counted_once(tested, tested.dedupe, viewed(tested, source, events), *span)
            by_sql = [row.t for row in shared.session.sql(f"SELECT t FROM ({text})").collect()]
            assert sorted(by_sql) == sorted(r.event["played"] for r in requested)
        assert source.dedupe is not None
        expected = repeats(shared.session, table, source, source.dedupe, shared.clock.now_us())
        reader = ByAccount(
            deployment, fourth, archive.reaches(NAME).offset_vector, shared.clock.now_us()
        )
        run = CheckRun(
            shared.session, deployment, reader, lambda _: reader.offset_vector, lambda _: table, ManualClock(reader.now_us),
            "run-1", 5, modes=("live",),
        )  # fmt: skip
        outcome = run.execute()
        assert len(outcome.compared) >= 2 * len(USERS)
        assert outcome.wrong() == ()
        assert replace(outcome.repeats[0], events=0) == replace(expected, events=0)
        reader.once = False
        assert run.execute(["by_user"]).wrong() != ()
    assert expected.events == len(fourth)
    assert (expected.repeated, expected.conflicts) == by_partition(fourth)
    assert expected.across > 5
    view_of = f"{shared.settings.catalog_name}.ops.duplicates_{NAME}"
    rows = shared.session.sql(
        f"SELECT reason, count(*) AS n FROM {view_of} GROUP BY reason"
    ).collect()
    assert {row.reason: row.n for row in rows} == {
        "duplicate": expected.repeated,
        "conflict": expected.conflicts,
    }

    # a rule that is no more leaves no view
    produce(shared, fourth[:1])
    with shared.context() as context:
        ruleless = replace(source, dedupe=None)
        Archiver(shared.session, shared.settings, context.catalog, ruleless, shared.clock).run()
    assert not shared.session.catalog.tableExists(view_of)


def test_the_checks_sql_says_what_the_rule_says_also_of_times_that_step_far_back(
    shared: Lake,
) -> None:
    rng = random.Random(SEED)
    deployment = plan(Project.of("p", [view("v", ["user_id"])]))
    source, unit = deployment.source(NAME), deployment.units[0]
    rows: list[tuple[Any, ...]] = []
    sent: list[Sent] = []
    for i in range(40):
        clock = 10**15
        for offset in range(40):
            clock += rng.choice((0, 1, 10, 40)) * MINUTE_US
            kafka_us = clock + rng.choice((0, 0, 0, 0, -20, -60, -61, -300, 240)) * MINUTE_US
            before = [s.event_id for s in sent if s.group == i][-12:]
            event_id = rng.choice([None, f"e{offset}", f"e{offset}", *before])
            sent.append(Sent(i, event_id, kafka_us))
            rows.append(("t", 0, offset, 1, offset, kafka_us, f"user {i}", event_id))
    names = (
        "topic_id string, p int, o long, seq long, t long, kafka_t long, c_user_id string, "
        "c_event_id string"
    )
    shared.session.createDataFrame(rows, names).createOrReplaceTempView("retried_rows")
    rule = EventIds("event_id", HOUR_US, 6)
    text = counted_once(unit, rule, viewed(unit, source, "SELECT * FROM retried_rows"), 0, 10**18)
    results = {
        (row.e_user_id, row.o)
        for row in shared.session.sql(f"SELECT e_user_id, o FROM ({text})").collect()
    }
    again = duplicates(sent, rule.within_us, rule.most)
    assert sum(again) > 100
    assert results == {
        (row[6], row[2]) for row, double in zip(rows, again, strict=True) if not double
    }


def by_partition(records: Sequence[Record]) -> tuple[int, int]:
    """Counts records with the id of the one before them in their partition, within the look-back
    time: the same, and others."""
    latest: dict[tuple[int, str], Record] = {}
    same = other = 0
    for record in records:
        name = record.event["event_id"]
        if name is None:
            continue
        before = latest.get((record.partition, name))
        if before is not None and record.kafka_us - before.kafka_us <= HOUR_US:
            same, other = (same + 1, other) if before.event == record.event else (same, other + 1)
        latest[record.partition, name] = record
    assert other > 0
    return same, other


def rows_of(context: Any, unit: StorageUnit, hours: Sequence[int]) -> Any:
    from slicewise.stores.lake.slices import scan_slices

    table = context.unit_table(unit).table
    table.refresh()
    order = [(name, "ascending") for name in ("hour", "slice", *(name for name, _ in unit.entity))]
    return scan_slices(table, list(hours)).sort_by(order)
