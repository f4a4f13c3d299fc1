"""The likeliest cause of a difference is the first change to the question that gives the very bytes of the answer.

Changes are tried from the particular to the general: what the whole answer may have been read with, then what a store
may have lost, kept or doubled of one slice or hour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from slicewise.checks import declared
from slicewise.checks.model import Cause, Compared
from slicewise.checks.queries import Aggregated, aggregated
from slicewise.checks.recompute import (
    ANY_COVER,
    BASE_ALONE,
    NOT_LATE,
    Part,
    Recomputation,
    Recomputed,
    WindowOf,
)
from slicewise.checks.values import canonical, typed, value_of
from slicewise.slices import HOUR_US

MOST_CUTS = 48
MOST_ENTITIES = 24
"""Entities whose slices and hours are tried one by one."""
MOST_SEARCHED = 4
"""Values of each for which they are; the others are held to what explains these."""
MOST_PARTS = 200
"""Slices and hours that are tried of each."""
_TIED = 64


@dataclass(frozen=True)
class Doubt:
    """A value that differs: its window, its aggregate, the type of its values, both sides."""

    window: WindowOf
    each: Aggregated
    kind: pa.DataType
    row: Compared


@dataclass(frozen=True)
class _Tried:
    """A change to the question of doubt number `doubt`, and what it would be the sign of."""

    doubt: int
    cause: Cause
    window: WindowOf

    def of(self, doubt: int, window: WindowOf) -> _Tried:
        """The same change to the question of another doubt."""
        mine = self.window
        return _Tried(doubt, self.cause, replace(window, part=mine.part, times=mine.times, seq=mine.seq))


def causes_of(recomputation: Recomputation, doubts: Sequence[Doubt]) -> list[Cause]:
    """One per doubt; `logic` where no change gives the answer."""
    slice_us = recomputation.unit.slice_us
    everyone = range(len(doubts))
    changes = (each for i in everyone for each in _changes(i, doubts[i].window, slice_us))
    causes = {i: each.cause for i, each in _try(recomputation, doubts, changes).items()}
    causes |= {i: Cause.ROUNDING for i in everyone if i not in causes and _is_rounding(doubts[i])}
    left: dict[str, list[int]] = {}
    for i in everyone:
        if i not in causes:
            left.setdefault(doubts[i].row.entity, []).append(i)
    causes |= _searched(recomputation, doubts, list(left.values())[:MOST_ENTITIES])
    return [causes.get(i, Cause.LOGIC) for i in everyone]


def _searched(recomputation: Recomputation, doubts: Sequence[Doubt], left: Sequence[list[int]]) -> dict[int, Cause]:
    """Causes within one slice or hour, of the doubts of each entity: some are searched, the others follow them."""
    few = [i for mine in left for i in mine[:: -(-len(mine) // MOST_SEARCHED)]]
    found = _try(recomputation, doubts, _parts(recomputation, doubts, few)) if few else {}
    others = [
        found[i].of(j, doubts[j].window) for mine in left for i in mine if i in found for j in mine if j not in found
    ]
    found |= _try(recomputation, doubts, others)
    return {i: each.cause for i, each in found.items()}


def _try(recomputation: Recomputation, doubts: Sequence[Doubt], tried: Iterable[_Tried]) -> dict[int, _Tried]:
    """The first change of each doubt that gives its answer."""
    windows: dict[WindowOf, WindowOf] = {}
    numbered = [
        replace(each, window=windows.setdefault(key := replace(each.window, w=0), replace(key, w=len(windows))))
        for each in tried
    ]
    ties = {each.doubt: _tie_query(doubts[each.doubt].each) for each in numbered if each.cause is Cause.TIE}
    asked = [*(doubts[each.doubt].each for each in numbered), *(tie for tie in ties.values() if tie is not None)]
    results = recomputation.of(list(windows.values()), asked) if windows else Recomputed()
    found: dict[int, _Tried] = {}
    for each in numbered:
        if each.doubt not in found and _gives(results, each, doubts[each.doubt], ties.get(each.doubt)):
            found[each.doubt] = each
    return found


def _gives(results: Recomputed, tried: _Tried, doubt: Doubt, tie: Aggregated | None) -> bool:
    if tried.cause is Cause.TIE:
        return tie is not None and _tied(doubt.each, results.value(tried.window.w, tie), doubt.row, doubt.kind)
    offline = results.value(tried.window.w, doubt.each)
    truth = declared.truth_of(doubt.each, offline)
    return canonical(typed(offline if truth is None else truth.value, doubt.kind)) == doubt.row.online


def _changes(i: int, window: WindowOf, slice_us: int) -> Iterator[_Tried]:
    """To the question as a whole."""
    start, end = window.start_us, window.end_us
    yield _Tried(i, Cause.TIE, window)
    for cause, rule in ((Cause.LATE, NOT_LATE), (Cause.LAG, ANY_COVER), (Cause.LAG, BASE_ALONE)):
        yield _Tried(i, cause, replace(window, rule=rule))
    hours = range(start // HOUR_US + 1, -(-end // HOUR_US))
    for hour in hours[:: max(1, len(hours) // MOST_CUTS)]:
        yield _Tried(i, Cause.EXPIRY, replace(window, start_us=hour * HOUR_US))
    for moved in (-slice_us, slice_us):
        yield _Tried(i, Cause.BOUNDARY, replace(window, start_us=start + moved))
        yield _Tried(i, Cause.BOUNDARY, replace(window, end_us=end + moved))


def _parts(recomputation: Recomputation, doubts: Sequence[Doubt], left: Sequence[int]) -> Iterator[_Tried]:
    """To what the store holds of one slice or hour."""
    windows = [replace(doubts[i].window, w=i) for i in left]
    seqs = recomputation.seqs(windows)
    for i in left:
        by_hour: dict[int, list[int]] = {}
        for hour, seq in seqs.get(i, []):
            by_hour.setdefault(hour, []).append(seq)
        for hour, brought in by_hour.items():
            whole = Part(hour * HOUR_US, (hour + 1) * HOUR_US)
            for seq in brought[1:]:  # what the newest archive had is no earlier one
                yield _Tried(i, Cause.STALE, replace(doubts[i].window, part=whole, times=0, seq=seq))
    lengths = dict.fromkeys((recomputation.unit.slice_us, HOUR_US))
    parts = {length: recomputation.parts(windows, length) for length in lengths}
    for i in left:
        some = [part for length in lengths for part in _each_and_all(parts[length].get(i, []))]
        for cause, times in ((Cause.DROPPED, 0), (Cause.DOUBLED, 2)):
            for part in some:
                yield _Tried(i, cause, replace(doubts[i].window, part=part, times=times))


def _each_and_all(parts: Sequence[Part]) -> Sequence[Part]:
    """Of each place, and of all together where there are several."""
    some = parts[:MOST_PARTS]
    return list(dict.fromkeys([*some, *(Part(each.start_us, each.end_us) for each in some)]))


def _is_rounding(doubt: Doubt) -> bool:
    """Whether both sides are doubles next to each other."""
    online, offline = value_of(doubt.row.online), value_of(doubt.row.offline)
    if not isinstance(online, float) or not isinstance(offline, float):
        return False
    return online in (math.nextafter(offline, math.inf), math.nextafter(offline, -math.inf))


def _tie_query(each: Aggregated) -> Aggregated | None:
    """For one ranked value: all the first places, so that another of the same rank is seen."""
    if each.kind not in ("argmin", "argmax", "top_k", "bottom_k"):
        return None
    several = {"argmin": "bottom_k", "argmax": "top_k"}.get(each.kind, each.kind)
    k = each.parameters.get("k", 1)
    return aggregated({"kind": several, "payload": each["payload"], "by": each["by"], "k": k + _TIED})


def _tied(each: Aggregated, places: Any, row: Compared, kind: pa.DataType) -> bool:
    if not places:
        return False
    if each.kind in ("argmin", "argmax"):
        first = canonical(places[0]["by"])
        best = [place["payload"] for place in places if canonical(place["by"]) == first]
        return any(canonical(typed(payload, kind)) == row.online for payload in best)
    struct = kind.value_type
    ranks = [canonical(typed(place["by"], struct.field("by").type)) for place in places[: each["k"]]]
    return ranks == row.online_ranks()
