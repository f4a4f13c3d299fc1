"""The exact truth of approximate aggregates, and whether an answer must equal it:
`{"equal", "value"}`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from slicewise.checks.judges import Row, judge


def _present(rows: Sequence[Row], spec: Mapping[str, Any]) -> list[Any]:
    """The values that are not null."""
    values = [row.values[spec["column"]] for row in rows]
    return [value for value in values if value is not None]


@judge("quantiles")
def quantiles(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """For each q the least value whose place from 1 is at least q times the number of values."""
    values = sorted(map(float, _present(rows, spec)))
    exact = len(set(values)) <= spec["threshold"]
    if not values:
        return {"equal": True, "value": None}
    ranks = [max(1, math.ceil(Fraction(str(q)) * len(values))) for q in spec["q"]]
    return {"equal": exact, "value": [values[rank - 1] for rank in ranks]}


@judge("top_k_frequent")
def top_k_frequent(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """The most frequent values, equals by value; beyond the capacity the counts of all, for the
    error's sake."""
    counts = Counter(_present(rows, spec))
    if not counts:
        return {"equal": True, "value": None}
    size = sum(map(_size, counts))
    exact = len(counts) <= spec["capacity"] and size <= 256 * spec["capacity"]
    ranked = sorted(counts.items(), key=lambda item: (-item[1], _sort_key(item[0])))
    listed = [{"value": value, "count": count} for value, count in ranked[: spec["k"]]]
    value: dict[str, Any] = {"items": listed, "error": 0, "miss": 0.0}
    if not exact:
        value["counts"] = [[item, count] for item, count in ranked]
    return {"equal": exact, "value": value}


def _size(value: Any) -> int:
    """Bytes of what is stored of a value as a byte string."""
    return (
        len(value.encode()) if isinstance(value, str) else 16 if isinstance(value, Decimal) else 0
    )


def _sort_key(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


@judge("bloom", "cuckoo")
def members(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """Tells of each value that was asked for whether it was seen."""
    seen = set(_present(rows, spec))
    return {"equal": False, "value": [value in seen for value in spec["asked"]]}


@judge("bloom_fill")
def bloom_fill(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """Null of no values; of some the filter's own share, for which nothing else has a figure."""
    return {"equal": not _present(rows, spec), "value": None}
