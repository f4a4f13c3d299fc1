"""The part of the recomputation that Spark's Python workers do: exact sums and judges, all of a
window at once.

Rows come sorted by window, so that one round over a unit's rows serves every aggregate that SQL
cannot answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.checks.judges import END, Row, exact, judged
from slicewise.checks.recompute.queries import Aggregated, sum_in_python
from slicewise.checks.values import canonical
from slicewise.features.schema.types import DOUBLE

ABSOLUTE = "absolute_sum"
"""Kind of what is asked beside a sum of doubles: Σ|x|."""
SCHEMA = "w bigint, number int, value binary"
_SCHEMA = pa.schema([("w", pa.int64()), ("number", pa.int32()), ("value", pa.binary())])
IDENTITY = ("t", "topic_id", "p", "o")
"""Columns of a row that judges read beside its values."""


@dataclass(frozen=True)
class InPython:
    """Called by Spark's workers with their rows: per window and number of an aggregate its value's
    canonical bytes.

    wanted: of each window that is asked the aggregates' numbers. ages_from: of each the instant
    that ages are counted from, in microseconds.
    """

    aggregates: Sequence[Aggregated]
    kinds: Mapping[str, str]
    wanted: Mapping[int, Sequence[int]]
    ages_from: Mapping[int, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for w, rows in _by_window(batches):
            numbers = self.wanted.get(w, ())
            if numbers:
                values = [canonical(value) for value in self._values(w, rows, numbers)]
                columns = [pa.array([w] * len(values), pa.int64()), pa.array(numbers, pa.int32())]
                yield pa.RecordBatch.from_arrays(
                    [*columns, pa.array(values, pa.binary())], schema=_SCHEMA
                )

    def _values(self, w: int, rows: pa.Table, numbers: Sequence[int]) -> Iterator[Any]:
        judges: list[Row] | None = None
        columns: dict[str, list[Any]] = {}
        for number in numbers:
            aggregate = self.aggregates[number]
            if aggregate.kind == ABSOLUTE or sum_in_python(aggregate, self.kinds):
                column = aggregate["column"]
                if column not in columns:
                    columns[column] = _present(rows[f"v_{column}"])
                yield self._sum(aggregate, columns[column])
            else:
                if judges is None:
                    judges = _judged_rows(rows)
                yield judged(judges, {**aggregate.parameters, END: self.ages_from[w]})

    def _sum(self, aggregate: Aggregated, values: Sequence[Any]) -> Any:
        if aggregate.kind == ABSOLUTE:
            return exact.absolute_sum(values)
        if self.kinds[aggregate["column"]] == DOUBLE:
            return (
                exact.sum_doubles(values) if aggregate.kind == "sum" else exact.mean_doubles(values)
            )
        return exact.sum_decimals(values) if aggregate.kind == "sum" else _decimal_mean(values)


def _by_window(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each window; batches hold several windows, and a window may go on in the next
    ones."""
    open_w: int | None = None
    parts: list[pa.RecordBatch] = []
    for batch in batches:
        ws = batch.column("w").to_numpy()
        starts = [0, *(np.flatnonzero(np.diff(ws)) + 1).tolist()] if len(ws) else []
        for start, end in pairwise([*starts, len(ws)]):
            w = int(ws[start])
            if w != open_w and open_w is not None:
                yield open_w, pa.Table.from_batches(parts)
                parts = []
            open_w = w
            parts.append(batch.slice(start, end - start))
    if open_w is not None:
        yield open_w, pa.Table.from_batches(parts)


def _present(column: pa.ChunkedArray) -> list[Any]:
    """The values that are not null."""
    present = column.drop_null()
    values: list[Any] = (
        present.to_numpy().tolist() if pa.types.is_float64(column.type) else present.to_pylist()
    )
    return values


def _judged_rows(rows: pa.Table) -> list[Row]:
    names = [name for name in rows.column_names if name.startswith("v_")]
    columns = [name.removeprefix("v_") for name in names]
    values = (
        zip(*(rows[name].to_pylist() for name in names), strict=True)
        if names
        else ((),) * rows.num_rows
    )
    identity = zip(*(rows[name].to_pylist() for name in IDENTITY), strict=True)
    return [
        Row(t, topic, partition, offset, dict(zip(columns, row, strict=True)))
        for (t, topic, partition, offset), row in zip(identity, values, strict=True)
    ]


def _decimal_mean(values: Sequence[Decimal]) -> Decimal | None:
    if not values:
        return None
    exponent = values[0].as_tuple().exponent
    assert isinstance(exponent, int)
    return exact.mean_decimals(values, 4 - exponent)
