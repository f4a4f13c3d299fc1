"""An approximate answer is exact where it must be, and within what its kind declares elsewhere.

The exact truth comes from Spark SQL or a judge; nothing here runs the algebra.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from slicewise.checks.recompute.queries import Aggregated
from slicewise.checks.recompute.questions import Distinct
from slicewise.checks.values import canonical
from slicewise.features.schema.types import LONG, STRING

SIGMAS = 6.0
"""A correct sketch exceeds this many standard errors about once in five hundred million answers."""
LEAST_DOUBLE = 5e-324
STRANGERS = 24
"""Number of values seen nowhere for which the features that are asked are asked."""
QUESTIONS = "asked"
"""Parameter that the check adds: the values that a reader asked for."""


class Truth(NamedTuple):
    """An exact truth; `equal`: whether the answer must be it, byte for byte."""

    equal: bool
    value: Any


def strangers(kind: str, run: str) -> list[Any]:
    """Values that no event is likely to hold; of types of few values none."""
    digests = [hashlib.sha256(f"{run} {i}".encode()).digest() for i in range(STRANGERS)]
    if kind == STRING:
        return [digest.hex() for digest in digests]
    return [int.from_bytes(digest[:7], "big") for digest in digests] if kind == LONG else []


def truth_of(aggregate: Aggregated, answer: Any) -> Truth | None:
    """The truth of an approximate answer as SQL or its judge gave it; None of an exact kind."""
    if isinstance(answer, Distinct):
        exact = (
            answer.count <= aggregate["threshold"]
            and answer.text_bytes <= 1 << aggregate["precision"]
        )
        return Truth(bool(exact), answer.count)
    if isinstance(answer, Mapping) and set(answer) == set(Truth._fields):
        return Truth(answer["equal"], answer["value"])
    return None


def is_approximate(aggregate: Aggregated) -> bool:
    """Tells whether an answer may be beyond what is exact."""
    return _given(aggregate.parameters)["kind"] in APPROXIMATE


def within(aggregate: Aggregated, truth: Any, answer: Any) -> bool:
    """Tells whether an answer beyond the exact ones keeps the declared error; of buckets the
    engine's bytes alone say so."""
    spec = _given(aggregate.parameters)
    return spec["kind"] not in WITHIN or WITHIN[spec["kind"]](spec, truth, answer)


def with_question(spec: Mapping[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    """The parameters of an aggregate of members, with the values that it is asked for."""
    if spec["kind"] == "where":
        return {**spec, "aggregate": with_question(spec["aggregate"], values)}
    return {**spec, QUESTIONS: list(values)}


def question(spec: Mapping[str, Any]) -> Sequence[Any]:
    """The values that are asked for; of most aggregates none."""
    values: Sequence[Any] = _given(spec).get(QUESTIONS, ())
    return values


def _given(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of what a condition gives events to."""
    return _given(spec["aggregate"]) if spec["kind"] == "where" else spec


def _distinct_count(spec: Mapping[str, Any], count: int, estimate: Any) -> bool:
    """Six declared standard errors, 1.04 / 2^(precision/2), of the count."""
    if not isinstance(estimate, int) or isinstance(estimate, bool):
        return False
    error = 1.04 / math.sqrt(1 << spec["precision"])
    return bool(abs(estimate - count) <= SIGMAS * error * count + 1)


def _quantiles(spec: Mapping[str, Any], truth: Any, answer: Any) -> bool:
    """Tells whether all entries are within the declared share of the exact ones; null where bins
    were collapsed."""
    if not isinstance(answer, list) or len(answer) != len(truth):
        return False
    error = spec["error"] * (1 + 1e-9)
    return all(
        estimate is None or abs(estimate - value) <= error * abs(value) + LEAST_DOUBLE
        for estimate, value in zip(answer, truth, strict=True)
    )


def _top_k_frequent(spec: Mapping[str, Any], truth: Any, answer: Any) -> bool:
    """No count too low; none too high by more than forty declared errors, which less than one in
    ten million is."""
    if not isinstance(answer, Mapping) or len(answer["items"]) > spec["k"]:
        return False
    counts = {canonical(value): count for value, count in truth["counts"]}
    most = 40 * spec["error"] * sum(counts.values()) + 1
    return all(
        0 <= item["count"] - counts.get(canonical(item["value"]), math.inf) <= most
        for item in answer["items"]
    )


def _members(spec: Mapping[str, Any], truth: Any, answer: Any) -> bool:
    """Never false of a member; of strangers no more members than six standard errors beyond the
    declared share."""
    if not isinstance(answer, list) or len(answer) != len(truth):
        return False
    answers = [given for given, member in zip(answer, truth, strict=True) if not member]
    expected = spec["error"] * len(answers)
    lost = any(given is False for given, member in zip(answer, truth, strict=True) if member)
    return not lost and answers.count(True) <= expected + SIGMAS * math.sqrt(expected) + 2


def _share(_spec: Mapping[str, Any], _truth: Any, answer: Any) -> bool:
    """Tells whether the answer is a share; its value is the engine's."""
    return isinstance(answer, float) and 0 < answer <= 1


WITHIN: dict[str, Callable[[Mapping[str, Any], Any, Any], bool]] = {
    "distinct_count": _distinct_count,
    "quantiles": _quantiles,
    "top_k_frequent": _top_k_frequent,
    "bloom": _members,
    "bloom_fill": _share,
    "cuckoo": _members,
}
"""Approximate kinds: (kind and parameters, the exact value, the answer) -> whether the declared
error is kept."""
APPROXIMATE = frozenset(WITHIN)
