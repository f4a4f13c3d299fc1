"""Values that shares left are brought together run by run, in the order of the spine, or refused
whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slicewise.errors import DataLoss
from slicewise.training.scaled.request import ROW, ScaledRequest
from slicewise.training.scaled.share import read_errors, read_run
from slicewise.training.writing import RUN_ROWS


@dataclass(frozen=True)
class ScaledValues:
    """Values of a request that was answered."""

    request: ScaledRequest

    def errors(self) -> dict[str, int]:
        """Ref -> number of values that are null because of an error, in the features' order."""
        counted: dict[str, int] = {}
        for position in range(len(self.request.requested)):
            counted |= read_errors(self.request.values(position))
        return {ref: counted[ref] for ref in self.request.features if ref in counted}

    def runs(self, spine: pa.Table) -> Iterator[pa.Table]:
        """The spine with its values, run by run. Raises DataLoss where a row has no value, or
        two."""
        for number, begin in enumerate(range(0, self.request.rows, RUN_ROWS)):
            table = spine.slice(begin, RUN_ROWS)
            columns: dict[str, pa.ChunkedArray] = {}
            for position in range(len(self.request.requested)):
                values = self._values(position, number, begin, table.num_rows)
                columns |= {name: values[name] for name in values.column_names if name != ROW}
            for ref in self.request.features:
                table = table.append_column(ref, columns[ref])
            yield table.combine_chunks()

    def _values(self, position: int, number: int, begin: int, rows: int) -> pa.Table:
        values = read_run(self.request.values(position), number)
        if values is not None:
            wanted = np.arange(begin, begin + rows)
            if np.array_equal(np.asarray(values[ROW].to_numpy()), wanted):
                return values
        raise DataLoss(
            f"Spark did not answer every row from row {begin:,} on once",
            where=f"view {self.request.requested[position].view}",
            expected=f"values of {rows:,} rows",
            next_step="build the data set again",
        )
