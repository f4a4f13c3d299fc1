"""Every instant of a caller becomes integer microseconds UTC, or a refusal that says which row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.kernel.kinds import named
from slicewise.clock import END_OF_TIME_US
from slicewise.errors import BadRequest
from slicewise.training.ranges import Ints

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMESTAMP = pa.timestamp("us", tz="UTC")
_EXPECTED = "an aware datetime, RFC 3339 text with a zone, or integer microseconds since the epoch"
_NEXT = "give each value its time zone, as in 2026-11-21T08:00:00Z"


def instant_us(value: object, where: str) -> int:
    """Microseconds UTC of an aware datetime, RFC 3339 text with a zone, or an integer of them.

    Raises BadRequest for null, naive and all else; parts of a microsecond are refused too.
    """
    if isinstance(value, bool) or value is None:
        raise BadRequest(
            f"{value!r} is no instant", where=where, expected=_EXPECTED, next_step=_NEXT
        )
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise BadRequest(
                f"{value!r} is no instant", where=where, expected=_EXPECTED, next_step=_NEXT
            ) from error
    if not isinstance(value, datetime):
        raise BadRequest(
            f"{value!r} is no instant", where=where, expected=_EXPECTED, next_step=_NEXT
        )
    if value.tzinfo is None:
        raise BadRequest(
            f"{value.isoformat()} has no time zone",
            where=where,
            expected=_EXPECTED,
            next_step=_NEXT,
        )
    if getattr(value, "nanosecond", 0):
        raise BadRequest(
            f"{value} has parts of a microsecond",
            where=where,
            expected="whole microseconds",
            next_step="round it, in the direction that your use allows",
        )
    return (value - EPOCH) // timedelta(microseconds=1)


def is_time(us: Ints, ticks: int = 1) -> NDArray[np.bool_]:
    """Marks the counts (of `ticks` microseconds each) that are times that an event or a question
    may have."""
    return (us >= 0) & (us < END_OF_TIME_US // ticks)


def times_us(column: pa.ChunkedArray, where: str) -> Ints:
    """`instants_us`, all from 1970 to before the year 10000, as requests may have them."""
    instants = instants_us(column, where)
    beyond = np.flatnonzero(~is_time(instants))
    if len(beyond):
        raise BadRequest(
            f"{instants[beyond[0]]} microseconds since 1970 are no instant",
            where=f"{where}, row {beyond[0]}",
            expected="an instant from 1970 to before the year 10000",
            next_step="correct the row; integers are microseconds",
        )
    return instants


def instants_us(column: pa.ChunkedArray, where: str) -> Ints:
    """Int64 microseconds UTC of a column of aware timestamps, RFC 3339 text or integers; no
    nulls."""
    kind = column.type
    if column.null_count:
        row = next(i for i, value in enumerate(column) if not value.is_valid)
        raise BadRequest(
            f"{column.null_count} of {len(column)} instants are null",
            where=f"{where}, row {row}",
            expected="an instant in every row",
            next_step="drop the rows or fill them in",
        )
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            raise BadRequest(
                "the column is of type timestamp: it has no time zone",
                where=where,
                expected=_EXPECTED,
                next_step="localise it (pandas: .dt.tz_localize) to the zone that it was taken in",
            )
        if kind.unit == "ns":
            whole = column.cast(pa.int64()).to_numpy()
            if np.any(whole % 1_000):
                raise BadRequest(
                    "some instants have parts of a microsecond",
                    where=where,
                    expected="whole microseconds",
                    next_step="round them, in the direction that your use allows",
                )
            return np.asarray(whole // 1_000, np.int64)
        return np.asarray(column.cast(TIMESTAMP).cast(pa.int64()).to_numpy(), np.int64)
    if pa.types.is_integer(kind):
        return np.asarray(column.cast(pa.int64()).to_numpy(), np.int64)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _parsed(column.to_pylist(), where)
    raise BadRequest(
        f"the column is of type {named(kind)}", where=where, expected=_EXPECTED, next_step=_NEXT
    )


def _parsed(values: Sequence[object], where: str) -> Ints:
    return np.array(
        [instant_us(value, f"{where}, row {row}") for row, value in enumerate(values)], np.int64
    )


def as_timestamps(values: Ints) -> pa.Array:
    """Microseconds UTC as an Arrow timestamp column."""
    return pa.array(values, pa.int64()).cast(TIMESTAMP)


def text_of(instant: int) -> str:
    """Microseconds UTC as RFC 3339 text, for people."""
    text: str = as_timestamps(np.array([instant], np.int64))[0].as_py().isoformat()
    return text
