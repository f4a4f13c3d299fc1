"""Cost of a read of a 30-day window beside one of a 1-day window, for every kind of partial.

  make bench-levels
  make bench-levels BENCH="--only distinct quantiles --json figures.json"

Through the serving service over a real store, in processor time of the reader and of the store
together, since the machine is shared: blocks of reads take turns, and the figure is the median of
the blocks. `first`: of an entity that was not asked for before; `again`: where the reader knows
what its compacted hours came to (docs/adr/0048).
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from benchmarks import levels_data
from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from slicewise.clock import ManualClock
from slicewise.local.servers import redis as redis_server
from slicewise.reading.cache import CACHE_BYTES, PartialCache
from slicewise.serving.answering.requests import FeaturesRequest, checked
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.factory import blocking
from slicewise.settings import Settings
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import Served

MOST = 1.5
"""Times the cost of a 1-day window that a 30-day window may cost."""
BLOCK_S = 0.01
"""A block of reads takes about so long."""


@dataclass(frozen=True)
class Spent:
    """Microseconds of processor time per read: of the reader, of the store."""

    reader: float
    store: float

    @property
    def both(self) -> float:
        return self.reader + self.store


class Reads:
    """One request, again and again, over a connection of its own."""

    def __init__(
        self,
        url: str,
        server: redis.Redis,
        now_us: int,
        request: FeaturesRequest,
        partial_cache: PartialCache,
    ) -> None:
        self._service = FeatureService(ManualClock(now_us), partials=partial_cache)
        self._connection = blocking(url)
        self._server, self._request, self._block = server, request, 1
        self.blocks: list[Spent] = []
        for _ in range(3):
            self.once()
        begun = time.thread_time()
        self.once()
        self._block = max(1, int(BLOCK_S / (time.thread_time() - begun)))

    def once(self) -> Any:
        return self._connection.run(self._service.read(self._request))

    def block(self) -> None:
        """A block of reads, measured."""
        before, begun = self._store_s(), time.thread_time()
        for _ in range(self._block):
            self.once()
        spent = time.thread_time() - begun
        self.blocks.append(
            Spent(spent / self._block * 1e6, (self._store_s() - before) / self._block * 1e6)
        )

    def median(self) -> Spent:
        return Spent(
            statistics.median(block.reader for block in self.blocks),
            statistics.median(block.store for block in self.blocks),
        )

    def _store_s(self) -> float:
        info = self._server.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def close(self) -> None:
        self._connection.close()


def measure(
    url: str, operator_url: str, now_us: int, views: Sequence[str], rounds: int, profile: bool
) -> list[Figure]:
    """Two figures per view and entity: of readers that know nothing of compacted hours, and that
    know them."""
    figures = []
    deployed = levels_data.deployment()
    with redis.Redis.from_url(operator_url) as server:
        for entity in levels_data.PER_HOUR:
            for view in views:
                refs = {
                    window: [
                        f"{view}:{feature.column}"
                        for unit in deployed.view(view)
                        for feature in unit.features
                        if feature.column.endswith(f"_{window}")
                    ]
                    for window in ("1d", "30d")
                }
                reads = {
                    (how, window): Reads(
                        url,
                        server,
                        now_us,
                        checked(names, None, [{"user": entity}]),
                        PartialCache(limit),
                    )
                    for how, limit in (("first", 0), ("again", CACHE_BYTES))
                    for window, names in refs.items()
                }
                for _ in range(rounds):
                    for reading in reads.values():
                        reading.block()
                if profile:
                    for (how, window), reading in reads.items():
                        _profile(f"{view} {entity} {how} {window}", reading.once)
                for how in ("first", "again"):
                    figures.append(
                        _figure(
                            entity,
                            f"{view}, {how}",
                            *(reads[how, window].median() for window in refs),
                        )
                    )
                for reading in reads.values():
                    reading.close()
    return figures


def _figure(entity: str, view: str, day: Spent, month: Spent) -> Figure:
    others = {
        "1d µs": day.both,
        "30d µs": month.both,
        "of it store, 1d": day.store,
        "30d": month.store,
    }
    section = f"{entity}, {levels_data.PER_HOUR[entity]} events an hour"
    return Figure(section, f"{view}", "30d / 1d", month.both / day.both, bound=MOST, others=others)


def _profile(name: str, work: Callable[[], object], times: int = 100) -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(times):
        work()
    profiler.disable()
    sys.stdout.write(f"==== {name}\n")
    pstats.Stats(profiler).sort_stats("tottime").print_stats(18)


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 also where an aim is missed: figures are no test."""
    parser = argparse.ArgumentParser(
        "bench-levels", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=11, help="blocks of either window")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="VIEW",
        help="of " + ", ".join(v.name for v in levels_data.VIEWS),
    )
    parser.add_argument(
        "--profile", action="store_true", help="also print where the reader's time goes"
    )
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    names = [view.name for view in levels_data.VIEWS]
    views = [name for name in names if not given.only or name in given.only]
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    # yesterday at half past twelve and half a minute: whatever the time, half a day of hours, half
    # an hour of slices
    now_us = (
        time.time_ns() // 1_000 // DAY_US * DAY_US
        - DAY_US
        + 12 * HOUR_US
        + 30 * MINUTE_US
        + 30_000_000
    )
    with running(RedisServer) as server:
        with Served.on(server.url, levels_data.deployment()) as served:
            levels_data.fill(served, now_us, views)
        sys.stderr.write(f"filled in {time.monotonic() - begun:.1f} s\n")
        figures = measure(
            server.url, server.operator_url, now_us, views, given.rounds, given.profile
        )
    publish("make bench-levels", arguments, given, facts, round(time.monotonic() - begun), figures)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
