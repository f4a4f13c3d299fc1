"""A row's mask tells the windows that it counts in; a session takes its own of these rows, by their
spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from slicewise.aggregates.exact.spans import Span
from slicewise.aggregates.kernel.columns import Columns
from slicewise.codec import Layout
from slicewise.reading.index import Index
from slicewise.reading.plan import Int64, ReadPlan
from slicewise.windows.sessions import open_sessions


@dataclass(frozen=True, eq=False)
class Table:
    """Masks of all plans of a layout, side by side."""

    index: Index
    """Numbers of the rows and results of these plans."""
    masks: npt.NDArray[np.bool_]
    """[masks, windows]: which windows each holds."""
    ends_us: Int64
    """Per window its end."""
    gaps_us: Int64
    """Per window the gap of the session that is looked for in it, 0 of other windows."""
    span: int | None = None
    """Partial of the layout that tells first and last event; of layouts with sessions alone."""

    @cached_property
    def windows_of(self) -> tuple[tuple[int, ...], ...]:
        """Per mask its windows."""
        return tuple(tuple(np.flatnonzero(mask).tolist()) for mask in self.masks)

    @staticmethod
    def of(plans: Sequence[ReadPlan]) -> Table:
        widths = [len(plan.intervals) for plan in plans]
        starts = np.cumsum([0, *widths])
        masks = np.zeros((sum(len(plan.masks) for plan in plans), int(starts[-1])), np.bool_)
        row = 0
        for plan, start, width in zip(plans, starts[:-1], widths, strict=True):
            masks[row : row + len(plan.masks), start : start + width] = plan.masks
            row += len(plan.masks)
        ends = np.array([end for plan in plans for _, end in plan.intervals], np.int64)
        gaps = np.array(
            [gap for plan in plans for gap in plan.gaps or [0] * len(plan.intervals)], np.int64
        )
        span = _span_of(plans[0].unit.layout) if gaps.any() else None
        return Table(Index.of(widths, len(masks)), masks, ends, gaps, span)

    def counted(
        self, masks: Int64, owners: Int64, entities: int, decoded: Sequence[Columns]
    ) -> tuple[Int64, Int64, dict[tuple[int, int], int]]:
        """(row, group) of every row in every window that holds it; of each open session, by
        (window, owner), when its first event was. decoded: the rows' partials."""
        taken, window = np.nonzero(self.masks[masks])
        begun: dict[tuple[int, int], int] = {}
        if self.span is not None:
            taken, window, begun = self._in_sessions(taken, window, owners, decoded[self.span])
        return taken, self.index.groups(window, owners[taken], entities), begun

    def _in_sessions(
        self, taken: Int64, window: Int64, owners: Int64, spans: Columns
    ) -> tuple[Int64, Int64, dict[tuple[int, int], int]]:
        """The rows that are left when each session's window holds the rows of the open session
        alone."""
        sessions = np.flatnonzero(self.gaps_us[window])
        row, where = taken[sessions], window[sessions]
        first, last = spans.fixed("first")[row], spans.fixed("last")[row]
        key = owners[row] * len(self.gaps_us) + where
        is_open, begun = open_sessions(key, first, last, self.ends_us[where], self.gaps_us[where])
        kept = np.ones(len(taken), np.bool_)
        kept[sessions] = is_open
        opened = zip(
            where[is_open].tolist(),
            owners[row][is_open].tolist(),
            begun[is_open].tolist(),
            strict=True,
        )
        return taken[kept], window[kept], {(w, owner): at for w, owner, at in opened}


def _span_of(layout: Layout) -> int:
    return next(i for i, partial in enumerate(layout.partials) if isinstance(partial, Span))
