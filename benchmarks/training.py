"""A training set is measured beside DuckDB on the same files, in the same run.

  make bench-training
  make bench-training BENCH="--quick"                              small: that it works, not how fast
  make bench-training BENCH="--only 10000000 --without tokens --json figures.json"
  make bench-training BENCH="--doc docs/benchmarks/training.md"

Payments of users lie in an archive, by hour, of 14 days. A tenth as many rows ask for the sum, the
count and the maximum of the amounts of 1 hour, 1 day and 7 days. slicewise answers by one call of
`sw.training_set`, by event time, by token, and by Spark; DuckDB by RANGE windows, whose frames
begin where ours do, and by a join. Each has a process of its own. Counts and maxima must be equal,
sums within what rounding explains; Spark's set must be ours, and sampled rows the exact sum of
their events, bit for bit.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.training_data import (
    AMOUNT,
    EVENTS_PER_ROW,
    PARTITIONS,
    SEED,
    definitions,
    make,
)
from benchmarks.training_sides import archived_files
from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from benchmarks.whole.servers import HOME, notify
from slicewise.local.servers import redis as redis_server
from slicewise.offsets.token import decode
from slicewise.settings import Settings

SIZES = (1_000_000, 3_000_000, 10_000_000)
QUICK = (20_000, 60_000)
SIDES = ("ours", "tokens", "spark", "windows", "join")
TIMES_FASTER = 4.0
"""Times as fast as DuckDB's windows that the largest of SIZES shall be."""
TIMES_BY_TOKEN = 2.0
"""Times an answer by event time that one by token may take."""
SAMPLED = 200
"""Rows whose events are looked up one by one."""
ULP = 2.0**-53

Measured = dict[str, dict[str, float]]


def measure(sizes: Sequence[int], sides: Sequence[str]) -> tuple[list[Figure], dict[str, Any]]:
    """Figures, and what each side took at each size."""
    taken: dict[int, Measured] = {}
    for size in sizes:
        with TemporaryDirectory(prefix="slicewise-bench-") as name:
            folder = Path(name)
            notify(f"an archive of {size:,} events")
            make(folder, size, tokens="tokens" in sides)
            taken[size] = {side: _taken(side, folder) for side in sides}
            _compare(folder, sides)
    return _figures(taken), {f"{size}": measured for size, measured in taken.items()}


def _taken(side: str, folder: Path) -> dict[str, float]:
    notify(f"{side}: answering")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.training_sides", side, str(folder)],
        cwd=HOME,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


# ------------------------------------------------------------------ equal answers
def _compare(folder: Path, sides: Sequence[str]) -> None:
    """Raises AssertionError where two sides differ by more than rounding, or a sampled row by a
    bit."""
    answers = {side: pq.read_table(folder / f"{side}.parquet") for side in sides}
    features = definitions().view("spending")[0].features
    for side in ("windows", "join"):
        if side not in answers or "ours" not in answers:
            continue
        for feature in features:
            own, other = (answers[s][feature.column].combine_chunks() for s in ("ours", side))
            if not feature.column.startswith("total"):
                assert own.equals(other.cast(own.type)), (side, feature.column)
                continue
            count = answers["ours"][feature.column.replace("total", "n")].to_numpy()
            _refuse_unrounded(own, other, np.asarray(count), f"{side}, {feature.column}")
    if {"ours", "spark"} <= answers.keys():
        assert answers["spark"].equals(answers["ours"]), "Spark gives the same bits"
    rows = np.random.default_rng(SEED).choice(
        answers[sides[0]].num_rows, min(SAMPLED, answers[sides[0]].num_rows), replace=False
    )
    for side in ("ours", "tokens"):
        if side in answers:
            _compare_sampled(folder, answers[side].take(pa.array(np.sort(rows))), side)


def _refuse_unrounded(own: pa.Array, other: pa.Array, count: Any, where: str) -> None:
    """Amounts are positive, so that a sum is its own measure of rounding."""
    assert own.is_null().equals(other.is_null()), where
    a, b = (np.asarray(pc.fill_null(side, 0.0).to_numpy()) for side in (own, other))
    assert (np.abs(a - b) <= (count + 1) * ULP * np.maximum(a, b)).all(), where


def _compare_sampled(folder: Path, rows: pa.Table, side: str) -> None:
    """Compares each sampled row with its events themselves, added by `math.fsum`."""
    (unit,) = definitions().view("spending")
    events = pa.concat_tables(
        [
            pq.read_table(
                file,
                columns=["kind", "user_id", "event_time", "partition", "offset", AMOUNT],
                filters=[("kind", "=", "good"), ("user_id", "in", pc.unique(rows["user_id"]))],
            )
            for file in archived_files(folder)
        ]
    )
    users = np.asarray(events["user_id"].to_numpy())
    time_us = np.asarray(events["event_time"].cast(pa.int64()).to_numpy())
    partition, offset = (np.asarray(events[name].to_numpy()) for name in ("partition", "offset"))
    amount = np.asarray(events[AMOUNT].to_numpy())
    at = rows["at"].cast(pa.int64()).to_pylist()
    for row, values in enumerate(rows.to_pylist()):
        seen = users == values["user_id"]
        token = decode(values["token"]) if side == "tokens" else None
        if token is not None:
            (topic,) = {topic for topic, _ in token.base} or {""}
            ends = np.array([token.base.get((topic, p)) for p in range(PARTITIONS)])
            seen &= offset < ends[partition]
        for feature in unit.features:
            if token is not None:
                start, end = token.bounds[feature.column]
            else:
                start, end = feature.window.bounds("event_time", at[row], unit.slice_us)
            inside = amount[seen & (time_us >= start) & (time_us < end)].tolist()
            wanted = {"total": math.fsum(inside) if inside else None, "n": len(inside)}
            wanted["most"] = max(inside, default=None)
            assert values[feature.column] == wanted[feature.column.rpartition("_")[0]], (
                side,
                row,
                feature.column,
            )


# ------------------------------------------------------------------ figures
def _figures(taken: Mapping[int, Measured]) -> list[Figure]:
    figures = []
    for size, measured in taken.items():
        section = (
            f"{size:,} events, {max(1, size // EVENTS_PER_ROW):,} rows "
            "(baseline: DuckDB's RANGE windows)"
        )
        for name, unit in (("seconds", "s"), ("processor_s", "s"), ("peak_mib", "MiB")):
            if "ours" in measured:
                label = {"seconds": "elapsed", "processor_s": "processor", "peak_mib": "memory"}
                aim = TIMES_FASTER if name == "processor_s" and size == SIZES[-1] else None
                named = {"join": "DuckDB's join", "tokens": "by token", "spark": "by Spark"}
                beside = {
                    text: measured[side][name] for side, text in named.items() if side in measured
                }
                theirs = measured.get("windows", {}).get(name)
                figures.append(
                    Figure(
                        section,
                        label[name],
                        unit,
                        measured["ours"][name],
                        theirs,
                        aim=aim if theirs else None,
                        others=beside,
                    )
                )
    figures += _growth(taken)
    return figures


def _growth(taken: Mapping[int, Measured]) -> list[Figure]:
    """Ratios of one size to the size before, and of tokens to event time."""
    figures = []
    sizes = sorted(taken)
    for smaller, larger in pairwise(sizes):
        for side, name in (("ours", "by event time"), ("tokens", "by token")):
            if side in taken[smaller]:
                theirs = (taken[larger].get("windows"), taken[smaller].get("windows"))
                figures.append(
                    Figure(
                        "processor time per event, times that of the size before",
                        f"{larger:,} events, {name}",
                        "times",
                        _per_event(taken[larger][side], larger)
                        / _per_event(taken[smaller][side], smaller),
                        None
                        if theirs[0] is None or theirs[1] is None
                        else _per_event(theirs[0], larger) / _per_event(theirs[1], smaller),
                    )
                )
    for size in sizes:
        measured = taken[size]
        if "ours" in measured and "tokens" in measured:
            figures.append(
                Figure(
                    "by token, times by event time",
                    f"processor, {size:,} events",
                    "times",
                    measured["tokens"]["processor_s"] / measured["ours"]["processor_s"],
                    bound=TIMES_BY_TOKEN,
                )
            )
    return figures


def _per_event(figures: Mapping[str, float], size: int) -> float:
    return figures["processor_s"] / size


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 also where an aim is missed: figures are no test."""
    parser = argparse.ArgumentParser(
        "bench-training", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: not how fast it is")
    parser.add_argument("--only", type=int, nargs="+", metavar="EVENTS", help="these sizes")
    parser.add_argument(
        "--without", nargs="+", choices=SIDES[1:], default=[], help="sides that are left out"
    )
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    sizes = given.only or (QUICK if given.quick else SIZES)
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    figures, details = measure(
        tuple(sorted(set(sizes))), [side for side in SIDES if side not in given.without]
    )
    seconds = round(time.monotonic() - begun)
    publish("make bench-training", arguments, given, facts, seconds, figures, details)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
