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
    chosen = table.select(list(columns))
    if not columns:
        return Entities((), chosen)
    if len(columns) == 1:  # distinct values come in the order of their first rows
        values = [pc.unique(chosen[name]).drop_null() for name in columns]
        return Entities(tuple(columns), pa.table(values, names=list(columns)))
    codes = _codes([chosen[name] for name in columns])
    _, first = np.unique(codes[codes >= 0], return_index=True)
    first_rows = np.flatnonzero(codes >= 0)[np.sort(first)]
    return Entities(tuple(columns), chosen.take(pa.array(first_rows)))


def _numbers(entities: Entities, table: pa.Table) -> Ints:
    if not entities.columns:
        return np.zeros(table.num_rows, np.int64)
    n = len(entities)
    own, codes = np.zeros(n, np.int64), np.zeros(table.num_rows, np.int64)
    for name in entities.columns:
        distinct = pc.unique(entities.values[name])
        part, other = _index(entities.values[name], distinct), _index(table[name], distinct)
        if len(entities.columns) == 1:
            return other  # as entities are distinct, and in this order
        # Numbered again after each column, so that the product of cardinalities stays small.
        pairs, own = np.unique(own * len(distinct) + part, return_inverse=True)
        wanted = np.where((codes < 0) | (other < 0), UNKNOWN, codes * len(distinct) + other)
        codes = _position(pairs, wanted)
    return np.append(np.argsort(own), UNKNOWN)[codes]


def _index(column: pa.ChunkedArray, distinct: pa.Array) -> Ints:
    """Per row the position of its value among these; UNKNOWN where it is none of them, or null."""
    index = np.empty(len(column), np.int64)
    begin = 0
    for position in pc.index_in(column, value_set=distinct, skip_nulls=True).chunks:
        index[begin : begin + len(position)] = pc.fill_null(position, UNKNOWN)
        begin += len(position)
    return index


def _position(distinct: Ints, wanted: Ints) -> Ints:
    """Per number its position among these, which ascend; UNKNOWN of others."""
    if not len(distinct):
        return np.full(len(wanted), UNKNOWN, np.int64)
    at = np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1)
    return np.where(distinct[at] == wanted, at, UNKNOWN)


def _codes(columns: Sequence[pa.ChunkedArray]) -> Ints:
    """Per row one integer, equal where all the columns are equal; -1 where one of them is null."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        distinct = pc.unique(column).drop_null()
        index = _index(column, distinct)
        both = np.where((codes < 0) | (index < 0), UNKNOWN, codes * len(distinct) + index)
        # Numbered again after each column, so that the product of cardinalities stays small.
        codes = index if len(columns) == 1 else _dense(both)
    return codes


def _dense(codes: Ints) -> Ints:
    """The same numbers as positions among their distinct ones; UNKNOWN stays."""
    distinct, positions = np.unique(codes, return_inverse=True)
    return positions.astype(np.int64) - int(len(distinct) > 0 and distinct[0] == UNKNOWN)
