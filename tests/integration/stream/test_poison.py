"""k hostile records give k quarantined rows with their reasons; all else is exact, among the
pending events, applied and compacted.

The whole catalogue, among good records, through Kafka, both streams, the archive and compaction, on
real servers.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from confluent_kafka import Producer

from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import ListUnit
from slicewise.local import deploy
from slicewise.local.servers import stream
from slicewise.stores.lake.archive import load, scan_events
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online import keys
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.status import ReadStatus
from tests.e2e.compare import Count, compare
from tests.support.inputs import hostile
from tests.support.oracles.answers import HOUR, OracleEvent
from tests.support.platform.stack import Stack, stack_of

pytestmark = pytest.mark.timeout(600)

SEED = 20261122
TOPIC, PARTITIONS = "plays", 2
LARGEST = 32 << 20
WINDOW = 6 * HOUR
EXPIRING = re.compile(rb"sw:\d+:\{(?!0\}).*:(?:hot|day:\d{8})", re.DOTALL)
"""Keys of entities but event lists: the last rows of an entity stand for ever."""
TIME = "happened"
"""The catalogue's time as a column: a definition may not name one as its records do."""
SCHEMA = {
    TIME if name == hostile.TIMESTAMP else name: kind for name, kind in hostile.SCHEMA.items()
}
DEFINITIONS = f"""
import slicewise as sw

plays = sw.KafkaSource(
    "{TOPIC}",
    schema={ {**SCHEMA, "song": "string"}!r},
    timestamp="{TIME}",
    paths={ {TIME: f"$.{hostile.TIMESTAMP}"}!r},
    max_lateness="10s",
    max_ahead="5s",
    required={hostile.REQUIRED!r},
    allow_nan={hostile.ALLOW_NAN!r},
)
by_user = sw.FeatureView(
    "by_user",
    source=plays,
    entity=["user_id"],
    features=[
        sw.Feature("plays", sw.count(), windows=["6h", sw.rows(2)]),
        sw.Feature("n", sw.sum("n"), windows=["6h"]),
        sw.Feature("x", sw.sum("x"), windows=["6h"]),
        sw.Feature("most", sw.max("x"), windows=["6h"]),
        sw.Feature("songs", sw.count_by("song", max_categories=100), windows=["6h"]),
    ],
)
by_both = sw.FeatureView(
    "by_both",
    source=plays,
    entity=["user_id", "song"],
    features=[sw.Feature("plays", sw.count(), windows=["6h"])],
)
everyone = sw.FeatureView(
    "everyone",
    source=plays,
    entity=[],
    features=[
        sw.Feature("plays", sw.count(), windows=["6h"]),
        sw.Feature("by_user", sw.count_by("user_id", max_categories=500), windows=["6h"]),
    ],
)
"""
SPLICES = (",", ":", "%", ";p=", "},{", "\x00", "\r\n", "*", ",song:string:", ",user_id:string:")
"""Texts that may stand between two columns of a key somewhere."""


def pairs(now_us: int) -> list[hostile.Record]:
    """Keys of two columns that become one text where they are joined by what stands in them."""
    made = []
    for splice in SPLICES:
        for user, song in (
            (f"a{splice}b", "c"),
            ("a", f"b{splice}c"),
            ("a", f"{splice}b{splice}c"),
            ("a", "b"),
        ):
            columns = {"user_id": user, "song": song}
            made.append(
                hostile.Record(
                    f"{user!r} and {song!r}", hostile.event(now_us, **columns), None, columns
                )
            )
    return made


class Sent:
    """Records that were produced: one of its own for each (partition, offset)."""

    def __init__(self, records: Sequence[hostile.Record], topic_id: str) -> None:
        self.at: dict[tuple[int, int], hostile.Record] = {}
        for number, record in enumerate(records):
            self.at[number % PARTITIONS, number // PARTITIONS] = record
        self.topic_id = topic_id

    def produce(self, bootstrap: str, time_ms: int, first: int, end: int | None = None) -> None:
        """Produces those of the offsets from `first` up to `end`."""
        failed: list[object] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failed.append(error)

        producer = Producer(
            {"bootstrap.servers": bootstrap, "message.max.bytes": LARGEST, "linger.ms": 5}
        )
        for (partition, offset), record in self.at.items():
            if first <= offset and (end is None or offset < end):
                producer.produce(
                    TOPIC,
                    record.value,
                    partition=partition,
                    timestamp=time_ms,
                    on_delivery=delivered,
                )
                producer.poll(0)
        assert producer.flush(120) == 0
        assert not failed, failed

    def bad(self) -> dict[tuple[int, int], tuple[str, bytes | None]]:
        named = {
            at: (record.reason or "").replace(f":{hostile.TIMESTAMP}", f":{TIME}")
            for at, record in self.at.items()
        }
        return {at: (reason, self.at[at].value) for at, reason in named.items() if reason}

    def events(self) -> list[OracleEvent]:
        """The good ones, read by Python's own reader of JSON."""
        events = []
        for (partition, offset), record in self.at.items():
            if record.reason is None:
                assert record.value is not None
                columns = as_meant(json.loads(record.value))
                events.append(
                    OracleEvent(
                        columns[hostile.TIMESTAMP], self.topic_id, partition, offset, columns
                    )
                )
        return events


def as_meant(record: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a good record; amount: what the comparison asks of every event."""
    columns = {"amount": None, "song": None, **dict.fromkeys(hostile.SCHEMA), **record}
    for name in ("x", "y"):
        if columns[name] is not None:
            columns[name] = float(columns[name]) + 0.0  # minus zero is zero
    return columns


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Stack]:
    with stack_of(DEFINITIONS, tmp_path, {"SLICEWISE_REALTIME": "on"}) as running:
        # ten megabytes are a broker's affair first
        with KafkaLog(running.settings.kafka_bootstrap) as log:
            log.create(TOPIC, PARTITIONS, {"max.message.bytes": str(LARGEST)})
        running.up("redis", "kafka", "serving")
        running.cli("apply", "--no-wait")
        yield running


def test_bad_records_are_kept_with_their_reasons_and_all_else_is_exact(platform: Stack) -> None:
    print(f"seed {SEED}")
    with deploy.connected(platform.settings) as store:
        deployment = deploy.require_units(deploy.current(store))
    now_us = (time.time_ns() // 1000 // HOUR - 1) * HOUR + HOUR // 2  # an hour that is over
    records = [*hostile.records(now_us), *pairs(now_us)]
    random.Random(SEED).shuffle(records)
    plain = hostile.Record(
        "a play to begin with", hostile.event(now_us), columns={"user_id": "ada"}
    )
    records = [plain] * PARTITIONS + records
    with KafkaLog(platform.settings.kafka_bootstrap) as log:
        sent = Sent(records, log.topic_id(TOPIC))
    events, reasons = sent.events(), Counter(reason for reason, _ in sent.bad().values())
    assert len(events) + sum(reasons.values()) == len(records)
    platform.start_stream()
    bootstrap = platform.settings.kafka_bootstrap
    sent.produce(bootstrap, now_us // 1000, 0, 1)
    platform.wait_applied(TOPIC)  # a view of all knows its partitions by the committed offsets
    platform.wait_realtime(TOPIC, 240)

    with platform.stopped(stream.NAME):
        sent.produce(bootstrap, now_us // 1000, 1)
        platform.wait(lambda: missing(platform, len(events)), "the real-time lane to have all", 240)
        exact(platform, deployment, events, "among the pending events")
    platform.wait_applied(TOPIC)
    platform.wait(
        lambda: ", ".join(pending_fields(platform)[:5]) or None,
        "the real-time lane to be applied",
        120,
    )
    exact(platform, deployment, events, "applied")
    platform.wait(lambda: counted(platform, reasons), "the stream to have counted what is bad", 120)
    check_keys_apart(platform, deployment, events)

    hour = time.strftime("%Y-%m-%dT%H", time.gmtime(now_us // 1_000_000))
    report = platform.job("compact", "--hour", hour)
    exact(platform, deployment, events, "compacted")
    [archived] = [entry for entry in report["archived"] if entry["source"] == TOPIC]
    assert (archived["events"], Counter(archived["bad"])) == (len(records), reasons)
    assert {entry["hour"] for entry in report["hours"]} == {hour}, "no event made another hour"
    kept(platform, deployment, sent)
    expiries(platform, now_us)


def missing(platform: Stack, wanted: int) -> str | None:
    [row] = platform.request(features=["everyone:plays_6h"])["results"]
    actual = row["values"]["everyone:plays_6h"]
    return None if actual == wanted else f"{actual} of {wanted} events"


def pending_fields(platform: Stack) -> list[str]:
    """Pending fields in the store, and the count of them where it stands."""
    results = []
    with redis.Redis.from_url(platform.settings.redis_url) as client:
        for key in client.scan_iter(match="sw:*:hot", count=1000):
            names = [bytes(name) for name in client.hkeys(key) if isinstance(name, bytes)]
            results += [
                f"{key!r} {name!r}"
                for name in names
                if name == keys.PENDING_COUNT or name.startswith(keys.PENDING_FIELDS)
            ]
    return results


def counted(platform: Stack, reasons: Counter[str]) -> str | None:
    """Compares the stream's own figures with the reasons, each counted once."""
    with platform.store() as store:
        bad = json.loads(store.run(ReadStatus(f"stream:{TOPIC}")) or "{}").get("bad")
    return None if Counter(bad) == reasons else f"{bad} of {dict(reasons)}"


def exact(
    platform: Stack, deployment: Deployment, events: Sequence[OracleEvent], when: str
) -> None:
    """Every entity and column of every view is what brute force over the good records says; none is
    missing."""
    count = Count()
    rows = compare(platform, deployment, events, None, count)
    print(f"{when}: {count.compared} values compared with the oracle, {len(count.wrong)} differ")
    assert not count.wrong, "\n".join(count.wrong[:20])
    counted_songs = sum(
        row["values"]["by_both:plays_6h"] for row in rows if row["unit"].view == "by_both"
    )
    assert counted_songs == sum(event.columns["song"] is not None for event in events)


def check_keys_apart(
    platform: Stack, deployment: Deployment, events: Sequence[OracleEvent]
) -> None:
    """Checks that the store has as many keys as there are entities."""
    with platform.store() as store:
        names = {
            unit.storage_fingerprint: store.run(ReadMetadata()).name(unit.storage_fingerprint)
            for unit in deployment.units
        }
    with redis.Redis.from_url(platform.settings.redis_url) as client:
        keys = [bytes(key) for key in client.scan_iter(match="sw:*", count=1000)]
    for unit in deployment.units:
        if unit.per_partition:
            continue
        entities = {tuple(event.columns[name] for name, _ in unit.entity) for event in events}
        wanted = len([entity for entity in entities if None not in entity])
        kind = "list" if isinstance(unit, ListUnit) else "hot"
        ending = f":{names[unit.storage_fingerprint]}:{kind}".encode()
        assert sum(key.endswith(ending) for key in keys) == wanted, unit.view


def kept(platform: Stack, deployment: Deployment, sent: Sent) -> None:
    """The archive has each record once: what is good typed, what is bad as it came, with its
    reason."""
    table = load(open_catalog(platform.settings), TOPIC)
    assert table is not None
    rows = table.scan(row_filter="kind = 'bad'").to_arrow().to_pylist()
    assert {
        (row["partition"], row["offset"]): (row["reason"], row["raw"]) for row in rows
    } == sent.bad()
    assert len(rows) == len(sent.bad())
    good = scan_events(table, deployment.source(TOPIC)).to_pylist()
    wanted = {(event.partition, event.offset): event for event in sent.events()}
    assert sorted((row["partition"], row["offset"]) for row in good) == sorted(wanted)
    for row in good:
        event = wanted[row["partition"], row["offset"]]
        for name in ("user_id", "song", "n", "x", "y", "ok"):
            assert row[name] == event.columns[name], (
                f"{sent.at[row['partition'], row['offset']].name}: {name}"
            )
        assert row["event_time"] == event.time


def expiries(platform: Stack, now_us: int) -> None:
    """No slice of an entity stands for longer than its good events need: within a day of the end of
    the window."""
    latest_s = (now_us + hostile.MAX_AHEAD_US + WINDOW + 24 * HOUR) // 1_000_000
    with redis.Redis.from_url(platform.settings.redis_url) as client:
        keys = [bytes(key) for key in client.scan_iter(match="sw:*", count=1000)]
        until = {key: int(client.expiretime(key)) for key in keys if EXPIRING.fullmatch(key)}
    assert until
    late = {key: second for key, second in until.items() if not 0 < second <= latest_s}
    assert not late, late
