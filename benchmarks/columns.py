"""Speed of the aggregates' column forms, beside DuckDB, pandas and polars on the same rows.

  make bench-aggregates                          a million rows in 100 and in 10,000 groups
  make bench-aggregates BENCH="--rows 200000 --only sum mean --json figures.json"

Million rows a second and core: processor time of all threads, the best of several runs; every side
groups the rows by the same integer key. slicewise groups them once for all aggregates of a view, so
`grouped` says what an aggregate takes by itself.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ["POLARS_MAX_THREADS"] = "1"  # read when polars is imported

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from slicewise import aggregates as agg
from slicewise.aggregates.combinators.conditional import only
from slicewise.aggregates.custom.examples import EXAMPLES
from slicewise.codec import Layout
from slicewise.local.servers import redis as redis_server
from slicewise.settings import Settings
from slicewise.spark.microbatch.apply import entities_of

GROUPS = (100, 10_000)
LEAST = 2.0
"""Million rows a second that every column form shall reach, grouping included."""
SUM_GROUPED, SUM = 20.0, 8.0
"""Ratios that the exact sum of doubles shall reach on grouped rows, and with the grouping."""
TYPES = {
    "x": pa.float64(),
    "y": pa.float64(),
    "i": pa.int64(),
    "c": pa.decimal128(21, 2),
    "s": pa.string(),
    "b": pa.bool_(),
    "k": pa.int64(),
}
EDGES = list(range(-197, 217, 20))
Frame = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """An aggregate, and what others compute for it: SQL, and what to call on the rows grouped by
    `key`."""

    name: str
    aggregate: agg.Aggregate
    sql: str | None = None
    pandas: Frame | None = None
    polars: Frame | None = None


def column(name: str, method: str) -> tuple[Frame, Frame]:
    """The same method of a grouped pandas column and of a polars expression."""
    return (lambda grouped: getattr(grouped[name], method)()), (
        lambda grouped: grouped.agg(_polars(name, method))
    )


def _polars(name: str, method: str) -> Any:
    expression = pl.col(name)
    return getattr(expression, {"nunique": "n_unique"}.get(method, method))()


def own(number: int, *columns: str, **parameters: Any) -> agg.Aggregate:
    """A user's class of the law suite."""
    given = {"source": EXAMPLES[number][0], "columns": columns, "parameters": parameters}
    return agg.Own.of_parameters(given)


def nothing() -> Any:
    return None


def last(state: Any, event: Any) -> Any:
    return event["x"] or state


def kept(state: Any) -> Any:
    return state


CASES = (
    Case("count", agg.count(), "count(*)", lambda g: g.size(), lambda g: g.agg(pl.len())),
    Case("count(double)", agg.count("x"), "count(x)", *column("x", "count")),
    Case("sum(double)", agg.sum("x"), "sum(x)", *column("x", "sum")),
    Case("sum(int64)", agg.sum("i"), "sum(i)", *column("i", "sum")),
    Case("sum(decimal)", agg.sum("c"), "sum(c)"),
    Case("mean(double)", agg.mean("x"), "avg(x)", *column("x", "mean")),
    Case("variance(double)", agg.variance("x"), "var_samp(x)", *column("x", "var")),
    Case("variance(int64)", agg.variance("i"), "var_samp(i)", *column("i", "var")),
    Case("stddev(decimal)", agg.stddev("c"), "stddev_samp(c)"),
    Case("kurtosis(double)", agg.kurtosis("x"), "kurtosis_pop(x)"),
    Case("kurtosis(int64)", agg.kurtosis("i"), "kurtosis_pop(i)"),
    Case("covariance(double, int64)", agg.covariance("x", "i"), "covar_samp(x, i)"),
    Case("correlation(double, double)", agg.correlation("x", "y"), "corr(x, y)"),
    Case("linear_trend(double) in time", agg.linear_trend("x"), "regr_slope(x, t)"),
    Case("own class (double), whole columns", own(0, "x"), "max(x) - min(x)"),
    Case("own class (int64, decimal), row by row", own(1, "i", "c", degree=2)),
    Case("min(double)", agg.min("x"), "min(x)", *column("x", "min")),
    Case("max(string)", agg.max("s"), "max(s)", None, column("s", "max")[1]),
    Case("argmax(string by double)", agg.argmax("s", by="x"), "arg_max(s, x)"),
    Case("argmin(string by double)", agg.argmin("s", by="x"), "arg_min(s, x)"),
    Case("top_k(5)", agg.top_k("s", by="x", k=5), "arg_max(s, x, 5)"),
    Case("bottom_k(5)", agg.bottom_k("s", by="x", k=5), "arg_min(s, x, 5)"),
    Case("first(double)", agg.first("x"), "arg_min(x, t)"),
    Case("last(double)", agg.last("x"), "arg_max(x, t)"),
    Case("first_k(10)", agg.first_k("x", k=10), "arg_min(x, t, 10)"),
    Case("last_k(10)", agg.last_k("x", k=10), "arg_max(x, t, 10)"),
    Case("last_k_distinct(5, string)", agg.last_k_distinct("s", k=5)),
    Case("decay_sum(double)", agg.decay_sum("x", half_life="1h")),
    Case("decay_count", agg.decay_count(half_life="1h")),
    Case(
        "ordered(double), kept alone",
        agg.ordered(nothing, last, kept, columns=["x"], output="double", cap=10_000),
    ),
    Case(
        "distinct_count(string)",
        agg.distinct_count("s"),
        "approx_count_distinct(s)",
        *column("s", "nunique"),
    ),
    Case(
        "distinct_count(int64)",
        agg.distinct_count("i"),
        "approx_count_distinct(i)",
        *column("i", "nunique"),
    ),
    Case("quantiles(double)", agg.quantiles("x", q=[0.5, 0.99]), "approx_quantile(x, [0.5, 0.99])"),
    Case("top_k_frequent(5, string)", agg.top_k_frequent("s", k=5), "approx_top_k(s, 5)"),
    Case("top_k_frequent(5, int64)", agg.top_k_frequent("i", k=5), "approx_top_k(i, 5)"),
    Case("bloom(10,000 int64)", agg.bloom("i", capacity=10_000)),
    Case("cuckoo(10,000 string)", agg.cuckoo("s", capacity=10_000)),
    Case("bool_and", agg.bool_and("b"), "bool_and(b)", None, lambda g: g.agg(pl.col("b").all())),
    Case("bool_or", agg.bool_or("b"), "bool_or(b)", None, lambda g: g.agg(pl.col("b").any())),
    Case(
        "sum(double) where",
        only(agg.sum("x"), "b", "b"),
        "sum(x) FILTER (WHERE b)",
        None,
        lambda g: g.agg(pl.col("x").filter(pl.col("b")).sum()),
    ),
    Case(
        "count_by(100 int64)",
        agg.count_by("k"),
        "histogram(k)",
        None,
        lambda g: g.agg(pl.col("k").value_counts()),
    ),
    Case("sum(double) by 100 int64", agg.bucketed(agg.sum("x"), by="k")),
    Case("histogram(20 bins)", agg.histogram("x", edges=EDGES), f"histogram(x, {EDGES})"),
    Case(
        "skewness(double)",
        agg.skewness("x"),
        "skewness(x)",
        None,
        lambda g: g.agg(pl.col("x").skew()),
    ),
    Case("bloom_fill(string)", agg.bloom_fill("s", capacity=10_000)),
    Case("span", agg.span(), "max(t) - min(t)"),
)
VIEW = (
    "count",
    "sum(double)",
    "mean(double)",
    "min(double)",
    "sum(int64)",
    "distinct_count(int64)",
    "bool_or",
)
"""Measured together, as a view would hold them."""


def make_rows(n: int, groups: int, seed: int = 7) -> tuple[agg.Rows, pa.Table]:
    """n events of one partition in offset order, a twentieth of their values null; also as a table
    with `key`, `t`."""
    random = np.random.default_rng(seed)
    null = random.random(n) < 0.05
    integers = random.integers(0, 50_000, n)
    words = np.char.add("song-", np.arange(20_000).astype(str))
    t = np.arange(n) * 1_000 + random.integers(0, 5_000_000, n)
    columns = {
        "x": pa.array(random.normal(3, 100, n), mask=null),
        "y": pa.array(random.normal(0, 1, n), mask=null),
        "i": pa.array(integers, mask=null),
        "c": pa.array(integers, mask=null).cast(TYPES["c"]),
        "s": pa.DictionaryArray.from_arrays(random.zipf(1.3, n) % 20_000, words).cast(pa.string()),
        "b": pa.array(integers % 2 == 0, mask=null),
        "k": pa.array(integers % 100),
    }
    rows = agg.Rows(
        t,
        np.full(n, 1, np.uint64),
        np.full(n, 2, np.uint64),
        np.zeros(n, np.int32),
        np.arange(n),
        columns,
    )
    key = pa.array(random.integers(0, groups, n))
    return rows, pa.table({"key": key, "t": t, **columns})


def best(work: Callable[[], object], seconds: float) -> float:
    """The least processor time of one call, of all threads, in seconds."""
    end, least = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < end or least == float("inf"):
        start = time.process_time()
        work()
        least = min(least, time.process_time() - start)
    return least


@dataclass(frozen=True, eq=False)
class Side:
    """The same rows as each side wants to have them."""

    rows: agg.Rows
    table: pa.Table
    groups: int
    engine: duckdb.DuckDBPyConnection
    pandas: pd.DataFrame
    polars: pl.DataFrame

    @staticmethod
    def of(n: int, groups: int) -> Side:
        """Copied into every side's own form before anything is measured."""
        rows, table = make_rows(n, groups)
        engine = duckdb.connect()
        engine.execute("SET threads = 1")
        engine.register("arrow_rows", table)
        engine.execute("CREATE TABLE held AS SELECT * FROM arrow_rows")
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        return Side(rows, table, groups, engine, table.to_pandas(), frame)

    def grouping(self) -> tuple[np.ndarray[Any, np.dtype[np.int64]], int]:
        """The groups and their number, as the micro-batch lane makes them."""
        values, codes = entities_of(self.table, ["key"])
        return codes, len(values[0])

    def others(self, cases: Sequence[Case], seconds: float) -> dict[str, float]:
        """Processor time per baseline that has all of these."""
        others: dict[str, float] = {}
        if all(case.sql for case in cases):
            text = ", ".join(str(case.sql) for case in cases)
            query = f"SELECT key, {text} FROM held GROUP BY key"
            others["duckdb"] = best(lambda: self.engine.sql(query).to_arrow_table(), seconds)
        if all(case.pandas for case in cases):
            others["pandas"] = best(
                lambda: [
                    case.pandas(self.pandas.groupby("key", sort=False))
                    for case in cases
                    if case.pandas
                ],
                seconds,
            )
        if all(case.polars for case in cases):
            others["polars"] = best(
                lambda: [case.polars(self.polars.group_by("key")) for case in cases if case.polars],
                seconds,
            )
        return others


def measure(side: Side, cases: Sequence[Case], seconds: float) -> list[Figure]:
    """A figure per aggregate, and one of a view of several."""
    n = len(side.rows)
    section = f"{n:,} rows in {side.groups:,} groups"
    codes, groups = side.grouping()
    once = best(side.grouping, seconds)
    figures = []
    for case in cases:
        bound = case.aggregate.bind(TYPES)
        spent = best(partial(bound.accumulate_columns, side.rows, codes, groups), seconds)
        single = {"grouped": n / spent / 1e6}
        least = LEAST
        if case.name == "sum(double)":
            least = SUM
            figures.append(_figure(section, "sum(double), grouped", n, spent, {}, {}, SUM_GROUPED))
        figures.append(
            _figure(
                section, case.name, n, once + spent, side.others([case], seconds), single, least
            )
        )
    together = [case for case in cases if case.name in VIEW]
    if len(together) > 1:
        partials = Layout.of([case.aggregate.bind(TYPES) for case in together]).partials

        def view() -> list[agg.Columns]:
            return [partial.accumulate_columns(side.rows, codes, groups) for partial in partials]

        name = f"a view of {len(together)} of them"
        figures.append(
            _figure(
                section,
                name,
                n,
                once + best(view, seconds),
                side.others(together, seconds),
                {},
                None,
            )
        )
    return figures


def _figure(
    section: str,
    name: str,
    n: int,
    seconds: float,
    others: Mapping[str, float],
    single: Mapping[str, float],
    least: float | None,
) -> Figure:
    speeds = {engine: n / spent / 1e6 for engine, spent in others.items()}
    return Figure(
        section,
        name,
        "M rows/s/core",
        n / seconds / 1e6,
        max(speeds.values(), default=None),
        better="higher",
        bound=least,
        others={**single, **speeds},
    )


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 also where an aim is missed: figures are no test."""
    parser = argparse.ArgumentParser(
        "bench-aggregates", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=0.6, help="of each measurement")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="aggregates whose name begins so")
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    cases = [case for case in CASES if not given.only or case.name.startswith(tuple(given.only))]
    if not cases:
        parser.error(f"no aggregate begins so; there are {', '.join(case.name for case in CASES)}")
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    figures = [
        figure
        for groups in GROUPS
        for figure in measure(Side.of(given.rows, groups), cases, given.seconds)
    ]
    publish(
        "make bench-aggregates", arguments, given, facts, round(time.monotonic() - begun), figures
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
