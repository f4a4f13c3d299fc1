"""A backlog of JSON in Kafka goes into the store, beside the usual recipe: events a second, by
entities, views, partitions and the size of the backlog.

  make bench-ingest
  make bench-ingest BENCH="--only base --json figures.json"
  make bench-ingest BENCH="--quick"                     small: that it works, not how fast

Each case has servers of its own and a topic that is full before the stream begins. A rate is
sustained: from the first batch that is visible, so that no process's start is in it, to the last
event; batches grow within it. Processor time is that of driver, workers and store, read from the
processes. The recipe reads the same topic as the first case, until so many events are in its store.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure, shares
from benchmarks.whole.servers import RECIPE_BATCH, TOPIC, Recipe, notify, pair, pid_of
from benchmarks.whole.streaming import Ingest, follow, our_stream
from slicewise.local.servers import redis as redis_server
from slicewise.settings import Settings
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.redis import open_store
from tests.support.platform.stack import Stack

RECIPE_EVENTS = 600_000
WANTED_RATE, WANTED_CPU_US, WANTED_TIMES = 250_000, 8.0, 10.0
PER_SECOND = 2_000
"""Events of one second of `slicewise load --rate 0`."""
_LOOK_S = 0.25


@dataclass(frozen=True)
class Case:
    """A backlog, and what is deployed over it."""

    name: str
    what: str
    events: int = 4_000_000
    users: int = 100_000
    partitions: int = 2
    project: str = "plays"


CASES = (
    Case("base", "one view, 100,000 entities, two partitions"),
    Case("short", "the same, a short backlog", events=1_000_000),
    Case("long", "the same, a long backlog", events=12_000_000),
    Case("narrow", "10,000 entities", users=10_000),
    Case("broad", "1 million entities", users=1_000_000),
    Case("one", "one partition", partitions=1),
    Case("four", "four partitions", partitions=4),
    Case("views", "six views, 56 features", events=1_000_000, project="history"),
)


@dataclass
class Memory:
    """Peak of the memory that the driver and the processes below it use together."""

    mib: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)

    def look(self, pid: int) -> None:
        """Looks again and again, until it is over."""
        while not self._over.wait(_LOOK_S):
            try:
                root = psutil.Process(pid)
                tree = (root, *root.children(recursive=True))
                # workers share the pages of the daemon that they were forked from
                used = sum(one.memory_full_info().pss for one in tree)
            except psutil.NoSuchProcess:
                continue  # a worker ended between two looks
            self.mib = max(self.mib, used / 2**20)

    @contextmanager
    def watched(self, pid: int) -> Iterator[Memory]:
        """Looks meanwhile, from a thread of its own."""
        thread = threading.Thread(target=self.look, args=(pid,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()


def fill(stack: Stack, case: Case, events: int) -> int:
    """Fills the topic; how many events stand in it."""
    seconds = str(events / PER_SECOND)
    stack.cli(
        *("load", "--topic", TOPIC, "--rate", "0", "--seconds", seconds),
        *("--users", str(case.users), "--partitions", str(case.partitions)),
        timeout_s=1_800,
    )
    with KafkaLog(stack.settings.kafka_bootstrap) as log:
        return sum(log.latest(TOPIC).offsets.values())


def drained(stack: Stack, total: int) -> tuple[Ingest, float]:
    """Our way through the backlog, and the memory that it took."""
    with open_store(stack.settings.redis_url) as store:
        begun = 0.0

        def note() -> None:
            nonlocal begun
            begun = time.perf_counter()

        with our_stream(stack, started=note) as driver:
            with Memory().watched(driver) as memory:
                ingest = follow(
                    lambda: sum(store.run(ReadMetadata()).committed.offsets.values()),
                    total,
                    1,
                    begun,
                    (driver, pid_of(stack, "redis")),
                )
            return ingest, memory.mib


def by_recipe(recipe: Recipe, events: int, batch: int) -> Ingest:
    """The recipe's way through the beginning of the same backlog."""
    with recipe.stream(batch) as made:
        return follow(
            recipe.events, events, batch, time.perf_counter(), (made.pid, recipe.redis_pid)
        )


def measured(case: Case, *, quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    """Figures of a case, and the details behind them."""
    events = case.events // 20 if quick else case.events
    overrides = {"SLICEWISE_KAFKA_PARTITIONS": str(case.partitions)}
    if quick:
        overrides["SLICEWISE_MAX_EVENTS_PER_BATCH"] = str(events // 5)
    with pair(case.project, overrides) as (stack, recipe, _):
        notify(f"{case.what}: filling the topic with {events:,} events")
        total = fill(stack, case, events)
        notify(f"{case.what}: slicewise")
        ours, mib = drained(stack, total)
        theirs = None
        if case is CASES[0]:
            notify(f"{case.what}: the recipe")
            batch = min(RECIPE_BATCH, total // 5)
            theirs = by_recipe(recipe, min(total, max(3 * batch, RECIPE_EVENTS)), batch)
    details = {"events": total, "ours": vars(ours), "theirs": vars(theirs) if theirs else None}
    section = f"{case.what}, {total:,} events"
    return _figures(section, ours, theirs, mib), details | {"mib": round(mib)}


def _figures(section: str, ours: Ingest, theirs: Ingest | None, mib: float) -> list[Figure]:
    first = theirs is not None
    return [
        Figure(
            section,
            "sustained",
            "events/s",
            ours.steady_events_per_s,
            theirs.steady_events_per_s if theirs else None,
            "higher",
            aim=WANTED_TIMES if first else None,
            bound=WANTED_RATE if first else None,
        ),
        Figure(
            section,
            "CPU of stream and store",
            "µs/event",
            ours.cpu_us_per_event,
            theirs.cpu_us_per_event if theirs else None,
            bound=WANTED_CPU_US if first else None,
        ),
        *shares(
            section,
            "µs/event",
            ours.cpu_us_by_program,
            theirs.cpu_us_by_program if theirs else None,
        ),
        Figure(section, "most memory of driver and workers", "MiB", round(mib)),
    ]


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 also where an aim is not met: figures are no test."""
    parser = argparse.ArgumentParser(
        "bench-ingest", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=[case.name for case in CASES])
    parser.add_argument("--quick", action="store_true", help="a twentieth of the events")
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    figures: list[Figure] = []
    details: dict[str, Any] = {}
    for case in CASES:
        if given.only is None or case.name in given.only:
            of_case, details[case.name] = measured(case, quick=given.quick)
            figures += of_case
    publish(
        "make bench-ingest",
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
