"""The offline side of the check: Spark SQL over archived events, bounded and covered by the tokens
of the answers.

An event (hour H, partition p, offset o) takes part if and only if
`o < max(base[p], compacted_beyond[H][p])` of the token and its time lies in the window's bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from slicewise.checks import row_functions
from slicewise.checks.bounds import searched_from
from slicewise.checks.judges import exact
from slicewise.checks.recompute import queries, repeats
from slicewise.checks.recompute.in_python import ABSOLUTE, IDENTITY, SCHEMA, InPython
from slicewise.checks.recompute.queries import ROWS, Aggregated
from slicewise.checks.recompute.questions import (
    ANY_OFFSETS,
    BASE_ONLY,
    NOT_LATE,
    TOKEN,
    Distinct,
    OnlineAnswer,
    Part,
    PlainSum,
    Question,
    Recomputed,
    StoredSlice,
    WindowOf,
)
from slicewise.checks.values import value_of
from slicewise.features.plan.unit import Source, StorageUnit
from slicewise.features.schema.types import DOUBLE, arrow_type
from slicewise.offsets.token import Token
from slicewise.windows.durations import HOUR_US

_IN_PYTHON, _MOST_BITS = 1, 62
"""The bit of windows that are asked by what Python answers; and how many other bits there are."""
_MOST_COLUMNS = 24
"""Aggregates of one query: what Spark compiles of more becomes slow, and then too long."""


@dataclass
class Recomputation:
    """The rows of one unit's sampled entities; `of` answers windows over them."""

    spark: SparkSession
    unit: StorageUnit
    source: Source
    table: str
    answers: Sequence[OnlineAnswer]
    _rows: DataFrame | None = None
    _joined: DataFrame | None = None
    _windows: frozenset[WindowOf] = frozenset()
    """Windows whose rows `_joined` holds."""

    def __post_init__(self) -> None:
        self.kinds = queries.kinds_of(self.unit, self.source)
        row_functions.register(self.spark, self.unit)

    def __enter__(self) -> Recomputation:
        start = min(start for answer in self.answers for start in self._starts(answer.token))
        end = max(end for answer in self.answers for _, end in answer.token.bounds.values())
        # A slice more at either end, for the questions that move a bound.
        start, end = start - self.unit.slice_us, end + self.unit.slice_us
        start = max(start, 0)
        if self.source.dedupe is None:
            text = queries.viewed(
                self.unit, self.source, queries.archived(self.table, self.source, start, end)
            )
        else:
            since = repeats.since_us(self.source, self.source.dedupe, start)
            events = queries.archived_since(self.table, self.source, since)
            viewed = queries.viewed(self.unit, self.source, events)
            text = repeats.counted_once(self.unit, self.source.dedupe, viewed, start, end)
        view = self.spark.sql(text)
        view.createOrReplaceTempView("check_view")
        self._table("check_answers", self._answer_columns())
        self._table("check_base", self._bases())
        self._table("check_ahead", self._beyond_by_entity())
        # A global view has one entity, of no columns: its rows belong to every answer.
        matches = " AND ".join(f"v.`e_{name}` = a.`k_{name}`" for name, _ in self.unit.entity)
        hour = f"v.t DIV {HOUR_US}"
        self._rows = self.spark.sql(
            f"SELECT a.who, v.*, {hour} AS hour, v.o < coalesce(b.o, 0) AS in_base, "
            "v.o < greatest(coalesce(b.o, 0), coalesce(h.o, 0)) AS in_token, "
            f"v.kafka_t < ({hour} + 1) * {HOUR_US} AS in_time "
            f"FROM check_view v JOIN check_answers a ON {matches or 'TRUE'} "
            "LEFT JOIN check_base b ON b.who = a.who AND b.topic_id = v.topic_id AND b.p = v.p "
            "LEFT JOIN check_ahead h ON h.who = a.who AND h.topic_id = v.topic_id AND h.p = v.p "
            f"AND h.hour = {hour}"
        )
        self._rows.createOrReplaceTempView("check_known")
        return self

    def __exit__(self, *_: object) -> None:
        for frame in (self._joined, self._rows):
            if frame is not None:
                frame.unpersist()

    def of(self, questions: Iterable[Question]) -> Recomputed:
        """Every aggregate over the window that it is asked of, and over no other."""
        pairs = {(window.w, aggregate.key): (window, aggregate) for window, aggregate in questions}
        bits = _bits(aggregate for _, aggregate in pairs.values())
        wanted = {aggregate.key: aggregate for _, aggregate in pairs.values()}
        windows = {window.w: window for window, _ in pairs.values()}
        own = {key: self._bit(aggregate, bits) for key, aggregate in wanted.items()}
        bits_of = dict.fromkeys(windows, 0)
        for w, key in pairs:
            bits_of[w] |= own[key]
        self._join({windows[w]: some for w, some in bits_of.items()})
        values: dict[tuple[int, str], Any] = {}
        simple = self._simple(
            [aggregate for aggregate in wanted.values() if aggregate.kind in queries.SIMPLE], values
        )
        self._in_python(list(pairs.values()), values)
        for aggregate in wanted.values():
            if aggregate.kind == "distinct_count":
                for row in self._rows_of(
                    queries.distinct(aggregate, self.kinds, bits[aggregate.key])
                ):
                    values[row["w"], aggregate.key] = Distinct(row["n"], int(row["bytes"]))
            elif aggregate.kind in queries.RANKED:
                values |= {
                    (w, aggregate.key): value
                    for w, value in self._ranked(aggregate, bits[aggregate.key]).items()
                }
        plain = {
            (w, key): PlainSum(
                value, values.get((w, key)), n, values[w, _absolute(wanted[key]).key]
            )
            for (w, key), (value, n) in simple.items()
            if (w, key) in pairs
        }
        return Recomputed(
            pairs.keys(), {pair: values[pair] for pair in pairs if pair in values}, plain
        )

    def raw(self, windows: Sequence[WindowOf], aggregate: Aggregated) -> pa.Table:
        """The rows of windows with an aggregate's columns, for a recomputation by the engine."""
        if not self._windows.issuperset(windows):
            self._join(dict.fromkeys(windows, 0))
        return self.spark.sql(
            queries.raw(aggregate, sorted({window.w for window in windows}))
        ).toArrow()

    def stored_slices(self, windows: Sequence[WindowOf]) -> dict[int, list[StoredSlice]]:
        """The parts of each window that a store may keep together, newest first; of long ones the
        newest."""
        self._join(dict.fromkeys(windows, 0))
        stored_slices: dict[int, list[StoredSlice]] = {}
        for row in self._rows_of(queries.stored_slices(self.unit.slice_us)):
            stored_slices.setdefault(row["w"], []).append(
                StoredSlice(*(row[name] for name in queries.STORED_COLUMNS))
            )
        return stored_slices

    def sessions(self, windows: Sequence[WindowOf], gap_us: int) -> dict[int, tuple[int, int]]:
        """The first and the last event's times of the latest session, by window with events."""
        self._join(dict.fromkeys(windows, 0))
        sessions: dict[int, tuple[int, int]] = {}
        for row in self._rows_of(queries.sessions(gap_us)):
            sessions[row["w"]] = max(
                sessions.get(row["w"], (row["first_t"], row["last_t"])),
                (row["first_t"], row["last_t"]),
            )
        return sessions

    def _starts(self, token: Token) -> Iterable[int]:
        """Starts from which the rows of an answer's windows may begin; a session is searched for
        before it starts."""
        for feature in self.unit.features:
            start, end = token.bounds[feature.column]
            is_session = feature.window.session_gap_us > 0
            yield searched_from(feature.window, self.unit.slice_us, end) if is_session else start

    def _join(self, bits_of: Mapping[WindowOf, int]) -> None:
        """Makes `check_rows`: the rows of these windows, each with the bits of what is asked of its
        window."""
        if self._joined is not None:
            assert self._rows is not None
            self._joined.unpersist()
            self._rows.persist()  # of what agrees the first rows are all that is asked for
        windows = list(bits_of)
        columns = {
            "w": pa.array([window.w for window in windows], pa.int64()),
            "bits": pa.array(list(bits_of.values()), pa.int64()),
            "who": pa.array([window.who for window in windows], pa.int64()),
            "rule": pa.array([window.rule for window in windows], pa.string()),
            "start_us": pa.array([window.start_us for window in windows], pa.int64()),
            "end_us": pa.array([window.end_us for window in windows], pa.int64()),
            "most": pa.array([window.rows for window in windows], pa.int64()),
            **_of_parts([window.part or _NO_PART for window in windows]),
            "times": pa.array([window.times for window in windows], pa.int32()),
        }
        self._table("check_windows", columns)
        values = sorted({name for name, _ in (*self.unit.given_types, *self.unit.functions)})
        read = ("t", "topic_id", "p", "o", "seq", "in_time", *(f"`v_{name}`" for name in values))
        text = (
            f"SELECT i.w, i.bits, i.most, {', '.join(f'k.{name}' for name in read)}, "
            f"{queries.INSIDE} AS inside, {queries.THERE} AS there, i.times "
            f"FROM check_known k JOIN check_windows i ON i.who = k.who AND ({queries.INSIDE} "
            f"OR {queries.ADDED} AND {queries.THERE}) WHERE CASE i.rule "
            f"WHEN '{TOKEN}' THEN k.in_token WHEN '{ANY_OFFSETS}' THEN TRUE "
            f"WHEN '{BASE_ONLY}' THEN k.in_base WHEN '{NOT_LATE}' THEN k.in_token AND k.in_time END"
        )
        if any(window.part is not None for window in windows):
            text = queries.partly(text)
        if any(window.rows for window in windows):
            text = queries.last_rows(text)
        kept = ", ".join(("w", "bits", *read))
        self._joined, self._windows = (
            self.spark.sql(f"SELECT {kept} FROM ({text}) DISTRIBUTE BY w SORT BY w").persist(),
            frozenset(windows),
        )
        self._joined.createOrReplaceTempView(ROWS)

    def _bit(self, aggregate: Aggregated, bits: Mapping[str, int]) -> int:
        in_python = aggregate.kind not in queries.BY_SQL or queries.sum_in_python(
            aggregate, self.kinds
        )
        return _IN_PYTHON if in_python else bits.get(aggregate.key, 0)

    def _simple(
        self, wanted: Sequence[Aggregated], values: dict[tuple[int, str], Any]
    ) -> dict[tuple[int, str], tuple[float | None, int]]:
        """Enters what SQL answers; of sums of doubles the ordinary sum and the number of values."""
        plain: dict[tuple[int, str], tuple[float | None, int]] = {}
        for first in range(0, len(wanted), _MOST_COLUMNS):
            some = wanted[first : first + _MOST_COLUMNS]
            query = queries.simple(some, self.kinds)
            if query is None:
                continue
            text, names = query
            for row in self._rows_of(text):
                for aggregate in (simple for simple in some if simple.key in names):
                    name = names[aggregate.key]
                    if f"{name}_plain" in row:
                        plain[row["w"], aggregate.key] = row[f"{name}_plain"], row[f"{name}_n"]
                    else:
                        values[row["w"], aggregate.key] = _finished(aggregate.kind, name, row)
        return plain

    def _in_python(self, questions: Sequence[Question], values: dict[tuple[int, str], Any]) -> None:
        """Enters what Python answers, of all windows in one round."""
        requested = list(_with_absolute(self._of_python(questions), self.kinds))
        if not requested:
            return
        numbers: dict[str, int] = {}
        aggregates = list({aggregate.key: aggregate for _, aggregate in requested}.values())
        for aggregate in aggregates:
            numbers[aggregate.key] = len(numbers)
        wanted: dict[int, list[int]] = {}
        for window, aggregate in requested:
            wanted.setdefault(window.w, []).append(numbers[aggregate.key])
        ages_from = {window.w: window.end_us - window.back_us for window, _ in requested}
        judges = any(
            aggregate.kind not in queries.BY_SQL and aggregate.kind != ABSOLUTE
            for aggregate in aggregates
        )
        read = [
            f"`v_{name}`"
            for name in sorted({name for aggregate in aggregates for name in aggregate.inputs})
        ]
        rows = self.spark.sql(queries.whole([*(IDENTITY if judges else ()), *read], _IN_PYTHON))
        answers = rows.mapInArrow(
            InPython(aggregates, self.kinds, wanted, ages_from), SCHEMA
        ).toArrow()
        for w, number, value in zip(
            *(answers[name].to_pylist() for name in answers.column_names), strict=True
        ):
            values[w, aggregates[number].key] = value_of(value)

    def _of_python(self, questions: Sequence[Question]) -> Iterator[Question]:
        for window, aggregate in questions:
            if queries.sum_in_python(aggregate, self.kinds):
                # a sum that is asked beside a feature names no columns that it reads
                yield (
                    window,
                    Aggregated(
                        aggregate.key, aggregate.kind, aggregate.parameters, (aggregate["column"],)
                    ),
                )
            elif aggregate.kind not in queries.BY_SQL:
                yield window, aggregate

    def _ranked(self, aggregate: Aggregated, bit: int) -> dict[int, Any]:
        ranked: dict[int, Any] = {}
        for row in self._rows_of(queries.ranked(aggregate, bit)):
            if aggregate.kind in ("argmin", "argmax"):
                ranked[row["w"]] = row["payload"]
            elif aggregate.kind == "last_k":
                ranked.setdefault(row["w"], []).append(row["payload"])
            else:
                ranked.setdefault(row["w"], []).append(
                    {"by": row["rank_by"], "payload": row["payload"]}
                )
        return ranked

    def _rows_of(self, text: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.spark.sql(text).toArrow().to_pylist()
        return rows

    def _table(self, name: str, columns: Mapping[str, pa.Array]) -> None:
        self.spark.createDataFrame(pa.table(columns)).createOrReplaceTempView(name)

    def _answer_columns(self) -> dict[str, pa.Array]:
        columns = {"who": pa.array([answer.who for answer in self.answers], pa.int64())}
        for name, kind in self.unit.entity:
            values = [answer.entity[name] for answer in self.answers]
            stored = pa.int64() if kind == "timestamp_us" else arrow_type(kind)
            # a date is asked for by its text
            columns[f"k_{name}"] = (
                pa.array(values).cast(stored) if kind == "date" else pa.array(values, stored)
            )
        return columns

    def _bases(self) -> dict[str, pa.Array]:
        return _offsets(
            (answer.who, 0, topic_partition, offset)
            for answer in self.answers
            for topic_partition, offset in answer.token.base.offsets.items()
        )

    def _beyond_by_entity(self) -> dict[str, pa.Array]:
        return _offsets(
            (answer.who, hour, topic_partition, offset)
            for answer in self.answers
            for hour, offset_vector in answer.token.compacted_beyond.items()
            for topic_partition, offset in offset_vector.offsets.items()
        )


def _bits(aggregates: Iterable[Aggregated]) -> dict[str, int]:
    """Bits of `asks` by which the windows of aggregates with a query of their own are known; the
    last is shared by all that are left, so that more is looked at than was asked for."""
    own = dict.fromkeys(
        aggregate.key
        for aggregate in aggregates
        if aggregate.kind in queries.RANKED or aggregate.kind == "distinct_count"
    )
    return {key: _IN_PYTHON << min(number, _MOST_BITS) for number, key in enumerate(own, 1)}


def _absolute(aggregate: Aggregated) -> Aggregated:
    """The aggregate asked beside a sum of doubles, for the error that an ordinary one may have."""
    column = aggregate["column"]
    return Aggregated(
        f"{ABSOLUTE} of {column!r}", ABSOLUTE, {"kind": ABSOLUTE, "column": column}, (column,)
    )


def _with_absolute(questions: Iterable[Question], kinds: Mapping[str, str]) -> Iterator[Question]:
    entered = set()
    for window, aggregate in questions:
        yield window, aggregate
        if (
            aggregate.kind == "sum"
            and kinds[aggregate["column"]] == DOUBLE
            and (window.w, aggregate["column"]) not in entered
        ):
            entered.add((window.w, aggregate["column"]))
            yield window, _absolute(aggregate)


def _finished(kind: str, name: str, row: Mapping[str, Any]) -> Any:
    """The value of a row's column; of a sum or mean of longs, from its halves."""
    if f"{name}_upper" not in row:
        return row[name]
    if not row[f"{name}_n"]:
        return None
    total = exact.of_halves(row[f"{name}_upper"], row[f"{name}_lower"])
    return (
        exact.sum_longs([total]) if kind == "sum" else exact.mean_of_total(total, row[f"{name}_n"])
    )


_NO_PART = Part(0, 0)


def _of_parts(parts: Sequence[Part]) -> dict[str, pa.Array]:
    """The columns of the parts."""
    return {
        "from_us": pa.array([part.start_us for part in parts], pa.int64()),
        "to_us": pa.array([part.end_us for part in parts], pa.int64()),
        "of_topic": pa.array([part.topic_id for part in parts], pa.string()),
        "of_p": pa.array([part.partition for part in parts], pa.int32()),
        "first_o": pa.array([part.first for part in parts], pa.int64()),
        "last_o": pa.array([part.last for part in parts], pa.int64()),
        "after_seq": pa.array([part.after_version for part in parts], pa.int64()),
        "to_seq": pa.array([part.to_version for part in parts], pa.int64()),
        "late": pa.array([part.late for part in parts], pa.bool_()),
    }


def _offsets(rows: Iterable[tuple[int, int, tuple[str, int], int]]) -> dict[str, pa.Array]:
    listed = list(rows)
    return {
        "who": pa.array([who for who, _, _, _ in listed], pa.int64()),
        "hour": pa.array([hour for _, hour, _, _ in listed], pa.int64()),
        "topic_id": pa.array([topic for _, _, (topic, _), _ in listed], pa.string()),
        "p": pa.array([partition for _, _, (_, partition), _ in listed], pa.int32()),
        "o": pa.array([offset for _, _, _, offset in listed], pa.int64()),
    }
