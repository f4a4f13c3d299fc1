"""A second opinion on every aggregate that DuckDB can say exactly: its values, or the sums that
moments are made of."""

from __future__ import annotations

import duckdb
import pytest

from slicewise import aggregates as agg
from slicewise.aggregates import Aggregate
from slicewise.aggregates.combinators.conditional import only
from tests.laws.oracles.opinions import MOMENTS, Moment, answers, conditional, moment, sums, table

EDGES = [-50, 0.5, 10, 40]
HOLD = "count(*) FILTER (WHERE %s)"
BINS = (
    f"SELECT grp, {{'under': {HOLD % 'x < -50'}, 'bins': [{HOLD % 'x >= -50 AND x < 0.5'}, "
    f"{HOLD % 'x >= 0.5 AND x < 10'}, {HOLD % 'x >= 10 AND x < 40'}], 'over': {HOLD % 'x >= 40'}}} FROM e GROUP BY grp"
)
LISTED = "list(%s ORDER BY %s) FILTER (WHERE %s IS NOT NULL)"
PAIR = "{'by': x, 'payload': s}"
DISTINCT = (
    "SELECT grp, list(s ORDER BY latest DESC)[:3] FROM "
    "(SELECT grp, s, max(n) AS latest FROM e WHERE s IS NOT NULL GROUP BY grp, s) GROUP BY grp"
)
FREQUENT = (
    "SELECT grp, {'items': list({'value': s, 'count': m} ORDER BY m DESC, encode(s))[:3], 'error': 0, 'miss': 0.0} "
    "FROM (SELECT grp, s, count(*) AS m FROM e WHERE s IS NOT NULL GROUP BY grp, s) GROUP BY grp"
)
NESTED = (
    "SELECT grp, list({'key': key, 'value': value} ORDER BY encode(key)) FROM (%s) GROUP BY grp"
)
UNNESTED = "SELECT grp, i, w, unnest(list_distinct(a)) AS key FROM e"
CASES: list[tuple[Aggregate, str]] = [
    (only(agg.count("i"), "w", "w"), "SELECT grp, count(i) FILTER (WHERE w) FROM e GROUP BY grp"),
    (only(agg.sum("i"), "w", "w"), "SELECT grp, sum(i) FILTER (WHERE w) FROM e GROUP BY grp"),
    (only(agg.max("s"), "w", "w"), "SELECT grp, max(s) FILTER (WHERE w) FROM e GROUP BY grp"),
    (
        agg.count_by("s"),
        NESTED
        % "SELECT grp, s AS key, count(*) AS value FROM e WHERE s IS NOT NULL GROUP BY grp, s",
    ),
    (
        agg.bucketed(only(agg.min("x"), "w", "w"), by="s"),
        NESTED
        % "SELECT grp, s AS key, min(x) FILTER (WHERE w) AS value FROM e WHERE s IS NOT NULL GROUP BY grp, s",
    ),
    (
        agg.count_by("a"),
        NESTED
        % f"SELECT grp, key, count(*) AS value FROM ({UNNESTED}) WHERE key IS NOT NULL GROUP BY grp, key",
    ),
    (
        agg.bucketed(only(agg.sum("i"), "w", "w"), by="a"),
        NESTED
        % f"SELECT grp, key, sum(i) FILTER (WHERE w) AS value FROM ({UNNESTED}) WHERE key IS NOT NULL "
        "GROUP BY grp, key",
    ),
    (agg.histogram("x", edges=EDGES), BINS),
    (agg.count(), "SELECT grp, count(*) FROM e GROUP BY grp"),
    # halves: every order of additions is exact
    (agg.sum("x"), "SELECT grp, sum(x) FROM e GROUP BY grp"),
    (agg.sum("d"), "SELECT grp, sum(d) FROM e GROUP BY grp"),
    (agg.mean("x"), "SELECT grp, sum(x) / count(x) FROM e GROUP BY grp"),
    (agg.mean("i"), "SELECT grp, sum(i)::DOUBLE / count(i) FROM e GROUP BY grp"),
    *(
        (made(c), f"SELECT grp, {made(c).kind}({c}) FROM e GROUP BY grp")
        for made in (agg.min, agg.max)
        for c in "ixsdw"
    ),
    (agg.bool_and("w"), "SELECT grp, bool_and(w) FROM e GROUP BY grp"),
    (agg.bool_or("w"), "SELECT grp, bool_or(w) FROM e GROUP BY grp"),
    (
        agg.distinct_count("i", threshold=10_000),
        "SELECT grp, count(DISTINCT i) FROM e GROUP BY grp",
    ),
    (agg.distinct_count("s"), "SELECT grp, count(DISTINCT s) FROM e GROUP BY grp"),
    (agg.first("s"), f"SELECT grp, {LISTED % ('s', 'n', 's')}[1] FROM e GROUP BY grp"),
    (agg.last("d"), f"SELECT grp, {LISTED % ('d', 'n DESC', 'd')}[1] FROM e GROUP BY grp"),
    (agg.first_k("x", k=4), f"SELECT grp, {LISTED % ('x', 'n', 'x')}[:4] FROM e GROUP BY grp"),
    (agg.last_k("w", k=3), f"SELECT grp, {LISTED % ('w', 'n DESC', 'w')}[:3] FROM e GROUP BY grp"),
    (agg.last_k_distinct("s", k=3), DISTINCT),
    (agg.argmin("s", by="x"), f"SELECT grp, {LISTED % ('s', 'x, n', 'x')}[1] FROM e GROUP BY grp"),
    (
        agg.argmax("i", by="s"),
        f"SELECT grp, {LISTED % ('i', 'encode(s) DESC, n', 's')}[1] FROM e GROUP BY grp",
    ),
    (
        agg.top_k("s", by="x", k=3),
        f"SELECT grp, {LISTED % (PAIR, 'x DESC, n', 'x')}[:3] FROM e GROUP BY grp",
    ),
    (
        agg.bottom_k("s", by="x", k=3),
        f"SELECT grp, {LISTED % (PAIR, 'x, n', 'x')}[:3] FROM e GROUP BY grp",
    ),
    (agg.span(), "SELECT grp, max(n) - min(n) FROM e GROUP BY grp"),
    (
        agg.quantiles("x", q=[0.1, 0.5, 0.9], threshold=10_000),
        "SELECT grp, quantile_disc(x, [0.1, 0.5, 0.9]) FROM e GROUP BY grp",
    ),
    (agg.top_k_frequent("s", k=3), FREQUENT),
]
"""Not here: filters and decay, which DuckDB has not, and folds and classes, which are the user's
own."""


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("unbound", "text"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_duckdb_says_the_same(unbound: Aggregate, text: str, seed: int) -> None:
    events = table(seed)
    with duckdb.connect() as engine:
        engine.register("e", events)
        wanted = dict(engine.sql(text).fetchall())
    assert answers(unbound, events) == wanted


@pytest.mark.parametrize("condition", ["", "w"])
@pytest.mark.parametrize("case", MOMENTS, ids=lambda case: case[0].describe())
def test_duckdbs_sums_come_to_the_same_moments(case: Moment, condition: str) -> None:
    aggregate, kind, columns = conditional(case) if condition else case
    events = table(3)
    with duckdb.connect() as engine:
        engine.register("e", events)
        rows = engine.sql(sums(kind, columns, condition)).fetchall()
    wanted = {group: moment(kind, columns, *added) for group, *added in rows}
    assert answers(aggregate, events) == wanted
