"""The wait of a read whose entity has 0, 100, 1,000 or 10,000 pending events, beside none.

  make bench-pending-reads
  make bench-pending-reads BENCH="--seconds 5 --json figures.json"

Over HTTP at one connection, by a client process of its own; cases take turns, and a figure is the
median of the rounds. *Nothing asked* is a request to the same process that it answers with neither
store nor features: what client, network and machine take of every figure, and how far apart their
own p50 and p99 lie.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis

import slicewise as sw
from benchmarks.serving import over_http
from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.local.servers import redis as redis_server
from slicewise.settings import Settings
from slicewise.stores.online import keys
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.pending import BeginRealtime
from slicewise.windows.durations import MINUTE_US, SECOND_US
from tests.integration.serving.support import serving
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import TOPIC, Event, Served, rows_of, tags_of
from tests.support.stores.stored import add_pending

SIZES = (0, 100, 1_000, 10_000)
BOUND = 1_000
"""Most events of a tail that a stream's setting lets an entity have."""
AIM_MS = 1.5
SEED = 11
SPAN_US = 5 * SECOND_US
"""A pending event is so old at most."""

payments = sw.KafkaSource(
    "payments",
    schema={
        "card": "string",
        "price": "double",
        "pieces": "int64",
        "shop": "string",
        "paid_at": "timestamp_us",
    },
    timestamp="paid_at",
    max_lateness="1d",
)
WINDOWS: list[sw.Window | str] = ["10m", "1h"]
plain = sw.FeatureView(
    "plain",
    source=payments,
    entity=["card"],
    features=[
        sw.Feature("n", sw.count(), windows=WINDOWS),
        sw.Feature("spent", sw.sum("price"), windows=WINDOWS),
        sw.Feature("most", sw.max("price"), windows=WINDOWS),
        sw.Feature("pieces", sw.mean("pieces"), windows=WINDOWS),
    ],
)
wide = sw.FeatureView(
    "wide",
    source=payments,
    entity=["card"],
    features=[
        sw.Feature("shops", sw.distinct_count("shop"), windows=WINDOWS),
        sw.Feature("dearest", sw.top_k("shop", by="price", k=5), windows=WINDOWS),
        sw.Feature("latest", sw.last_k("shop", k=5), windows=WINDOWS),
        sw.Feature("spread", sw.stddev("price"), windows=WINDOWS),
    ],
)


def deployment() -> Deployment:
    """Both views over one source."""
    return plan(Project("tail", (plain, wide)))


def refs(view: str) -> list[str]:
    """All features of a view."""
    return [
        f"{unit.view}:{f.column}"
        for unit in deployment().units
        if unit.view == view
        for f in unit.features
    ]


def events(chance: random.Random, card: str, times: Sequence[int], first: int) -> list[Event]:
    """Payments of one card at these times, with offsets from `first` on."""
    return [
        Event(
            0,
            first + i,
            time_us,
            {
                "card": card,
                "price": chance.uniform(1, 300),
                "pieces": 3,
                "shop": f"shop {chance.randrange(40)}",
            },
        )
        for i, time_us in enumerate(times)
    ]


def applied(served: Served, chance: random.Random) -> None:
    """Two hours of payments, one a minute, of a card per size."""
    now_us = time.time_ns() // 1_000
    made: list[Event] = []
    for size in SIZES:
        made += events(
            chance, f"card {size}", [now_us - m * MINUTE_US for m in range(120, 0, -1)], len(made)
        )
    served.apply(made)


def write_pending(served: Served, url: str, chance: random.Random) -> None:
    """The pending events of every card, as its writer leaves it."""
    metadata = served.store.run(ReadMetadata())
    served.store.run(
        BeginRealtime("payments", metadata.committed, metadata.deployment_version, metadata.units)
    )
    now_us, first = time.time_ns() // 1_000, metadata.committed.get((TOPIC, 0))
    with redis.Redis.from_url(url) as client:
        for size in SIZES:
            some = sorted(now_us - chance.randrange(SPAN_US) for _ in range(size))
            made = events(chance, f"card {size}", some, first)
            first += size
            for unit in served.deployment.units if made else ():
                key = keys.hot_key(
                    served.store.store_id,
                    tags_of(unit, made, None)[0],
                    metadata.name(unit.storage_fingerprint),
                )
                members = unit.members.encode(rows_of(unit, made))
                fields: dict[Any, Any] = {}
                add_pending(fields, [((TOPIC, 0), member) for member in members])
                client.hset(key, mapping=fields)


def rounds(
    port: int, sizes: Sequence[int], view: str, seconds: float, count: int
) -> dict[int, dict[str, float]]:
    """Per size the median of its rounds."""
    by_size: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
    for _ in range(count):
        for size in sizes:
            body = {"features": refs(view), "entities": [{"card": f"card {size}"}]}
            by_size[size].append(over_http(port, "/v1/features", [body], 1, seconds))
    return {
        size: {k: statistics.median(times[k] for times in some) for k in some[0]}
        for size, some in by_size.items()
    }


def measure(seconds: float, count: int) -> list[Figure]:
    """All cases."""
    figures = []
    chance = random.Random(SEED)
    with running(RedisServer) as server, Served.on(server.url, deployment()) as served:
        applied(served, chance)
        with serving(server.url) as url:
            port = int(url.rpartition(":")[2])
            views = ("plain", "wide")
            without = {view: rounds(port, SIZES[:1], view, seconds, count)[0] for view in views}
            write_pending(served, server.operator_url, chance)
            idle = [over_http(port, "/healthz", [None], 1, seconds) for _ in range(count)]
            for name, key in (("p50", "p50_ms"), ("p99", "p99_ms")):
                middle = statistics.median(times[key] for times in idle)
                figures.append(Figure("nothing asked, one connection", name, "ms", middle))
            for view in views:
                section = f"one view × 8 features ({view}), one connection"
                beside = without[view]
                for name, key in (("p50", "p50_ms"), ("p99", "p99_ms")):
                    figures.append(Figure(section, f"no pending events, {name}", "ms", beside[key]))
                for size, times in rounds(port, SIZES, view, seconds, count).items():
                    aim = AIM_MS if size == BOUND and view == "plain" else None
                    label = f"{size:,} pending events"
                    figures.append(
                        Figure(section, f"{label}, p50", "ms", times["p50_ms"], beside["p50_ms"])
                    )
                    figures.append(
                        Figure(
                            section,
                            f"{label}, p99",
                            "ms",
                            times["p99_ms"],
                            beside["p99_ms"],
                            bound=aim,
                        )
                    )
    return figures


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 also where an aim is missed: figures are no test."""
    parser = argparse.ArgumentParser(
        "bench-pending-reads", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.5, help="of each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    figures = measure(given.seconds, given.rounds)
    publish(
        "make bench-pending-reads",
        arguments,
        given,
        facts,
        round(time.monotonic() - begun),
        figures,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
