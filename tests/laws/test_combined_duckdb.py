"""A second opinion on conditions, buckets and bins: DuckDB's FILTER, GROUP BY and comparisons."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from slicewise import aggregates as agg
from slicewise.aggregates import Aggregate, Columns, Rows
from slicewise.aggregates.conditional import only

TYPES = {"i": pa.int64(), "x": pa.float64(), "s": pa.string(), "w": pa.bool_(), "a": pa.list_(pa.string())}
GROUPS, ROWS = 7, 3_000
EDGES = [-50, 0.5, 10, 40]
HOLD = "count(*) FILTER (WHERE %s)"
BINS = (
    f"SELECT grp, {{'under': {HOLD % 'x < -50'}, 'bins': [{HOLD % 'x >= -50 AND x < 0.5'}, "
    f"{HOLD % 'x >= 0.5 AND x < 10'}, {HOLD % 'x >= 10 AND x < 40'}], 'over': {HOLD % 'x >= 40'}}} FROM e GROUP BY grp"
)
NESTED = "SELECT grp, list({'key': key, 'value': value} ORDER BY encode(key)) FROM (%s) GROUP BY grp"
UNNESTED = "SELECT grp, i, w, unnest(list_distinct(a)) AS key FROM e"
CASES: list[tuple[Aggregate, str]] = [
    (only(agg.count("i"), "w", "w"), "SELECT grp, count(i) FILTER (WHERE w) FROM e GROUP BY grp"),
    (only(agg.sum("i"), "w", "w"), "SELECT grp, sum(i) FILTER (WHERE w) FROM e GROUP BY grp"),
    (only(agg.max("s"), "w", "w"), "SELECT grp, max(s) FILTER (WHERE w) FROM e GROUP BY grp"),
    (
        agg.count_by("s"),
        NESTED % "SELECT grp, s AS key, count(*) AS value FROM e WHERE s IS NOT NULL GROUP BY grp, s",
    ),
    (
        agg.bucketed(only(agg.min("x"), "w", "w"), by="s"),
        NESTED % "SELECT grp, s AS key, min(x) FILTER (WHERE w) AS value FROM e WHERE s IS NOT NULL GROUP BY grp, s",
    ),
    (
        agg.count_by("a"),
        NESTED % f"SELECT grp, key, count(*) AS value FROM ({UNNESTED}) WHERE key IS NOT NULL GROUP BY grp, key",
    ),
    (
        agg.bucketed(only(agg.sum("i"), "w", "w"), by="a"),
        NESTED % f"SELECT grp, key, sum(i) FILTER (WHERE w) AS value FROM ({UNNESTED}) WHERE key IS NOT NULL "
        "GROUP BY grp, key",
    ),
    (agg.histogram("x", edges=EDGES), BINS),
]


def table(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    texts = np.array(["", "a", "Z", "é", "日本", "a\x00b", "ab", "b"])

    def some(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=random.random(ROWS) < 0.2)

    given = [*texts.tolist(), None]
    lists = [[given[j] for j in random.integers(0, len(given), random.integers(0, 5))] for _ in range(ROWS)]
    return pa.table(
        {
            "grp": random.integers(0, GROUPS, ROWS),
            "i": some(random.integers(-(2**40), 2**40, ROWS), pa.int64()),
            "x": some(np.round(random.normal(0, 40, ROWS)) / 2, pa.float64()),
            "s": some(texts[random.integers(0, len(texts), ROWS)].tolist(), pa.string()),
            "w": some(random.random(ROWS) < 0.5, pa.bool_()),
            "a": some(lists, pa.list_(pa.string())),
        }
    )


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("unbound", "text"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_duckdb_says_the_same(unbound: Aggregate, text: str, seed: int) -> None:
    aggregate, events = unbound.bind(TYPES), table(seed)
    n = np.arange(ROWS)
    rows = Rows(n, n.astype(np.uint64), n.astype(np.uint64), n.astype(np.int32), n,
                {name: events[name].combine_chunks() for name in TYPES})  # fmt: skip
    groups = events["grp"].to_numpy()
    # two halves, combined
    halves = [aggregate.accumulate_columns(rows.take(part), groups[part], GROUPS) for part in (n[::2], n[1::2])]
    joined = aggregate.combine_columns(Columns.concat(halves), np.tile(np.arange(GROUPS), 2), GROUPS)
    with duckdb.connect() as engine:
        engine.register("e", events)
        wanted = dict(engine.sql(text).fetchall())
    found = dict(enumerate(aggregate.finish_columns(joined).values.to_pylist()))
    assert found == wanted
