"""A stored form says which fields a partial has; aggregates of one form share one stored
partial."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from slicewise.aggregates.definition import Definition
from slicewise.aggregates.kernel.columns import Columns, Values
from slicewise.aggregates.kernel.fields import Field, Fixed, Items
from slicewise.aggregates.kernel.ragged import Int64, Ragged, RaggedBytes

State = tuple[Any, ...]
"""A partial in row form: one Python value per field (int or float, tuple of items, tuple of
bytes)."""


@dataclass(frozen=True)
class StoredForm(Definition):
    """The second of an aggregate's three contracts: the partial as data, of a bound aggregate.

    No primitive sees an event: a form follows from parameters and column types alone.
    """

    semantic_version: ClassVar[int] = 1
    """Raised where equal events are stored as other bytes than before: part of the storage
    fingerprint."""

    # ---------------------------------------------------------------- required
    @abstractmethod
    def stored(self) -> Mapping[str, Any]:
        """The form's name and the parameters that the partial depends on, as JSON values.

        Required. Law: two aggregates that say the same here, over columns of the same names and
        types, accumulate and combine to the same bytes. Parameters of finishing alone are left out.
        """

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """Names and types of the partial's fields, in their stored order.

        Required. Law: every partial has exactly these fields; equal multisets of events have equal
        bytes in each.
        """

    # ---------------------------------------------------------------- optional
    @property
    def most_items(self) -> int:
        """The most items that its parameters allow in a list among `fields`. Optional; by default
        no bound."""
        return 2**63 - 1

    def longest(self, events: int) -> Mapping[str, int]:
        """The most items of each list among `fields`, by name, in a partial of so many events.

        Optional; by default an item per event, at most `most_items`. Law: no partial of so many
        events has a longer list. Costs and row sizes are planned by it.
        """
        return {
            f.name: min(events, self.most_items) for f in self.fields if not isinstance(f, Fixed)
        }

    # ---------------------------------------------------------------- derived
    def partial_id(self) -> str:
        """Canonical text of what is stored: form, parameters, column types, semantic version.

        Derived from `stored`. Aggregates with one partial_id share one partial: sum and mean of a
        column do.
        """
        return self._partial_id

    @cached_property
    def _partial_id(self) -> str:
        types = {column: str(self.type_of(column)) for column in self.inputs}
        whole = {**self.stored(), "columns": types, "version": self.semantic_version}
        return json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def empty(self) -> State:
        """The partial of no events, in row form: every number 0, every list empty.

        Derived from `fields`. Law: it is the identity of `combine`.
        """
        return tuple(
            np.dtype(f.dtype).type(0).item() if isinstance(f, Fixed) else () for f in self.fields
        )

    def to_columns(self, states: Sequence[State]) -> Columns:
        """The column form of these partials. Derived from `fields`; `states` stay as they are."""
        values: dict[str, Values] = {}
        for i, f in enumerate(self.fields):
            column = [state[i] for state in states]
            if isinstance(f, Fixed):
                values[f.name] = np.array(column, f.dtype)
            elif isinstance(f, Items):
                values[f.name] = Ragged.of(column, f.dtype)
            else:
                values[f.name] = RaggedBytes.of(column)
        return Columns(len(states), values)

    def from_columns(self, partials: Columns) -> list[State]:
        """The row form of these partials. Derived from `fields`. Law: the inverse of
        `to_columns`."""
        columns: list[list[Any]] = []
        for f in self.fields:
            if isinstance(f, Fixed):
                columns.append(partials.fixed(f.name).tolist())
            elif isinstance(f, Items):
                lists = partials.items(f.name)
                columns.append(_split(lists.values.tolist(), lists.offsets))
            else:
                texts = partials.texts(f.name)
                columns.append(_split(texts.strings().to_pylist(), texts.offsets))
        return list(zip(*columns, strict=True))


def _split(flat: list[Any], offsets: Int64) -> list[tuple[Any, ...]]:
    bounds = offsets.tolist()
    return [tuple(flat[a:b]) for a, b in pairwise(bounds)]
