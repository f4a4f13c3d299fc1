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
import pyarrow.compute as pc

from slicewise.checks.judges import END, Row, exact, judged
from slicewise.checks.recompute.queries import Aggregated, sum_in_python
from slicewise.checks.values import canonical
from slicewise.features.schema.types import DOUBLE

ABSOLUTE = "absolute_sum"
"""Kind of what is asked beside a sum of doubles: Σ|x|."""
SCHEMA = "w bigint, number int, value binary"
_SCHEMA = pa.schema([("w", pa.int64()), ("number", pa.int32()), ("value", pa.binary())])
_MOST_VALUES = 10_000
"""Values that are handed on together."""
IDENTITY = ("t", "topic_id", "p", "o")
"""Columns of a row that judges read beside its values."""
Columns = Mapping[str, list[Any]]
"""The rows of a window, by column."""


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
        ws: list[int] = []
        numbers: list[int] = []
        values: list[bytes] = []
        for w, rows in _by_window(batches):
            wanted = self.wanted.get(w, ())
            ws += [w] * len(wanted)
            numbers += wanted
            values += map(canonical, self._values(w, rows, wanted))
            if len(values) >= _MOST_VALUES:
                yield _answers(ws, numbers, values)
                ws, numbers, values = [], [], []
        if values:
            yield _answers(ws, numbers, values)

    def _values(self, w: int, rows: Columns, numbers: Sequence[int]) -> Iterator[Any]:
        judges: list[Row] | None = None
        columns: dict[str, list[Any]] = {}
        for number in numbers:
            aggregate = self.aggregates[number]
            if aggregate.kind == ABSOLUTE or sum_in_python(aggregate, self.kinds):
                column = aggregate["column"]
                if column not in columns:
                    columns[column] = [value for value in rows[f"v_{column}"] if value is not None]
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


def _answers(ws: list[int], numbers: list[int], values: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(ws, pa.int64()), pa.array(numbers, pa.int32()), pa.array(values, pa.binary())],
        schema=_SCHEMA,
    )


def _by_window(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Columns]]:
    """The rows of each window; batches hold several windows, and a window may go on in the next
    ones."""
    open_w: int | None = None
    rows: dict[str, list[Any]] = {}
    for batch in batches:
        ws = batch.column("w").to_numpy()
        names = [name for name in batch.schema.names if name != "w"]
        columns = [_listed(batch.column(name)) for name in names]
        starts = [0, *(np.flatnonzero(np.diff(ws)) + 1).tolist()] if len(ws) else []
        for start, end in pairwise([*starts, len(ws)]):
            w = int(ws[start])
            some = {name: column[start:end] for name, column in zip(names, columns, strict=True)}
            if w == open_w:
                for name in names:
                    rows[name] += some[name]
                continue
            if open_w is not None:
                yield open_w, rows
            open_w, rows = w, some
    if open_w is not None:
        yield open_w, rows


def _listed(column: pa.Array) -> list[Any]:
    """The values of a whole column as Python's; numbers without a null the fast way."""
    kind = column.type
    numbers = pa.types.is_integer(kind) or pa.types.is_float64(kind)
    if numbers and not column.null_count:
        return list(column.to_numpy().tolist())
    if pa.types.is_string(kind):  # of which many are the same
        entries = column.dictionary_encode()
        texts = [*entries.dictionary.to_pylist(), None]
        return [texts[at] for at in pc.fill_null(entries.indices, -1).to_numpy().tolist()]
    return list(column.to_pylist())


def _judged_rows(rows: Columns) -> list[Row]:
    columns = {
        name.removeprefix("v_"): values for name, values in rows.items() if name.startswith("v_")
    }
    identity = list(zip(*(rows[name] for name in IDENTITY), strict=True))
    values = zip(*columns.values(), strict=True) if columns else ((),) * len(identity)
    return [
        Row._make((*own, dict(zip(columns, row, strict=True))))
        for own, row in zip(identity, values, strict=True)
    ]


def _decimal_mean(values: Sequence[Decimal]) -> Decimal | None:
    if not values:
        return None
    exponent = values[0].as_tuple().exponent
    assert isinstance(exponent, int)
    return exact.mean_decimals(values, 4 - exponent)
