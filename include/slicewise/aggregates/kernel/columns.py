"""Partials in column form: one array per field, all of the same number of rows, never written
to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.kernel.fields import Field, Fixed, Items
from slicewise.aggregates.kernel.ragged import LONG, Int64, Ragged, RaggedBytes, picked
from slicewise.errors import CodecError

Values = NDArray[Any] | Ragged | RaggedBytes


@dataclass(frozen=True, eq=False)
class Columns:
    """n partials of one aggregate: field name -> array [n], `Ragged` or `RaggedBytes` of n rows."""

    n: int
    values: Mapping[str, Values]

    @staticmethod
    def empty(fields: Sequence[Field], n: int) -> Columns:
        """n partials whose fields are all zero and without items."""
        values: dict[str, Values] = {}
        for field in fields:
            if isinstance(field, Fixed):
                values[field.name] = np.zeros(n, field.dtype)
            elif isinstance(field, Items):
                values[field.name] = Ragged.empty(n, field.dtype)
            else:
                values[field.name] = RaggedBytes.empty(n)
        return Columns(n, values)

    def fixed(self, name: str) -> NDArray[Any]:
        """The scalars [n] of a `Fixed` field."""
        values = self.values[name]
        if not isinstance(values, np.ndarray):
            raise TypeError(f"{name} is not a Fixed field")
        return values

    def items(self, name: str) -> Ragged:
        """The lists of an `Items` field."""
        values = self.values[name]
        if not isinstance(values, Ragged):
            raise TypeError(f"{name} is not an Items field")
        return values

    def texts(self, name: str) -> RaggedBytes:
        """The lists of a `Texts` field."""
        values = self.values[name]
        if not isinstance(values, RaggedBytes):
            raise TypeError(f"{name} is not a Texts field")
        return values

    def lists(self, name: str) -> Ragged | RaggedBytes:
        """The lists of an `Items` or `Texts` field."""
        values = self.values[name]
        if isinstance(values, np.ndarray):
            raise TypeError(f"{name} is a Fixed field")
        return values

    def abreast(self, *names: str) -> None:
        """Raises CodecError unless these lists have as many items each, row by row."""
        first = self.lists(names[0]).offsets
        for name in names[1:]:
            offsets = self.lists(name).offsets
            if offsets is not first and not np.array_equal(offsets, first):
                raise CodecError(
                    f"lists {names[0]} and {name} of unlike lengths",
                    expected="one item each per entry",
                )

    def take(self, indices: Int64) -> Columns:
        """These rows, in this order; a row may be taken more than once."""
        taken: dict[str, Values] = {}
        # lists of one length share their offsets, often
        shared: dict[int, tuple[Int64, Int64]] = {}
        for name, values in self.values.items():
            if isinstance(values, np.ndarray):
                taken[name] = values[indices]
                continue
            if isinstance(values, Ragged) and len(values.values) >= LONG * self.n:
                taken[name] = values.take(indices)
                continue
            of = id(values.offsets)
            if of not in shared:
                shared[of] = picked(values.offsets, indices)
            taken[name] = values.gather(*shared[of])
        return Columns(len(indices), taken)

    @staticmethod
    def concat(parts: Sequence[Columns]) -> Columns:
        """All rows of all parts (of one aggregate, at least one part), one after the other."""
        if len(parts) == 1:
            return parts[0]
        joined: dict[str, Values] = {}
        for name, first in parts[0].values.items():
            if isinstance(first, np.ndarray):
                joined[name] = np.concatenate([part.fixed(name) for part in parts])
            elif isinstance(first, Ragged):
                joined[name] = Ragged.concat([part.items(name) for part in parts])
            else:
                joined[name] = RaggedBytes.concat([part.texts(name) for part in parts])
        return Columns(sum(part.n for part in parts), joined)
