"""Values that depend on where events stand in the total order: the rows come sorted by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slicewise.checks.judges import Row, judge


def _held(rows: Sequence[Row], spec: Mapping[str, Any]) -> list[Any]:
    """The values that are not null, earliest first."""
    values = [row.values[spec["column"]] for row in rows]
    return [value for value in values if value is not None]


@judge("first")
def first(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """The earliest value."""
    return next(iter(_held(rows, spec)), None)


@judge("last")
def last(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """The latest value."""
    return next(reversed(_held(rows, spec)), None)


@judge("first_k")
def first_k(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """The k earliest values."""
    return _held(rows, spec)[: spec["k"]] or None


@judge("last_k_distinct")
def last_k_distinct(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """The k values that were met last, each once."""
    # A dictionary keeps the order in which its keys came: here the newest first.
    return list(dict.fromkeys(reversed(_held(rows, spec))))[: spec["k"]] or None
