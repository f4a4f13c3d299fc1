"""A window of many entities is timed from the log to the topic: read, combined, compared,
published.

    python -m benchmarks.emission [--entities 1000000] [--windows 4] [--json file]

Every entity has an event in every window. The backlog's record times lie in the windows to come, so
that the driver is never waiting for the clock; what counts is from one window's progress to that of
the next. Under 10 s a window of ten seconds is sustained.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Producer

from slicewise.local.servers import stream
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.log.publisher import Kept, ProgressLog
from slicewise.stores.log.topics import KafkaLog
from tests.support.platform.stack import Stack, stack

HOP_US = 10_000_000
PARTITIONS = 2
AT_ONCE = 50_000
DEFINITIONS = """
import slicewise as sw

plays = sw.KafkaSource(
    "plays", schema={"user_id": "long", "seconds": "double", "t": "timestamp_us"}, timestamp="t", max_lateness="1h"
)
listening = sw.FeatureView(
    "listening",
    source=plays,
    entity=["user_id"],
    slice="1s",
    features=[
        sw.Feature("plays", sw.count(), windows=[sw.tumbling("10s")]),
        sw.Feature("seconds", sw.sum("seconds"), windows=[sw.tumbling("10s")]),
    ],
    emit=sw.Emit("windows", corrections="10s"),
)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument(
        "--windows", type=int, default=4, help="the first is left out: processes start in it"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="slicewise-bench-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        (project / "slicewise.toml").write_text('definitions = "features.py"\n')
        (project / "features.py").write_text(DEFINITIONS)
        with stack(project, {"SLICEWISE_KAFKA_PARTITIONS": str(PARTITIONS)}) as running:
            figures = measured(running, options.entities, options.windows)
    text = json.dumps(figures, indent=1)
    sys.stdout.write(text + "\n")
    if options.json:
        options.json.write_text(text + "\n")
    return 0


def measured(running: Stack, entities: int, windows: int) -> dict[str, Any]:
    """The figures of one run on servers of its own."""
    running.up("redis", "kafka")
    running.cli("apply", "--no-wait")
    since = begin(running)
    first_us = since // HOP_US * HOP_US + 2 * HOP_US
    begun = time.monotonic()
    produce(running, entities, windows, first_us)
    produced_s = time.monotonic() - begun
    stream.ensure_emission(running.settings)
    seen_s: list[float] = []
    memory = 0
    for window in range(1, windows + 1):
        end_us = first_us + window * HOP_US
        running.wait(partial(_not_before, running, end_us), "a window")
        seen_s.append(time.monotonic())
        [status] = [service for service in running.status() if service.name == stream.EMIT]
        memory = max(memory, status.memory_bytes or 0)
    with KafkaLog(running.settings.kafka_bootstrap) as log:
        published = sum(log.latest("windows").offsets.values())
    seconds = [b - a for a, b in itertools.pairwise(seen_s)]
    return {
        "entities": entities,
        "windows": windows,
        "seconds_per_window": [round(duration, 2) for duration in seconds],
        "entities_per_s": round(entities * len(seconds) / sum(seconds)) if seconds else None,
        "records_published": published,
        "memory_mib": round(memory / 2**20),
        "produced_events_per_s": round(entities * windows / produced_s),
    }


def begin(running: Stack) -> int:
    """Lets the emission begin now, as its driver does when it sees the view; the time."""
    now = time.time_ns() // 1000
    with KafkaLog(running.settings.kafka_bootstrap) as log:
        topic_id = log.topic_id("plays")
    progress = ProgressLog(running.settings.kafka_bootstrap, "plays", "listening")
    progress.save(Kept(now, now, OffsetVector({})), topic_id, PARTITIONS)
    progress.close()
    return now


def produce(running: Stack, entities: int, windows: int, first_us: int) -> None:
    """An event per entity and window, in the order of time; then one beyond in each partition,
    which ends the last."""
    producer = Producer(
        {
            "bootstrap.servers": running.settings.kafka_bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for window in range(windows):
        start = first_us + window * HOP_US
        for low in range(0, entities, AT_ONCE):
            some = range(low, min(entities, low + AT_ONCE))
            for entity in some:
                append(producer, entity, start + entity * HOP_US // entities)
            producer.poll(0)
    after = first_us + windows * HOP_US
    for entity in range(PARTITIONS):
        append(producer, entity, after)
    if producer.flush(120):
        raise RuntimeError("the broker did not take the backlog")


def append(producer: Producer, entity: int, at_us: int) -> None:
    """Other values in every window, so that every window of every entity is published."""
    value = b'{"user_id":%d,"seconds":%d.5,"t":%d}' % (entity, at_us // HOP_US % 97, at_us)
    while True:
        try:
            producer.produce("plays", value, partition=entity % PARTITIONS, timestamp=at_us // 1000)
            return
        except BufferError:
            producer.poll(0.05)


def _not_before(running: Stack, end_us: int) -> str | None:
    """The view's state until the window that ends then is published; None once it is."""
    return None if instant(running) >= end_us else str(view_of(running))


def view_of(running: Stack) -> dict[str, Any]:
    """The driver's last word on the view."""
    sources = stream.driver_status(running.settings, stream.EMIT).heartbeat.get("sources", {})
    listening: dict[str, Any] = sources.get("plays", {}).get("views", {}).get("listening", {})
    return listening


def instant(running: Stack) -> int:
    return int(view_of(running).get("instant_us", 0))


if __name__ == "__main__":
    sys.exit(main())
