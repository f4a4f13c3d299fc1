"""The distinct values seen last are the same however few events share a group and a value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from slicewise import aggregates as agg
from slicewise.aggregates import Rows
from slicewise.aggregates.kernel.grouping import SPARE
from slicewise.aggregates.ordering.latest import OFFERED

GROUPS, VALUES, K = 500, 400, 3


@pytest.mark.parametrize("alike", [0, 10, 30], ids=lambda n: f"{n} latest events of one value")
def test_many_groups_of_many_values_keep_what_brute_force_keeps(alike: int) -> None:
    """Every fiftieth group ends in so many events of one value: thirty are more than are looked at
    first."""
    random = np.random.default_rng(31)
    n = 6_000
    assert 4 * (n + GROUPS // 50 * alike) + SPARE < GROUPS * VALUES
    assert 10 < OFFERED * K < 30
    group, value, time = (
        random.integers(0, GROUPS, n),
        random.integers(0, VALUES, n),
        random.integers(0, 1_000, n),
    )
    repeated = np.repeat(np.arange(0, GROUPS, 50), alike)
    group, value = np.append(group, repeated), np.append(value, np.full(len(repeated), 7))
    time = np.append(time, random.integers(1_000, 2_000, len(repeated)))
    n = len(group)
    order = random.permutation(n)
    group, value, time = group[order], value[order], time[order]
    zero, offset = np.zeros(n, np.uint64), np.arange(n)
    bound = agg.last_k_distinct("x", k=K).bind({"x": pa.int64()})
    rows = Rows(time, zero, zero, np.zeros(n, np.int32), offset, {"x": pa.array(value)})
    result = bound.finish_columns(bound.accumulate_columns(rows, group, GROUPS)).values.to_pylist()
    seen: dict[int, list[int]] = {}
    for _, _, g, v in sorted(
        zip(time.tolist(), offset.tolist(), group.tolist(), value.tolist(), strict=True)
    ):
        seen.setdefault(g, []).append(v)
    for g in range(GROUPS):
        newest = list(dict.fromkeys(reversed(seen.get(g, []))))[:K]
        assert result[g] == (newest or None), g
