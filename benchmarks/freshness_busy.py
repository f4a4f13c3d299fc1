"""An event's delay until it is in an answer while hours are compacted and answers are checked.

Both jobs run one after the other, again and again, each in a Spark application of its own as
Airflow begins it; late events make hours of the past dirty before each compaction. A check that is
not green, or a probe that never showed, ends the run with exit code 1.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.freshness_sides import Request, listening, our_drivers, realtime_is, used
from benchmarks.whole import probes
from benchmarks.whole.figures import Figure
from benchmarks.whole.servers import PROJECTS, load, measure, notify, pid_of, produce_plays
from slicewise.windows.durations import HOUR_US, MINUTE_US
from tests.support.platform.stack import Stack, stack

BOUND_MS = 100.0
WARM_UP_S = 20.0
HOURS, LATE, USERS, SAMPLE = 6, 20_000, 5_000, 100
"""Hours of the past, late events before each compaction, users, entities of a check."""
JOB_S = 300


@dataclass
class Jobs:
    """Jobs that run beside, as long as they are wanted."""

    running: Stack
    done: Counter[str] = field(default_factory=Counter)
    """Amounts of what was done, by its name."""
    failures: list[str] = field(default_factory=list)
    _chance: random.Random = field(default_factory=lambda: random.Random(7))

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Runs them from a thread of its own; what has begun is finished."""
        over = threading.Event()
        thread = threading.Thread(target=self._run, args=(over,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _run(self, over: threading.Event) -> None:
        while not over.is_set():
            try:
                self.compact()
                if not over.is_set():
                    self.check()
            except Exception as error:  # noqa: BLE001 - whoever measures tells it
                self.failures.append(str(error)[:2_000])
                return

    def compact(self) -> None:
        """Late events, and the compaction of the hours that they make dirty."""
        produce_plays(self.running, self._late(), late=True)
        report = self.running.job("compact", "--max-hours", str(HOURS + 1), timeout_s=JOB_S)
        self.done["compactions"] += 1
        self.done["  hours in them"] += len(report["hours"])

    def check(self) -> None:
        """A check; raises RuntimeError where it is not green."""
        report = self.running.job("check", "--sample", str(SAMPLE), timeout_s=JOB_S)
        if report["outcome"] != "green":
            raise RuntimeError(f"the check is {report['outcome']}: {report}")
        self.done["checks, all green"] += 1
        self.done["  values compared in them"] += int(report["values"])

    def _late(self) -> Iterator[dict[str, Any]]:
        """Plays of the last hours that are over."""
        end = time.time_ns() // 1_000 // HOUR_US * HOUR_US
        for _ in range(LATE):
            yield {
                "user_id": f"late{self._chance.randrange(USERS)}",
                "song_id": "s1",
                "seconds": 3.5,
                "skipped": False,
                "played_at": end - self._chance.randrange(1, HOURS * 60) * MINUTE_US,
            }


def run(
    overrides: Mapping[str, str], rate: float, seconds: float
) -> tuple[list[Figure], dict[str, Any], int]:
    """Figures, details, and how many probes never showed or jobs failed."""
    with stack(PROJECTS / "plays", overrides) as running:
        running.up("redis", "kafka", "serving")
        running.cli("apply", "--no-wait")
        with realtime_is(running, on=True), our_drivers(running) as drivers:
            jobs = Jobs(running)
            notify("a first compaction and check, with nothing beside")
            jobs.compact()
            jobs.check()
            jobs.done.clear()
            names = {name: pid_of(running, name) for name in ("redis", "serving", "kafka")}
            pids = {**drivers, **names}
            whole = WARM_UP_S + seconds + probes.PATIENCE_S
            request = Request(rate, seconds, WARM_UP_S, 10.0)
            logs = running.settings.state_dir / "logs"
            notify(f"{rate:,.0f} events/s for {seconds:.0f} s, compactions and checks beside")
            with load(running.settings, rate, whole + JOB_S, logs / "load.log"), jobs.beside():
                spent, begun = used(pids), time.perf_counter()
                spec = listening(running.settings, "b-", request)
                seen = measure("probes", asdict(spec), whole + 30)
                took = time.perf_counter() - begun
                cores = {
                    name: round((now - spent[name]) / took, 3) for name, now in used(pids).items()
                }
    for failure in jobs.failures:
        notify(failure)
    section = f"produce → answer at {rate:,.0f} events/s, compactions and checks beside"
    fresh = seen["freshness"]
    figures = [
        Figure(section, "p50", "ms", fresh["p50"]),
        Figure(section, "p99", "ms", fresh["p99"], bound=BOUND_MS),
        Figure(section, "worst", "ms", fresh["worst"]),
        Figure(section, "probes that never showed", "probes", seen["lost"], bound=0),
        *(Figure(section, name, "", count, better="higher") for name, count in jobs.done.items()),
        *(Figure(section, f"{name}, processor", "cores", value) for name, value in cores.items()),
    ]
    wrong = int(seen["lost"]) + len(jobs.failures)
    return figures, {"seen": seen, "jobs": dict(jobs.done)}, wrong
