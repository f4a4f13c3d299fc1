"""Measured against declared error of every approximate aggregate, at 100 to 1,000,000 distinct
values or items.

  make bench-accuracy
  make bench-accuracy BENCH="--quick --json figures.json"

Every trial deals its events to eight partials and combines them, as slices are. Prints one JSON
object, then the same as a table.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.whole import machine
from benchmarks.whole.document import write_doc
from slicewise import aggregates as agg
from slicewise.aggregates import Aggregate, Columns, Rows
from slicewise.aggregates.sketches.membership import membership_of
from slicewise.codec import Layout
from slicewise.local.servers import redis as redis_server
from slicewise.settings import Settings

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
PARTIALS = 8
STRANGERS = 100_000
SHARES = (0.01, 0.25, 0.5, 0.75, 0.9, 0.99)
Random = np.random.Generator
Measured = tuple[list[float], int]
"""Errors of one trial, and the bytes of the combined partial."""


@dataclass(frozen=True)
class Line:
    """One aggregate at one size: the error that it declares, and what was measured over all
    trials."""

    aggregate: str
    error: str
    size: int
    trials: int
    declared: float
    measured: float
    worst: float
    within: bool
    partial_bytes: int


def combined(aggregate: Aggregate, values: NDArray[Any], random: Random) -> tuple[Columns, int]:
    """The partial of all values, dealt to PARTIALS and combined after their bytes were read back;
    and its bytes."""
    n = len(values)
    one = np.ones(n, np.uint64)
    offset = np.arange(n)
    rows = Rows(offset, one, one, np.zeros(n, np.int32), offset, {"x": pa.array(values)})
    parts = aggregate.accumulate_columns(rows, random.integers(0, PARTIALS, n), PARTIALS)
    layout = Layout((aggregate,))
    (decoded,) = layout.decode_blocks([layout.encode_block([parts])], [PARTIALS])
    whole = aggregate.combine_columns(decoded, np.zeros(PARTIALS, np.int64), 1)
    return whole, len(layout.encode_block([whole]))


def distinct(n: int, random: Random) -> Measured:
    """|estimate - n| / n, of n values that come one to three times."""
    values = np.repeat(random.integers(-(2**62), 2**62, n), random.integers(1, 4, n))
    aggregate = agg.distinct_count("x").bind({"x": pa.int64()})
    whole, size = combined(aggregate, values, random)
    (estimate,) = aggregate.finish_columns(whole).values.to_pylist()
    return [abs(estimate - len(np.unique(values))) / n], size


def quantiles(n: int, random: Random) -> Measured:
    """|answer / exact - 1| of six shares of n values over seventeen octaves."""
    values = random.lognormal(3, 2, n)
    aggregate = agg.quantiles("x", q=SHARES).bind({"x": pa.float64()})
    whole, size = combined(aggregate, values, random)
    (estimates,) = aggregate.finish_columns(whole).values.to_pylist()
    ordered = np.sort(values)
    exact = [float(ordered[max(0, math.ceil(Fraction(str(q)) * n) - 1)]) for q in SHARES]
    return [abs(got / wanted - 1) for got, wanted in zip(estimates, exact, strict=True)], size


def _frequent(n: int, random: Random) -> tuple[dict[str, Any], dict[int, int], int]:
    # as many items as events: the capacity of 1,000 is passed from 10,000 on
    values = random.zipf(1.2, n) % n
    aggregate = agg.top_k_frequent("x", k=10).bind({"x": pa.int64()})
    whole, size = combined(aggregate, values, random)
    (most_frequent,) = aggregate.finish_columns(whole).values.to_pylist()
    items, counts = np.unique(values, return_counts=True)
    return most_frequent, dict(zip(items.tolist(), counts.tolist(), strict=True)), size


def counts_of_frequent(n: int, random: Random) -> Measured:
    """The excess of the ten listed counts, as a share of the n events."""
    most_frequent, counts, size = _frequent(n, random)
    return [(item["count"] - counts[item["value"]]) / n for item in most_frequent["items"]], size


def missed_of_frequent(n: int, random: Random) -> Measured:
    """Tells whether one of the ten most frequent is missing, though its count stands out by more
    than the error."""
    most_frequent, counts, size = _frequent(n, random)
    listed = {item["value"] for item in most_frequent["items"]}
    last = sorted(counts.values(), reverse=True)[: len(listed)][-1]
    missed = [
        value
        for value, count in counts.items()
        if value not in listed and count > last + most_frequent["error"]
    ]
    return [float(bool(missed))], size


def members(make: Callable[..., Aggregate]) -> Callable[[int, Random], Measured]:
    """The share of strangers that a filter at its capacity takes for members; a member denied ends
    the run."""

    def measure(n: int, random: Random) -> Measured:
        values = np.unique(random.integers(0, 2**61, n))
        aggregate = make("x", capacity=n).bind({"x": pa.int64()})
        whole, size = combined(aggregate, values, random)
        filters = membership_of(aggregate)
        assert filters is not None
        questions = np.concatenate([values, random.integers(2**61, 2**62, STRANGERS)])
        answers_of = filters.answered(
            aggregate.finish_columns(whole), pa.array([questions.tolist()])
        )
        (answers,) = answers_of.values.to_pylist()
        if not all(answers[: len(values)]):
            raise SystemExit(f"{aggregate.describe()} denies a member")
        return [sum(answers[len(values) :]) / STRANGERS], size

    return measure


@dataclass(frozen=True)
class Case:
    """Measured case. sigmas: the error is a standard error, which one in so many trials may exceed
    that often."""

    name: str
    error: str
    declared: float
    measure: Callable[[int, Random], Measured]
    sigmas: float = 1.0
    mean: bool = False
    """The declared error is a probability: the mean over all trials is held to it."""


CASES = (
    Case("distinct_count", "standard error, share of the count", 1.04 / 64, distinct, sigmas=4),
    Case("quantiles", "share of the value", 0.01, quantiles),
    Case("top_k_frequent", "counts too high, share of events", 0.005, counts_of_frequent),
    Case("top_k_frequent", "misses one that stands out", 0.02, missed_of_frequent, mean=True),
    Case("bloom", "strangers taken for members", 0.01, members(agg.bloom), mean=True),
    Case("cuckoo", "strangers taken for members", 0.01, members(agg.cuckoo), mean=True),
)


def line(case: Case, size: int, trials: int, seed: int) -> Line:
    """All trials of a case at a size."""
    errors: list[float] = []
    most = 0
    for trial in range(trials):
        run_errors, partial = case.measure(size, np.random.default_rng([seed, size, trial]))
        errors += run_errors
        most = max(most, partial)
    mean = float(np.mean(errors))
    measured = mean if case.mean else float(np.sqrt(np.mean(np.square(errors))))
    worst = max(errors)
    # a mean of rare events scatters too: four of its own standard errors
    room = 4 * math.sqrt(case.declared / (trials * STRANGERS)) if case.mean else 0.0
    within = (
        mean <= case.declared + room if case.mean else worst <= case.sigmas * case.declared + 1e-12
    )
    return Line(case.name, case.error, size, trials, case.declared, measured, worst, within, most)


def trials_of(size: int) -> int:
    """Fewer of large ones, which take long and scatter little."""
    return 20 if size <= 10_000 else 8 if size <= 100_000 else 4


def table(lines: Sequence[Line]) -> str:
    """A block per aggregate and error."""
    out: list[str] = []
    last = ""
    for entry in lines:
        head = f"{entry.aggregate}: {entry.error}, declared {entry.declared:.4g}"
        if head != last:
            out += ["", f"{head:<62}{'measured':>10}{'worst':>10}{'partial, bytes':>16}"]
        last = head
        words = f"  {entry.size:>9,} ({entry.trials} trials)"
        verdict = "within" if entry.within else "NOT WITHIN"
        out.append(
            f"{words:<62}{entry.measured:>10.5f}{entry.worst:>10.5f}{entry.partial_bytes:>16,}  {verdict}"
        )
    return "\n".join(out).strip("\n")


def main(arguments: Sequence[str]) -> int:
    """Exit code 1 where an error exceeds what is declared."""
    parser = argparse.ArgumentParser("benchmarks.accuracy", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 10,000")
    parser.add_argument("--seed", type=int, default=20_130_101)
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    sizes = [size for size in SIZES if size <= 10_000 or not given.quick]
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    lines = [line(case, size, trials_of(size), given.seed) for case in CASES for size in sizes]
    result = {"machine": facts, "seed": given.seed, "lines": [asdict(entry) for entry in lines]}
    text = json.dumps(result)
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")
    print(text)
    shown = (
        f"{facts['processor']}; seed {given.seed}; {round(time.monotonic() - begun)} s in all\n"
        f"measured: the root of the mean square, of a probability the mean; worst: of one trial\n\n{table(lines)}"
    )
    print(f"\n{shown}")
    if given.doc:
        write_doc(given.doc, shown, "make bench-accuracy", arguments)
    return 0 if all(entry.within for entry in lines) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
