"""A pentad's total counts only while it names the compacted hours of all its days.

As a day's total (`days`), it is left alone by swaps, and carries the digest of every `c` that it was made from. It
is made of days' totals, so that whichever day of a pentad is totalled last brings it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slicewise import codec
from slicewise.stores.online import keys
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import Change, Fields, KeyChange, Steps, exact
from slicewise.stores.online.stored_unit import StoredUnit
from slicewise.windows.segments import PENTAD_DAYS, PENTAD_US

CHUNK = 256


def total_pentad(generation: int, name: str, unit: StoredUnit, tags: Sequence[bytes], pentad: int) -> Steps[int]:
    """Writes `p` of each entity of which days of the pentad are compacted and all of these totalled; how many."""
    written = 0
    days = range(pentad * PENTAD_DAYS, (pentad + 1) * PENTAD_DAYS)
    expiry = 0 if unit.lifetime else decisions.expiry_s((pentad + 1) * PENTAD_US, unit.retention_us)
    for begin in range(0, len(tags), CHUNK):
        hashes = [[keys.day_key(generation, tag, name, day) for day in days] for tag in tags[begin : begin + CHUNK]]
        replies = yield [Fields(key, (keys.HOURS, keys.TOTAL)) for of in hashes for key in of]
        standing: list[tuple[Sequence[bytes], list[bytes | None]]] = []
        rows: list[codec.Raw] = []
        groups: list[int] = []
        for position, of in enumerate(hashes):
            found = replies[position * PENTAD_DAYS : (position + 1) * PENTAD_DAYS]
            totals = [_row(hours, total) for hours, total in found if hours is not None]
            mine = [row for row in totals if row is not None]
            if mine and len(mine) == len(totals):
                rows += mine
                groups += [len(standing)] * len(mine)
                standing.append((of, [hours for hours, _ in found]))
        if not rows:
            continue
        combined = unit.layout.combine_rows(rows, np.array(groups, np.int64), len(standing))
        done = yield [
            _change(of, covered, codec.pack_day(codec.pentad_digest(covered), row), expiry)
            for (of, covered), row in zip(standing, combined, strict=True)
        ]
        written += sum(reply == 0 for reply in done)
    return written


def _row(hours: bytes, total: bytes | None) -> codec.Raw | None:
    """The row of a day's total, where it is valid."""
    if total is None:
        return None
    day = codec.unpack_day(total)
    return day.row if day.digest == codec.day_digest(hours) else None


def _change(of: Sequence[bytes], covered: Sequence[bytes | None], value: bytes, expiry: int) -> Change:
    """Writes the total into the last day's hash while every day still says the same."""
    checks = [[(keys.HOURS, exact(hours))] for hours in covered]
    last = KeyChange(of[-1], checks[-1], [(keys.PENTAD, value, expiry)])
    return Change((*(KeyChange(key, check) for key, check in zip(of[:-1], checks[:-1], strict=True)), last))
