"""A given value becomes what a record of its type holds, or is outside of it, by the reader's
rules.

Floats are rounded to the nearest float, whole numbers have the range of their width, dates are
days.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slicewise.errors import BadRequest
from slicewise.features.schema.types import DOUBLE, FLOAT, RANGES, element_type
from slicewise.training.tables import faults

Flags = NDArray[np.bool_]
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, since 1970."""


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def days(column: pa.Array, where: str) -> pa.Array:
    """Dates, or lists of them, of texts yyyy-mm-dd, from the year 1."""
    if is_list(column.type):
        return pa.ListArray.from_arrays(
            column.offsets.cast(pa.int32()), days(column.values, where), mask=column.is_null()
        )
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        formed = pc.match_substring_regex(column, r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z")
        if pc.all(formed).as_py() is False:
            raise BadRequest(
                "a text is no date",
                where=where,
                expected="yyyy-mm-dd, as 2024-02-29",
                next_step="write the date so",
            )
        column = _cast_days(column, where)
    if pa.types.is_date64(column.type):
        column = _cast_days(column, where)
    if pa.types.is_date32(column.type) and len(column) > column.null_count:
        extent = pc.min_max(column.cast(pa.int32())).as_py()
        if extent["min"] < _FIRST_DAY or extent["max"] > _LAST_DAY:
            raise BadRequest(
                "a date is beyond the years 1 to 9999",
                where=where,
                expected="a date that text can write",
                next_step="correct the date",
            )
    return column


def _cast_days(column: pa.Array, where: str) -> pa.Array:
    try:
        return column.cast(pa.date32())
    except pa.ArrowInvalid as error:
        what, row = faults.of_cast(column, pa.date32())
        raise BadRequest(
            what,
            where=where if row is None else f"{where}, row {row}",
            expected="a date as yyyy-mm-dd",
            next_step="write the date so",
        ) from error


def within(column: pa.Array, wire: str, *, allow_nan: bool) -> tuple[pa.Array, Flags]:
    """The column with its values as a record of the wire type holds them, and which rows it cannot
    hold.

    wire: the declared type, or array<…>: a list is outside where an element is.
    """
    element = element_type(wire)
    if element is not None:
        values, outside = within(column.values, element, allow_nan=allow_nan)
        rows = np.zeros(len(column), np.bool_)
        rows[np.searchsorted(column.offsets.to_numpy(), np.flatnonzero(outside), "right") - 1] = (
            True
        )
        return pa.ListArray.from_arrays(column.offsets, values, mask=column.is_null()), rows
    outside = np.zeros(len(column), np.bool_)
    if wire in RANGES:
        least, greatest = RANGES[wire]
        inside = pc.and_(pc.greater_equal(column, least), pc.less_equal(column, greatest))
        return column, ~pc.fill_null(inside, True).to_numpy(zero_copy_only=False)
    if wire == FLOAT:
        finite = pc.is_finite(column)
        column = column.cast(pa.float32(), safe=False).cast(pa.float64())
        beyond = pc.and_(finite, pc.invert(pc.is_finite(column)))
        outside = pc.fill_null(beyond, False).to_numpy(zero_copy_only=False)
    if wire in (DOUBLE, FLOAT) and not allow_nan:
        outside = outside | ~pc.fill_null(pc.is_finite(column), True).to_numpy(zero_copy_only=False)
    return column, outside
