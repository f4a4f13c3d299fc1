"""An entity's hour is compacted or running, never both: one change moves it.

The change deletes what the compacted hour contains and keeps what lies beyond its cover; where a
running partial straddles the cover, the entity is left over for a later cover. Tail fields stay until
the fold passes them: readers know what the hour contains, and a token would go back without them (docs/adr/0050).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from slicewise import codec
from slicewise.errors import CodecError
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.port import HourEntry, PublishOutcome, StoredUnit
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.rules.decisions import PublishDecision, Running
from slicewise.stores.online.steps import (
    ABSENT,
    ATTEMPTS,
    MISSED,
    Change,
    Command,
    Fields,
    KeyChange,
    Steps,
    Whole,
    begins,
    contended,
    exact,
)
from slicewise.windows.slices import DAY_US, HOUR_US

CHUNK = 1024
"""Entities of one pipeline."""
_HEADER = struct.Struct("<qq")
_SEQ = struct.Struct("<Q")


def swap(
    generation: int,
    name: str,
    unit: StoredUnit,
    hour: int,
    seq: int,
    cover: OffsetVector,
    entries: Sequence[HourEntry],
) -> Steps[PublishOutcome]:
    """Moves the entries of one compacted hour in; idempotent, safe beside folds and other swaps."""
    swapped = stale = expired = 0
    left_over: list[int] = []
    for begin in range(0, len(entries), CHUNK):
        todo = list(range(begin, min(begin + CHUNK, len(entries))))
        for _ in range(ATTEMPTS):
            reads: list[Command] = []
            for i in todo:
                hot, day = _keys(generation, name, hour, entries[i])
                reads += [Whole(hot), Fields(day, [keys.HOURS])]
            replies = yield reads
            wanted: list[Change] = []
            owners: list[int] = []
            for position, i in enumerate(todo):
                flat, (hours,) = replies[2 * position], replies[2 * position + 1]
                action, change = _entity(generation, name, unit, hour, seq, cover, entries[i], flat, hours)
                if change is not None:
                    wanted.append(change)
                    owners.append(i)
                elif action is PublishDecision.STALE:
                    stale += 1
                else:
                    left_over.append(i)
            done = (yield wanted) if wanted else []
            todo = []
            for i, reply in zip(owners, done, strict=True):
                if reply == MISSED:
                    todo.append(i)
                elif reply:
                    expired += 1
                else:
                    swapped += 1
            if not todo:
                break
        else:
            raise contended(f"unit {unit.storage_fingerprint} hour {hour}")
    return PublishOutcome(swapped, stale, expired, tuple(sorted(left_over)))


def _keys(generation: int, name: str, hour: int, entry: HourEntry) -> tuple[bytes, bytes]:
    day = hour * HOUR_US // DAY_US
    return keys.hot_key(generation, entry.tag, name), keys.day_key(generation, entry.tag, name, day)


def _entity(
    generation: int,
    name: str,
    unit: StoredUnit,
    hour: int,
    seq: int,
    cover: OffsetVector,
    entry: HourEntry,
    flat: Sequence[bytes],
    raw_hours: bytes | None,
) -> tuple[PublishDecision, Change | None]:
    named = [value for value in (entry.total, entry.slices, entry.minutes) if value is not None]
    if any(_SEQ.unpack_from(value)[0] != seq for value in named):
        raise CodecError(f"a value of another seq than {seq}", where=f"hour {hour}")
    hours = codec.unpack_hours(raw_hours)
    running, guards, total = hot_fields(flat, unit.slice_us, range(hour, hour + 1))
    if total is not None and hour < codec.unpack_lifetime(total).horizon:
        return PublishDecision.STALE, None  # it is in the total
    action, deletes = decisions.swap_decision(seq, cover, hours.get(hour), running)
    if action is not PublishDecision.SWAP:
        return action, None
    # A fold that brings anything in moves its place's guard: while the guards stand, so do the
    # running partials. Places beyond the cover cannot matter.
    checks = standing(guards, cover)
    if unit.lifetime:
        checks.append((keys.LIFETIME, ABSENT if total is None else begins(total[: codec.LIFETIME_HEAD])))
    total, slices, minutes = keys.hour_fields(hour)
    expiry = 0 if unit.lifetime else decisions.expiry_s((hour + 1) * HOUR_US, unit.retention_us)
    sets = [
        (total, entry.total, expiry),
        (slices, entry.slices, expiry),
        (keys.HOURS, codec.pack_hours({**hours, hour: seq}), expiry),
    ]
    if entry.minutes is not None:
        sets.append((minutes, entry.minutes, expiry))
    hot, day = _keys(generation, name, hour, entry)
    changes = [
        KeyChange(
            day,
            [(keys.HOURS, exact(raw_hours))],
            sets,
            [minutes] if entry.minutes is None else [],
        )
    ]
    if checks:
        changes.append(KeyChange(hot, checks, (), deletes))
    return action, Change(tuple(changes))


def standing(guards: dict[bytes, bytes], cover: OffsetVector) -> list[tuple[bytes, bytes]]:
    """That no guard moved, of no place that a cover names or the entity knows."""
    return [(field, exact(guards.get(field))) for field in sorted({*guards, *map(keys.guard_field, cover)})]


def hot_fields(
    flat: Sequence[bytes], slice_us: int, hours: range
) -> tuple[list[Running], dict[bytes, bytes], bytes | None]:
    """Running partials of these hours, all guards, and the total."""
    running, guards, total = [], {}, None
    for field, value in zip(flat[::2], flat[1::2], strict=True):
        kind = field[:2]
        if kind == b"l:":
            guards[field] = value
        elif kind == b"r:":
            _, number, topic, partition = field.split(b":")
            if decisions.hour_of(int(number), slice_us) in hours:
                first, last = _HEADER.unpack_from(value)
                running.append(Running(field, keys.parse_place(topic, partition), first, last))
        elif field == keys.LIFETIME:
            total = value
    return running, guards, total
