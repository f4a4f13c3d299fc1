"""Texts of a file without types become values of declared types, all of a column or none; labels
keep their digits."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.errors import BadRequest
from slicewise.features.schema.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    arrow_type,
)

_WHOLE = r"\A-?[0-9]+\z"
_NUMBER = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"
_BOOLEAN = r"\A(true|false)\z"
_PLAIN_WHOLE = r"\A(0|-?[1-9][0-9]{0,17})\z"
"""No zeros to begin with, which a number would lose, and within 64 bits."""
_PLAIN_NUMBER = r"\A-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][+-]?[0-9]+)?\z"


def typed_texts(
    table: pa.Table, declared: Mapping[str, str], untouched: Collection[str]
) -> pa.Table:
    """The table with declared columns as values of their types, and labels as numbers where all of
    theirs are.

    declared: type of each column that a definition types. untouched: columns that stay texts.
    Raises BadRequest with the first row whose text is no value of its column's type.
    """
    for at, name in enumerate(table.column_names):
        if name in untouched:
            continue
        column = table[name].combine_chunks()
        typed = (
            declared_values(column, name, declared[name])
            if name in declared
            else label_values(column)
        )
        table = table.set_column(at, name, pa.chunked_array([typed]))
    return table


def declared_values(column: pa.Array, name: str, kind: str) -> pa.Array:
    """Texts as a declared type has them; dates stay texts, as instants do unless they are whole
    numbers."""
    if kind in (STRING, DATE):
        return column
    if kind == TIMESTAMP:
        return instants_of_texts(pa.chunked_array([column])).combine_chunks()
    form = {LONG: _WHOLE, BOOLEAN: _BOOLEAN}.get(kind, _NUMBER)
    bad = np.flatnonzero(~_fits(column, form))
    if not len(bad):
        try:
            typed = column.cast(arrow_type(kind))
        except pa.ArrowInvalid:
            typed = None
        if typed is not None and _finite(typed):
            return typed
        # beyond its type
        bad = np.array([row for row in range(len(column)) if not _holds(column[row], kind)])
    row = int(bad[0])
    raise BadRequest(
        f"{column[row].as_py()!r} is no {kind}",
        where=f"spine, column {name!r}, row {row}",
        expected=f"{kind}, as the view's entity is declared",
        next_step="correct the row; rows are counted from 0, without the line of names",
    )


def label_values(column: pa.Array) -> pa.Array:
    """Numbers or booleans where every text is one that loses nothing; else the texts as they
    are."""
    if column.null_count == len(column):
        return column
    for form, kind in ((_PLAIN_WHOLE, LONG), (_PLAIN_NUMBER, DOUBLE), (_BOOLEAN, BOOLEAN)):
        if _fits(column, form).all():
            typed = column.cast(arrow_type(kind))
            return typed if _finite(typed) else column
    return column


def instants_of_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Microseconds where every text is a whole number; else the texts, to be read as RFC 3339."""
    whole = all(_fits(chunk, _WHOLE).all() for chunk in column.chunks)
    try:
        return column.cast(pa.int64()) if whole else column
    except pa.ArrowInvalid:
        return column  # more digits than an instant has: refused with its row, as any other text


def _fits(column: pa.Array, form: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    fits = pc.fill_null(pc.match_substring_regex(column, form), True)
    return np.asarray(fits.to_numpy(zero_copy_only=False), np.bool_)


def _holds(text: pa.Scalar, kind: str) -> bool:
    try:
        return _finite(pa.array([text.as_py()]).cast(arrow_type(kind)))
    except pa.ArrowInvalid:
        return False


def _finite(typed: pa.Array) -> bool:
    """Tells whether no number was too large for its type: texts never say infinity."""
    return not pa.types.is_floating(typed.type) or bool(
        pc.all(pc.fill_null(pc.is_finite(typed), True)).as_py()
    )
