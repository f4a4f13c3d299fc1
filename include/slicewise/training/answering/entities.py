"""An entity has one number, whichever table names it, and equal values of its columns are one
entity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.training.ranges import Ints

UNKNOWN = -1


@dataclass(frozen=True)
class Entities:
    """The distinct entities of a table, numbered from 0 in the order of their first row.

    values: one row per entity, its columns in the given order. With no columns (a global view)
    there is exactly one entity.
    """

    columns: tuple[str, ...]
    values: pa.Table

    def __len__(self) -> int:
        return self.values.num_rows if self.columns else 1

    def numbers(self, table: pa.Table) -> Ints:
        """Per row of the table the entity's number; UNKNOWN where it is none of these or has a
        null."""
        return _numbers(self, table)


def entities_of(table: pa.Table, columns: Sequence[str]) -> Entities:
    """The distinct entities of a table's rows; rows with a null in a column name none."""
    chosen = table.select(list(columns)).combine_chunks()
    if not columns:
        return Entities((), chosen)
    codes = _codes([chosen[name] for name in columns])
    _, first = np.unique(codes[codes >= 0], return_index=True)
    first_rows = np.flatnonzero(codes >= 0)[np.sort(first)]
    return Entities(tuple(columns), chosen.take(pa.array(first_rows)))


def _numbers(entities: Entities, table: pa.Table) -> Ints:
    if not entities.columns:
        return np.zeros(table.num_rows, np.int64)
    n = len(entities)
    both = [
        pa.chunked_array(
            [*entities.values[name].chunks, *table[name].chunks], type=entities.values[name].type
        )
        for name in entities.columns
    ]
    codes = _codes(both)
    if not n:
        return np.full(table.num_rows, UNKNOWN, np.int64)
    order = np.argsort(codes[:n], kind="stable")
    at = np.searchsorted(codes[:n], codes[n:], sorter=order)
    nearest = order[np.minimum(at, n - 1)]
    return np.where((codes[n:] >= 0) & (codes[nearest] == codes[n:]), nearest, UNKNOWN).astype(
        np.int64
    )


def _codes(columns: Sequence[pa.ChunkedArray]) -> Ints:
    """Per row one integer, equal where all the columns are equal; -1 where one of them is null."""
    codes = np.zeros(len(columns[0]), np.int64)
    null = np.zeros(len(codes), np.bool_)
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        index = encoded.indices
        null |= index.is_null().to_numpy(zero_copy_only=False)
        part = pc.fill_null(index, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        # Dense again after each column, so that the product of cardinalities stays small.
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + part, return_inverse=True)
        codes = codes.astype(np.int64)
    return np.where(null, -1, codes)
