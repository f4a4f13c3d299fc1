"""A question as whole columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slicewise.training.answering.knowledge import TokenOffsets
from slicewise.training.ranges import Ints
from slicewise.windows.bounds import Mode

Bounds = tuple[Ints, Ints]


@dataclass(frozen=True)
class Question:
    """Question about features: per row the entity's number (negative: unknown), and bounds per
    feature column.

    offset_vectors: each row's knowledge; None where all events at hand are known. mode: by which
    the bounds were made; those of exact windows are the same in every mode.
    """

    entity: Ints
    bounds: Mapping[str, Bounds]
    offset_vectors: TokenOffsets | None = None
    mode: Mode = "event_time"

    def slice(self, first: int, beyond: int) -> Question:
        """The rows from one to another."""
        own = slice(first, beyond)
        vectors = self.offset_vectors
        return Question(
            self.entity[own],
            {name: (start[own], end[own]) for name, (start, end) in self.bounds.items()},
            vectors and vectors.take(np.arange(first, beyond, dtype=np.int64)),
            self.mode,
        )

    def take(self, rows: Ints) -> Question:
        """These rows, in this order."""
        return Question(
            self.entity[rows],
            {name: (start[rows], end[rows]) for name, (start, end) in self.bounds.items()},
            None if self.offset_vectors is None else self.offset_vectors.take(rows),
            self.mode,
        )
