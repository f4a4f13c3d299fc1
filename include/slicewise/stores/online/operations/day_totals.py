"""A day total counts only while it names the compacted hours that it is the total of.

Publishing an hour changes `c` and leaves `d` alone; `d` is written under a check of `c`, and
carries its digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slicewise import codec
from slicewise.errors import CodecError, DataLoss
from slicewise.stores.online import keys
from slicewise.stores.online.port import ByTag, NodeContext, Split
from slicewise.stores.online.rules.five_days import total_five_days
from slicewise.stores.online.sharded.routing import by_node
from slicewise.stores.online.steps import MISSED, Change, Fields, KeyChange, Steps, exact
from slicewise.stores.online.stored_unit import StoredUnit
from slicewise.windows.segments import FIVE_DAYS

CHUNK = 1024


@dataclass(frozen=True)
class WriteDayTotals(ByTag[int]):
    """Writes the total of each entity's compacted hours of a day. Where windows are read by five
    days, it writes that total too. Gives how many day totals stand then: one that is valid is left
    as it is."""

    unit: StoredUnit
    tags: Sequence[bytes]
    day: int

    def steps(self, at: NodeContext) -> Steps[int]:
        build = yield from at.build_of(self.unit)
        written = yield from _total_day(at.store_id, build.name, self.unit, self.tags, self.day)
        if self.unit.five_day_totals:
            yield from total_five_days(
                at.store_id, build.name, self.unit, self.tags, self.day // FIVE_DAYS
            )
        return written

    def split(self, count: int) -> Split[int]:
        positions = by_node(self.tags, count)
        return Split(
            {n: replace(self, tags=[self.tags[i] for i in own]) for n, own in positions.items()}
        )

    def join(self, replies: Mapping[int, int], split: Split[int]) -> int:  # noqa: ARG002
        return sum(replies.values())


def _total_day(
    store_id: int, name: str, unit: StoredUnit, tags: Sequence[bytes], day: int
) -> Steps[int]:
    """Writes `d` of each entity that has compacted hours on this day, where none is valid; how many
    are. One whose hours change meanwhile keeps no valid total: the publish's own run writes it
    again."""
    written = 0
    for begin in range(0, len(tags), CHUNK):
        day_keys = [keys.day_key(store_id, tag, name, day) for tag in tags[begin : begin + CHUNK]]
        replies = yield [Fields(key, [keys.HOURS, keys.TOTAL]) for key in day_keys]
        valid = [raw is not None and _is_total_of(total, raw) for raw, total in replies]
        written += sum(valid)
        stored = [
            (key, raw)
            for key, (raw, _), stands in zip(day_keys, replies, valid, strict=True)
            if raw and not stands
        ]
        if not stored:
            continue
        names = [[keys.hour_fields(h)[0] for h in codec.unpack_hours(raw)] for _, raw in stored]
        totals = yield [
            Fields(key, [keys.HOURS, *fields])
            for (key, _), fields in zip(stored, names, strict=True)
        ]
        # Hours published between the two reads: theirs is the run that writes this total.
        unchanged = [i for i, (_, raw) in enumerate(stored) if totals[i][0] == raw]
        rows, groups = [], []
        for position, i in enumerate(unchanged):
            for field, value in zip(names[i], totals[i][1:], strict=True):
                if value is None:
                    raise DataLoss(
                        f"{field.decode()} is gone though its hour counts as compacted",
                        where=stored[i][0].decode(),
                        next_step="recompute the hour: compact_slices with from_raw",
                    )
                rows.append(codec.unpack_total(value).row)
                groups.append(position)
        if not rows:
            continue
        combined = unit.layout.combine_rows(rows, np.array(groups, np.int64), len(unchanged))
        done = yield [
            Change(
                (
                    KeyChange(
                        stored[i][0],
                        [(keys.HOURS, exact(stored[i][1]))],
                        [(keys.TOTAL, codec.pack_day(codec.day_digest(stored[i][1]), row), 0)],
                    ),
                )
            )
            for i, row in zip(unchanged, combined, strict=True)
        ]
        written += sum(reply != MISSED for reply in done)
    return written


def _is_total_of(total: bytes | None, hours: bytes) -> bool:
    """Tells whether a day's total is whole, and of these hours."""
    if total is None or not total.startswith(codec.day_digest(hours)):
        return False
    try:
        codec.unpack_day(total)
    except CodecError:
        return False  # damaged: it is written again
    return True
