"""The offline side of the check: Spark SQL over archived events, bounded and covered by the tokens of the answers.

An event (hour H, place p, offset o) takes part if and only if `o < max(base[p], cover_H[p])` of
the token and its time lies in the window's bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from slicewise.checks import exact, queries, repeats, row_functions
from slicewise.checks.bounds import searched_from
from slicewise.checks.declared import Distinct
from slicewise.checks.judges import END, Row, judged
from slicewise.checks.queries import ROWS, Aggregated
from slicewise.checks.values import canonical, value_of
from slicewise.features.types import arrow_type
from slicewise.features.unit import Source, Unit
from slicewise.slices import HOUR_US
from slicewise.token import Token

TOKEN, ANY_COVER, BASE_ALONE, NOT_LATE = "token", "any", "base", "not_late"
"""Rules by which an event takes part: the token's; whatever its offset; the base without hours
ahead; the token's, but without events that came after their hour was over."""


@dataclass(frozen=True)
class Asked:
    """One answer that was read online: `who` numbers it."""

    who: int
    entity: Mapping[str, Any]
    token: Token


class Part(NamedTuple):
    """Events that a store keeps, or loses, together: of an interval, and of what is not None beside it."""

    start_us: int
    end_us: int
    topic_id: str | None = None
    partition: int | None = None
    first: int | None = None
    """The lowest of their offsets."""
    last: int | None = None
    after_seq: int | None = None
    """Archived after it."""
    to_seq: int | None = None
    """Archived by it, or before."""
    late: bool = False
    """Only what came after its hour was over."""


class Held(NamedTuple):
    """The events of an answer of one slice and place that one archive brought, in time or late."""

    number: int
    topic_id: str
    partition: int
    seq: int
    late: bool
    offsets: Sequence[int]
    """Ascending, the first `queries.MOST_OFFSETS` of them."""
    n: int
    """How many they are."""


@dataclass(frozen=True)
class WindowOf:
    """An interval of one answer under a rule: `w` numbers it. rows: only the last so many of its rows (0: all).

    part: these events count `times` (0: not at all). A part that lies outside counts once less: what is doubled stands
    in the store a second time, and maybe within.
    """

    w: int
    who: int
    rule: str
    start_us: int
    end_us: int
    rows: int = 0
    part: Part | None = None
    times: int = 1


@dataclass(frozen=True)
class PlainSum:
    """An ordinary sum beside the exact one; n values, absolute: Σ|x|."""

    plain: float | None
    exact: float | None
    n: int
    absolute: float


@dataclass(frozen=True)
class Recomputed:
    """Values by (w, aggregate's key); where no event takes part there is no entry."""

    values: Mapping[tuple[int, str], Any] = field(default_factory=dict)
    plain_sums: Mapping[tuple[int, str], PlainSum] = field(default_factory=dict)

    def value(self, w: int, each: Aggregated) -> Any:
        """The value of an aggregate over a window; of no events null, and 0 of a count."""
        if (w, each.key) in self.values:
            return self.values[w, each.key]
        if each.kind not in queries.BY_SQL:
            return judged((), each.parameters)
        return {"count": 0, "distinct_count": Distinct(0, 0)}.get(each.kind)


@dataclass
class Recomputation:
    """The rows of one unit's sampled entities; `of` answers windows over them."""

    spark: SparkSession
    unit: Unit
    source: Source
    table: str
    asked: Sequence[Asked]
    _rows: DataFrame | None = None

    def __post_init__(self) -> None:
        self.kinds = queries.kinds_of(self.unit, self.source)
        _register(self.spark)
        row_functions.register(self.spark, self.unit)

    def __enter__(self) -> Recomputation:
        start = min(start for each in self.asked for start in self._starts(each.token))
        end = max(end for each in self.asked for _, end in each.token.bounds.values())
        # A slice more at either end, for the questions that move a bound.
        start, end = start - self.unit.slice_us, end + self.unit.slice_us
        start = max(start, 0)
        if self.source.dedupe is None:
            text = queries.viewed(self.unit, self.source, queries.archived(self.table, self.source, start, end))
        else:
            since = repeats.since_us(self.source, self.source.dedupe, start)
            events = queries.archived_since(self.table, self.source, since)
            viewed = queries.viewed(self.unit, self.source, events)
            text = repeats.counted_once(self.unit, self.source.dedupe, viewed, start, end)
        view = self.spark.sql(text)
        view.createOrReplaceTempView("check_view")
        self._table("check_asked", self._asked())
        self._table("check_base", self._bases())
        self._table("check_ahead", self._aheads())
        # A global view has one entity, of no columns: its rows belong to every answer.
        matches = " AND ".join(f"v.`e_{name}` = a.`k_{name}`" for name, _ in self.unit.entity)
        hour = f"v.t DIV {HOUR_US}"
        self._rows = self.spark.sql(
            f"SELECT a.who, v.*, {hour} AS hour, v.o < coalesce(b.o, 0) AS in_base, "
            "v.o < greatest(coalesce(b.o, 0), coalesce(h.o, 0)) AS in_token, "
            f"v.kafka_t < ({hour} + 1) * {HOUR_US} AS in_time "
            f"FROM check_view v JOIN check_asked a ON {matches or 'TRUE'} "
            "LEFT JOIN check_base b ON b.who = a.who AND b.topic_id = v.topic_id AND b.p = v.p "
            "LEFT JOIN check_ahead h ON h.who = a.who AND h.topic_id = v.topic_id AND h.p = v.p "
            f"AND h.hour = {hour}"
        ).persist()
        self._rows.createOrReplaceTempView("check_known")
        return self

    def __exit__(self, *_: object) -> None:
        if self._rows is not None:
            self._rows.unpersist()

    def of(self, windows: Sequence[WindowOf], aggregates: Iterable[Aggregated]) -> Recomputed:
        """Every aggregate over every window."""
        wanted = list({each.key: each for each in aggregates}.values())
        joined = self._join(windows)
        values: dict[tuple[int, str], Any] = {}
        plain: dict[tuple[int, str], PlainSum] = {}
        try:
            self._simple(wanted, values, plain)
            for each in wanted:
                if each.kind not in queries.BY_SQL:
                    values |= {(w, each.key): value for w, value in self._judged(each).items()}
                elif each.kind == "distinct_count":
                    for row in self._rows_of(queries.distinct(each, self.kinds)):
                        values[row["w"], each.key] = Distinct(row["n"], int(row["bytes"]))
                elif (row_values := self._ranked(each)) is not None:
                    values |= {(w, each.key): value for w, value in row_values.items()}
        finally:
            joined.unpersist()
        return Recomputed(values, plain)

    def raw(self, windows: Sequence[WindowOf], each: Aggregated) -> pa.Table:
        """The rows of windows with an aggregate's columns, for a recomputation by the engine."""
        joined = self._join(windows)
        try:
            return self.spark.sql(f"SELECT {', '.join(queries.raw(each))} FROM {ROWS}").toArrow()
        finally:
            joined.unpersist()

    def held(self, windows: Sequence[WindowOf]) -> dict[int, list[Held]]:
        """Of each window what a store may keep together, newest first; of long ones the newest."""
        joined = self._join(windows)
        try:
            rows = self._rows_of(queries.held(self.unit.slice_us))
        finally:
            joined.unpersist()
        found: dict[int, list[Held]] = {}
        for row in rows:
            found.setdefault(row["w"], []).append(Held(*(row[name] for name in queries.HELD)))
        return found

    def sessions(self, windows: Sequence[WindowOf], gap_us: int) -> dict[int, tuple[int, int]]:
        """Of each window with events, when the first and last event of its latest session were."""
        joined = self._join(windows)
        try:
            rows = self._rows_of(queries.sessions(gap_us))
        finally:
            joined.unpersist()
        found: dict[int, tuple[int, int]] = {}
        for row in rows:
            found[row["w"]] = max(found.get(row["w"], (row["first_t"], row["last_t"])), (row["first_t"], row["last_t"]))
        return found

    def _starts(self, token: Token) -> Iterable[int]:
        """Where the rows of an answer's windows may begin; a session is searched for before it starts."""
        for feature in self.unit.features:
            start, end = token.bounds[feature.column]
            is_session = feature.window.kind == "session"
            yield searched_from(feature.window, self.unit.slice_us, end) if is_session else start

    def _join(self, windows: Sequence[WindowOf]) -> DataFrame:
        columns = {
            "w": pa.array([each.w for each in windows], pa.int64()),
            "who": pa.array([each.who for each in windows], pa.int64()),
            "rule": pa.array([each.rule for each in windows], pa.string()),
            "start_us": pa.array([each.start_us for each in windows], pa.int64()),
            "end_us": pa.array([each.end_us for each in windows], pa.int64()),
            "most": pa.array([each.rows for each in windows], pa.int64()),
            **_of_parts([each.part or _NO_PART for each in windows]),
            "times": pa.array([each.times for each in windows], pa.int32()),
        }
        self._table("check_windows", columns)
        text = (
            f"SELECT k.*, i.w, i.most, {queries.INSIDE} AS inside, {queries.THERE} AS there, i.times "
            f"FROM check_known k JOIN check_windows i ON i.who = k.who AND ({queries.INSIDE} "
            f"OR {queries.ADDED} AND {queries.THERE}) WHERE CASE i.rule "
            f"WHEN '{TOKEN}' THEN k.in_token WHEN '{ANY_COVER}' THEN TRUE "
            f"WHEN '{BASE_ALONE}' THEN k.in_base WHEN '{NOT_LATE}' THEN k.in_token AND k.in_time END"
        )
        if any(each.part is not None for each in windows):
            text = queries.partly(text)
        if any(each.rows for each in windows):
            text = queries.last_rows(text)
        joined = self.spark.sql(text).persist()
        joined.createOrReplaceTempView(ROWS)
        return joined

    def _simple(
        self,
        wanted: Sequence[Aggregated],
        values: dict[tuple[int, str], Any],
        plain: dict[tuple[int, str], PlainSum],
    ) -> None:
        query = queries.simple(wanted, self.kinds)
        if query is None:
            return
        text, names = query
        for row in self._rows_of(text):
            for key, name in names.items():
                values[row["w"], key] = row[name]
                if f"{name}_plain" in row:
                    plain[row["w"], key] = PlainSum(
                        row[f"{name}_plain"], row[name], row[f"{name}_n"], row[f"{name}_absolute"]
                    )

    def _ranked(self, each: Aggregated) -> dict[int, Any] | None:
        if each.kind not in queries.RANKED:
            return None
        found: dict[int, Any] = {}
        for row in self._rows_of(queries.ranked(each)):
            if each.kind in ("argmin", "argmax"):
                found[row["w"]] = row["payload"]
            elif each.kind == "last_k":
                found.setdefault(row["w"], []).append(row["payload"])
            else:
                found.setdefault(row["w"], []).append({"by": row["rank_by"], "payload": row["payload"]})
        return found

    def _judged(self, each: Aggregated) -> dict[int, Any]:
        said = udf(_Judged(each.parameters, each.inputs), "binary", useArrow=False)
        rows = self.spark.sql(queries.whole(each)).select("w", said("found", "end_us").alias("said"))
        found = rows.toArrow().to_pylist()
        return {row["w"]: value_of(row["said"]) for row in found}

    def _rows_of(self, text: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.spark.sql(text).toArrow().to_pylist()
        return rows

    def _table(self, name: str, columns: Mapping[str, pa.Array]) -> None:
        self.spark.createDataFrame(pa.table(columns)).createOrReplaceTempView(name)

    def _asked(self) -> dict[str, pa.Array]:
        columns = {"who": pa.array([each.who for each in self.asked], pa.int64())}
        for name, kind in self.unit.entity:
            values = [each.entity[name] for each in self.asked]
            stored = pa.int64() if kind == "timestamp_us" else arrow_type(kind)
            # a date is asked for by its text
            columns[f"k_{name}"] = pa.array(values).cast(stored) if kind == "date" else pa.array(values, stored)
        return columns

    def _bases(self) -> dict[str, pa.Array]:
        return _offsets(
            (each.who, 0, place, offset) for each in self.asked for place, offset in each.token.base.offsets.items()
        )

    def _aheads(self) -> dict[str, pa.Array]:
        return _offsets(
            (each.who, hour, place, offset)
            for each in self.asked
            for hour, cover in each.token.ahead.items()
            for place, offset in cover.offsets.items()
        )


@dataclass(frozen=True)
class _Judged:
    """What Spark's workers call per window; the value travels as its canonical bytes."""

    spec: Mapping[str, Any]
    inputs: tuple[str, ...]

    def __call__(self, found: Sequence[Sequence[Any]], end_us: int) -> bytes:
        rows = [
            Row(t, topic, partition, offset, dict(zip(self.inputs, values, strict=True)))
            for t, topic, partition, offset, *values in found
        ]
        return canonical(judged(rows, {**self.spec, END: end_us}))


_NO_PART = Part(0, 0)


def _of_parts(parts: Sequence[Part]) -> dict[str, pa.Array]:
    """Their columns."""
    return {
        "from_us": pa.array([each.start_us for each in parts], pa.int64()),
        "to_us": pa.array([each.end_us for each in parts], pa.int64()),
        "of_topic": pa.array([each.topic_id for each in parts], pa.string()),
        "of_p": pa.array([each.partition for each in parts], pa.int32()),
        "first_o": pa.array([each.first for each in parts], pa.int64()),
        "last_o": pa.array([each.last for each in parts], pa.int64()),
        "after_seq": pa.array([each.after_seq for each in parts], pa.int64()),
        "to_seq": pa.array([each.to_seq for each in parts], pa.int64()),
        "late": pa.array([each.late for each in parts], pa.bool_()),
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


def _register(spark: SparkSession) -> None:
    """The check's own functions, by name; decimals travel as text."""
    functions: dict[str, tuple[Callable[..., Any], str]] = {
        "check_sum_doubles": (exact.sum_doubles, "double"),
        "check_mean_doubles": (exact.mean_doubles, "double"),
        "check_sum_longs": (exact.sum_longs, "bigint"),
        "check_mean_longs": (exact.mean_longs, "double"),
        "check_absolute_sum": (exact.absolute_sum, "double"),
        "check_sum_decimals": (_text_sum, "string"),
        "check_mean_decimals": (_text_mean, "string"),
    }
    for name, (function, kind) in functions.items():
        spark.udf.register(name, function, kind)


def _text_sum(values: Sequence[str]) -> str | None:
    total = exact.sum_decimals(Decimal(value) for value in values)
    return None if total is None else format(total, "f")


def _text_mean(values: Sequence[str]) -> str | None:
    numbers = [Decimal(value) for value in values]
    if not numbers:
        return None
    exponent = numbers[0].as_tuple().exponent
    assert isinstance(exponent, int)
    mean = exact.mean_decimals(numbers, 4 - exponent)
    return None if mean is None else format(mean, "f")
