"""Moments are exact on every path of the addition, mean what SQL means, and are rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from slicewise import aggregates as agg
from slicewise.aggregates import Aggregate, Columns, Event, Failed, Invertible, Rows
from slicewise.aggregates.kernel import limbs, products
from slicewise.aggregates.kernel.roots import root
from slicewise.codec import Layout
from slicewise.errors import CodecError, DefinitionError
from tests.laws.oracles import aggregates as oracle
from tests.laws.oracles.values import Error
from tests.support.oracles import moments

DOUBLES = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    2.0**-1022,
    1e308,
    -1e308,
    1.7976931348623157e308,
    0.1,
    -2.5,
    2.0**53 + 2,
    1e16,
]
INTEGERS = [0, 1, -1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, -(2**63)]
TYPES = {"x": pa.float64(), "y": pa.int64(), "c": pa.decimal128(38, 6)}
DECIMALS = [
    Decimal((n < 0, tuple(map(int, str(abs(n)))), -6))
    for n in (0, 1, -1, 2**64 - 1, 2**64, -(2**64), 10**38 - 1)
]
EVERY = [
    agg.variance("x"),
    agg.stddev("y", population=True),
    agg.skewness("x"),
    agg.kurtosis("y"),
    agg.kurtosis("c"),
    agg.covariance("x", "c"),
    agg.correlation("x", "y"),
    agg.linear_trend("x"),
    agg.linear_trend("y", over="x", output="intercept"),
    agg.linear_trend("c", over="y", output="r2"),
]


@pytest.fixture(params=["few groups", "whole columns", "runs of groups"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The ways through the addition, whatever the number of groups."""
    monkeypatch.setattr(limbs, "SCALAR_GROUPS", 2**30 if request.param == "few groups" else 0)
    monkeypatch.setattr(limbs, "CELLS", 16 if request.param == "runs of groups" else 2**22)
    monkeypatch.setattr(limbs, "LONG_CHUNK", 3)  # carries between chunks
    return str(request.param)


def some_events(random: Random, n: int) -> list[Event]:
    """Values at the edges of their types, or near each other, some of them null."""
    edges = random.random() < 0.6

    def value(pool: Sequence[Any], near: Callable[[], Any]) -> Any:
        if random.random() < 0.1:
            return None
        return random.choice(pool) if edges and random.random() < 0.7 else near()

    return [
        Event(
            random.choice([0, -1, 1_357_034_400_000_000 + random.randrange(10**9), 2**62]), 0, 0, 0, offset,
            {
                "x": value(DOUBLES, lambda: random.gauss(50, 3)),
                "y": value(INTEGERS, lambda: random.randrange(-50, 50)),
                "c": value(DECIMALS, lambda: Decimal(random.randrange(10**6)).scaleb(-6)),
            },
        )
        for offset in range(n)
    ]  # fmt: skip


def columns_of(aggregate: Aggregate, events: Sequence[Event]) -> Rows:
    return Rows.from_events(events, {name: aggregate.type_of(name) for name in aggregate.inputs})


@pytest.mark.parametrize("unbound", EVERY, ids=lambda a: a.describe())
@pytest.mark.usefixtures("path")
def test_groups_come_to_the_exact_value_of_their_events_on_every_path(unbound: Aggregate) -> None:
    aggregate = unbound.bind(TYPES)
    for seed in range(12):
        random = Random(seed)
        events = some_events(random, random.randrange(25))
        groups = [random.randrange(4) for _ in events]
        partials = aggregate.accumulate_columns(
            columns_of(aggregate, events), np.array(groups, np.int64), 4
        )
        finished = aggregate.finish_columns(partials)
        for group in range(4):
            wanted = oracle.expected(
                aggregate, [e for e, g in zip(events, groups, strict=True) if g == group]
            )
            error = finished.errors.get(group, finished.values[group].as_py())
            assert repr(error) == repr(str(wanted) if isinstance(wanted, Error) else wanted), (
                f"seed {seed}"
            )


def value(
    unbound: Aggregate, rows: Sequence[dict[str, Any]], types: dict[str, pa.DataType] | None = None
) -> Any:
    """The value of an aggregate over rows a second apart."""
    aggregate = unbound.bind(types or {name: pa.float64() for name in rows[0]} if rows else TYPES)
    events = [Event(i * 1_000_000, 0, 0, 0, i, row) for i, row in enumerate(rows)]
    partial = aggregate.accumulate_columns(
        columns_of(aggregate, events), np.zeros(len(events), np.int64), 1
    )
    finished = aggregate.finish_columns(partial)
    return finished.errors.get(0, finished.values[0].as_py())


def of(*values: float | None) -> list[dict[str, Any]]:
    return [{"x": x} for x in values]


def test_a_sample_divides_by_one_less_than_a_population() -> None:
    assert value(agg.variance("x"), of(1, 2, 3, 4)) == 5 / 3
    assert value(agg.variance("x", population=True), of(1, 2, 3, 4)) == 1.25
    assert value(agg.stddev("x"), of(1, 2, 3, None, 4)) == math.sqrt(5 / 3)
    assert value(agg.stddev("x", population=True), of(2, 4)) == 1.0
    assert (
        value(agg.covariance("x", "y"), [{"x": 1, "y": 4}, {"x": 3, "y": 8}, {"x": None, "y": 9}])
        == 4.0
    )
    assert (
        value(agg.covariance("x", "y", population=True), [{"x": 1, "y": 4}, {"x": 3, "y": 8}])
        == 2.0
    )


def test_too_few_values_are_null() -> None:
    for rows in (of(None), of(7.0)):
        assert value(agg.variance("x"), rows) is None
        assert value(agg.stddev("x"), rows) is None
        assert value(agg.skewness("x"), rows) is None
        assert value(agg.kurtosis("x"), rows) is None
        assert value(agg.linear_trend("x"), rows) is None
    assert value(agg.variance("x", population=True), of(7.0)) == 0.0
    assert value(agg.variance("x", population=True), of(None)) is None
    assert value(agg.skewness("x"), of(7.0, 7.0)) is None
    flat = [{"x": 1, "y": 2}, {"x": 1, "y": 3}]
    assert value(agg.correlation("x", "y"), flat) is None
    assert value(agg.linear_trend("y", over="x"), flat) is None
    assert value(agg.linear_trend("x", over="y", output="r2"), flat) == 1.0


def test_skewness_and_excess_kurtosis_are_those_of_a_population() -> None:
    # deviations -1, -1, 2 twice over: m2 = 2, m3 = 2, m4 = 6
    rows = of(0, 0, 3, 0, 0, 3)
    assert value(agg.skewness("x"), rows) == math.sqrt(0.5)  # 2 / 2^1.5
    assert value(agg.kurtosis("x"), rows) == -1.5  # 6 / 4 - 3
    assert value(agg.skewness("x"), of(3, 3, 0)) == -math.sqrt(0.5)


def test_nothing_is_lost_where_all_values_are_far_from_zero() -> None:
    assert value(agg.variance("x"), of(1e16, 1e16 + 2)) == 2.0
    assert value(agg.stddev("x", population=True), of(1e16, 1e16 + 2)) == 1.0
    assert value(agg.variance("x"), of(1e308, 5e-324, -1e308, 0.0)) == "overflow"
    assert value(agg.stddev("x"), of(1e150, -1e150, 5e-324)) == 1e150
    exact = [{"x": x} for x in (2**63 - 1, 2**63 - 3)]
    assert value(agg.variance("x"), exact, {"x": pa.int64()}) == 2.0


def test_a_line_is_found_in_event_time_and_over_a_column() -> None:
    climbing = of(5, 7, 9, 11)  # two a second, from 5 at the epoch
    assert value(agg.linear_trend("x"), climbing) == 2.0
    assert value(agg.linear_trend("x", output="intercept"), climbing) == 5.0
    assert value(agg.linear_trend("x", output="r2"), climbing) == 1.0
    line = [{"x": 0.1 * i, "y": 4 - 3 * i} for i in range(5)]
    kinds = {"x": pa.float64(), "y": pa.int64()}
    (slope, intercept) = (
        value(agg.linear_trend("y", over="x", output=o), line, kinds)
        for o in ("slope", "intercept")
    )
    assert abs(slope + 30) < 1e-12
    assert abs(intercept - 4) < 1e-12
    assert value(agg.correlation("y", "x"), [{"x": i, "y": -3 * i} for i in range(9)]) == -1.0


@pytest.mark.parametrize(
    "unbound",
    [aggregate for aggregate in EVERY if "x" in aggregate.inputs],
    ids=lambda a: a.describe(),
)
def test_nan_and_infinities_make_nan_and_can_be_deducted(unbound: Aggregate) -> None:
    aggregate = unbound.bind({**TYPES, "y": pa.float64()})
    assert isinstance(aggregate, Invertible)
    finite = [
        Event(i * 10**6, 0, 0, 0, i, {"x": x, "y": x * x, "c": Decimal(i)})
        for i, x in enumerate((1.0, 2.0, 4.0))
    ]
    for odd in (math.nan, math.inf, -math.inf):
        special = [Event(9, 0, 0, 0, 9, {"x": odd, "y": 1.0, "c": Decimal(1)})]
        whole, part, rest = (
            aggregate.accumulate_columns(
                columns_of(aggregate, numbers), np.zeros(len(numbers), np.int64), 1
            )
            for numbers in (finite + special, special, finite)
        )
        assert math.isnan(aggregate.finish_columns(whole).values[0].as_py())
        left = aggregate.deduct_columns(whole, part)
        assert Layout((aggregate,)).encode_block([left]) == Layout((aggregate,)).encode_block(
            [rest]
        )
        assert math.isfinite(aggregate.finish_columns(left).values[0].as_py())


def test_they_mean_what_duckdb_means() -> None:
    aggregates: dict[str, Aggregate] = {
        "var_samp(x)": agg.variance("x"),
        "var_pop(x)": agg.variance("x", population=True),
        "stddev_samp(x)": agg.stddev("x"),
        "stddev_pop(x)": agg.stddev("x", population=True),
        "covar_samp(x, y)": agg.covariance("x", "y"),
        "covar_pop(x, y)": agg.covariance("y", "x", population=True),
        "regr_slope(y, x)": agg.linear_trend("y", over="x"),
        "regr_intercept(y, x)": agg.linear_trend("y", over="x", output="intercept"),
        "regr_r2(y, x)": agg.linear_trend("y", over="x", output="r2"),
        "corr(x, y)": agg.correlation("x", "y"),
        "kurtosis_pop(x)": agg.kurtosis("x"),
    }
    random, lists, types = Random(3), [], {"x": pa.float64(), "y": pa.float64()}
    for _ in range(60):
        top = random.choice([1, 5, 1000])
        lists.append(
            [
                {"x": random.randint(-top, top), "y": random.randint(-top, top)}
                for _ in range(random.randrange(9))
            ]
        )
    rows = [{"list": number, **row} for number, values in enumerate(lists) for row in values]
    with duckdb.connect() as connection:
        connection.register(
            "t", pa.Table.from_pylist(rows, pa.schema([("list", pa.int64()), *types.items()]))
        )
        result = connection.execute(
            f"SELECT list, {', '.join(aggregates)} FROM t GROUP BY list"
        ).fetchall()
    assert len(result) > 40
    for number, *answers in result:
        for theirs, (text, unbound) in zip(answers, aggregates.items(), strict=True):
            ours = value(unbound, lists[number], types)
            # where SQL has null DuckDB has NaN, for some of them
            if theirs is None or math.isnan(theirs):
                assert ours is None, (text, lists[number])
            elif ours is None:
                assert text.startswith("kurtosis"), (text, lists[number])
            else:
                assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-6), (text, lists[number])


def test_what_is_stored_is_shared() -> None:
    def stored(unbound: Aggregate) -> str:
        return unbound.bind({"x": pa.float64(), "y": pa.int64(), "z": pa.float64()}).partial_id()

    assert stored(agg.variance("x")) == stored(agg.stddev("x", population=True))
    assert stored(agg.skewness("x")) == stored(agg.kurtosis("x")) != stored(agg.variance("x"))
    assert (
        stored(agg.covariance("x", "y"))
        == stored(agg.covariance("y", "x", population=True))
        == stored(agg.correlation("y", "x"))
        == stored(agg.linear_trend("x", over="y"))
        == stored(agg.linear_trend("y", over="x", output="intercept"))
    )
    assert stored(agg.linear_trend("x")) == stored(agg.linear_trend("x", output="r2"))
    others = [agg.variance("x"), agg.variance("y"), agg.covariance("x", "y"), agg.covariance("x", "z"),
              agg.linear_trend("x"), agg.kurtosis("x")]  # fmt: skip
    assert len({stored(other) for other in others}) == len(others)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: agg.variance("x", population=1),  # type: ignore[arg-type]
        lambda: agg.covariance("x", "x"),
        lambda: agg.correlation("x", "x"),
        lambda: agg.linear_trend("x", over="x"),
        lambda: agg.linear_trend("x", output="height"),
        lambda: agg.variance("x").bind({"x": pa.string()}),
        lambda: agg.covariance("x", "y").bind({"x": pa.float64(), "y": pa.bool_()}),
        lambda: agg.linear_trend("x", over="t").bind({"x": pa.float64()}),
    ],
)
def test_what_has_no_meaning_is_refused_when_it_is_defined(wrong: Callable[[], object]) -> None:
    with pytest.raises(DefinitionError):
        wrong()


def test_a_partial_stays_small_and_has_a_bound() -> None:
    def size(unbound: Aggregate, values: list[float]) -> int:
        aggregate = unbound.bind({"x": pa.float64(), "y": pa.float64()})
        events = [Event(0, 0, 0, 0, i, {"x": x, "y": x}) for i, x in enumerate(values)]
        partial = aggregate.accumulate_columns(
            columns_of(aggregate, events), np.zeros(len(events), np.int64), 1
        )
        return len(Layout((aggregate,)).encode_rows([partial])[0])

    random = Random(1)
    prices = [random.randrange(100, 100_000) / 100 for _ in range(1000)]
    widest = [5e-324, 1.7976931348623157e308, -1.1e308] * 5
    assert (size(agg.variance("x"), prices), size(agg.kurtosis("x"), prices)) == (60, 140)
    assert size(agg.covariance("x", "y"), prices) == 144
    assert size(agg.variance("x"), widest) <= 4 * (67 + 133) + 24
    assert size(agg.kurtosis("x"), widest) <= 4 * (67 + 133 + 198 + 264) + 40


@pytest.mark.parametrize("start", [-1, 300, 2**31 - 1])
def test_limbs_where_no_sum_can_be_are_refused_before_any_memory_is_taken(start: int) -> None:
    aggregate = agg.kurtosis("x").bind(TYPES)
    whole = aggregate.to_columns([aggregate.empty()])
    fields = {
        **whole.values,
        "s4_start": np.array([start], np.int32),
        "s4_limbs": agg.Ragged.of([[1]], "<u4"),
    }
    with pytest.raises(CodecError):
        aggregate.combine_columns(Columns(1, fields), np.zeros(1, np.int64), 1)


def test_zeros_and_infinities_take_no_lane_of_their_own() -> None:
    plain = products.span(products.of_doubles(np.array([1.0, 3.5])))
    assert (
        products.span(products.of_doubles(np.array([0.0, 1.0, math.nan, 3.5, -math.inf]))) == plain
    )
    assert products.of_doubles(np.array([0.0, math.inf])).least == 0


def _squares(random: Random) -> Fraction:
    """A rational whose root is anywhere, often the middle of two doubles or next to one."""
    two = Fraction(2)
    if random.random() < 0.4:
        middle: Fraction = ((random.getrandbits(53) | 1 << 52) * 2 + 1) * _power(
            two, random.randrange(-1076, 970)
        )
        nudge = random.choice([Fraction(0), Fraction(0), Fraction(1, 2**200), -Fraction(1, 2**900)])
        return middle * middle * (1 + nudge)
    top, below = (
        random.getrandbits(random.choice([1, 53, 54, 106, 108, 300])) | 1 for _ in range(2)
    )
    return Fraction(top, random.choice([1, below])) * _power(two, random.randrange(-2200, 2100))


def _power(base: Fraction, exponent: int) -> Fraction:
    power: Fraction = base**exponent
    return power


def test_a_root_is_the_nearest_double() -> None:
    random = Random(9)
    for _ in range(800):
        square = _squares(random)
        try:
            wanted: float | None = moments.root(square)
        except moments.TooLarge:
            wanted = None
        assert root(square.numerator, square.denominator) == wanted, square
        assert root(square.numerator << 60, square.denominator, -30) == wanted, square


def test_a_failed_value_is_null_with_its_code() -> None:
    aggregate = agg.variance("x").bind(TYPES)
    state = aggregate.empty()
    for x in (1e308, -1e308):
        state = aggregate.accumulate(state, Event(0, 0, 0, 0, 0, {"x": x}))
    assert aggregate.finish(state) == Failed("overflow")
    finished = aggregate.finish_columns(aggregate.to_columns([state, aggregate.empty()]))
    assert finished.values.to_pylist() == [None, None]
    assert finished.errors == {0: "overflow"}
