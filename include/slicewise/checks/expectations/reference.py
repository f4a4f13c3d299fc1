"""A reference is the values of an earlier hour; a distribution's distance to it is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.checks.expectations.suites import KL, KL_THRESHOLD, NOT_NULL, Suite, Wanted

FEWEST = 100
"""Values on each side below which two distributions are not compared. Of two samples of one
distribution of this many values, one pair in a thousand at most is as far apart as KL_THRESHOLD; of
half as many it would be one in forty, each hour and feature."""
BINS = 10
HOLDOUT = 0.01
"""Weight that Great Expectations gives to what the reference has none of, so that a distance is
finite."""
MORE_NULLS = 0.2
"""Share of nulls that an hour may have beyond the reference's: a standard error of a share is 0.05
at most where it is of FEWEST values, so that four of them lie within it."""


def with_reference(suite: Suite, values: pa.Table, reference: pa.Table | None) -> Suite:
    """The suite of features with what the reference adds; a distance that is declared without a
    partition gets the reference's."""
    if reference is None:
        return _without_open(suite)
    partitions = {
        name: partition
        for name in values.column_names
        if name in reference.column_names
        and _finite(values[name]).size >= FEWEST
        and (partition := partition_of(reference[name])) is not None
    }
    filled = [_filled(wanted, partitions) for wanted in suite.wanted]
    declared = {(wanted.type, wanted.column) for wanted in suite.wanted}
    added = [
        wanted
        for wanted in (*_nulls(suite, values, reference), *_distances(partitions))
        if (wanted.type, wanted.column) not in declared
    ]
    return replace(suite, wanted=(*filled, *added))


def partition_of(column: pa.ChunkedArray) -> dict[str, Any] | None:
    """Great Expectations' partition of a column's numbers, by their quantiles; None where they are
    not numbers, too few or all alike."""
    numbers = _finite(column)
    if numbers.size < FEWEST:
        return None
    edges = np.unique(np.quantile(numbers, np.linspace(0, 1, BINS + 1)))
    if len(edges) < 3:
        return None
    counts, _ = np.histogram(numbers, edges)
    weights = counts / counts.sum()
    return {"bins": edges.tolist(), "weights": weights.tolist()}


def is_open(wanted: Wanted) -> bool:
    """Tells whether it is a distance that names no distribution."""
    return wanted.type == KL and not wanted.kwargs.get("partition_object")


def _without_open(suite: Suite) -> Suite:
    return replace(suite, wanted=tuple(one for one in suite.wanted if not is_open(one)))


def _filled(wanted: Wanted, partitions: Mapping[str, Mapping[str, Any]]) -> Wanted:
    if not is_open(wanted) or wanted.column not in partitions:
        return wanted
    return _distance(wanted.column, partitions[wanted.column], wanted)


def _distances(partitions: Mapping[str, Mapping[str, Any]]) -> Iterator[Wanted]:
    about = "values are distributed as in the reference hour"
    for name, partition in partitions.items():
        yield _distance(name, partition, Wanted(KL, {}, "warning", about))


def _distance(column: str, partition: Mapping[str, Any], wanted: Wanted) -> Wanted:
    kwargs = {
        "threshold": KL_THRESHOLD,
        "tail_weight_holdout": HOLDOUT,
        "internal_weight_holdout": HOLDOUT,
        **wanted.kwargs,
        "column": column,
        "partition_object": dict(partition),
    }
    return Wanted(KL, kwargs, wanted.severity, wanted.about, wanted.origin)


def _nulls(suite: Suite, values: pa.Table, reference: pa.Table) -> Iterator[Wanted]:
    if min(len(values), len(reference)) < FEWEST:
        return
    never = {wanted.column for wanted in suite.wanted if wanted.type == NOT_NULL}
    for name in values.column_names:
        if name in never or name not in reference.column_names or not len(reference):
            continue
        share = reference[name].null_count / len(reference)
        mostly = round(max(0.0, 1 - share - MORE_NULLS), 6)
        if mostly:
            about = f"no more nulls than the reference hour's {share:.0%} and {MORE_NULLS:.0%}"
            yield Wanted(NOT_NULL, {"column": name, "mostly": mostly}, "warning", about)


def _finite(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.float64]]:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return np.empty(0)
    numbers = pc.cast(column.drop_null(), pa.float64(), safe=False).to_numpy()
    finite: np.ndarray[Any, np.dtype[np.float64]] = numbers[np.isfinite(numbers)]
    return finite
