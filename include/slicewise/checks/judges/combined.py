"""Conditions, buckets and histograms, and what they are given to: the kinds that alone are
recomputed by SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

from slicewise.checks.judges import END, Row, exact, judge, judged
from slicewise.checks.judges.order import ordered_value
from slicewise.checks.judges.own import taken

Spec = Mapping[str, Any]
TRUTH = {"equal", "value"}
"""Members of what the judge of an approximate kind says."""


@judge("where")
def where(rows: Sequence[Row], spec: Spec) -> Any:
    """The aggregate's answer over the rows whose condition is true."""
    return judged([row for row in rows if row.values[spec["column"]] is True], _inner(spec))


def _inner(spec: Spec) -> Spec:
    """The question to the rows that are left, with the end of the window where it is known."""
    return {**spec["aggregate"], **({END: spec[END]} if END in spec else {})}


@judge("bucketed")
def bucketed(rows: Sequence[Row], spec: Spec) -> Any:
    """One value per key, ascending; null of no keys or too many. Of an array each different element
    is a key."""
    inner = _inner(spec)
    buckets: dict[Any, list[Row]] = {}
    for row in rows:
        for key in _keys(row, spec["by"]):
            buckets.setdefault(key, []).append(row)
    entries = [
        {"key": key, "value": judged(buckets[key], inner)} for key in sorted(buckets, key=_order)
    ]
    of_nothing = judged((), inner)
    approximate = isinstance(of_nothing, dict) and set(of_nothing) == TRUTH
    equal = not approximate or all(entry["value"]["equal"] for entry in entries)
    if approximate:
        entries = [{**entry, "value": entry["value"]["value"]} for entry in entries]
    refused = len(entries) > spec["max_buckets"] or any(
        _failed(buckets[e["key"]], inner, e["value"]) for e in entries
    )
    answer = None if refused else entries or None
    return {"equal": equal, "value": answer} if approximate else answer


def _failed(rows: Sequence[Row], spec: Spec, value: Any) -> bool:
    """Tells whether a null is an error and not for want of values: it is the whole answer's error
    then."""
    if spec["kind"] == "where":
        return _failed(
            [row for row in rows if row.values[spec["column"]] is True], spec["aggregate"], value
        )
    if spec["kind"] == "ordered":
        return ordered_value(rows, spec)[1]
    if spec["kind"] == "own":
        return taken(rows, spec)[1]
    if spec["kind"] == "decay_count":
        return value is None
    if spec["kind"] == "bucketed":
        return value is None and any(_keys(row, spec["by"]) for row in rows)
    return (
        spec["kind"] in ("sum", "mean", "decay_sum")
        and value is None
        and bool(_present(rows, str(spec["column"])))
    )


def _keys(row: Row, by: str) -> set[Any]:
    """The buckets that a row is in: its value, or of an array every element, without nulls."""
    given = row.values[by]
    return set(given if isinstance(given, list | tuple) else (given,)) - {None}


@judge("histogram")
def histogram(rows: Sequence[Row], spec: Spec) -> Any:
    """Counts by comparison with each edge, in rationals."""
    edges = [
        Fraction(float.fromhex(e)) if isinstance(e, str) and "0x" in e else Fraction(e)
        for e in spec["edges"]
    ]
    values = [Fraction(value) for value in _present(rows, spec["column"])]
    return {
        "under": sum(value < edges[0] for value in values),
        "bins": [sum(low <= value < high for value in values) for low, high in pairwise(edges)],
        "over": sum(value >= edges[-1] for value in values),
    }


@judge("count")
def count(rows: Sequence[Row], spec: Spec) -> int:
    """Rows, or values that are not null."""
    return len(rows) if spec["column"] is None else len(_present(rows, spec["column"]))


@judge("sum")
def total(rows: Sequence[Row], spec: Spec) -> Any:
    """The exact sum, rounded once."""
    return _by_type(
        _present(rows, spec["column"]), exact.sum_longs, exact.sum_doubles, exact.sum_decimals
    )


@judge("mean")
def mean(rows: Sequence[Row], spec: Spec) -> Any:
    """The exact sum over the count, rounded once; decimals with four digits more."""
    return _by_type(
        _present(rows, spec["column"]), exact.mean_longs, exact.mean_doubles, _decimal_mean
    )


@judge("min", "max")
def extreme(rows: Sequence[Row], spec: Spec) -> Any:
    """The least or greatest value."""
    choose: Callable[..., Any] = min if spec["kind"] == "min" else max
    return choose(_present(rows, spec["column"]), key=_order, default=None)


@judge("argmin", "argmax", "top_k", "bottom_k")
def ranked(rows: Sequence[Row], spec: Spec) -> Any:
    """The best rows; the sort is stable, so that the earliest of equals is first."""
    largest = spec["kind"] in ("argmax", "top_k")
    present = [row for row in rows if row.values[spec["by"]] is not None]
    best = sorted(present, key=lambda row: _order(row.values[spec["by"]]), reverse=largest)[
        : spec.get("k", 1)
    ]
    if "k" not in spec:
        return best[0].values[spec["payload"]] if best else None
    return [
        {"by": row.values[spec["by"]], "payload": row.values[spec["payload"]]} for row in best
    ] or None


@judge("last_k")
def last_k(rows: Sequence[Row], spec: Spec) -> Any:
    """The latest values, newest first."""
    return _present(rows, spec["column"])[::-1][: spec["k"]] or None


@judge("bool_and", "bool_or")
def boolean(rows: Sequence[Row], spec: Spec) -> bool | None:
    """Tells whether all, or any, of the values are true."""
    values = _present(rows, spec["column"])
    return None if not values else (all if spec["kind"] == "bool_and" else any)(values)


@judge("distinct_count")
def distinct_count(rows: Sequence[Row], spec: Spec) -> Any:
    """The exact number, and whether the answer must be it."""
    values = set(_present(rows, spec["column"]))
    size = sum(
        len(v.encode()) if isinstance(v, str) else 16
        for v in values
        if isinstance(v, str | Decimal)
    )
    return {
        "equal": len(values) <= spec["threshold"] and size <= 1 << spec["precision"],
        "value": len(values),
    }


def _present(rows: Sequence[Row], column: str) -> list[Any]:
    """The values that are not null."""
    return [value for row in rows if (value := row.values[column]) is not None]


def _order(value: Any) -> Any:
    """Text compares by its UTF-8 bytes."""
    return value.encode() if isinstance(value, str) else value


def _by_type(
    values: Sequence[Any],
    longs: Callable[[Iterable[int]], Any],
    doubles: Callable[[Iterable[float]], Any],
    decimals: Callable[[Sequence[Decimal]], Any],
) -> Any:
    if not values:
        return None
    if isinstance(values[0], Decimal):
        return decimals(values)
    return doubles(values) if isinstance(values[0], float) else longs(values)


def _decimal_mean(values: Sequence[Decimal]) -> Decimal | None:
    exponent = values[0].as_tuple().exponent
    assert isinstance(exponent, int)
    return exact.mean_decimals(values, 4 - exponent)
