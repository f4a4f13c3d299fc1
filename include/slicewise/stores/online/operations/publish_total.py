"""An entity's hour is in its total, in its day or running, never in two of them: one change moves it.

The total `t` stands in the hot hash, which of such a unit never expires: horizon, archive seq, row. It holds exactly
the entity's events of hours before the horizon below the cover of the seq; docs/adr/0042.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from slicewise import codec
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.operations.publish_hour import hot_fields, standing
from slicewise.stores.online.port import LifetimeEntry, PublishOutcome, StoredUnit
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.rules.decisions import PublishDecision
from slicewise.stores.online.steps import (
    ATTEMPTS,
    MISSED,
    Change,
    Command,
    Fields,
    KeyChange,
    Steps,
    Whole,
    contended,
    exact,
)
from slicewise.windows.slices import HOUR_US

CHUNK = 1024
"""Entities of one pipeline."""
_FIRST_HOUR = -(1 << 40)
"""Before any event."""


def bring(
    generation: int,
    name: str,
    unit: StoredUnit,
    horizon: int,
    seq: int,
    cover: OffsetVector,
    entries: Sequence[LifetimeEntry],
    days: Sequence[int],
) -> Steps[PublishOutcome]:
    """Hours before the horizon go into the entities' totals, and out of the hashes of these days and of what is
    running; idempotent, safe beside folds, swaps and other runs of itself."""
    decisions.check_horizon(horizon)
    days = [day for day in days if day * decisions.HOURS_PER_DAY < horizon]
    brought = stale = 0
    left_over: list[int] = []
    for begin in range(0, len(entries), CHUNK):
        todo = list(range(begin, min(begin + CHUNK, len(entries))))
        for _ in range(ATTEMPTS):
            reads: list[Command] = []
            for i in todo:
                reads.append(Whole(keys.hot_key(generation, entries[i].tag, name)))
                reads += [Fields(keys.day_key(generation, entries[i].tag, name, day), [keys.HOURS]) for day in days]
            replies = yield reads
            width = 1 + len(days)
            fit: list[tuple[int, list[tuple[bytes, bytes]], tuple[bytes, ...], bytes | None, list[bytes | None]]] = []
            for position, i in enumerate(todo):
                flat, *found = replies[position * width : (position + 1) * width]
                running, guards, total = hot_fields(flat, unit.slice_us, range(_FIRST_HOUR, horizon))
                stands = None if total is None else codec.unpack_lifetime(total)[:2]
                compacted = [codec.unpack_hours(raw).values() for (raw,) in found]
                action, deletes = decisions.lifetime_decision(
                    horizon, seq, cover, entries[i].since, stands, chain.from_iterable(compacted), running
                )
                if action is PublishDecision.SWAP:
                    fit.append((i, standing(guards, cover), deletes, total, [raw for (raw,) in found]))
                elif action is PublishDecision.STALE:
                    stale += 1
                else:
                    left_over.append(i)
            rows = _rows(unit, [(entries[i], total) for i, _, _, total, _ in fit])
            changes = []
            for (i, checks, deletes, total, raws), row in zip(fit, rows, strict=True):
                tag = entries[i].tag
                hot = KeyChange(
                    keys.hot_key(generation, tag, name),
                    [*checks, (keys.LIFETIME, exact(total))],
                    [(keys.LIFETIME, codec.pack_lifetime(horizon, seq, row), 0)],
                    deletes,
                )
                held = [(keys.day_key(generation, tag, name, d), raw) for d, raw in zip(days, raws, strict=True) if raw]
                changes.append(Change((hot, *(_emptied(key, raw) for key, raw in held))))
            done = (yield changes) if changes else []
            todo = [i for (i, *_), reply in zip(fit, done, strict=True) if reply == MISSED]
            brought += len(fit) - len(todo)
            if not todo:
                break
        else:
            raise contended(f"totals of unit {unit.storage_fingerprint}")
    return PublishOutcome(brought, stale, 0, tuple(sorted(left_over)))


def _emptied(day: bytes, raw: bytes) -> KeyChange:
    fields = chain.from_iterable(keys.hour_fields(hour) for hour in codec.unpack_hours(raw))
    return KeyChange(day, [(keys.HOURS, exact(raw))], (), [*fields, keys.HOURS, keys.TOTAL, keys.PENTAD])


def _rows(unit: StoredUnit, wanted: Sequence[tuple[LifetimeEntry, bytes | None]]) -> list[bytes]:
    """Per entry its row, with what stands where it is of later hours alone."""
    rows = [entry.row for entry, _ in wanted]
    added = [(i, total) for i, (e, total) in enumerate(wanted) if e.since is not None and total is not None]
    if not added:
        return rows
    blocks: list[codec.Raw] = [rows[i] for i, _ in added]
    blocks += [codec.unpack_lifetime(total).row for _, total in added]
    into = np.tile(np.arange(len(added), dtype=np.int64), 2)
    for (i, _), row in zip(added, unit.layout.combine_rows(blocks, into, len(added)), strict=True):
        rows[i] = row
    return rows


def first_horizon(now_us: int, retention_us: int) -> int:
    """The hour before which totals may reach: the first of a day that lies wholly before what a read may cut."""
    day_us = decisions.HOURS_PER_DAY * HOUR_US
    return (now_us - retention_us) // day_us * decisions.HOURS_PER_DAY
