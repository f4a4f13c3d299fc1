"""Events of a caller become the typed rows that the archive would hold; it leaves bad ones out
alike.

A record is refused (counted by reason) where the platform refuses it: a required column is null,
the time is too late or too far ahead of the Kafka timestamp, a double is NaN or infinite, a number
is outside of its declared width, an instant is none of the years 1970 to 9999. A value
of another type than the schema's is the caller's mistake and an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.aggregates.kernel.kinds import named
from slicewise.errors import BadRequest
from slicewise.features.plan.unit import Source
from slicewise.features.schema.types import DATE, TIMESTAMP, arrow_type, element_type
from slicewise.training.ranges import Ints
from slicewise.training.tables import faults
from slicewise.training.tables.instants import as_timestamps, instant_us, instants_us, is_time
from slicewise.training.tables.read import as_table
from slicewise.training.tables.wire import Flags, days, is_list, within

TOPIC = "0" * 32
"""The topic id of events that never were in a topic."""

_TICKS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_OFFSETS = {"partition": pa.int32(), "offset": pa.int64()}


def typed_events(
    source: Source, given: object, *, of_log: bool = False
) -> tuple[pa.Table, Mapping[str, int]]:
    """Typed events in log order with `event_time`, `kafka_time`, `topic_id`, `partition`, `offset`;
    and refusals.

    given: an Arrow table, a pandas frame or a list of dicts with the source's columns (a missing
    one is null) and, optionally, partition (0), offset (the row's number) and kafka_time (the
    event time; needed where that is the Kafka record's). Dates may be text. Instants may be aware
    datetimes, RFC 3339 text or integers in the source's form.
    """
    judged = judged_events(source, as_table(given, "events"), of_log=of_log)
    _refuse_repeated(judged.rows)
    refused: dict[str, int] = {}
    for reason in judged.reasons:
        if reason is not None:
            refused[reason] = refused.get(reason, 0) + 1
    order = {reason: n for n, reason in enumerate(judged.possible)}
    counts = dict(sorted(refused.items(), key=lambda item: order[item[0]]))
    return judged.rows.filter(judged.good), counts


@dataclass(frozen=True)
class Judged:
    """Rows of a caller, typed, in their order.

    reasons: of each row the first reason for which it is bad; None: it is good. possible: all
    reasons that there are, in the order in which they are looked at.
    """

    rows: pa.Table
    reasons: Sequence[str | None]
    possible: Sequence[str]

    @property
    def good(self) -> pa.Array:
        return pa.array([reason is None for reason in self.reasons], pa.bool_())


def judged_events(source: Source, table: pa.Table, *, of_log: bool = False) -> Judged:
    """Typed rows, and which of them are bad. of_log: they are records of the topic, and none of
    them is of the source's history."""
    _refuse_unknown(source, table)
    wire = dict(source.wire)
    columns: dict[str, pa.Array] = {}
    outside: dict[str, Flags] = {}
    for name, kind in source.columns:
        column, outside[f"bad_time:{name}"] = _column(source, table, name, kind)
        columns[name], outside[f"out_of_range:{name}"] = within(
            column, wire.get(name, kind), allow_nan=name in source.allow_nan
        )
    time = source.time_column
    missing = {
        f"missing_required:{name}": columns[name].is_null().to_numpy(zero_copy_only=False)
        for name in (*source.required, *(() if time is None else (time,)))
    }
    if time is None:
        event_time = kafka_time = _kafka_time(table, None)
        outside["bad_time:kafka"] = ~is_time(event_time)
    else:
        event_time = columns[time].cast(pa.int64()).fill_null(0).to_numpy()
        kafka_time = _kafka_time(table, event_time)
    until = source.history_until_us if of_log else None
    reasons = missing | {
        **outside,
        "in_history": event_time < (until or 0),
        "too_late": event_time < kafka_time - source.max_lateness_us,
        "too_far_ahead": event_time > kafka_time + source.max_ahead_us,
    }
    identity = {
        "event_time": pa.array(event_time),
        "kafka_time": pa.array(kafka_time),
        "topic_id": pa.array([TOPIC] * table.num_rows, pa.string()),
        "partition": _offsets(table, "partition", np.zeros(table.num_rows, np.int64)),
        "offset": _offsets(table, "offset", np.arange(table.num_rows, dtype=np.int64)),
    }
    first: list[str | None] = [None] * table.num_rows
    kept = np.ones(table.num_rows, np.bool_)
    for reason, rows in reasons.items():  # the first reason that holds is the record's
        for row in np.flatnonzero(kept & rows):
            first[row] = reason
        kept &= ~rows
    return Judged(pa.table({**columns, **identity}), first, tuple(reasons))


def _refuse_unknown(source: Source, table: pa.Table) -> None:
    columns = [name for name, _ in source.columns]
    for name in table.column_names:
        if name not in (*columns, *_OFFSETS, "kafka_time"):
            raise BadRequest(
                f"events have a column {name!r} that the source {source.name!r} does not have",
                where="events",
                expected="columns of " + ", ".join((*columns, *_OFFSETS, "kafka_time")),
                next_step="correct the name, or declare the column in the source's schema",
            )


def _refuse_repeated(typed: pa.Table) -> None:
    pairs = typed.select(["partition", "offset"])
    if pairs.group_by(["partition", "offset"]).aggregate([]).num_rows != pairs.num_rows:
        raise BadRequest(
            "two events have one offset in one partition",
            where="events",
            expected="each (partition, offset) once: it is the event's identity",
            next_step="leave `offset` out, or number the events",
        )


def _column(source: Source, table: pa.Table, name: str, kind: str) -> tuple[pa.Array, Flags]:
    """The column in its type, and which rows hold an instant that is none."""
    none = np.zeros(table.num_rows, np.bool_)
    if name in table.column_names and kind == TIMESTAMP and not pa.types.is_null(table[name].type):
        return _instants(source, table[name].combine_chunks(), f"events, column {name!r}")
    return _values(table, name, kind), none


def _values(table: pa.Table, name: str, kind: str) -> pa.Array:
    where = f"events, column {name!r}"
    target = arrow_type(kind)
    element = element_type(kind)
    if name not in table.column_names:
        return pa.nulls(table.num_rows, target)
    column = table[name].combine_chunks()
    if pa.types.is_null(column.type):
        return pa.nulls(table.num_rows, target)
    if is_list(column.type):
        # offsets from 0, nothing under a null
        column = column.take(pa.array(np.arange(len(column))))
    if kind == DATE or element == DATE:
        column = days(column, where)
    if not _fits(column.type, target):
        raise BadRequest(
            f"the column is of type {named(column.type)}",
            where=where,
            expected=kind,
            next_step="give values of the type that the source's schema declares",
        )
    if pa.types.is_floating(column.type) and pa.types.is_decimal(target):
        column = _written(column, where, kind)
    try:
        return column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unfit(*faults.of_cast(column, target), where, kind) from error


def _unfit(what: str, row: int | None, where: str, kind: str) -> BadRequest:
    return BadRequest(
        what,
        where=where if row is None else f"{where}, row {row}",
        expected=kind,
        next_step="correct the value, or declare another type in the source's schema",
    )


_SAME: tuple[Callable[[pa.DataType], bool], ...] = (
    lambda kind: bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)),
    lambda kind: bool(pa.types.is_boolean(kind)),
    lambda kind: bool(pa.types.is_date32(kind)),
)


def _fits(given: pa.DataType, target: pa.DataType) -> bool:
    """JSON has numbers, text and booleans; an integer column takes no fraction, not even 1.0."""
    if pa.types.is_dictionary(given):
        return _fits(given.value_type, target)
    if is_list(given) or is_list(target):
        both = is_list(given) and is_list(target)
        return both and (
            pa.types.is_null(given.value_type) or _fits(given.value_type, target.value_type)
        )
    if any(same(given) or same(target) for same in _SAME):
        return any(same(given) and same(target) for same in _SAME)
    if pa.types.is_integer(target):
        return bool(pa.types.is_integer(given))
    return bool(
        pa.types.is_integer(given) or pa.types.is_floating(given) or pa.types.is_decimal(given)
    )


def _written(column: pa.Array, where: str, kind: str) -> pa.Array:
    """Doubles as the decimals that JSON writes for them: a cast would round away what a record is
    refused for."""
    target = arrow_type(kind)
    values = [None if value is None else Decimal(repr(value)) for value in column.to_pylist()]
    try:
        return pa.array(values, target)
    except faults.CANNOT_CONVERT as error:
        row = next(i for i, value in enumerate(values) if not faults.fits(value, target))
        raise _unfit(f"a value does not fit: {column[row].as_py()!r}", row, where, kind) from error


def _instants(source: Source, column: pa.Array, where: str) -> tuple[pa.Array, Flags]:
    valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    positions = pa.array(np.flatnonzero(valid))
    instants = instants_us(pa.chunked_array([column.take(positions)]), where)
    ticks = _TICKS.get(source.time_form, 1) if pa.types.is_integer(column.type) else 1
    good = is_time(instants, ticks)
    whole = np.zeros(len(column), np.int64)
    whole[valid] = np.where(good, instants, 0) * ticks
    beyond = np.zeros(len(column), np.bool_)
    beyond[valid] = ~good
    stamped = as_timestamps(whole)
    return pc.if_else(pa.array(valid), stamped, pa.scalar(None, stamped.type)), beyond


def _kafka_time(table: pa.Table, event_time: Ints | None) -> Ints:
    """The time of each record: the event's, where none is given; there is no event's where that is
    the record's."""
    given = (
        table["kafka_time"]
        if "kafka_time" in table.column_names
        else pa.nulls(table.num_rows, pa.int64())
    )
    if event_time is None and given.null_count:
        raise BadRequest(
            "events have no kafka_time, which is the source's event time",
            where="events",
            expected="kafka_time in every row",
            next_step="add the column: aware datetimes, RFC 3339 text or microseconds",
        )
    if event_time is None or not given.null_count:
        return instants_us(
            pa.chunked_array([given] if isinstance(given, pa.Array) else given),
            "events, kafka_time",
        )
    if given.null_count == table.num_rows:
        return event_time
    return np.array(
        [
            event_time[row]
            if value is None
            else instant_us(value, f"events, kafka_time, row {row}")
            for row, value in enumerate(table["kafka_time"].to_pylist())
        ],
        np.int64,
    ).reshape(-1)


def _offsets(table: pa.Table, name: str, default: Ints) -> pa.Array:
    if name not in table.column_names:
        return pa.array(default).cast(_OFFSETS[name])
    column = table[name].combine_chunks()
    given = pa.array(default).cast(pa.int64())
    if not pa.types.is_null(column.type):
        if not pa.types.is_integer(column.type):
            raise BadRequest(
                f"the column is of type {named(column.type)}",
                where=f"events, column {name!r}",
                expected="integers",
                next_step="cast the column to int64, or leave it out",
            )
        given = pc.coalesce(column.cast(pa.int64()), given)
    if len(given) and (pc.min(given).as_py() or 0) < 0:
        raise BadRequest(
            f"a negative {name}",
            where="events",
            expected=f"{name} >= 0",
            next_step="leave the column out: rows are numbered then",
        )
    return given.cast(_OFFSETS[name])
