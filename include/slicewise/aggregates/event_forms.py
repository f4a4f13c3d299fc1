"""Events that no partial holds yet become one state: of a few as Python's own numbers, of many as
arrays, to the same bits.

Both forms have the same methods, so that an aggregate's `scalar_of` is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.kernel.fields import SIGN_BIT

Values = list[Any] | NDArray[Any]


@dataclass(frozen=True, eq=False)
class ScalarEvents:
    """Some events as Python's own numbers, in any order."""

    identities: Sequence[bytes]
    columns: Mapping[str, Sequence[Any]]
    """Stored values, None for null; of text, decimals and arrays only their bytes' number."""

    def __len__(self) -> int:
        return len(self.identities)

    def given(self, column: str) -> list[Any]:
        """The values of a column that are not null."""
        return [value for value in self.columns[column] if value is not None]

    def span(self) -> tuple[int, int]:
        """Times of the earliest and the latest, in microseconds; requires an event."""
        first, last = min(self.identities), max(self.identities)
        return int.from_bytes(first[:8], "big") - SIGN_BIT, int.from_bytes(
            last[:8], "big"
        ) - SIGN_BIT

    def outermost(self, column: str, newest: bool) -> tuple[bytes, Any] | None:
        """Identity and value of the latest, or earliest, whose value is not null."""
        both = zip(self.identities, self.columns[column], strict=True)
        best: Callable[..., tuple[bytes, Any] | None] = max if newest else min
        return best([entry for entry in both if entry[1] is not None], default=None)

    def only(self, condition: str) -> ScalarEvents:
        """The events for which a boolean column is true."""
        return self.where(self.columns[condition])

    def where(self, true: Sequence[Any]) -> ScalarEvents:
        """The events for which it is true."""
        if all(true):
            return self
        return ScalarEvents(
            list(compress(self.identities, true)),
            {name: list(compress(v, true)) for name, v in self.columns.items()},
        )


@dataclass(frozen=True, eq=False)
class ColumnarEvents:
    """The same as arrays."""

    identities: NDArray[np.void]
    """Identities, of dtype IDENTITY."""
    columns: Mapping[str, tuple[NDArray[Any], NDArray[np.bool_] | None]]
    """Stored values, and which of them are no null: None where all are."""

    def __len__(self) -> int:
        return len(self.identities)

    def given(self, column: str) -> NDArray[Any]:
        """The column's values, as `ScalarEvents.given`."""
        values, valid = self.columns[column]
        return values if valid is None else values[valid]

    def span(self) -> tuple[int, int]:
        """The first and the last instant, as `ScalarEvents.span`."""
        times = self.identities["time"]
        return int(times.min()) - SIGN_BIT, int(times.max()) - SIGN_BIT

    def outermost(self, column: str, newest: bool) -> tuple[bytes, Any] | None:
        """The first or the last event that has the column, as `ScalarEvents.outermost`."""
        values, valid = self.columns[column]
        at = np.arange(len(values)) if valid is None else np.flatnonzero(valid)
        if len(at) == 0:
            return None
        times = self.identities["time"][at]
        ties = at[times == (times.max() if newest else times.min())].tolist()
        best: Any = max if newest else min
        # of one time they are few: bytes of identities compare as the total order
        identity, row = best([(self.identities[row].tobytes(), row) for row in ties])
        return identity, values[row].item()

    def only(self, condition: str) -> ColumnarEvents:
        """The events for which a boolean column is true, as `ScalarEvents.only`."""
        values, valid = self.columns[condition]
        return self.where(values != 0 if valid is None else valid & (values != 0))

    def where(self, true: NDArray[np.bool_]) -> ColumnarEvents:
        """The events for which it is true, as `ScalarEvents.where`."""
        if true.all():
            return self
        return ColumnarEvents(
            self.identities[true],
            {
                name: (values[true], None if valid is None else valid[true])
                for name, (values, valid) in self.columns.items()
            },
        )


ScalarOf = Callable[[ScalarEvents | ColumnarEvents], Any]
"""Some events -> a state as `ScalarForm.combine` takes it."""
