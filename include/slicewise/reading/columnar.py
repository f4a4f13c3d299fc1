"""A partial without a scalar form is combined as whole columns, beside others that have one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slicewise.aggregates import Ends, Finished
from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.kernel.columns import Columns, Values
from slicewise.aggregates.kernel.fields import Field, Fixed, Items
from slicewise.aggregates.kernel.ragged import Ragged, RaggedBytes, offsets_of
from slicewise.aggregates.scalar import Groups, Run, ScalarForm


class ColumnarState(NamedTuple):
    """One combined partial: a row of some columns."""

    partials: Columns
    row: int


@dataclass(frozen=True, eq=False)
class Columnar:
    """Combines few rows of an aggregate by its column form."""

    aggregate: Aggregate

    def combine(
        self,
        columns: Sequence[Sequence[Any]],
        runs: Sequence[Run],
        groups: Groups,
        cached: Sequence[ColumnarState] = (),
    ) -> list[ColumnarState]:
        """One combined partial per group, as `ScalarForm.combine`."""
        parts = [rows_of(self.aggregate.fields, columns)]
        n, first = parts[0].n, len(runs)
        row_of: list[int] = []
        whole: dict[int, int] = {}
        for state in cached:
            start = whole.get(id(state.partials))
            if start is None:
                start = whole[id(state.partials)] = n
                parts.append(state.partials)
                n += state.partials.n
            row_of.append(start + state.row)
        rows: list[int] = []
        counts: list[int] = []
        for group in groups:
            before = len(rows)
            for run in group:
                if run < first:
                    rows += range(*runs[run])
                else:
                    rows.append(row_of[run - first])
            counts.append(len(rows) - before)
        partials = Columns.concat(parts) if len(parts) > 1 else parts[0]
        if rows != list(range(n)):
            partials = partials.take(np.array(rows, np.int64))
        owners = np.repeat(np.arange(len(groups)), counts)
        combined = self.aggregate.combine_columns(partials, owners, len(groups))
        return [ColumnarState(combined, row) for row in range(len(groups))]

    def finish(self, combined: Sequence[ColumnarState], ends: Ends) -> Finished:
        """The value of each; ends: of its window."""
        parts = list({id(state.partials): state.partials for state in combined}.values())
        partials = Columns.concat(parts) if len(parts) > 1 else parts[0]
        return self.aggregate.finish_columns_at(partials, ends)


Combiner = ScalarForm | Columnar
"""The form in which few rows of a partial are combined."""


def combiner_of(aggregate: Aggregate) -> Combiner:
    """The form of an aggregate: its own, where it has one."""
    return aggregate.scalar or Columnar(aggregate)


def rows_of(fields: Sequence[Field], columns: Sequence[Sequence[Any]]) -> Columns:
    """Partials in column form, from per field its values by row as `ScalarRows.columns` has
    them."""
    n = len(columns[0])
    values: dict[str, Values] = {}
    for field, column in zip(fields, columns, strict=True):
        if isinstance(field, Fixed):
            values[field.name] = np.array(column, field.dtype)
        elif isinstance(field, Items):
            flat = np.frombuffer(b"".join(column), field.numpy)
            lengths = np.fromiter(map(len, column), np.int64, n) // field.numpy.itemsize
            values[field.name] = Ragged(offsets_of(lengths), flat)
        else:
            values[field.name] = RaggedBytes.of(column)
    return Columns(n, values)
