"""Every value of every answer is compared once, as bytes, and every difference gets its likeliest
cause."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import zip_longest
from typing import Any, NamedTuple

import pyarrow as pa

from slicewise import log
from slicewise.checks import declared
from slicewise.checks.bounds import ages_from_us, may_be, searched_from
from slicewise.checks.compare import engine
from slicewise.checks.compare.causes import causes_of
from slicewise.checks.compare.hypotheses import Hypothesis, session_starts
from slicewise.checks.judges import judged
from slicewise.checks.judges.exact import plain_sum_agrees
from slicewise.checks.model import Cause, Compared, PlainSum, Verdict
from slicewise.checks.recompute.queries import BY_SQL, Aggregated, aggregated
from slicewise.checks.recompute.questions import TOKEN, OnlineAnswer, WindowOf
from slicewise.checks.recompute.run import Recomputation
from slicewise.checks.values import canonical, typed, value_of
from slicewise.features.plan.unit import PlannedFeature, StorageUnit

MOST_CLASSIFIED = 200
"""Differences of a unit that a cause is looked for."""
_COUNTS = ("count", "distinct_count")


@dataclass(frozen=True)
class Read:
    """Online answer for one entity: `mode` live or at, `at_us` of the latter; features of the refs
    in `incomplete` are not compared."""

    answer: OnlineAnswer
    values: Mapping[str, Any]
    mode: str
    at_us: int | None
    text: str
    incomplete: frozenset[str] = frozenset()
    questions: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Per column that features are asked by the values that were asked for, the same in all reads
    of a unit."""


class _Column(NamedTuple):
    """A feature, with all that its values have in common."""

    feature: PlannedFeature
    ref: str
    aggregate: Aggregated
    kind: pa.DataType
    may_be: Callable[[int, int, int | None], bool]
    """(start, end, instant asked for) -> whether they can be the bounds of the window's read."""


class _Value(NamedTuple):
    """One value to compare, and the window that it is recomputed over."""

    read: Read
    entity: str
    column: _Column
    window: WindowOf

    @property
    def feature(self) -> PlannedFeature:
        return self.column.feature

    @property
    def aggregate(self) -> Aggregated:
        return self.column.aggregate


def compare(
    recomputation: Recomputation, reads: Sequence[Read]
) -> tuple[list[Compared], list[PlainSum]]:
    """All values of these reads against the recomputation's, and ordinary sums beside the exact
    ones."""
    unit = recomputation.unit
    values = list(_values(unit, reads))
    results = recomputation.of((value.window, value.aggregate) for value in values)
    offline = [results.value(value.window.w, value.aggregate) for value in values]
    truths = [
        declared.truth_of(value.aggregate, result)
        for value, result in zip(values, offline, strict=True)
    ]
    engines = _engines(recomputation, values, truths)
    moved = _moved_sessions(recomputation, values)
    rows = [
        _compared(unit, value, result, truth, engines, id(value) in moved)
        for value, result, truth in zip(values, offline, truths, strict=True)
    ]
    sums = [
        PlainSum(
            unit.view,
            value.feature.column,
            value.entity,
            plain_sum_agrees(plain.plain, plain.exact, plain.n, plain.absolute),
        )
        for value in values
        if (plain := results.plain_sums.get((value.window.w, value.aggregate.key))) is not None
    ]
    return _with_causes(recomputation, values, rows, moved), sums


def _with_causes(
    recomputation: Recomputation,
    values: Sequence[_Value],
    rows: Sequence[Compared],
    moved: Mapping[int, WindowOf],
) -> list[Compared]:
    """Every difference has a cause then; beyond `MOST_CLASSIFIED` of them, and where the search
    fails, it is unclassified."""
    wrong = [i for i, row in enumerate(rows) if row.verdict is not Verdict.EQUAL and not row.cause]
    if not wrong:
        return list(rows)
    added = _added(values, rows)
    chosen = _in_turns(wrong, rows)[:MOST_CLASSIFIED]
    hypotheses = [_hypothesis(values[i], rows[i], added, moved.get(id(values[i]))) for i in chosen]
    causes = dict.fromkeys(wrong, Cause.UNCLASSIFIED)
    try:
        causes |= dict(zip(chosen, causes_of(recomputation, hypotheses), strict=True))
    except Exception as error:  # noqa: BLE001
        log.warning(
            "check_causes_failed",
            differences=len(chosen),
            error=f"{type(error).__name__}: {error}",
        )
    return [replace(row, cause=causes[i]) if i in causes else row for i, row in enumerate(rows)]


def _hypothesis(
    value: _Value, row: Compared, added: Mapping[int, int], searched: WindowOf | None
) -> Hypothesis:
    """searched: where a session that was moved is searched."""
    feature, aggregate = value.feature, value.aggregate
    if searched is not None:
        return Hypothesis(searched, feature, aggregate, row, gap_us=feature.window.session_gap_us)
    return Hypothesis(value.window, feature, aggregate, row, added.get(value.window.w))


def _in_turns(wrong: Sequence[int], rows: Sequence[Compared]) -> list[int]:
    """One of each entity, then another of each: none is without a cause for the sake of another."""
    entities: dict[str, list[int]] = {}
    for i in wrong:
        entities.setdefault(rows[i].entity, []).append(i)
    return [i for turn in zip_longest(*entities.values()) for i in turn if i is not None]


def _added(values: Sequence[_Value], rows: Sequence[Compared]) -> dict[int, int]:
    """The events too many, by window; only of windows whose events are counted."""
    added: dict[int, int] = {}
    for value, row in zip(values, rows, strict=True):
        aggregate = value.aggregate
        if aggregate.kind == "count" and aggregate["column"] is None:
            online, offline = value_of(row.online), value_of(row.offline)
            if isinstance(online, int):
                added[value.window.w] = online - offline
    return added


def _values(unit: StorageUnit, reads: Sequence[Read]) -> Iterable[_Value]:
    columns = _columns(unit, reads[0].questions if reads else {})
    windows: dict[tuple[int, int, int, int, int], WindowOf] = {}
    for read in reads:
        entity = json.dumps(dict(read.answer.entity), sort_keys=True, ensure_ascii=False)
        who, bounds = read.answer.who, read.answer.token.bounds
        for column in columns:
            if column.ref in read.incomplete:
                continue
            start, end = bounds[column.feature.column]
            of = column.feature.window
            rows, back = of.most_rows, end - ages_from_us(of, end)
            key = (who, start, end, rows, back)
            if (window := windows.get(key)) is None:
                window = windows[key] = WindowOf(
                    len(windows), who, TOKEN, start, end, rows, back_us=back
                )
            yield _Value(read, entity, column, window)


def _columns(unit: StorageUnit, questions: Mapping[str, Sequence[Any]]) -> list[_Column]:
    return [
        _Column(
            feature,
            f"{unit.view}:{feature.column}",
            _aggregated(feature, questions),
            feature.aggregate.output_type,
            # reads of one request share their bounds, and entities are many
            cache(partial(may_be, feature.window, unit.slice_us)),
        )
        for feature in unit.features
    ]


def _aggregated(feature: PlannedFeature, questions: Mapping[str, Sequence[Any]]) -> Aggregated:
    """The feature's aggregate, with the values that it was asked for among its parameters."""
    spec, column = feature.aggregate.spec(), engine.question_column(feature.aggregate)
    if column is not None:
        spec = declared.with_question(spec, questions[column])
    return aggregated(spec, feature.aggregate.inputs)


def _engines(
    recomputation: Recomputation,
    values: Sequence[_Value],
    truths: Sequence[declared.Truth | None],
) -> Mapping[tuple[int, str], object]:
    """Asks the engine for its values where answers are beyond what is exact."""
    beyond: dict[str, list[_Value]] = {}
    for value, truth in zip(values, truths, strict=True):
        if truth is not None and not truth.equal:
            beyond.setdefault(value.aggregate.key, []).append(value)
    by_engine: dict[tuple[int, str], object] = {}
    for key, some in beyond.items():
        windows = list({value.window.w: value.window for value in some}.values())
        feature, aggregate = some[0].feature, some[0].aggregate
        rows = recomputation.raw(windows, aggregate)
        ws = [window.w for window in windows]
        results = engine.recomputed(
            feature.aggregate, rows, ws, declared.question(aggregate.parameters)
        )
        by_engine |= {(w, key): result for w, result in results.items()}
    return by_engine


def _moved_sessions(recomputation: Recomputation, values: Sequence[_Value]) -> dict[int, WindowOf]:
    """The values (by id) whose session is not where the answer's events have it. Gives also the
    partition where it is searched."""
    by_gap: dict[int, dict[tuple[int, int, int], WindowOf]] = {}
    requested: list[tuple[_Value, int, WindowOf]] = []
    for value in values:
        of = value.feature.window
        if gap := of.session_gap_us:
            end = value.window.end_us
            windows = by_gap.setdefault(gap, {})
            key = (value.window.who, searched_from(of, recomputation.unit.slice_us, end), end)
            window = windows.setdefault(key, WindowOf(len(windows), key[0], TOKEN, *key[1:]))
            requested.append((value, gap, window))
    starts = {
        gap: session_starts(recomputation, list(windows.values()), gap)
        for gap, windows in by_gap.items()
    }
    return {
        id(value): window
        for value, gap, window in requested
        if starts[gap][window.w] != value.window.start_us
    }


def _compared(
    unit: StorageUnit,
    value: _Value,
    offline: Any,
    truth: declared.Truth | None,
    engines: Mapping[tuple[int, str], object],
    is_moved: bool,
) -> Compared:
    read, entity, column, window = value
    online = read.values[column.ref]
    within = True
    if truth is not None:
        offline = truth.value
        if not truth.equal:
            offline = engines[window.w, column.aggregate.key]
            within = declared.within(column.aggregate, truth.value, online)
    row = Compared(
        unit.view,
        column.feature.column,
        entity,
        read.mode,
        window.start_us,
        window.end_us,
        canonical(typed(online, column.kind)),
        canonical(typed(offline, column.kind)),
        Verdict.EQUAL,
        unit=unit.storage_fingerprint,
        token=read.text,
    )
    if not column.may_be(row.start_us, row.end_us, read.at_us):
        return replace(row, verdict=Verdict.MISMATCH, cause=Cause.BOUNDARY)
    if is_moved:
        return replace(row, verdict=Verdict.MISMATCH)
    if row.online == row.offline and within:
        return row
    if _empty(column.aggregate, online) and row.online != row.offline:
        return replace(row, verdict=Verdict.MISSING)
    if _empty(column.aggregate, offline) and row.online != row.offline:
        return replace(row, verdict=Verdict.EXTRA)
    return replace(row, verdict=Verdict.MISMATCH)


def _empty(aggregate: Aggregated, value: Any) -> bool:
    if aggregate.kind in BY_SQL:
        return value is None or (aggregate.kind in _COUNTS and value == 0)
    empty = judged((), aggregate.parameters)
    truth = declared.truth_of(aggregate, empty)
    return canonical(value) == canonical(empty if truth is None else truth.value)
