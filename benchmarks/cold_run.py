"""A newcomer's wait is measured: `make run` from a finished set-up and no state, step by step, and
once more.

  make bench-run
  make bench-run BENCH="--share 0.06 --json figures.json"     an hour and a half of the past: that it works

In a state folder of its own, which is removed afterwards. Processor time is that of all processes
that the run started, of those too that go on after it. Nothing else may run on the machine: two
cores are the bound.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from benchmarks.whole.servers import notify
from slicewise.local.servers import process
from slicewise.local.servers import redis as redis_server
from slicewise.settings import Settings

FIRST_ANSWER_S, SUMMARY_S, AGAIN_S = 45.0, 150.0, 3.0
_PATIENCE_S = 3_600.0
_BOUNDS = {"first answer": FIRST_ANSWER_S, "summary": SUMMARY_S}


def measure(share: str) -> tuple[list[Figure], dict[str, Any]]:
    """Figures, and the details behind them."""
    with TemporaryDirectory(prefix="slicewise-bench-") as folder:
        state = Path(folder) / "state"
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("SLICEWISE_")
        }
        env = {**kept, "SLICEWISE_STATE": str(state), "SLICEWISE_REPLAY_SHARE": share}
        try:
            before = _spent()
            first, first_s = _run(env)
            spent_s = _spent() - before + _spent_of_services(state)
            again, again_s, again_spent_s = _again(env)
        finally:
            subprocess.run(
                [_program(), "clean"], env=env, check=False, stdout=sys.stderr, timeout=300
            )
    if again["changed"]:
        raise AssertionError(f"a second run changed something: {again['changed']}")
    cold, warm = f"make run, {first['events_in']:,} events of the past", "make run, once more"
    figures = [
        Figure(cold, f"{step} after", "s", seconds, bound=_BOUNDS.get(step))
        for step, seconds in sorted(first["seconds"].items(), key=lambda pair: pair[1])
    ]
    figures += [
        Figure(cold, "processor time", "s", round(spent_s, 1)),
        Figure(warm, "elapsed", "s", round(again_s, 2), bound=AGAIN_S),
        Figure(warm, "processor time", "s", round(again_spent_s, 2)),
    ]
    named = ("events_in", "hours_compacted", "values_checked", "mismatches", "changed")
    details = {name: first[name] for name in named} | {
        "elapsed_s": round(first_s, 2),
        "again": again["seconds"],
    }
    return figures, details


def _again(env: Mapping[str, str]) -> tuple[dict[str, Any], float, float]:
    before = _spent()
    report, seconds = _run(env)
    return report, seconds, _spent() - before


def _run(env: Mapping[str, str]) -> tuple[dict[str, Any], float]:
    """The report of a run, and how long it took, the interpreter's start included."""
    notify("slicewise run")
    begun = time.monotonic()
    done = subprocess.run(
        [_program(), "run", "--json"],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=_PATIENCE_S,
    )
    seconds = time.monotonic() - begun
    *lines, last = done.stdout.splitlines() or [""]
    for line in lines:
        notify(f"  {line}")
    if done.returncode:
        raise RuntimeError(f"slicewise run ended with {done.returncode}: {last}")
    report: dict[str, Any] = json.loads(last)
    return report, seconds


def _spent() -> float:
    """Processor seconds of all ended children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _spent_of_services(state: Path) -> float:
    """Processor seconds of what goes on, and of what ended below it."""
    seconds = 0.0
    for birth in process.marked(state):
        try:
            times = psutil.Process(birth.pid).cpu_times()
        except psutil.Error:
            continue
        seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def _program() -> str:
    return str(Settings.load({}).platform_python.parent / "slicewise")


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 also where an aim is missed: figures are no test."""
    parser = argparse.ArgumentParser(
        "bench-run", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--share", default="0.8", help="of the example's year that lies before the start"
    )
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
    begun = time.monotonic()
    figures, details = measure(given.share)
    publish(
        "make bench-run", arguments, given, facts, round(time.monotonic() - begun), figures, details
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
