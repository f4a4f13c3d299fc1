"""Every value of every answer is compared once, as bytes, and every difference gets its likeliest cause."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from slicewise.checks import declared, engine
from slicewise.checks.bounds import may_be, searched_from
from slicewise.checks.exact import plain_sum_agrees
from slicewise.checks.judges import judged
from slicewise.checks.model import Cause, Compared, PlainSum, Verdict
from slicewise.checks.queries import BY_SQL, Aggregated, aggregated
from slicewise.checks.recompute import (
    ANY_COVER,
    BASE_ALONE,
    NOT_LATE,
    TOKEN,
    Asked,
    Recomputation,
    WindowOf,
)
from slicewise.checks.values import canonical, instant
from slicewise.features.unit import PlannedFeature, Unit
from slicewise.slices import HOUR_US

MOST_CLASSIFIED = 200
MOST_CUTS = 48
_TIED = 64
_COUNTS = ("count", "distinct_count")


@dataclass(frozen=True)
class Read:
    """What was read online for one entity: `mode` live or at, `at_us` of the latter; features of the refs in
    `incomplete` are not compared."""

    asked: Asked
    values: Mapping[str, Any]
    mode: str
    at_us: int | None
    text: str
    incomplete: frozenset[str] = frozenset()
    questions: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Per column that features are asked by the values that were asked for, the same in all reads of a unit."""


@dataclass(frozen=True)
class _Value:
    """One value to compare, and the window that it is recomputed over."""

    read: Read
    feature: PlannedFeature
    each: Aggregated
    window: WindowOf


def compare(recomputation: Recomputation, reads: Sequence[Read]) -> tuple[list[Compared], list[PlainSum]]:
    """All values of these reads against the recomputation's, and ordinary sums beside the exact ones."""
    unit = recomputation.unit
    values = list(_values(unit, reads))
    windows = list({value.window.w: value.window for value in values}.values())
    found = recomputation.of(windows, (value.each for value in values))
    offline = {id(value): found.value(value.window.w, value.each) for value in values}
    engines = _engines(recomputation, values, offline)
    moved = _moved_sessions(recomputation, values)
    rows = [_compared(unit, value, offline[id(value)], engines, id(value) in moved) for value in values]
    sums = [
        PlainSum(
            unit.view,
            value.feature.column,
            _entity(value.read),
            plain_sum_agrees(plain.plain, plain.exact, plain.n, plain.absolute),
        )
        for value in values
        if (plain := found.plain_sums.get((value.window.w, value.each.key))) is not None
    ]
    return _with_causes(recomputation, list(zip(values, rows, strict=True))), sums


def _values(unit: Unit, reads: Sequence[Read]) -> Iterable[_Value]:
    questions = reads[0].questions if reads else {}
    specs = {feature.column: _asked(feature, questions) for feature in unit.features}
    numbers: dict[tuple[int, int, int, int], WindowOf] = {}
    for read in reads:
        for feature in unit.features:
            if f"{unit.view}:{feature.column}" in read.incomplete:
                continue
            start, end = read.asked.token.bounds[feature.column]
            rows = feature.window.rows
            key = (read.asked.who, start, end, rows)
            window = numbers.setdefault(key, WindowOf(len(numbers), read.asked.who, TOKEN, start, end, rows))
            yield _Value(read, feature, specs[feature.column], window)


def _asked(feature: PlannedFeature, questions: Mapping[str, Sequence[Any]]) -> Aggregated:
    """The feature's aggregate, with the values that it was asked for among its parameters."""
    spec, column = feature.aggregate.spec(), engine.asked_by(feature.aggregate)
    if column is not None:
        spec = declared.with_question(spec, questions[column])
    return aggregated(spec, feature.aggregate.inputs)


def _engines(
    recomputation: Recomputation, values: Sequence[_Value], offline: Mapping[int, Any]
) -> Mapping[tuple[int, str], object]:
    """What the engine says where answers are beyond what is exact."""
    beyond: dict[str, list[_Value]] = {}
    for value in values:
        truth = declared.truth_of(value.each, offline[id(value)])
        if truth is not None and not truth.equal:
            beyond.setdefault(value.each.key, []).append(value)
    said: dict[tuple[int, str], object] = {}
    for key, some in beyond.items():
        windows = list({value.window.w: value.window for value in some}.values())
        rows = recomputation.raw(windows, some[0].each)
        ws = [window.w for window in windows]
        results = engine.recomputed(some[0].feature.aggregate, rows, ws, declared.question(some[0].each.parameters))
        said |= {(w, key): result for w, result in results.items()}
    return said


def _moved_sessions(recomputation: Recomputation, values: Sequence[_Value]) -> set[int]:
    """The values (by id) whose session is not where the events that the answer contains have it."""
    slice_us = recomputation.unit.slice_us
    by_gap: dict[int, dict[tuple[int, int, int], WindowOf]] = {}
    asked: list[tuple[_Value, int, int]] = []
    for value in values:
        if value.feature.window.kind == "session":
            end = value.window.end_us
            gap = value.feature.window.gap_us
            windows = by_gap.setdefault(gap, {})
            key = (value.window.who, searched_from(value.feature.window, slice_us, end), end)
            window = windows.setdefault(key, WindowOf(len(windows), key[0], TOKEN, *key[1:]))
            asked.append((value, gap, window.w))
    found = {gap: recomputation.sessions(list(windows.values()), gap) for gap, windows in by_gap.items()}
    moved = set()
    for value, gap, w in asked:
        end = value.window.end_us
        first, last = found[gap].get(w, (end, end - gap))
        start = first // slice_us * slice_us if end - last < gap else end
        if start != value.window.start_us:
            moved.add(id(value))
    return moved


def _compared(
    unit: Unit, value: _Value, offline: Any, engines: Mapping[tuple[int, str], object], is_moved: bool
) -> Compared:
    online = value.read.values[f"{unit.view}:{value.feature.column}"]
    within = True
    if (truth := declared.truth_of(value.each, offline)) is not None:
        offline = truth.value
        if not truth.equal:
            offline = engines[value.window.w, value.each.key]
            within = declared.within(value.each, truth.value, online)
    kind = value.feature.aggregate.output_type
    row = Compared(
        view=unit.view,
        feature=value.feature.column,
        entity=_entity(value.read),
        mode=value.read.mode,
        start_us=value.window.start_us,
        end_us=value.window.end_us,
        online=canonical(_typed(online, kind)),
        offline=canonical(_typed(offline, kind)),
        verdict=Verdict.EQUAL,
        unit=unit.storage_fingerprint,
        token=value.read.text,
    )
    if is_moved or not may_be(value.feature.window, unit.slice_us, row.start_us, row.end_us, value.read.at_us):
        return replace(row, verdict=Verdict.MISMATCH, cause=Cause.BOUNDARY)
    if row.online == row.offline and within:
        return row
    if _empty(value.each, online) and row.online != row.offline:
        return replace(row, verdict=Verdict.MISSING)
    if _empty(value.each, offline) and row.online != row.offline:
        return replace(row, verdict=Verdict.EXTRA)
    return replace(row, verdict=Verdict.MISMATCH)


def _empty(each: Aggregated, value: Any) -> bool:
    if each.kind in BY_SQL:
        return value is None or (each.kind in _COUNTS and value == 0)
    empty = judged((), each.parameters)
    truth = declared.truth_of(each, empty)
    return canonical(value) == canonical(empty if truth is None else truth.value)


def _entity(read: Read) -> str:
    return json.dumps(dict(read.asked.entity), sort_keys=True, ensure_ascii=False)


def _typed(value: Any, kind: pa.DataType) -> Any:
    """Instants as microseconds on both sides: the API writes them as text, Spark as integers."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return instant(value)
    if pa.types.is_list(kind):
        return [_typed(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _typed(value[field.name], field.type) for field in kind}
    return value


# ---- causes


def _with_causes(recomputation: Recomputation, both: Sequence[tuple[_Value, Compared]]) -> list[Compared]:
    wrong = [i for i, (_, row) in enumerate(both) if row.verdict is not Verdict.EQUAL and not row.cause]
    causes: dict[int, Cause] = {}
    if wrong:
        causes = _causes(recomputation, {i: both[i] for i in wrong[:MOST_CLASSIFIED]})
    return [replace(row, cause=causes[i]) if i in causes else row for i, (_, row) in enumerate(both)]


def _causes(recomputation: Recomputation, wrong: Mapping[int, tuple[_Value, Compared]]) -> dict[int, Cause]:
    """The first change to the question that gives the online value; `logic` if none does."""
    slice_us = recomputation.unit.slice_us
    tried: list[tuple[int, Cause, WindowOf]] = []
    windows: dict[tuple[int, str, int, int, int], WindowOf] = {}
    for i, (value, _) in wrong.items():
        for cause, rule, start, end in _changes(value.window, slice_us):
            key = (value.window.who, rule, start, end, value.window.rows)
            tried.append((i, cause, windows.setdefault(key, WindowOf(len(windows), *key))))
    each_of = {i: value.each for i, (value, _) in wrong.items()}
    ties = {i: _tie_query(each) for i, each in each_of.items()}
    asked = [*each_of.values(), *(tie for tie in ties.values() if tie is not None)]
    found = recomputation.of(list(windows.values()), asked)
    causes: dict[int, Cause] = {}
    for i, cause, window in tried:
        value, row = wrong[i]
        tie = ties[i]
        kind = value.feature.aggregate.output_type
        if cause is Cause.TIE:
            same = tie is not None and _tied(value.each, found.value(window.w, tie), row, kind)
        else:
            offline = found.value(window.w, value.each)
            truth = declared.truth_of(value.each, offline)
            offline = offline if truth is None else truth.value
            same = canonical(_typed(offline, kind)) == row.online
        if same:
            causes.setdefault(i, cause)
    return {i: causes.get(i, Cause.LOGIC) for i in wrong}


def _changes(window: WindowOf, slice_us: int) -> Iterable[tuple[Cause, str, int, int]]:
    start, end = window.start_us, window.end_us
    yield Cause.TIE, TOKEN, start, end
    yield Cause.LATE, NOT_LATE, start, end
    yield Cause.LAG, ANY_COVER, start, end
    yield Cause.LAG, BASE_ALONE, start, end
    hours = range(start // HOUR_US + 1, -(-end // HOUR_US))
    for hour in hours[:: max(1, len(hours) // MOST_CUTS)]:
        yield Cause.EXPIRY, TOKEN, hour * HOUR_US, end
    for moved in (-slice_us, slice_us):
        yield Cause.BOUNDARY, TOKEN, start + moved, end
        yield Cause.BOUNDARY, TOKEN, start, end + moved


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
        return any(canonical(_typed(payload, kind)) == row.online for payload in best)
    struct = kind.value_type
    ranks = [canonical(_typed(place["by"], struct.field("by").type)) for place in places[: each["k"]]]
    return ranks == row.online_ranks()
