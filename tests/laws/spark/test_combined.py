"""A second opinion on every aggregate that Spark SQL can say exactly: its values, or the sums of
its moments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slicewise import aggregates as agg
from slicewise.aggregates import Aggregate
from slicewise.aggregates.combinators.conditional import only
from slicewise.settings import Settings
from slicewise.spark.runtime.session import job_session
from tests.laws.oracles.opinions import MOMENTS, answers, conditional, moment, sums, table

# toArrow leaves its sockets to the garbage collector

SEED = 4
BINS = (
    "named_struct('under', {0}(x < -50), 'bins', array({0}(x >= -50 AND x < 0.5), {0}(x >= 0.5 AND x < 10), \
{0}(x >= 10 AND x < 40)), 'over', {0}(x >= 40))".format("count_if")
)


def ranked(value: str, order: str, there: str, descending: bool = False) -> str:
    """The values of a group in the order of these columns, the last of which is all but unique."""
    rows = (
        f"collect_list(named_struct({order}, 'value', {value})) FILTER (WHERE {there} IS NOT NULL)"
    )
    return f"sort_array({rows}, {str(not descending).lower()}).value"


def pairs(direction: int) -> str:
    """The three events of least x (direction 1) or greatest (-1), the earliest of equal ones
    first."""
    rows = (
        f"sort_array(collect_list(struct({direction} * x AS k, n AS n, x AS x, s AS s)) FILTER "
        "(WHERE x IS NOT NULL))"
    )
    return f"transform(slice({rows}, 1, 3), e -> named_struct('by', e.x, 'payload', e.s))"


OF_GROUPS: list[tuple[Aggregate, str]] = [
    (agg.count(), "count(*)"),
    (agg.count("d"), "count(d)"),
    (only(agg.count("i"), "w", "w"), "count(i) FILTER (WHERE w)"),
    (agg.sum("x"), "sum(x)"),  # halves: every order of additions is exact
    (agg.sum("i"), "sum(i)"),
    (agg.sum("d"), "sum(d)"),
    (only(agg.sum("d"), "w", "w"), "sum(d) FILTER (WHERE w)"),
    (agg.mean("x"), "sum(x) / count(x)"),
    *((made(c), f"{made(c).kind}({c})") for made in (agg.min, agg.max) for c in "ixsdw"),
    (only(agg.max("s"), "w", "w"), "max(s) FILTER (WHERE w)"),
    (agg.bool_and("w"), "bool_and(w)"),
    (agg.bool_or("w"), "bool_or(w)"),
    (agg.distinct_count("i", threshold=10_000), "count(DISTINCT i)"),
    (agg.distinct_count("s"), "count(DISTINCT s)"),
    (agg.histogram("x", edges=[-50, 0.5, 10, 40]), BINS),
    (agg.first("s"), ranked("s", "'n', n", "s") + "[0]"),
    (agg.last("d"), ranked("d", "'n', n", "d", descending=True) + "[0]"),
    (agg.first_k("x", k=4), f"slice({ranked('x', repr('n') + ', n', 'x')}, 1, 4)"),
    (agg.last_k("w", k=3), f"slice({ranked('w', repr('n') + ', n', 'w', descending=True)}, 1, 3)"),
    (agg.argmin("s", by="x"), ranked("s", "'x', x, 'n', n", "x") + "[0]"),
    (agg.argmax("i", by="s"), ranked("i", "'s', s, 'n', -n", "s", descending=True) + "[0]"),
    (agg.bottom_k("s", by="x", k=3), pairs(1)),
    (agg.top_k("s", by="x", k=3), pairs(-1)),
    (agg.span(), "max(n) - min(n)"),
    (
        agg.quantiles("x", q=[0.1, 0.5, 0.9], threshold=10_000),
        "array({})".format(
            ", ".join(f"percentile_disc({q}) WITHIN GROUP (ORDER BY x)" for q in (0.1, 0.5, 0.9))
        ),
    ),
]
"""Expressions of SQL over a group."""
ELEMENTS = "(SELECT grp, i, w, explode(array_distinct(a)) AS k FROM e)"
LISTED = (
    "SELECT grp, sort_array(collect_list(named_struct('key', k, 'value', v))) FROM ({}) GROUP BY "
    "grp"
)
DISTINCT = "SELECT grp, s, max(n) AS latest FROM e WHERE s IS NOT NULL GROUP BY grp, s"
OFTEN = "SELECT grp, s, count(*) AS m FROM e WHERE s IS NOT NULL GROUP BY grp, s"
ITEMS = (
    "transform(slice(sort_array(collect_list(struct(-m AS m, s AS s))), 1, 3), "
    "e -> named_struct('value', e.s, 'count', -e.m))"
)
NESTED: list[tuple[Aggregate, str]] = [
    (
        agg.count_by("s"),
        LISTED.format(
            "SELECT grp, s AS k, count(*) AS v FROM e WHERE s IS NOT NULL GROUP BY grp, s"
        ),
    ),
    (
        agg.bucketed(only(agg.min("x"), "w", "w"), by="s"),
        LISTED.format(
            "SELECT grp, s AS k, min(x) FILTER (WHERE w) AS v FROM e WHERE s IS NOT NULL "
            "GROUP BY grp, s"
        ),
    ),
    (
        agg.count_by("a"),
        LISTED.format(
            f"SELECT grp, k, count(*) AS v FROM {ELEMENTS} WHERE k IS NOT NULL GROUP BY grp, k"
        ),
    ),
    (
        agg.bucketed(only(agg.sum("i"), "w", "w"), by="a"),
        LISTED.format(
            f"SELECT grp, k, sum(i) FILTER (WHERE w) AS v FROM {ELEMENTS} WHERE k IS NOT NULL "
            "GROUP BY grp, k"
        ),
    ),
    (
        agg.last_k_distinct("s", k=3),
        (
            "SELECT grp, slice(sort_array(collect_list(struct(latest, s)), false).s, 1, 3) FROM "
            f"({DISTINCT}) GROUP BY grp"
        ),
    ),
    (
        agg.top_k_frequent("s", k=3),
        (
            f"SELECT grp, named_struct('items', {ITEMS}, 'error', 0L, 'miss', 0.0D) FROM "
            f"({OFTEN}) GROUP BY grp"
        ),
    ),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = Settings.load({"SLICEWISE_STATE": str(tmp_path_factory.mktemp("state"))})
    session = job_session(settings, "second-opinions", cores=1)
    session.createDataFrame(table(SEED)).coalesce(1).cache().createOrReplaceTempView("e")
    yield session
    session.stop()


def rows_by_group(spark: SparkSession, text: str) -> dict[int, list[Any]]:
    """Per group what a query answers."""
    result = spark.sql(text).coalesce(1).toArrow()
    columns = [column.to_pylist() for column in result.columns]
    return {group: list(values) for group, *values in zip(*columns, strict=True)}


def test_spark_says_the_same_of_groups(spark: SparkSession) -> None:
    events = table(SEED)
    rows = rows_by_group(
        spark, f"SELECT grp, {', '.join(text for _, text in OF_GROUPS)} FROM e GROUP BY grp"
    )
    for position, (aggregate, text) in enumerate(OF_GROUPS):
        assert answers(aggregate, events) == {
            group: values[position] for group, values in rows.items()
        }, text


@pytest.mark.parametrize(
    ("aggregate", "text"), NESTED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_spark_says_the_same_of_groups_of_groups(
    spark: SparkSession, aggregate: Aggregate, text: str
) -> None:
    assert answers(aggregate, table(SEED)) == {
        group: value for group, (value,) in rows_by_group(spark, text).items()
    }


@pytest.mark.parametrize("condition", ["", "w"])
def test_sparks_sums_come_to_the_same_moments(spark: SparkSession, condition: str) -> None:
    events = table(SEED)
    for case in MOMENTS:
        aggregate, kind, columns = conditional(case) if condition else case
        added = rows_by_group(spark, sums(kind, columns, condition))
        wanted = {
            group: moment(kind, columns, *map(int, values)) for group, values in added.items()
        }
        assert answers(aggregate, events) == wanted, aggregate.describe()


def test_sparks_own_moments_are_near(spark: SparkSession) -> None:
    """Compares moments of Spark's own: names mean the same; what Spark adds up in doubles is only
    close."""
    aggregates = {
        "variance": agg.variance("x"), "var_pop": agg.variance("x", population=True), "stddev": agg.stddev("x"),
        "skewness": agg.skewness("x"), "kurtosis": agg.kurtosis("x"),
    }  # fmt: skip
    paired = {
        "covar_samp": agg.covariance("d", "x"), "covar_pop": agg.covariance("d", "x", population=True),
        "corr": agg.correlation("d", "x"), "regr_slope": agg.linear_trend("d", over="x"),
        "regr_intercept": agg.linear_trend("d", over="x", output="intercept"),
        "regr_r2": agg.linear_trend("d", over="x", output="r2"),
    }  # fmt: skip
    named = [(f"{name}(x)", one) for name, one in aggregates.items()]
    named += [(f"{name}(CAST(d AS DOUBLE), x)", one) for name, one in paired.items()]
    rows, events = (
        rows_by_group(
            spark, f"SELECT grp, {', '.join(text for text, _ in named)} FROM e GROUP BY grp"
        ),
        table(SEED),
    )
    for position, (text, aggregate) in enumerate(named):
        for group, ours in answers(aggregate, events).items():
            assert ours == pytest.approx(rows[group][position], rel=1e-9, abs=1e-12), (text, group)
