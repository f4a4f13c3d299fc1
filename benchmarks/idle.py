"""A platform that nobody sends an event is measured: processor time and memory of every process.

  make bench-idle
  make bench-idle BENCH="--minutes 2 --calm 60 --json figures.json"
  make bench-idle BENCH="--state .state"         a platform that runs already, and goes on

`make run` with everything on, an hour and a half of the example's past, in a state folder of its
own that is removed afterwards; then both of the example's producers are stopped. It is calm once
no run of Airflow's is under way but the watch of the stream, so many seconds after that (--calm),
and at a time at which no hourly run begins before the end: what hours cost is told by other
measurements. The prober goes on, an event a second, and so does the look for views that are not
ready, every two minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.idle_processes import Look, Memory, Use, looks, memory, total, used
from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from benchmarks.whole.servers import notify, until
from slicewise.local.airflow.api import AirflowApi
from slicewise.local.servers import redis as redis_server
from slicewise.local.servers import services
from slicewise.settings import Settings

CORES, MEMORY_MIB = 0.25, 3_072.0
SHARE = "0.06"
STARTED_BY_THE_HOUR = (0, 20)
"""Minutes of the hour at which runs of Airflow's begin."""
THEIR_WORK_S = 300.0
"""Time that such runs are given."""
_PATIENCE_S = 3_600.0
_SMALL_MS = 0.5
"""Milliseconds a second below which a role has no row of its own."""


@contextmanager
def platform() -> Iterator[Settings]:
    """`make run` from nothing, and nothing of it afterwards."""
    with TemporaryDirectory(prefix="slicewise-bench-") as folder:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("SLICEWISE_")
        }
        given = {"SLICEWISE_STATE": str(Path(folder) / "state"), "SLICEWISE_REPLAY_SHARE": SHARE}
        env = {**kept, **given}
        try:
            notify("slicewise run")
            _slicewise(env, "run")
            _slicewise(env, "down", services.REPLAY, services.PLAYS)
            yield Settings.load(env)
        finally:
            _slicewise(env, "clean", check=False)


def _slicewise(env: Mapping[str, str], *arguments: str, check: bool = True) -> None:
    program = Settings.load({}).platform_python.parent / "slicewise"
    subprocess.run(
        [str(program), *arguments],
        env=dict(env),
        stdout=sys.stderr,
        check=check,
        timeout=_PATIENCE_S,
    )


def clear_in_s(now_s: float, window_s: float) -> float:
    """Seconds until a window begins in which no hourly run works. now_s: of the epoch."""
    hour_s = now_s % 3_600
    wait_s = 0.0
    while wait_s <= 3_600 and any(
        begun < (hour_s + wait_s + window_s) and hour_s + wait_s < begun + THEIR_WORK_S
        for minute in STARTED_BY_THE_HOUR
        for begun in (minute * 60, minute * 60 + 3_600)
    ):
        wait_s += 1.0
    if wait_s > 3_600:
        raise SystemExit("--minutes: no such time lies between two hourly runs")
    return wait_s


def calm(settings: Settings, calm_s: float, window_s: float) -> float:
    """Waits until nothing is left to do but to wait; the seconds that it took."""
    begun = time.monotonic()
    notify("until no run is under way")
    with AirflowApi(settings.airflow_url) as airflow:

        def is_quiet() -> bool:
            return all(
                run.over
                for dag in airflow.paused_by_dag().keys() - {"ingest_stream", "backfill_view"}
                for run in airflow.runs(dag, limit=5)
            )

        until(is_quiet, "no run under way", _PATIENCE_S, 1.0)
    wait_s = calm_s + clear_in_s(time.time() + calm_s, window_s)
    notify(f"until it is calm: {wait_s:.0f} s")
    time.sleep(wait_s)
    return time.monotonic() - begun


def measure(settings: Settings, window_s: float) -> tuple[list[Figure], dict[str, Any]]:
    """Figures, and the details behind them."""
    notify(f"measuring for {window_s:.0f} s")
    before, begun = looks(settings.state_dir), time.monotonic()
    time.sleep(window_s)
    after, seconds = looks(settings.state_dir), time.monotonic() - begun
    if not before or not after:
        raise RuntimeError(f"nothing runs in {settings.state_dir}")
    return figures(before, after, seconds, memory(after))


def figures(
    before: Mapping[int, Look],
    after: Mapping[int, Look],
    seconds: float,
    sizes: Mapping[str, Memory],
) -> tuple[list[Figure], dict[str, Any]]:
    """Both tables: what costs most stands first, and what costs next to nothing together."""
    uses, whole = used(before, after), total(sizes.values())
    cores = sum(use.cpu_s for use in uses.values()) / seconds
    wakeups = sum(use.wakeups for use in uses.values()) / seconds
    processor = f"processor time of {whole.processes} processes in {seconds / 60:.0f} minutes"
    rows = [
        Figure(
            processor,
            "all, cores",
            "a second",
            round(cores, 3),
            bound=CORES,
            others={"wake-ups a second": round(wakeups)},
        )
    ]
    rows += [
        Figure(
            processor,
            f"  {role}",
            "ms a second",
            round(use.cpu_s / seconds * 1_000, 1),
            others={"wake-ups a second": round(use.wakeups / seconds, 1)},
        )
        for role, use in _grouped(uses, seconds)
    ]
    shared = "memory, at its end"
    rows.append(
        Figure(
            shared,
            "all, PSS",
            "MiB",
            _mib(whole.pss),
            bound=MEMORY_MIB,
            others={"RSS": _mib(whole.rss)},
        )
    )
    rows += [
        Figure(shared, f"  {role}", "MiB", _mib(size.pss), others={"RSS": _mib(size.rss)})
        for role, size in sorted(sizes.items(), key=lambda pair: -pair[1].pss)
    ]
    details = {
        "seconds": round(seconds, 1),
        "cores": {role: round(use.cpu_s / seconds, 5) for role, use in uses.items()},
        "wakeups_per_s": {role: round(use.wakeups / seconds, 2) for role, use in uses.items()},
        "pss_mib": {role: _mib(size.pss) for role, size in sizes.items()},
        "rss_mib": {role: _mib(size.rss) for role, size in sizes.items()},
        "processes": {role: size.processes for role, size in sizes.items()},
    }
    return rows, details


def _grouped(uses: Mapping[str, Use], seconds: float) -> list[tuple[str, Use]]:
    ordered = sorted(uses.items(), key=lambda pair: -pair[1].cpu_s)
    large = [pair for pair in ordered if pair[1].cpu_s / seconds * 1_000 >= _SMALL_MS]
    small = [use for _, use in ordered[len(large) :]]
    rest = Use(sum(use.cpu_s for use in small), sum(use.wakeups for use in small))
    return [*large, *([("the others", rest)] if small else [])]


def _mib(size: int) -> float:
    return round(size / 2**20, 1)


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 also where an aim is missed: figures are no test."""
    parser = argparse.ArgumentParser(
        "bench-idle", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="to measure for")
    parser.add_argument(
        "--calm", type=float, default=180.0, help="seconds without work before that"
    )
    parser.add_argument("--state", type=Path, help="folder of a platform that runs already")
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    facts = machine.facts(redis_server.binary(Settings.load()))
    if facts["noisy"]:
        notify(
            f"the machine is busy (load {facts['load_1m_5m_15m'][0]}): these figures will be too"
        )
    begun, window_s = time.monotonic(), given.minutes * 60
    clear_in_s(0.0, window_s)  # one that is too long is refused before anything starts
    if given.state is None:
        with platform() as settings:
            calm_s = calm(settings, given.calm, window_s)
            rows, details = measure(settings, window_s)
    else:
        settings = Settings.load({"SLICEWISE_STATE": str(given.state.absolute())})
        calm_s = calm(settings, given.calm, window_s)
        rows, details = measure(settings, window_s)
    details["calm_s"] = round(calm_s)
    publish(
        "make bench-idle", arguments, given, facts, round(time.monotonic() - begun), rows, details
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
