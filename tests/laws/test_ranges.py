"""Tables of ranges give what is added by groups, on hostile events too.

Doubles that lie as far apart as doubles can, with NaN and infinities, have no table as shipped: it
would be wide. Here they have one, so that the arithmetic is held by the law as well.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicewise import aggregates as agg
from slicewise.aggregates import Aggregate, Event, Rows
from slicewise.aggregates.combinators.conditional import only
from slicewise.aggregates.exact import prefixes
from slicewise.aggregates.kernel.limbs import MOST_LANES
from tests.laws.events import events
from tests.laws.laws import ranges_are_looked_up, rows_of

TYPES = {"x": pa.float64(), "w": pa.bool_()}
SUMS = (agg.sum("x"), agg.mean("x"), only(agg.sum("x"), "w", "w"))


@pytest.mark.parametrize("aggregate", SUMS, ids=["sum", "mean", "where"])
def test_sums_of_hostile_doubles_are_deducted_exactly(
    aggregate: Aggregate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefixes, "MOST_LANES", MOST_LANES + 1)
    bound = aggregate.bind(TYPES)

    @settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(events(TYPES), st.integers(0, 2**32))
    def holds(chosen: list[Event], seed: int) -> None:
        assert bound.over_ranges(rows_of(bound, chosen)) is not None
        ranges_are_looked_up(bound, chosen, Random(seed))

    holds()


def test_a_table_that_would_be_wide_is_not_made() -> None:
    bound = agg.sum("x").bind(TYPES)
    near, far = [0.1, 1e6, -3.25], [5e-324, 1e308]
    assert bound.over_ranges(_rows(near)) is not None
    assert bound.over_ranges(_rows(far)) is None


def test_a_long_range_is_deducted_from_more_numbers_than_a_carry_waits_for() -> None:
    values = np.full(100_000, 2.0**53 - 1)
    bound = agg.sum("x").bind(TYPES)
    form = bound.over_ranges(_rows(values.tolist()))
    assert form is not None
    first, beyond = np.array([0, 1]), np.array([100_000, 99_999])
    (partials,) = form.between([(first, beyond)])
    finished = bound.finish_columns(partials).values.to_pylist()
    assert finished == [float(100_000 * (2**53 - 1)), float(99_998 * (2**53 - 1))]


def _rows(values: list[float]) -> Rows:
    n = len(values)
    zeros = np.zeros(n, np.uint64)
    return Rows(
        np.arange(n, dtype=np.int64),
        zeros,
        zeros,
        np.zeros(n, np.int32),
        np.arange(n, dtype=np.int64),
        {"x": pa.array(values, pa.float64())},
    )
