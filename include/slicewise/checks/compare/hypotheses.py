"""Tells whether a changed question gives an answer's very bytes, and what else a value is held
to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewise.checks import declared
from slicewise.checks.compare import engine
from slicewise.checks.model import Cause, Compared
from slicewise.checks.recompute.queries import Aggregated, aggregated
from slicewise.checks.recompute.questions import Recomputed, WindowOf
from slicewise.checks.recompute.run import Recomputation
from slicewise.checks.values import canonical, typed, value_of
from slicewise.features.plan.unit import PlannedFeature

_TIED = 64
DECISIVE = ("sum", "mean")
"""Kinds whose value tells best which events it has: a count is the same without any slice of so
many."""


@dataclass(frozen=True)
class Hypothesis:
    """A value that differs: its window, its feature and aggregate, both sides.

    added: how many events too many the answer's window has, by its own count; None: it has no
    count. gap_us: of a session that does not start where its events have it, which is what is in
    doubt then; its window is where the session is searched.
    """

    window: WindowOf
    feature: PlannedFeature
    aggregate: Aggregated
    row: Compared
    added: int | None = None
    gap_us: int = 0

    @property
    def approximate(self) -> bool:
        return declared.is_approximate(self.aggregate)


def session_starts(
    recomputation: Recomputation, windows: Sequence[WindowOf], gap_us: int
) -> dict[int, int]:
    """By window where the session starts that is open at its end; the end itself where none is."""
    slice_us = recomputation.unit.slice_us
    sessions = recomputation.sessions(windows, gap_us)
    starts = {}
    for window in windows:
        end = window.end_us
        first, last = sessions.get(window.w, (end, end - gap_us))
        starts[window.w] = first // slice_us * slice_us if end - last < gap_us else end
    return starts


def engines_of(
    recomputation: Recomputation,
    requested: Iterable[tuple[Hypothesis, WindowOf]],
    results: Recomputed,
) -> Mapping[tuple[int, str], object]:
    """Asks the engine for its values of changed questions where answers are beyond what is
    exact."""
    beyond: dict[str, tuple[Hypothesis, dict[int, WindowOf]]] = {}
    for hypothesis, window in requested:
        truth = declared.truth_of(
            hypothesis.aggregate, results.value(window.w, hypothesis.aggregate)
        )
        if truth is not None and not truth.equal:
            beyond.setdefault(hypothesis.aggregate.key, (hypothesis, {}))[1][window.w] = window
    values: dict[tuple[int, str], object] = {}
    for key, (hypothesis, windows) in beyond.items():
        rows = recomputation.raw(list(windows.values()), hypothesis.aggregate)
        question = declared.question(hypothesis.aggregate.parameters)
        recomputed = engine.recomputed(hypothesis.feature.aggregate, rows, list(windows), question)
        values |= {(w, key): value for w, value in recomputed.items()}
    return values


def gives(
    results: Recomputed, engines: Mapping[tuple[int, str], object], w: int, hypothesis: Hypothesis
) -> bool:
    value: Any = results.value(w, hypothesis.aggregate)
    truth = declared.truth_of(hypothesis.aggregate, value)
    if truth is not None:
        if not truth.equal and (w, hypothesis.aggregate.key) not in engines:
            return False
        value = truth.value if truth.equal else engines[w, hypothesis.aggregate.key]
    return (
        canonical(typed(value, hypothesis.feature.aggregate.output_type)) == hypothesis.row.online
    )


def beside(aggregate: Aggregated, cause: Cause) -> list[Aggregated]:
    """Aggregates asked beside another one, to tell whether a value has this cause."""
    if cause is Cause.ROUNDING and aggregate.kind in DECISIVE:
        return [
            aggregated({"kind": kind, "column": aggregate["column"]})
            for kind in ("min", "max", "count")
        ]
    if cause is not Cause.TIE or aggregate.kind not in ("argmin", "argmax", "top_k", "bottom_k"):
        return []
    # all the first places, so that another of the same rank is seen
    several = {"argmin": "bottom_k", "argmax": "top_k"}.get(aggregate.kind, aggregate.kind)
    k = aggregate.parameters.get("k", 1)
    return [
        aggregated(
            {
                "kind": several,
                "payload": aggregate["payload"],
                "by": aggregate["by"],
                "k": k + _TIED,
            }
        )
    ]


def is_rounded(hypothesis: Hypothesis, values: Sequence[Any]) -> bool:
    """Tells whether all doubles that differ are neighbours, or a sum's are one step of its greatest
    addend apart."""
    online, offline = value_of(hypothesis.row.online), value_of(hypothesis.row.offline)
    if _next_to(online, offline):
        return True
    both = (
        isinstance(online, float)
        and isinstance(offline, float)
        and math.isfinite(online)
        and math.isfinite(offline)
    )
    if not both or not values or not isinstance(values[0], float):
        return False
    least, most, n = values
    step = math.ulp(max(abs(least), abs(most))) / (n if hypothesis.aggregate.kind == "mean" else 1)
    return bool(abs(online - offline) <= step + math.ulp(offline))


def _next_to(online: Any, offline: Any) -> bool:
    """Tells whether both are the same, but for doubles that are next to each other."""
    if isinstance(online, float) and isinstance(offline, float):
        return online in (
            math.nextafter(offline, -math.inf),
            offline,
            math.nextafter(offline, math.inf),
        )
    if isinstance(online, list) and isinstance(offline, list):
        return len(online) == len(offline) and all(map(_next_to, online, offline))
    if isinstance(online, dict) and isinstance(offline, dict):
        return online.keys() == offline.keys() and all(
            _next_to(online[name], offline[name]) for name in online
        )
    return bool(online == offline and type(online) is type(offline))


def is_tied(hypothesis: Hypothesis, entries: Any) -> bool:
    if not entries:
        return False
    aggregate, row, kind = (
        hypothesis.aggregate,
        hypothesis.row,
        hypothesis.feature.aggregate.output_type,
    )
    if aggregate.kind in ("argmin", "argmax"):
        first = canonical(entries[0]["by"])
        best = [entry["payload"] for entry in entries if canonical(entry["by"]) == first]
        return any(canonical(typed(payload, kind)) == row.online for payload in best)
    struct = kind.value_type
    ranks = [
        canonical(typed(entry["by"], struct.field("by").type))
        for entry in entries[: aggregate["k"]]
    ]
    return ranks == row.online_ranks()
