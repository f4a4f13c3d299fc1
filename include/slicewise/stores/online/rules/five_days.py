"""A five-day total counts only while it names the compacted hours of all its days.

As a day's total (`days`), it is left alone by publishes, and carries the digest of every `c` that
it was made from. It is made of days' totals, so that whichever day of a five-day total is totalled
last brings it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slicewise import codec
from slicewise.stores.online import keys
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import Change, Fields, KeyChange, Steps, exact
from slicewise.stores.online.stored_unit import StoredUnit
from slicewise.windows.segments import FIVE_DAYS, FIVE_DAYS_US

CHUNK = 256


def total_five_days(
    store_id: int, name: str, unit: StoredUnit, tags: Sequence[bytes], five_day: int
) -> Steps[int]:
    """Writes `p` of each entity of which days of the five-day total are compacted and all of these
    totalled; how many."""
    written = 0
    days = range(five_day * FIVE_DAYS, (five_day + 1) * FIVE_DAYS)
    expiry = (
        0 if unit.lifetime else decisions.expiry_s((five_day + 1) * FIVE_DAYS_US, unit.retention_us)
    )
    for begin in range(0, len(tags), CHUNK):
        hashes = [
            [keys.day_key(store_id, tag, name, day) for day in days]
            for tag in tags[begin : begin + CHUNK]
        ]
        replies = yield [Fields(key, (keys.HOURS, keys.TOTAL)) for of in hashes for key in of]
        valid: list[tuple[Sequence[bytes], list[bytes | None]]] = []
        rows: list[codec.Raw] = []
        groups: list[int] = []
        for position, of in enumerate(hashes):
            day_fields = replies[position * FIVE_DAYS : (position + 1) * FIVE_DAYS]
            totals = [_row(hours, total) for hours, total in day_fields if hours is not None]
            own = [row for row in totals if row is not None]
            if own and len(own) == len(totals):
                rows += own
                groups += [len(valid)] * len(own)
                valid.append((of, [hours for hours, _ in day_fields]))
        if not rows:
            continue
        combined = unit.layout.combine_rows(rows, np.array(groups, np.int64), len(valid))
        done = yield [
            _change(of, compacted, codec.pack_day(codec.five_day_digest(compacted), row), expiry)
            for (of, compacted), row in zip(valid, combined, strict=True)
        ]
        written += sum(reply == 0 for reply in done)
    return written


def _row(hours: bytes, total: bytes | None) -> codec.Raw | None:
    """The row of a day's total, where it is valid."""
    if total is None:
        return None
    day = codec.unpack_day(total)
    return day.row if day.digest == codec.day_digest(hours) else None


def _change(
    of: Sequence[bytes], compacted: Sequence[bytes | None], value: bytes, expiry: int
) -> Change:
    """Writes the total into the last day's hash while every day still says the same."""
    checks = [[(keys.HOURS, exact(hours))] for hours in compacted]
    last = KeyChange(of[-1], checks[-1], [(keys.FIVE_DAY_TOTAL, value, expiry)])
    return Change(
        (*(KeyChange(key, check) for key, check in zip(of[:-1], checks[:-1], strict=True)), last)
    )
