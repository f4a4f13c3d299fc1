"""The platform's own check that online and offline agree: its start, and its cost a value beyond
it, by entities and columns.

  make bench-check
  make bench-check BENCH="--turns 5 --json figures.json"
  make bench-check BENCH="--quick"                     small: that it works, not how fast

Twenty-six hours of plays go through the log into the store; all hours that are over are compacted.
Then `check_consistency`'s job runs over a view of six features and over one of thirty, for more
and more entities, all sizes in turn. Each run compares every value at the present and at an instant
of the past. A value that differs or is not compared ends the measurement. Processor time is that of
the job, its JVM, its workers, and of the API and the store meanwhile. The start is what a line
through all runs of a view has at no values at all; the cost of a value is the line's slope.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import linear_regression, median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from benchmarks.whole.servers import (
    PROJECTS,
    TOPIC,
    cpu_by_program,
    notify,
    pid_of,
    produce_plays,
)
from benchmarks.whole.spent import Spent, spent
from benchmarks.whole.streaming import our_stream
from slicewise.local.servers import redis as redis_server
from slicewise.settings import Settings
from slicewise.windows.durations import MINUTE_US
from tests.support.platform.stack import Stack

VIEWS = {"narrow": 6, "wide": 30}
"""Features of each view."""
MODES = 2
"""A value is compared at the present and at an instant of the past."""
ENTITIES, USERS, TURNS = (50, 400, 1_600), 4_000, 3
QUICK, QUICK_USERS = (20, 1_000), 2_000
WANTED_PER_S = 2_000
HOURS, STEP_MINUTES, SONGS, SEED = 26, 10, 40, 7
LEAST_SHARE = 0.9
"""Least share of the sample: an entity may be among the newest and among some of all."""


@dataclass(frozen=True)
class Run:
    """One run of the check. processor_s: of the job and all that it started; answers_s: of the API
    and the store meanwhile."""

    entities: int
    values: int
    elapsed_s: float
    processor_s: float
    answers_s: float
    phases: Mapping[str, float]

    @property
    def whole_s(self) -> float:
        """Processor seconds of everything."""
        return self.processor_s + self.answers_s


Runs = dict[tuple[str, int], list[Run]]
"""By view and sample."""


def plays(users: int, now_us: int) -> Iterator[dict[str, Any]]:
    """Plays of each user, one in ten minutes."""
    chance = random.Random(SEED)
    for minutes in range(HOURS * 60, 0, -STEP_MINUTES):
        for user in range(users):
            at = now_us - minutes * MINUTE_US + chance.randrange(MINUTE_US // 2)
            yield {
                "user_id": f"h{user}",
                "song_id": f"s{chance.randrange(SONGS)}",
                "seconds": round(chance.uniform(0, 420), 3),
                "skipped": chance.random() < 0.2,
                "played_at": at,
            }


def measure(sizes: Sequence[int], turns: int, users: int) -> tuple[list[Figure], dict[str, Any]]:
    """Figures, and every run behind them."""
    with TemporaryDirectory(prefix="slicewise-bench-") as folder:
        stack = Stack(Path(folder) / "ours", PROJECTS / "checked")
        try:
            stack.up()
            stack.cli("apply", "--no-wait")
            total = produce_plays(stack, plays(users, time.time_ns() // 1000))
            notify(f"{total:,} events through the stream")
            with our_stream(stack):
                stack.wait_applied(TOPIC)
            notify("compacting every hour that is over")
            stack.job("compact", "--max-hours", str(HOURS + 2), timeout_s=900)
            runs = _runs(stack, sizes, turns)
        finally:
            stack.down()
    return _figures(runs), {
        "events": total,
        "runs": [{"view": view, **asdict(run)} for (view, _), made in runs.items() for run in made],
    }


def _runs(stack: Stack, sizes: Sequence[int], turns: int) -> Runs:
    runs: Runs = {(view, size): [] for view in VIEWS for size in sizes}
    pids = [pid_of(stack, service) for service in ("serving", "redis")]
    for turn in range(turns):
        for view, size in runs:
            run = _run(stack, view, size, f"{view}-{size}-{turn}", pids)
            notify(f"{view}, {run.values:,} values: {run.elapsed_s:.1f} s, {dict(run.phases)}")
            runs[view, size].append(run)
    return runs


def _run(stack: Stack, view: str, size: int, name: str, pids: Sequence[int]) -> Run:
    before = sum(cpu_by_program(pids).values())
    with spent() as took:
        report = stack.job(
            "check", "--views", view, "--sample", str(size), "--run", name, timeout_s=900
        )
    answers_s = sum(cpu_by_program(pids).values()) - before
    return _run_of(view, size, report, took, answers_s)


def _run_of(view: str, size: int, report: Mapping[str, Any], took: Spent, answers_s: float) -> Run:
    """A run that compared every value; raises AssertionError where one is missing or differs."""
    entities, values = int(report["entities"]), int(report["values"])
    whole = (
        report["outcome"] == "green"
        and not report["notes"]
        and report["features"] == VIEWS[view]
        and values == entities * VIEWS[view] * MODES
        and entities >= size * LEAST_SHARE
    )
    if not whole:
        raise AssertionError(f"not every value was compared and equal: {report}")
    return Run(
        entities, values, took.elapsed_s, took.processor_s, round(answers_s, 2), report["seconds"]
    )


def _figures(runs: Runs) -> list[Figure]:
    figures: list[Figure] = []
    costs: dict[str, float] = {}
    for view, columns in VIEWS.items():
        of_view = {size: made for (name, size), made in runs.items() if name == view}
        for made in of_view.values():
            figures += _of_size(columns, made)
        of_line, costs[view] = _of_line(columns, [run for made in of_view.values() for run in made])
        figures += of_line
    return [*figures, _growth(costs)]


def _growth(costs: Mapping[str, float]) -> Figure:
    (least, fewer), (most, more) = ((VIEWS[view], cost) for view, cost in costs.items())
    section = "growth with columns, beyond the start"
    return Figure(section, f"a value among {most}, of one among {least}", "times", more / fewer)


def _of_size(columns: int, made: Sequence[Run]) -> list[Figure]:
    """Medians of the runs of one size."""
    section = f"{made[0].entities} entities, {columns} columns: {made[0].values:,} values"
    elapsed, whole, answers = (
        median(getattr(run, name) for run in made) for name in ("elapsed_s", "whole_s", "answers_s")
    )
    return [
        Figure(section, "elapsed", "s", round(elapsed, 2)),
        Figure(section, "processor", "s", round(whole, 2)),
        Figure(section, "  of it API and store", "s", round(answers, 2)),
        Figure(section, "processor of a value, with the start", "µs", whole / made[0].values * 1e6),
    ]


def _of_line(columns: int, made: Sequence[Run]) -> tuple[list[Figure], float]:
    """Start and cost of a value by a line through the runs of one view; the cost in
    microseconds."""
    values = [float(run.values) for run in made]
    processor = linear_regression(values, [run.whole_s for run in made])
    elapsed = linear_regression(values, [run.elapsed_s for run in made])
    if processor.slope <= 0:
        raise RuntimeError("more values took no longer: more turns or larger sizes are needed")
    section = f"{columns} columns, a line through {len(made)} runs of {min(values):,.0f} to {max(values):,.0f} values"
    return [
        Figure(section, "the start: elapsed", "s", round(elapsed.intercept, 2)),
        Figure(section, "the start: processor", "s", round(processor.intercept, 2)),
        Figure(
            section,
            "compared beyond the start",
            "values/s/core",
            round(1 / processor.slope),
            better="higher",
            bound=WANTED_PER_S,
        ),
        Figure(section, "processor of a value", "µs", round(processor.slope * 1e6, 1)),
    ], processor.slope * 1e6


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 also where an aim is missed: figures are no test."""
    parser = argparse.ArgumentParser(
        "bench-check", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: not how fast it is")
    parser.add_argument("--turns", type=int, help="runs of each size")
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    sizes, turns, users = (QUICK, 1, QUICK_USERS) if given.quick else (ENTITIES, TURNS, USERS)
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    figures, details = measure(sizes, given.turns or turns, users)
    seconds = round(time.monotonic() - begun)
    publish("make bench-check", arguments, given, facts, seconds, figures, details)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
