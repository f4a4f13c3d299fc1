"""The session that a reader finds in stored slices is the one of the events that its answer
contains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from slicewise.aggregates.exact.counting import Count
from slicewise.aggregates.operations import Finished
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.answer import BatchedPlan, NodeClaims, Stored, merge
from slicewise.reading.plan import plan_read
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.reading import UnitReply
from slicewise.windows.durations import HOUR_US
from slicewise.windows.window import Window
from tests.support.stores.stored import StoreUnit, offset_vector

COUNT = Count().bind({})


class Sessions:
    """Plans of one world, each made once."""

    def __init__(self, start_us: int, end_us: int) -> None:
        self._start_us, self._end_us = start_us, end_us
        self._plans: dict[str, BatchedPlan] = {}

    def plan(self, unit: StoreUnit) -> BatchedPlan:
        """The plan of a session whose gap is the unit's slice, the shortest there can be."""
        cached = self._plans.get(unit.storage_fingerprint)
        if cached is None:
            window = Window("session", self._end_us - self._start_us, gap_us=unit.slice_us)
            plan = plan_read(
                cast(Any, unit), [unit.feature("n", window, COUNT)], "at", self._end_us
            )
            cached = self._plans[unit.storage_fingerprint] = BatchedPlan((plan,))
        return cached

    def wrong(
        self,
        unit: StoreUnit,
        metadata: StoreMetadata,
        reply: UnitReply,
        names: Sequence[bytes],
        offset_vectors: Mapping[int, OffsetVector],
        times_us: Sequence[int],
        has_realtime: bool,
        ends: Sequence[int],
    ) -> str | None:
        """Tells what is wrong with the session read from this reply; names: of its day's fields,
        times: of the entity's events that the answer contains, ends: its base, tailed: whether it
        counts pending fields."""
        batched = self.plan(unit)
        values = dict(zip(names, reply.days[0], strict=True))
        days = [[values[name] for name in day.names] for day in batched.plans[0].days]
        claims = NodeClaims(
            metadata.committed,
            metadata.starts[unit.storage_fingerprint],
            offset_vectors,
            has_realtime,
        )
        merged = merge(batched, [[Stored(0, None, reply.hot, days)]], 1, [claims])
        if merged.base[0][0] != offset_vector(*ends):
            return f"a base of {list(merged.base[0][0].offsets.values())}, where it is {list(ends)}"
        counted = cast(Finished, merged.finished[0]).values.to_pylist()[0]
        got = merged.intervals(0, 0)[0][0], counted
        left, opened = sorted(times_us), [self._end_us]
        while left and opened[-1] - left[-1] < unit.slice_us:
            opened.append(left.pop())
        want = opened[-1] // unit.slice_us * unit.slice_us, len(opened) - 1
        if got == want:
            return None
        hours = [(start - self._start_us) / HOUR_US for start in (got[0], want[0])]
        return (
            f"a session of {got[1]} events from {hours[0]} h on, instead of {want[1]} from "
            f"{hours[1]} h on"
        )
