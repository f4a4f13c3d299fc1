"""Entities are numbered in the order in which they first appear, by whole columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
NOBODY = ""
"""The one column of a global view's entity, so that its table has rows."""


def numbered(table: pa.Table) -> tuple[Int64, Int64]:
    """Per row the number of its entity, and per number the first row that has it."""
    combined: Int64 | None = None
    for column in table.columns:
        codes, values = _codes(column)
        if combined is not None:
            codes, values = _codes(pa.array(combined * values + codes))
        combined = codes
    assert combined is not None, "a table of entities has a column"
    if not len(combined):
        return combined, combined
    newest = np.maximum.accumulate(combined)
    first = np.flatnonzero(np.diff(newest, prepend=-1)).astype(np.int64)
    return combined, first


def _codes(column: pa.Array | pa.ChunkedArray) -> tuple[Int64, int]:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):  # of no chunks
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    encoded = whole.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), max(1, len(encoded.dictionary))


def same(left: pa.Array, right: pa.Array) -> NDArray[np.bool_]:
    """Per row whether two columns of one type hold the same value, bit for bit; nulls are the
    same."""
    kind = left.type
    if pa.types.is_nested(kind):
        return np.array([str(a) == str(b) for a, b in zip(left, right, strict=True)], np.bool_)
    if pa.types.is_floating(kind):
        bits = pa.int64() if pa.types.is_float64(kind) else pa.int32()
        left, right = left.view(bits), right.view(bits)
    equal = pc.fill_null(pc.equal(left, right), False)
    nulls = pc.and_(left.is_null(), right.is_null())
    return np.asarray(pc.or_(equal, nulls).to_numpy(zero_copy_only=False), np.bool_)
