"""Events on which engines of SQL are asked for a second opinion, what ours comes to, and moments by
`fractions`."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise import aggregates as agg
from slicewise.aggregates import Aggregate, Columns, Rows
from slicewise.aggregates.combinators.conditional import only

TYPES = {
    "d": pa.decimal128(12, 3),
    "i": pa.int64(),
    "x": pa.float64(),
    "s": pa.string(),
    "w": pa.bool_(),
    "a": pa.list_(pa.string()),
}
GROUPS, ROWS = 7, 3_000


@cache
def table(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    texts = np.array(["", "a", "Z", "é", "日本", "a\x00b", "ab", "b"])

    def some(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=random.random(ROWS) < 0.2)

    given = [*texts.tolist(), None]
    lists = [
        [given[j] for j in random.integers(0, len(given), random.integers(0, 5))]
        for _ in range(ROWS)
    ]
    return pa.table(
        {
            "grp": random.integers(0, GROUPS, ROWS),
            "i": some(random.integers(-(2**40), 2**40, ROWS), pa.int64()),
            "x": some(np.round(random.normal(0, 40, ROWS)) / 2, pa.float64()),
            "s": some(texts[random.integers(0, len(texts), ROWS)].tolist(), pa.string()),
            "d": some(
                [Decimal(n).scaleb(-3) for n in random.integers(-(10**6), 10**6, ROWS).tolist()],
                TYPES["d"],
            ),
            "n": np.arange(ROWS),
            "w": some(random.random(ROWS) < 0.5, pa.bool_()),
            "a": some(lists, pa.list_(pa.string())),
        }
    )


def answers(unbound: Aggregate, events: pa.Table) -> dict[int, Any]:
    """The aggregate's result for each group: two halves, combined."""
    aggregate = unbound.bind(TYPES)
    n = np.arange(ROWS)
    rows = Rows(n, n.astype(np.uint64), n.astype(np.uint64), n.astype(np.int32), n,
                {name: events[name].combine_chunks() for name in TYPES})  # fmt: skip
    groups = events["grp"].to_numpy()
    halves = [
        aggregate.accumulate_columns(rows.take(part), groups[part], GROUPS)
        for part in (n[::2], n[1::2])
    ]
    joined = aggregate.combine_columns(
        Columns.concat(halves), np.tile(np.arange(GROUPS), 2), GROUPS
    )
    return dict(enumerate(aggregate.finish_columns(joined).values.to_pylist()))


# ---- moments: an engine adds whole numbers, which it does exactly, and fractions do the rest
X, D, T = "CAST(x * 2 AS BIGINT)", "CAST(d * 1000 AS BIGINT)", "n"
"""Columns as whole numbers; x is in halves, d in thousandths, and the event time n in
microseconds."""
_SIZE = {X: Fraction(1, 2), D: Fraction(1, 1000), T: Fraction(1, 10**6)}
_PAIRED = "CASE WHEN %s IS NOT NULL AND %s IS NOT NULL THEN %s END"

_POWERS = {"skewness": 3, "kurtosis": 4}

Moment = tuple[Aggregate, str, tuple[str, ...]]
MOMENTS: list[Moment] = [
    *((made, kind, (X,)) for kind, made in (
        ("var_samp", agg.variance("x")),
        ("var_pop", agg.variance("x", population=True)),
        ("stddev_samp", agg.stddev("x")),
        ("stddev_pop", agg.stddev("x", population=True)),
        ("skewness", agg.skewness("x")),
        ("kurtosis", agg.kurtosis("x")),
    )),
    (agg.variance("d"), "var_samp", (D,)),
    *((made, kind, (D, X)) for kind, made in (
        ("covar_samp", agg.covariance("d", "x")),
        ("covar_pop", agg.covariance("d", "x", population=True)),
        ("corr", agg.correlation("d", "x")),
        ("slope", agg.linear_trend("d", over="x")),
        ("intercept", agg.linear_trend("d", over="x", output="intercept")),
        ("r2", agg.linear_trend("d", over="x", output="r2")),
    )),
    (agg.linear_trend("x"), "slope", (X, T)),
    (agg.linear_trend("x", output="intercept"), "intercept", (X, T)),
]  # fmt: skip
"""Aggregate, what it is called, and its columns as whole numbers."""


def conditional(moment: Moment) -> Moment:
    """The same of the events for which w is true."""
    aggregate, kind, columns = moment
    return only(aggregate, "w", "w"), kind, columns


def sums(kind: str, columns: tuple[str, ...], condition: str = "") -> str:
    """SQL for the count and the sums that the moment of these columns needs."""
    if len(columns) == 1:
        terms = [
            *(" * ".join([columns[0]] * power) for power in range(1, _POWERS.get(kind, 2) + 1))
        ]
    else:
        y, x = (_PAIRED % (*columns, column) for column in columns)
        terms = [y, x, f"{y} * {y}", f"{x} * {x}", f"{y} * {x}"]
    chosen = f" FILTER (WHERE {condition})" if condition else ""
    columns_of = ", ".join(
        [f"count({terms[0]}){chosen}", *(f"sum({term}){chosen}" for term in terms)]
    )
    return f"SELECT grp, {columns_of} FROM e GROUP BY grp"


def moment(kind: str, columns: tuple[str, ...], count: int, *added: int) -> float:
    """The moment of `count` values with these sums, rounded once."""
    n = Fraction(count)
    if len(columns) == 1:
        one, two, three, four = map(Fraction, (*added, 0, 0)[:4])
        m2 = two - one**2 / n
        m3 = three - 3 * one * two / n + 2 * one**3 / n**2
        m4 = four - 4 * one * three / n + 6 * one**2 * two / n**2 - 3 * one**4 / n**3
        if kind == "skewness":
            return _root(n * m3**2 / m2**3, m3 < 0)
        if kind == "kurtosis":
            return float(n * m4 / m2**2 - 3)
        variance = m2 * _SIZE[columns[0]] ** 2 / (n - 1 if kind.endswith("samp") else n)
        return _root(variance) if kind.startswith("stddev") else float(variance)
    sy, sx, syy, sxx, sxy = map(Fraction, added)
    (y_size, x_size) = (_SIZE[column] for column in columns)
    cxy = (sxy - sx * sy / n) * x_size * y_size
    cxx, cyy = (sxx - sx**2 / n) * x_size**2, (syy - sy**2 / n) * y_size**2
    if kind == "corr":
        return _root(cxy**2 / (cxx * cyy), cxy < 0)
    exact = {
        "covar_samp": cxy / (n - 1),
        "covar_pop": cxy / n,
        "slope": cxy / cxx,
        "intercept": sy * y_size / n - cxy / cxx * sx * x_size / n,
        "r2": cxy**2 / (cxx * cyy),
    }
    return float(exact[kind])


def _root(square: Fraction, negative: bool = False) -> float:
    with localcontext() as context:
        context.prec = 100
        root = float((Decimal(square.numerator) / Decimal(square.denominator)).sqrt())
    return -root if negative else root
