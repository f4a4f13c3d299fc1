"""A value's weight halves with each half-life, exactly so in whole ones, and the sum is divided
once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise import aggregates as agg
from slicewise.aggregates import Columns, Event, Rows
from slicewise.aggregates.exact.decay import MOST_HALVINGS
from slicewise.aggregates.kernel.halving import ERROR, weight, weights
from slicewise.errors import DefinitionError
from slicewise.features.plan.planner import plan_source, plan_view

HOUR = 3_600_000_000
END = 1_767_225_600_000_000
X = {"x": pa.float64()}


def rows(events: Sequence[tuple[int, float | None]]) -> Rows:
    """Events of (age at END in microseconds, value)."""
    return Rows.from_events(
        [Event(END - age, 0, 0, 0, i, {"x": x}) for i, (age, x) in enumerate(events)], X
    )


def finished(aggregate: Any, events: Sequence[tuple[int, float | None]], end: int = END) -> Any:
    given = rows(events)
    partial = aggregate.accumulate_columns(given, np.zeros(len(given), np.int64), 1)
    result = aggregate.finish_columns_at(partial, lambda: np.array([end]))
    return result.errors[0] if result.errors else result.values.to_pylist()[0]


def test_after_whole_half_lives_a_value_is_halved_exactly() -> None:
    decay = agg.decay_sum("x", half_life="1h").bind(X)
    assert finished(decay, [(3 * HOUR, 8.0)]) == 1.0
    assert finished(decay, [(0, 0.1), (HOUR, 0.4), (10 * HOUR, None)]) == 0.1 + 0.2
    assert finished(decay, [(3 * HOUR, 8.0)], END + HOUR) == 0.5
    assert (
        finished(agg.decay_count(half_life="1h").bind({}), [(HOUR, None), (2 * HOUR, 1.0)]) == 0.75
    )
    assert (
        finished(agg.decay_count("x", half_life="1h").bind(X), [(HOUR, None), (2 * HOUR, 1.0)])
        == 0.25
    )


@pytest.mark.parametrize("half_life_us", [1_000_000, 90 * 60_000_000 + 1, 3_650 * 24 * HOUR])
def test_a_weight_is_within_its_declared_error_in_both_forms(half_life_us: int) -> None:
    instants = np.random.default_rng(31).integers(-(2**62), 2**62, 500)
    q, factors = weights(instants, half_life_us)
    for t, whole, factor in zip(instants.tolist(), q.tolist(), factors.tolist(), strict=True):
        assert weight(t, half_life_us) == (whole, factor)
        with localcontext(prec=60):
            exact = Decimal(2) ** (Decimal(t - whole * half_life_us) / half_life_us)
            assert abs(Decimal(factor) / 2**63 / exact - 1) < ERROR


def test_it_is_near_what_powers_in_doubles_give() -> None:
    random = np.random.default_rng(32)
    ages, values = random.integers(0, 24 * HOUR, 1_000), random.random(1_000)
    plain = float((values * 0.5 ** (ages / (2 * HOUR))).sum())
    result = finished(
        agg.decay_sum("x", half_life="2h").bind(X),
        list(zip(ages.tolist(), values.tolist(), strict=True)),
    )
    assert result == pytest.approx(plain, rel=2 * ERROR)


def test_events_further_apart_than_a_window_may_be_are_told_and_cost_nothing() -> None:
    decay = agg.decay_sum("x", half_life="1s").bind(X)
    near, far = (
        [(0, 1.0), (MOST_HALVINGS * 1_000_000, 1.0)],
        [(0, 1.0), ((MOST_HALVINGS + 1) * 1_000_000, 1.0)],
    )
    assert finished(decay, near) == 1.0
    assert finished(decay, far) == "too_long"
    wide = decay.accumulate_columns(rows(far), np.zeros(2, np.int64), 1)
    assert len(wide.items("limbs").values) == 0
    apart = Columns.concat(
        [decay.accumulate_columns(rows([event]), np.zeros(1, np.int64), 1) for event in far]
    )
    joined = decay.combine_columns(apart, np.zeros(2, np.int64), 1)
    assert decay.from_columns(joined) == decay.from_columns(wide)


def test_without_a_window_there_is_no_value() -> None:
    decay = agg.decay_sum("x", half_life="1h").bind(X)
    partial = decay.accumulate_columns(rows([(0, 1.0)]), np.zeros(1, np.int64), 1)
    assert decay.finish_columns(partial).errors == {0: "no_end"}
    assert decay.finish(decay.from_columns(partial)[0]) == agg.Failed("no_end")


def test_what_no_double_holds_is_overflow_or_zero() -> None:
    decay = agg.decay_sum("x", half_life="1s").bind(X)
    assert finished(decay, [(0, 1e308), (1, 1e308)]) == "overflow"
    assert finished(decay, [(0, 1e308)], END - 1_000_000) == "overflow"
    assert finished(decay, [(0, 1e308)], END - 10**12) == "overflow"
    assert finished(decay, [(0, -1e308)], END + 10**12) == 0.0
    assert math.copysign(1, finished(decay, [(0, -5e-324)], END + 1_000_000)) == 1


@pytest.mark.parametrize("half_life", ["0s", "999ms", "3651d", "soon", 60, None])
def test_a_half_life_that_no_weight_has_is_refused(half_life: Any) -> None:
    with pytest.raises(DefinitionError):
        agg.decay_sum("x", half_life=half_life)


def test_equal_half_lives_share_one_partial() -> None:
    ids = {
        agg.decay_sum("x", half_life=text).bind(X).partial_id() for text in ("1h", "60m", "3600s")
    }
    assert len(ids) == 1


def test_a_window_of_too_many_half_lives_is_refused_where_it_is_declared() -> None:
    source = sw.KafkaSource("s", schema={"u": "string", "x": "double", "t": "timestamp_us"}, timestamp="t",
                            max_lateness="1h")  # fmt: skip
    feature = sw.Feature("f", sw.decay_sum("x", half_life="1s"), windows=["1024s", "1025s"])
    view = sw.FeatureView("v", source=source, entity=["u"], features=[feature], slice="1s")
    with pytest.raises(DefinitionError, match="1024 half-lives"):
        plan_view(view, plan_source(source))
