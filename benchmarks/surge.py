"""Ten times the usual rate for a minute, an hour's outage of a stream, and more requests than fit.

    make bench-surge [BENCH="--json FILE --doc docs/benchmarks/operation.md"]
    make bench-surge BENCH=--quick        small, in two minutes: that it works, not how fast

Both lanes, broker, store, API, producers and readers share this machine. Lag, memory and batches
are watched all the time, and reads are asked at a steady rate; each figure of a surge stands beside
that of before. What an hour takes to drain stands beside a backlog of which nothing else is asked.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from benchmarks.freshness_sides import REALTIME, query_runs, realtime_is
from benchmarks.surge_overload import CLIENT, overload
from benchmarks.surge_watch import Drain, Phase, Reads, Watch, batches, beside, drain_of, largest
from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from benchmarks.whole.servers import PROJECTS, TOPIC, load, notify, pid_of, until
from benchmarks.whole.streaming import our_stream
from slicewise.local.servers import redis as redis_server
from slicewise.settings import Settings
from slicewise.stores.log.topics import KafkaLog
from tests.support.platform.stack import Stack, stack

SETTLE_S = 4.0
"""From the first event of a load to the first figure."""
DRAIN_PATIENCE_S = 1_200.0
LOOKED_BACK_S = 1.5
"""Batches are logged in whole seconds."""
MILESTONES = (0.0, 0.25, 0.5, 0.75)
"""Parts of a drain at which its lag is told."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a run. rate: usual events per second; outage_s: how long the stream was down, in
    events of the usual rate."""

    rate: float = 1_000.0
    times: float = 10.0
    around_s: float = 30.0
    surge_s: float = 60.0
    outage_s: float = 3_600.0
    backlog: int = 1_000_000
    overload_s: float = 30.0
    reads: float = 50.0
    users: int = 1_000
    batch: int = 200_000

    @staticmethod
    def quick() -> Sizes:
        """Enough to see that everything works; batches are small, so that there are some."""
        return Sizes(200.0, 10.0, 8.0, 10.0, 300.0, 60_000, 6.0, 20.0, 100, 10_000)


class Run:
    """One platform through all of it; figures come with each part."""

    def __init__(self, running: Stack, sizes: Sizes) -> None:
        self.stack, self.sizes = running, sizes
        self.logs = running.settings.state_dir / "logs"
        self.figures: list[Figure] = []
        self.details: dict[str, Any] = {"sizes": asdict(sizes)}
        self._kept = {name: pid_of(running, name) for name in ("redis", "serving", "kafka")}

    def all(self) -> None:
        """Backlog, surge, outage, overload."""
        sizes = self.sizes
        notify(f"a backlog of {sizes.backlog:,} events, with nothing else to do")
        self._produced_at_once(sizes.backlog)
        with self._stream() as drivers:
            watch = self._watch(drivers)
            begun = time.time()
            with beside(watch):
                self._applied()
            undisturbed = drain_of(watch.looks, begun, self._end())
            notify(f"applied {undisturbed.steady_events_per_s:,.0f} events/s")
            until(query_runs(self.stack.settings, REALTIME), "the real-time lane's query")
            self._surge(self._watch(drivers))
        self._outage(undisturbed)

    @contextmanager
    def _stream(self) -> Iterator[dict[str, int]]:
        """The drivers' process ids by name, from the moment at which the micro-batch lane's query
        runs; drained at the end."""
        with our_stream(self.stack) as pid:
            yield {"stream": pid, REALTIME: pid_of(self.stack, REALTIME)}

    def _watch(self, pids: Mapping[str, int]) -> Watch:
        return Watch(self.stack.settings, {**pids, **self._kept})

    def _reads(self) -> Reads:
        return Reads(self.stack.settings, self.sizes.reads, self.sizes.users)

    def _produced_at_once(self, events: int) -> None:
        """Produces events as if they had come at the load command's own rate before now."""
        seconds = str(events / 2_000)
        self.stack.cli(
            "load", "--topic", TOPIC, "--rate", "0", "--seconds", seconds, timeout_s=1_200
        )

    def _end(self) -> int:
        with KafkaLog(self.stack.settings.kafka_bootstrap) as log:
            return sum(log.latest(TOPIC).offsets.values())

    def _applied(self) -> None:
        self.stack.wait_applied(TOPIC, DRAIN_PATIENCE_S)
        time.sleep(1.0)  # the last look sees it

    @contextmanager
    def _usual(self) -> Iterator[None]:
        end = self._end()
        with load(
            self.stack.settings, self.sizes.rate, 4 * DRAIN_PATIENCE_S, self.logs / "load.log"
        ):
            until(lambda: self._end() > end, "the first event of a load", DRAIN_PATIENCE_S, 0.1)
            time.sleep(SETTLE_S)
            yield

    # ------------------------------------------------------------------ ten times the usual rate
    def _surge(self, watch: Watch) -> None:
        sizes, reads = self.sizes, self._reads()
        notify(
            f"{sizes.rate:,.0f} events/s, then {sizes.times:.0f} times as many for "
            f"{sizes.surge_s:.0f} s"
        )
        with self._usual(), beside(watch, reads):
            before = phase(sizes.around_s)
            calm = max(float(watch.most_lag(before)), sizes.rate)
            begun = time.time()
            more = sizes.rate * (sizes.times - 1)
            with load(
                self.stack.settings, more, sizes.surge_s, self.logs / "surge.log", "--seed", "12"
            ) as producer:
                until(lambda: _ended(producer), "the surge's producer", sizes.surge_s * 5 + 60, 0.1)
            over = time.time()
            until(
                lambda: watch.looks[-1].lag <= calm,
                "the lag to be as before",
                DRAIN_PATIENCE_S,
                0.1,
            )
            drained = time.time()
            after = phase(sizes.around_s)
        during = Phase(begun, over)
        section = f"{sizes.times:.0f} × {sizes.rate:,.0f} events/s for {sizes.surge_s:.0f} s"
        rates = [watch.rates(when) for when in (before, during, after)]
        named = f"{section}, both lanes (baseline: before)"
        for number, name in enumerate(("produced", "applied")):
            ours, theirs, later = rates[1][number], rates[0][number], rates[2][number]
            self._add(
                named, name, "events/s", ours, theirs, better="higher", others={"after": later}
            )
        worst = Phase(begun, drained)
        lags = [float(watch.most_lag(when)) for when in (worst, before, after)]
        self._add(named, "largest lag", "events", lags[0], lags[1], others={"after": lags[2]})
        self._add(named, "its end → lag as before", "s", drained - over)
        self._bounded(named, watch, before, worst, after)
        self._answered(
            f"{section}, reads at {sizes.reads:.0f}/s (baseline: before)",
            reads,
            before,
            worst,
            after,
        )

    # ------------------------------------------------------------------ a stream that was down
    def _outage(self, undisturbed: Drain) -> None:
        sizes, reads = self.sizes, self._reads()
        events = round(sizes.rate * sizes.outage_s)
        notify(f"{events:,} events while the stream is down")
        self._produced_at_once(events)
        with self._usual(), ExitStack() as up:
            with beside(reads):
                down = phase(sizes.around_s)
                watch = self._watch(up.enter_context(self._stream()))
                with beside(watch):
                    begun, end = time.time(), self._end()
                    notify("the stream is back")
                    self.stack.wait(
                        lambda: _missing(watch, end), "the outage to drain", DRAIN_PATIENCE_S
                    )
                    during = Phase(begun, time.time())
                    until(
                        lambda: watch.looks[-1].lag <= 3 * sizes.rate,
                        "the lag of a stream that is up",
                        300,
                        0.1,
                    )
                    after = phase(sizes.around_s)
            drain = drain_of(watch.looks, begun, end)
            notify(f"drained {drain.events:,} events in {drain.seconds:.0f} s")
            self._add_drain(drain, undisturbed, watch, during, after)
            section = f"reads at {sizes.reads:.0f}/s while it drains (baseline: while it was down)"
            self._answered(section, reads, down, during, after)
            overloading = overload(
                self.stack, sizes.overload_s, sizes.users, self._watch(watch.pids)
            )
        self.figures += overloading.figures()
        self.details["overload"] = overloading.details()

    def _add_drain(
        self, drain: Drain, undisturbed: Drain, watch: Watch, during: Phase, after: Phase
    ) -> None:
        sizes = self.sizes
        hours = f"{sizes.outage_s / 3600:.3g} h of {sizes.rate:,.0f} events/s"
        section = f"a stream that was down for {hours} (baseline: a backlog alone)"
        rates = float(drain.steady_events_per_s), float(undisturbed.steady_events_per_s)
        self._add(section, "drained", "events/s", *rates, better="higher")
        self._add(section, "query runs → all applied", "s", drain.seconds)
        looks = watch.within(during)
        lag_by_time = {}
        for part in MILESTONES:
            at = during.start + part * (during.end - during.start)
            look = next((candidate for candidate in looks if candidate.at >= at), looks[-1])
            lag_by_time[f"+{look.at - during.start:.0f} s"] = float(look.lag)
        first, *later = lag_by_time.items()
        self._add(section, f"lag at {first[0]}", "events", first[1], others=dict(later))
        self._bounded(
            "memory and batches while it drains (baseline: afterwards)", watch, after, during, None
        )
        self.details["drain"] = {
            "alone": asdict(undisturbed),
            "found": asdict(drain),
            "looks": watch.looks,
        }

    # ------------------------------------------------------------------ figures
    def _add(
        self,
        section: str,
        name: str,
        unit: str,
        ours: float,
        theirs: float | None = None,
        *,
        better: str = "lower",
        bound: float | None = None,
        others: Mapping[str, float] | None = None,
    ) -> None:
        rounded = {rate_name: round(value, 1) for rate_name, value in (others or {}).items()}
        baseline = None if theirs is None else round(theirs, 3)
        self.figures.append(
            Figure(
                section, name, unit, round(ours, 3), baseline, better, bound=bound, others=rounded
            )
        )

    def _bounded(
        self, section: str, watch: Watch, before: Phase, during: Phase, after: Phase | None
    ) -> None:
        """Batches and memory, which are bounded."""
        some = batches(self.logs / "stream.log")
        whole = Phase(during.start - LOOKED_BACK_S, during.end + LOOKED_BACK_S)
        most = float(self.stack.settings.max_events_per_batch)
        self._add(
            section,
            "largest batch",
            "events",
            largest(some, whole),
            largest(some, before),
            bound=most,
        )
        for name in watch.pids:
            others = {} if after is None else {"after": watch.most_memory(name, after)}
            memory = watch.most_memory(name, during), watch.most_memory(name, before)
            self._add(section, f"{name}, memory", "MiB", *memory, others=others)

    def _answered(
        self, section: str, reads: Reads, before: Phase, during: Phase, after: Phase
    ) -> None:
        first, meanwhile, later = (reads.seen(when) for when in (before, during, after))
        for name in ("p50", "p99", "worst"):
            values = [float(getattr(part.latency, name)) for part in (meanwhile, first, later)]
            self._add(section, name, "ms", values[0], values[1], others={"after": values[2]})
        refused = [float(sum(part.refused.values())) for part in (meanwhile, first, later)]
        self._add(
            section,
            "not answered with 200",
            "reads",
            *refused[:2],
            others={"of": float(meanwhile.requests)},
        )
        self.details[section] = [asdict(part) for part in (first, meanwhile, later)]


def phase(seconds: float) -> Phase:
    """Lasts for so long from now on."""
    start = time.time()
    time.sleep(seconds)
    return Phase(start, time.time())


def _ended(pid: int) -> bool:
    """Tells whether a process of ours, which nobody has waited for yet, has ended."""
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def _missing(watch: Watch, end: int) -> str | None:
    applied = watch.looks[-1].applied if watch.looks else 0
    return None if applied >= end else f"{applied:,} of {end:,} applied"


def measure(sizes: Sizes, overrides: Mapping[str, str]) -> tuple[list[Figure], dict[str, Any]]:
    """Figures, and the details behind them."""
    given = {
        "SLICEWISE_MAX_EVENTS_PER_BATCH": str(sizes.batch),
        "SLICEWISE_SERVING_CLIENT_HEADER": CLIENT,
    }
    with stack(PROJECTS / "plays", {**given, **overrides}) as running:
        running.up()
        running.cli("apply", "--no-wait")
        with realtime_is(running, on=True):
            run = Run(running, sizes)
            run.all()
    return run.figures, run.details


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 also where a bound is not kept: figures are no test."""
    given = _parse(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    facts = machine.facts(redis_server.binary(Settings.load()))
    if facts["noisy"]:
        notify(
            f"the machine is busy (load {facts['load_1m_5m_15m'][0]}): these figures will be too"
        )
    sizes = Sizes.quick() if given.quick else Sizes()
    for name in ("rate", "surge_s", "outage_s"):
        if getattr(given, name) is not None:
            sizes = replace(sizes, **{name: getattr(given, name)})
    begun = time.monotonic()
    figures, details = measure(sizes, dict(override.split("=", 1) for override in given.set))
    publish(
        "make bench-surge",
        arguments,
        given,
        facts,
        round(time.monotonic() - begun),
        figures,
        details,
    )
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "bench-surge", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--rate", type=float, help="usual events per second (1000)")
    parser.add_argument("--surge-s", type=float, help="seconds of ten times the usual rate (60)")
    parser.add_argument(
        "--outage-s",
        type=float,
        help="seconds of usual events for which the stream was down (3600)",
    )
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="settings, as in the environment"
    )
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
