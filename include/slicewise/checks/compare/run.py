"""Every value of every answer is compared once, as bytes, and every difference gets its likeliest
cause."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

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


@dataclass(frozen=True)
class _Value:
    """One value to compare, and the window that it is recomputed over."""

    read: Read
    feature: PlannedFeature
    aggregate: Aggregated
    window: WindowOf


def compare(
    recomputation: Recomputation, reads: Sequence[Read]
) -> tuple[list[Compared], list[PlainSum]]:
    """All values of these reads against the recomputation's, and ordinary sums beside the exact
    ones."""
    unit = recomputation.unit
    values = list(_values(unit, reads))
    results = recomputation.of((value.window, value.aggregate) for value in values)
    offline = {id(value): results.value(value.window.w, value.aggregate) for value in values}
    engines = _engines(recomputation, values, offline)
    moved = _moved_sessions(recomputation, values)
    rows = [
        _compared(unit, value, offline[id(value)], engines, id(value) in moved) for value in values
    ]
    sums = [
        PlainSum(
            unit.view,
            value.feature.column,
            _entity(value.read),
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
    if searched is not None:
        return Hypothesis(
            searched,
            value.feature,
            value.aggregate,
            row,
            gap_us=value.feature.window.session_gap_us,
        )
    return Hypothesis(value.window, value.feature, value.aggregate, row, added.get(value.window.w))


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
        online, offline = value_of(row.online), value_of(row.offline)
        if (
            value.aggregate.kind == "count"
            and value.aggregate["column"] is None
            and isinstance(online, int)
        ):
            added[value.window.w] = online - offline
    return added


def _values(unit: StorageUnit, reads: Sequence[Read]) -> Iterable[_Value]:
    questions = reads[0].questions if reads else {}
    specs = {feature.column: _aggregated(feature, questions) for feature in unit.features}
    numbers: dict[tuple[int, int, int, int, int], WindowOf] = {}
    for read in reads:
        for feature in unit.features:
            if f"{unit.view}:{feature.column}" in read.incomplete:
                continue
            start, end = read.answer.token.bounds[feature.column]
            rows, back = feature.window.most_rows, end - ages_from_us(feature.window, end)
            key = (read.answer.who, start, end, rows, back)
            window = numbers.setdefault(
                key, WindowOf(len(numbers), key[0], TOKEN, *key[1:4], back_us=back)
            )
            yield _Value(read, feature, specs[feature.column], window)


def _aggregated(feature: PlannedFeature, questions: Mapping[str, Sequence[Any]]) -> Aggregated:
    """The feature's aggregate, with the values that it was asked for among its parameters."""
    spec, column = feature.aggregate.spec(), engine.question_column(feature.aggregate)
    if column is not None:
        spec = declared.with_question(spec, questions[column])
    return aggregated(spec, feature.aggregate.inputs)


def _engines(
    recomputation: Recomputation, values: Sequence[_Value], offline: Mapping[int, Any]
) -> Mapping[tuple[int, str], object]:
    """Asks the engine for its values where answers are beyond what is exact."""
    beyond: dict[str, list[_Value]] = {}
    for value in values:
        truth = declared.truth_of(value.aggregate, offline[id(value)])
        if truth is not None and not truth.equal:
            beyond.setdefault(value.aggregate.key, []).append(value)
    by_engine: dict[tuple[int, str], object] = {}
    for key, some in beyond.items():
        windows = list({value.window.w: value.window for value in some}.values())
        rows = recomputation.raw(windows, some[0].aggregate)
        ws = [window.w for window in windows]
        results = engine.recomputed(
            some[0].feature.aggregate, rows, ws, declared.question(some[0].aggregate.parameters)
        )
        by_engine |= {(w, key): result for w, result in results.items()}
    return by_engine


def _moved_sessions(recomputation: Recomputation, values: Sequence[_Value]) -> dict[int, WindowOf]:
    """The values (by id) whose session is not where the answer's events have it. Gives also the
    partition where it is searched."""
    by_gap: dict[int, dict[tuple[int, int, int], WindowOf]] = {}
    requested: list[tuple[_Value, int, WindowOf]] = []
    for value in values:
        if gap := value.feature.window.session_gap_us:
            end = value.window.end_us
            windows = by_gap.setdefault(gap, {})
            key = (
                value.window.who,
                searched_from(value.feature.window, recomputation.unit.slice_us, end),
                end,
            )
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
    engines: Mapping[tuple[int, str], object],
    is_moved: bool,
) -> Compared:
    online = value.read.values[f"{unit.view}:{value.feature.column}"]
    within = True
    if (truth := declared.truth_of(value.aggregate, offline)) is not None:
        offline = truth.value
        if not truth.equal:
            offline = engines[value.window.w, value.aggregate.key]
            within = declared.within(value.aggregate, truth.value, online)
    kind = value.feature.aggregate.output_type
    row = Compared(
        view=unit.view,
        feature=value.feature.column,
        entity=_entity(value.read),
        mode=value.read.mode,
        start_us=value.window.start_us,
        end_us=value.window.end_us,
        online=canonical(typed(online, kind)),
        offline=canonical(typed(offline, kind)),
        verdict=Verdict.EQUAL,
        unit=unit.storage_fingerprint,
        token=value.read.text,
    )
    if not may_be(value.feature.window, unit.slice_us, row.start_us, row.end_us, value.read.at_us):
        return replace(row, verdict=Verdict.MISMATCH, cause=Cause.BOUNDARY)
    if is_moved:
        return replace(row, verdict=Verdict.MISMATCH)
    if row.online == row.offline and within:
        return row
    if _empty(value.aggregate, online) and row.online != row.offline:
        return replace(row, verdict=Verdict.MISSING)
    if _empty(value.aggregate, offline) and row.online != row.offline:
        return replace(row, verdict=Verdict.EXTRA)
    return replace(row, verdict=Verdict.MISMATCH)


def _empty(aggregate: Aggregated, value: Any) -> bool:
    if aggregate.kind in BY_SQL:
        return value is None or (aggregate.kind in _COUNTS and value == 0)
    empty = judged((), aggregate.parameters)
    truth = declared.truth_of(aggregate, empty)
    return canonical(value) == canonical(empty if truth is None else truth.value)


def _entity(read: Read) -> str:
    return json.dumps(dict(read.answer.entity), sort_keys=True, ensure_ascii=False)
