"""An emptied store is built again from compacted hours, beside the replay of the same events from
the log.

  make bench-rebuild
  make bench-rebuild BENCH="--users 100 --json figures.json"     small: that it works, not how fast

A day and two hours of plays in six views, through the log into the store; every hour that is over
is compacted. Then the store is emptied and deployed again, and `backfill_view`'s job builds it. The
baseline is the first way: the platform's own stream from a full log, from its first batch on. Both
must give the same answers, at the same instant.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import redis

from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from benchmarks.whole.history import HOURS, SEED, STEPS, produce
from benchmarks.whole.servers import PROJECTS, TOPIC, notify, until
from benchmarks.whole.streaming import our_stream
from slicewise.local.servers import redis as redis_server
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.windows.durations import HOUR_US
from tests.support.platform.stack import Stack

COMPARED = 50
"""Users whose answers of before are asked for again."""
BATCHES = 5
"""Least batches of the replay: the first, in which processes are started, is not in its rate."""


def measure(users: int) -> tuple[list[Figure], dict[str, Any]]:
    """Figures, and the details behind them."""
    with TemporaryDirectory(prefix="slicewise-bench-") as folder:
        batch = max(1, min(200_000, users * len(STEPS) // BATCHES))
        stack = Stack(
            Path(folder) / "ours",
            PROJECTS / "history",
            {"SLICEWISE_MAX_EVENTS_PER_BATCH": str(batch)},
        )
        try:
            stack.up()
            stack.cli("apply", "--no-wait")
            return _measured(stack, users)
        finally:
            stack.down()


def _measured(stack: Stack, users: int) -> tuple[list[Figure], dict[str, Any]]:
    notify(f"{HOURS} hours of plays of {users} users into the log")
    total = produce(stack, users)
    notify(f"{total:,} events through the stream")
    with our_stream(stack):
        begun = until(lambda: _applied(stack) > 0, "the first batch")
        already_applied = _applied(stack)
        replayed_s = until(lambda: _applied(stack) >= total, "the log to be replayed") - begun
    replay = (total - already_applied) / replayed_s
    notify("compacting every hour that is over")
    stack.job("compact", "--max-hours", str(HOURS + 2), timeout_s=900)
    at = time.time_ns() // 1000 // HOUR_US * HOUR_US
    sampled = random.Random(SEED).sample(range(users), min(COMPARED, users))
    before = [_values_of(stack, user, at) for user in sampled]

    state = StateFolder(stack.settings.state_dir)
    operator = redis.Redis.from_url(redis_server.operator_url(state, state.ports()["redis"]))
    operator.flushall()
    operator.close()
    # There is no Airflow here that could be asked for the history: the job is run by hand.
    deployed = stack.cli("apply", "--no-wait", check=False)
    if "deployed: version" not in deployed.stdout:
        raise RuntimeError(deployed.stdout + deployed.stderr)
    notify("the job builds what was emptied")
    wall = time.perf_counter()
    report = stack.job("backfill", timeout_s=900)
    wall_s = time.perf_counter() - wall
    if not report["ready"]:
        raise RuntimeError(f"not ready: {report}")
    after = [_values_of(stack, user, at) for user in sampled]
    if before != after:
        raise AssertionError("an answer at the same instant is another than before")
    notify(f"{len(sampled)} users' answers compared with those of before: equal")

    built_s = sum(unit["took_ms"] for unit in report["units"]) / 1000
    entities = sum(unit["entities"] for unit in report["units"])
    size = sum(unit["bytes"] for unit in report["units"])
    section = (
        f"an emptied store of {total:,} events in six views, {HOURS} hours (baseline: the stream, "
        "from the log)"
    )
    figures = [
        Figure(
            section,
            "events, while it builds",
            "events/s",
            round(total / built_s),
            round(replay),
            "higher",
        ),
        Figure(
            section,
            "events, the job's start included",
            "events/s",
            round(total / wall_s),
            round(replay),
            "higher",
        ),
        Figure(section, "hours of entities", "entity hours/s", round(entities / built_s)),
        Figure(section, "bytes of slices", "bytes/s", round(size / built_s)),
        Figure(
            section, "until every view answers", "s", round(wall_s, 1), round(total / replay, 1)
        ),
    ]
    details = {
        "events": total,
        "entity_hours": entities,
        "bytes": size,
        "built_s": built_s,
        "wall_s": wall_s,
    }
    return figures, details | {"units": report["units"], "replay_events_per_s": replay}


def _applied(stack: Stack) -> int:
    with stack.store() as store:
        metadata = store.run(ReadMetadata())
    topic = metadata.topics[TOPIC]
    return sum(
        offset
        for topic_partition, offset in metadata.committed.offsets.items()
        if topic_partition[0] == topic
    )


def _values_of(stack: Stack, user: int, at: int) -> str:
    """The values of all views at an instant, as text."""
    request = stack.request(feature_set="five_v1", entities=[{"user_id": f"h{user}"}], at=at)
    return json.dumps([result["values"] for result in request["results"]], sort_keys=True)


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 also where it is slower than the replay: figures are no test."""
    parser = argparse.ArgumentParser(
        "bench-rebuild", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--users", type=int, default=1_000)
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    figures, details = measure(given.users)
    publish(
        "make bench-rebuild",
        arguments,
        given,
        facts,
        round(time.monotonic() - begun),
        figures,
        details,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
