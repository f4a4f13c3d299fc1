"""Sums are exact for every number, group count and path, and are rounded once."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise import aggregates as agg
from slicewise.aggregates import Columns, Rows
from slicewise.aggregates.kernel import limbs, rounding
from slicewise.aggregates.kernel.columns import Values
from slicewise.errors import CodecError
from tests.laws.oracles.values import Error, nearest_double

DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [
            5e-324,
            -5e-324,
            2.0**-1022,
            1.7976931348623157e308,
            -1.7976931348623157e308,
            2.0**53,
            1.0,
            -0.0,
        ]
    ),
)
SETTINGS = settings(max_examples=60, deadline=None, database=None)


def rows(values: object, kind: pa.DataType) -> Rows:
    array = pa.array(values, kind)
    n, zero = len(array), np.zeros(len(array), np.uint64)
    return Rows(np.arange(n), zero, zero, np.zeros(n, np.int32), np.arange(n), {"x": array})


def summed(values: object, groups: np.ndarray, n: int, kind: pa.DataType) -> Columns:
    return agg.sum("x").bind({"x": kind}).accumulate_columns(rows(values, kind), groups, n)


@pytest.fixture(params=["few groups", "whole columns", "runs of groups"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The ways through the addition, whatever the number of groups."""
    monkeypatch.setattr(limbs, "SCALAR_GROUPS", 2**30 if request.param == "few groups" else 0)
    monkeypatch.setattr(limbs, "CELLS", 16 if request.param == "runs of groups" else 2**22)
    monkeypatch.setattr(limbs, "LONG_CHUNK", 3)  # carries between chunks
    return str(request.param)


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, 4), DOUBLES), max_size=30))
def _doubles_add_up(pairs: list[tuple[int, float]]) -> None:
    groups = np.array([g for g, _ in pairs], np.int64)
    result = summed([x for _, x in pairs], groups, 5, pa.float64())
    for g in range(5):
        exact = sum((Fraction(x) for h, x in pairs if h == g), Fraction(0)) * 2**1074
        start, limbs_of = result.fixed("limb_start")[g], result.items("limbs")
        parts = limbs_of.values[limbs_of.offsets[g] : limbs_of.offsets[g + 1]].tolist()
        assert limbs.to_int(int(start), parts) == exact
        assert (int(start), tuple(parts)) == limbs.of_int(int(exact))  # the one canonical form


@pytest.mark.usefixtures("path")
def test_doubles_add_up_exactly_on_every_path() -> None:
    _doubles_add_up()


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-(2**63), 2**63 - 1)), max_size=30))
def _integers_add_up(pairs: list[tuple[int, int]]) -> None:
    groups = np.array([g for g, _ in pairs], np.int64)
    result = summed([x for _, x in pairs], groups, 5, pa.int64())
    numbers = limbs.to_ints(result.fixed("limb_start"), result.items("limbs"))
    assert numbers == [sum(x for h, x in pairs if h == g) for g in range(5)]


@pytest.mark.usefixtures("path")
def test_integers_add_up_exactly_on_every_path() -> None:
    _integers_add_up()


@SETTINGS
@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(-(2**70), 2**70), st.integers(-(2**2100), 2**2100)),
            st.integers(1, 2**40),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([-1074, 0]),
    st.booleans(),
)
def test_both_forms_of_rounding_give_the_nearest_double(
    given_pairs: list[tuple[int, int]], unit: int, divided: bool
) -> None:
    if unit == 0:
        given_pairs = [
            (value >> 2040 if abs(value) > 2**71 else value, n) for value, n in given_pairs
        ]
    pairs = given_pairs * 5  # enough rows for the whole-column form
    assert len(pairs) * 10 > rounding.COLUMN_ROWS
    parts = [limbs.of_int(value) for value, _ in pairs]
    start = np.array([start for start, _ in parts], np.int32)
    limbs_given = agg.Ragged.of([limb for _, limb in parts], "<u4")
    divisor = np.array([n for _, n in pairs], np.int64) if divided else None
    wanted = [
        nearest_double(Fraction(value, n if divided else 1) * Fraction(2) ** unit)
        for value, n in pairs
    ]
    before = rounding.COLUMN_ROWS
    for least in (0, 10**9):
        rounding.COLUMN_ROWS = least
        try:
            values, overflow = rounding.to_doubles(start, limbs_given, divisor, unit)
        finally:
            rounding.COLUMN_ROWS = before
        assert overflow.tolist() == [isinstance(value, Error) for value in wanted]
        assert [v.hex() for v in values.tolist()] == [
            (0.0 if isinstance(v, Error) else v).hex() for v in wanted
        ]


@pytest.mark.parametrize("bits", [2097, 2098, 2099, 2100, 2101])
@pytest.mark.parametrize("less", [0, 1, 2**1000, 2**2044, 2**2045])
def test_the_edge_of_the_largest_double_is_the_same_in_both_forms(bits: int, less: int) -> None:
    total = 2**bits - less
    wanted = nearest_double(Fraction(total, 2**1074))
    start, limbs_given = limbs.of_int(total)
    for n in (1, 60):  # Python's integers, whole columns
        column = (np.full(n, start, np.int32), agg.Ragged.of([limbs_given] * n, "<u4"))
        values, overflow = rounding.to_doubles(*column, None, -1074)
        assert set(overflow.tolist()) == {isinstance(wanted, Error)}
        assert set(values.tolist()) == {0.0 if isinstance(wanted, Error) else wanted}


def test_ties_round_half_to_even_and_a_sticky_bit_breaks_them() -> None:
    one, half = 2**1074, 2 ** (1074 - 53)  # 1 and half of its last place, in units of 2^-1074
    for total, wanted in [
        (one + half, 1.0),
        (one + half + 1, math.nextafter(1.0, 2)),
        (one + 3 * half, 1 + 2**-51),
        (one + 3 * half - 1, math.nextafter(1.0, 2)),
        (-one - half, -1.0),
    ]:
        start, limbs_given = limbs.of_int(total)
        column = (np.full(60, start, np.int32), agg.Ragged.of([limbs_given] * 60, "<u4"))
        assert set(rounding.to_doubles(*column, None, -1074)[0].tolist()) == {wanted}


def test_a_large_seeded_sum_equals_fsum() -> None:
    random = np.random.default_rng(20130101)
    values = random.normal(size=200_000) * 10.0 ** random.integers(-200, 200, 200_000)
    groups = random.integers(0, 100, len(values))
    aggregate = agg.sum("x").bind({"x": pa.float64()})
    sums = aggregate.finish_columns(summed(values, groups, 100, pa.float64())).values.to_pylist()
    assert sums == [math.fsum(values[groups == g]) for g in range(100)]


def test_what_does_not_fit_is_null_with_overflow_for_that_row_alone() -> None:
    largest = 1.7976931348623157e308
    most = Decimal(int("9" * 38))
    for kind, values, total in (
        (pa.float64(), [largest, largest, 1.0, -largest], largest),
        (pa.int64(), [2**63 - 1, 1, 1, -(2**63)], 1),
        (pa.decimal128(38, 0), [most, Decimal(1), Decimal(1), Decimal("-" + "9" * 38)], Decimal(2)),
    ):
        aggregate = agg.sum("x").bind({"x": kind})
        finished = aggregate.finish_columns(summed(values, np.array([0, 0, 1, 2]), 4, kind))
        assert dict(finished.errors) == {0: "overflow"}
        assert finished.values.to_pylist() == [None, values[2], values[3], None]
        # Inside, nothing is lost: what comes back into range is exact again.
        whole = aggregate.finish_columns(summed(values, np.zeros(4, np.int64), 1, kind))
        assert whole.values.to_pylist() == [total]


def test_the_sum_of_opposites_is_plus_zero() -> None:
    aggregate = agg.sum("x").bind({"x": pa.float64()})
    for values in ([-0.0], [-0.0, -0.0], [0.1, -0.1]):
        partial = summed(values, np.zeros(len(values), np.int64), 1, pa.float64())
        assert str(aggregate.finish_columns(partial).values.to_pylist()) == "[0.0]"


@pytest.mark.parametrize("n_groups", [1, 3, 200])
def test_a_mean_that_rounds_to_zero_from_below_is_plus_zero(n_groups: int) -> None:
    mean = agg.mean("x").bind({"x": pa.float64()})
    given = np.tile([-5e-324, 0.0, 0.0], n_groups)
    partials = mean.accumulate_columns(
        rows(given, pa.float64()), np.repeat(np.arange(n_groups), 3), n_groups
    )
    result = mean.finish_columns(partials).values.to_pylist()
    by_rows = [mean.finish(state) for state in mean.from_columns(partials)]
    assert {value.hex() for value in (*result, *by_rows)} == {"0x0.0p+0"}
    # an answer changed: what was deployed before has another fingerprint
    assert mean.meaning()["finish"] == 2


def test_a_mean_of_decimals_rounds_halves_up() -> None:
    aggregate = agg.mean("x").bind({"x": pa.decimal128(5, 0)})
    for values, wanted in (
        ([1, 0, 0], "0.3333"),
        ([1] + [0] * 31, "0.0313"),
        ([-1] + [0] * 31, "-0.0313"),
    ):
        made = rows([Decimal(v) for v in values], pa.decimal128(5, 0))
        partial = aggregate.accumulate_columns(made, np.zeros(len(values), np.int64), 1)
        # 1/32 = 0.03125
        assert aggregate.finish_columns(partial).values.to_pylist() == [Decimal(wanted)]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1.0, math.nan], math.nan),
        ([math.inf, -1e308], math.inf),
        ([-math.inf, 5e-324], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.inf, math.inf, -1.0], math.inf),
    ],
)
@pytest.mark.usefixtures("path")
def test_nan_and_infinities_come_out_and_can_be_deducted(
    values: list[float], wanted: float
) -> None:
    aggregate = agg.sum("x").bind({"x": pa.float64()})
    assert isinstance(aggregate, agg.Invertible)
    zero = np.zeros(len(values), np.int64)
    whole = summed(values, zero, 1, pa.float64())
    assert repr(aggregate.finish_columns(whole).values.to_pylist()) == repr([wanted])
    assert not aggregate.finish_columns(whole).errors
    special = [value for value in values if not math.isfinite(value)]
    rest = aggregate.deduct_columns(whole, summed(special, zero[: len(special)], 1, pa.float64()))
    finite = [value for value in values if math.isfinite(value)]
    assert aggregate.finish_columns(rest).values.to_pylist() == [sum(finite) if finite else None]


@pytest.mark.parametrize("start", [-1, 79, 2**31 - 1])
def test_limbs_where_no_sum_can_be_are_refused_before_any_memory_is_taken(start: int) -> None:
    aggregate = agg.sum("x").bind({"x": pa.float64()})
    fields: dict[str, Values] = {
        "n": np.ones(1, np.int64),
        "limb_start": np.array([start], np.int32),
        "limbs": agg.Ragged.of([[1]], "<u4"),
    }
    with pytest.raises(CodecError):
        aggregate.combine_columns(Columns(1, fields), np.zeros(1, np.int64), 1)


@SETTINGS
@given(
    st.lists(DOUBLES),
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.sampled_from([1, 3, limbs.LONG_CHUNK]),
)
def test_one_sum_of_many_is_exact_however_far_apart_they_lie(
    doubles: list[float], integers: list[int], chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limbs, "LONG_CHUNK", chunk)
        total, start = limbs.total_of_doubles(np.array(doubles, np.float64))
    assert Fraction(total << (limbs.LIMB_BITS * start), 2**1074) == sum(map(Fraction, doubles))
    assert limbs.total_of_integers(np.array(integers, np.int64)) == sum(integers)


@SETTINGS
@given(
    st.lists(
        st.tuples(st.integers(-(2**53) + 1, 2**53 - 1), st.integers(0, limbs.NEAR_BITS + 1)),
        max_size=40,
    ),
    st.integers(-1074, 900),
)
def test_one_sum_of_doubles_that_lie_near_each_other_is_exact(
    near: list[tuple[int, int]], unit: int
) -> None:
    doubles = [math.ldexp(mantissa, unit + bits) for mantissa, bits in near]
    total, start = limbs.total_of_doubles(np.array(doubles, np.float64))
    assert Fraction(total << (limbs.LIMB_BITS * start), 2**1074) == sum(map(Fraction, doubles))


@pytest.mark.parametrize("sign", [1, -1])
def test_one_sum_of_as_many_as_are_added_at_once_stays_exact(sign: int) -> None:
    greatest = sign * (2.0**53 - 1)
    doubles = np.array([greatest / 2**limbs.NEAR_BITS, *[greatest] * (limbs.NEAR_VALUES - 1)])
    total, start = limbs.total_of_doubles(doubles)
    assert Fraction(total << (limbs.LIMB_BITS * start), 2**1074) == sum(
        map(Fraction, doubles.tolist())
    )


def test_one_sum_of_as_many_as_a_chunk_holds_stays_exact() -> None:
    greatest = np.full(limbs.LONG_CHUNK, 2.0**53 - 1)
    total, start = limbs.total_of_doubles(greatest)
    assert Fraction(total << (limbs.LIMB_BITS * start), 2**1074) == len(greatest) * (2**53 - 1)
