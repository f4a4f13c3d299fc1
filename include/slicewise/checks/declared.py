"""An approximate answer is exact where it must be, and within what its kind declares elsewhere.

The exact truth comes from Spark SQL or a judge; nothing here runs the algebra.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from slicewise.checks.queries import Aggregated
from slicewise.checks.values import canonical

SIGMAS = 6.0
"""A correct sketch exceeds this many standard errors about once in five hundred million answers."""
LEAST_DOUBLE = 5e-324


class Truth(NamedTuple):
    """What is exactly so; `equal`: whether the answer must be it, byte for byte."""

    equal: bool
    value: Any


@dataclass(frozen=True)
class Distinct:
    """What Spark counted: distinct values, and the bytes of their texts together."""

    count: int
    text_bytes: int


def truth_of(each: Aggregated, found: Any) -> Truth | None:
    """The truth of an approximate answer as SQL or its judge gave it; None of an exact kind."""
    if isinstance(found, Distinct):
        exact = found.count <= each["threshold"] and found.text_bytes <= 1 << each["precision"]
        return Truth(bool(exact), found.count)
    return Truth(found["equal"], found["value"]) if each.kind in WITHIN else None


def within(each: Aggregated, truth: Any, answer: Any) -> bool:
    """Whether an answer beyond the exact ones keeps the declared error."""
    return WITHIN[each.kind](each.parameters, truth, answer)


def _distinct_count(spec: Mapping[str, Any], count: int, estimate: Any) -> bool:
    """Six declared standard errors, 1.04 / 2^(precision/2), of the count."""
    if not isinstance(estimate, int) or isinstance(estimate, bool):
        return False
    error = 1.04 / math.sqrt(1 << spec["precision"])
    return bool(abs(estimate - count) <= SIGMAS * error * count + 1)


def _quantiles(spec: Mapping[str, Any], truth: Any, answer: Any) -> bool:
    """Each entry within the declared share of the exact one; null where bins were collapsed."""
    if not isinstance(answer, list) or len(answer) != len(truth):
        return False
    error = spec["error"] * (1 + 1e-9)
    return all(
        found is None or abs(found - value) <= error * abs(value) + LEAST_DOUBLE
        for found, value in zip(answer, truth, strict=True)
    )


def _top_k_frequent(spec: Mapping[str, Any], truth: Any, answer: Any) -> bool:
    """No count too low; none too high by more than forty declared errors, which less than one in ten million is."""
    if not isinstance(answer, Mapping) or len(answer["items"]) > spec["k"]:
        return False
    counts = {canonical(value): count for value, count in truth["counts"]}
    most = 40 * spec["error"] * sum(counts.values()) + 1
    return all(0 <= each["count"] - counts.get(canonical(each["value"]), math.inf) <= most for each in answer["items"])


WITHIN: dict[str, Callable[[Mapping[str, Any], Any, Any], bool]] = {
    "distinct_count": _distinct_count,
    "quantiles": _quantiles,
    "top_k_frequent": _top_k_frequent,
}
"""Approximate kinds: (kind and parameters, the exact value, the answer) -> whether the declared error is kept."""
