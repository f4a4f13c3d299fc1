"""Numbers of rows and results, by which all windows of all entities are read at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Index:
    """Keys of rows and groups of results, of the plans of one layout side by side.

    A row is read once and counts in several windows: those of its mask. Its key names entity and
    mask. A group is a window of an entity: what its rows are combined to. Groups stand plan by
    plan, in a plan by entity, in an entity by window. Two entities, a plan of the windows a b, and
    one of the windows p q r:

        key     entity * masks + mask

        group   | a0 b0 | a1 b1 | p0 q0 r0 | p1 q1 r1 |
                  0  1    2  3    4  5  6    7  8  9
                  plan of 2       plan of 3
                  before = 0      before = 2: its groups begin at 2 entities * 2 windows = 4

    So group(q, entity 1) = 2 * before + 1 * width + local = 2 * 2 + 1 * 3 + 1 = 8.
    """

    masks: int
    """Number of masks of all the plans."""
    before: Int64
    """Per window the windows of the plans before its own."""
    width: Int64
    """Per window how many its plan has."""
    local: Int64
    """Per window its number in its plan."""

    @staticmethod
    def of(widths: Sequence[int], masks: int) -> Index:
        """widths: per plan its windows."""
        starts = np.cumsum([0, *widths])
        before = np.repeat(starts[:-1], widths)
        width = np.repeat(np.array(widths, np.int64), widths)
        return Index(masks, before, width, np.arange(int(starts[-1])) - before)

    def split(self, keys: Int64) -> tuple[Int64, Int64]:
        """Per key its entity and its mask."""
        return np.divmod(keys, self.masks)

    def groups(self, windows: Int64, owners: Int64, entities: int) -> Int64:
        """Per window and entity the group."""
        groups = owners * self.width[windows]
        groups += (self.before * entities + self.local)[windows]
        return groups

    @cached_property
    def numbers(self) -> list[tuple[int, int, int]]:
        """Per window before, width and local as Python's own numbers."""
        return list(
            zip(self.before.tolist(), self.width.tolist(), self.local.tolist(), strict=True)
        )


@dataclass(frozen=True)
class Slot:
    """Position of a feature's values: in the results of finish `finish`, at its window among the
    groups of its plan."""

    finish: int
    before: int
    """Windows before those of its plan."""
    width: int
    """Windows of its plan."""
    window: int

    def rows(self, entities: int) -> slice:
        """One row per entity."""
        first = entities * self.before
        return slice(first + self.window, first + entities * self.width, self.width)
