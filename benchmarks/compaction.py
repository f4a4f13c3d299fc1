"""Many hours are compacted in one application, beside Spark's own groupBy over the same archive.

  make bench-compaction
  make bench-compaction BENCH="--quick"                     small: that it works, not how fast
  make bench-compaction BENCH="--only 10000000 --json figures.json"

Payments of users lie in an archive of 336 hours. slicewise compacts all of them as its job does:
exact partials of every slice, a header an hour, Iceberg. Spark groups the same snapshot by hour,
slice and user, adds with its own inexact sum, and writes into an Iceberg table of the same
partitions. Each has a process of its own; the session's start is in neither figure. Counts and
maxima must then be equal, sums within what rounding explains.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.training_data import definitions, make, settings
from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from benchmarks.whole.servers import HOME, notify
from slicewise.local.servers import redis as redis_server
from slicewise.settings import Settings
from slicewise.stores.lake import slices
from slicewise.stores.lake.catalog import open_catalog

SIZES = (1_000_000, 10_000_000, 100_000_000)
QUICK = (20_000, 60_000)
SIDES = ("ours", "spark")
EVENTS_PER_USER = 2_000
WANTED_TIMES = 1.0
COMPARED_HOURS = 24
ULP = 2.0**-53

Taken = dict[str, dict[str, float]]


def measure(sizes: Sequence[int]) -> tuple[list[Figure], dict[str, Any]]:
    """Figures, and what each side took at each size."""
    taken: dict[int, Taken] = {}
    for size in sizes:
        with TemporaryDirectory(prefix="slicewise-bench-") as name:
            folder = Path(name)
            notify(f"an archive of {size:,} events")
            make(folder, size, tokens=False, events_per_user=EVENTS_PER_USER)
            taken[size] = {side: _taken(side, folder, size) for side in SIDES}
            compared = _compare(folder)
            notify(f"{compared:,} rows compared with Spark's: equal")
    return _figures(taken), {f"{size}": measured for size, measured in taken.items()}


def _taken(side: str, folder: Path, size: int) -> dict[str, float]:
    notify(f"{side}: {size:,} events")
    python = str(Settings.load().spark_python)
    done = subprocess.run(
        [python, "-m", "benchmarks.compaction_sides", side, str(folder)],
        cwd=HOME,
        env={**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _compare(folder: Path) -> int:
    """Raises AssertionError where the two differ by more than rounding; how many rows were
    compared."""
    catalog = open_catalog(settings(folder))
    (unit,) = definitions().view("spending")
    own_table = slices.load(catalog, unit.storage_fingerprint)
    assert own_table is not None
    hours = sorted(slices.headers(own_table))
    some = hours[:: max(1, len(hours) // COMPARED_HOURS)]
    keys = [(name, "ascending") for name in ("hour", "slice", "user_id")]
    own = slices.scan_slices(own_table, some).sort_by(keys).combine_chunks()
    listed = ", ".join(map(str, some))
    plain = catalog.load_table(("slices", "plain")).scan(row_filter=f"hour in ({listed})")
    theirs = plain.to_arrow().sort_by(keys).combine_chunks()
    assert own.num_rows == theirs.num_rows, (own.num_rows, theirs.num_rows)
    for name in ("hour", "slice", "user_id", "events", "late"):
        assert own[name].equals(theirs[name].cast(own[name].type)), name
    partials = unit.layout.from_arrow(own)
    values = {
        feature.feature: np.asarray(
            feature.aggregate.finish_columns(partials[feature.partial]).values
        )
        for feature in unit.features
    }
    counted = np.asarray(theirs["n"].to_numpy())
    assert np.array_equal(values["n"], counted)
    assert np.array_equal(values["most"], theirs["most"].to_numpy())
    a, b = values["total"], theirs["total"].to_numpy()
    assert (np.abs(a - b) <= (counted + 1) * ULP * np.maximum(a, b)).all()
    return int(own.num_rows)


def _figures(taken: Mapping[int, Taken]) -> list[Figure]:
    figures = []
    for size, measured in taken.items():
        own, theirs = measured["ours"], measured["spark"]
        section = f"{size:,} events, {own['hours']} hours (baseline: Spark's groupBy, inexact)"
        figures += [
            Figure(
                section,
                "compacted",
                "events/s",
                round(size / own["seconds"]),
                round(size / theirs["seconds"]),
                "higher",
                aim=WANTED_TIMES,
            ),
            Figure(
                section,
                "processor",
                "µs/event",
                own["processor_s"] / size * 1e6,
                theirs["processor_s"] / size * 1e6,
            ),
            Figure(section, "memory", "MiB", round(own["peak_mib"]), round(theirs["peak_mib"])),
        ]
    for smaller, larger in pairwise(sorted(taken)):
        grown, baseline = (
            taken[larger][side]["seconds"] / taken[smaller][side]["seconds"] for side in SIDES
        )
        section = "time, times that of the size before"
        figures.append(Figure(section, f"{larger:,} events", "times", grown, baseline))
    return figures


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 also where an aim is missed: figures are no test."""
    parser = argparse.ArgumentParser(
        "bench-compaction", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: not how fast it is")
    parser.add_argument("--only", type=int, nargs="+", metavar="EVENTS", help="these sizes")
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    sizes = given.only or (QUICK if given.quick else SIZES)
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    figures, details = measure(tuple(sorted(set(sizes))))
    seconds = round(time.monotonic() - begun)
    publish("make bench-compaction", arguments, given, facts, seconds, figures, details)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
