"""Bytes and reads of a unit are counted from its definition, before anything is stored."""

from __future__ import annotations

import math

import numpy as np

from slicewise.aggregates import Fixed, Items, Texts
from slicewise.codec import Layout
from slicewise.features.plan.changes.reads import fields_of_all
from slicewise.features.plan.unit import ListUnit, StorageUnit
from slicewise.features.schema.dedupe import EventIds
from slicewise.windows.durations import DAY_US, HOUR_US
from slicewise.windows.segments import FIVE_DAYS_US

# Bytes around a stored row: field name, the entry itself, envelope (archive version or first and
# last, CRC).
RUNNING_OVERHEAD = 24 + 16 + 4 + len("r:1234567890123:") + 32 + len(":0")
IDS_AROUND, ID_BYTES = 12, 16  # docs/format.md
HOUR_OVERHEAD = 24 + 8 + 4 + len("h:123456")
NUMBER = 8
HOUR_VERSION = 16
"""At most of an hour and its archive version in a day's `c`."""
TEXT_LENGTH, TEXT_BYTES = 4, 32
"""A text is stored with its length; how long texts are no definition says."""
ANY = 2**62
"""Number of as many events as parameters allow."""
MEMBER_OVERHEAD = 88
"""Bytes of Redis around a member of a large sorted set: its text's header, skip list node and table
entry."""


def row_bytes(layout: Layout) -> int:
    """Bytes of one partial row whose lists and texts are empty."""
    total = 0
    for aggregate in layout.partials:
        for field in aggregate.fields:
            if isinstance(field, Fixed):
                total += np.dtype(field.dtype).itemsize
            elif isinstance(field, Items):
                total += 4
            elif isinstance(field, Texts):
                total += 8
    return total


def most_row_bytes(layout: Layout, events: int) -> int:
    """Bytes at most of one partial row of so many events, with texts of TEXT_BYTES bytes."""
    total = row_bytes(layout)
    for aggregate in layout.partials:
        longest = aggregate.longest(events)
        for field in aggregate.fields:
            if isinstance(field, Items):
                total += longest[field.name] * field.numpy.itemsize
            elif isinstance(field, Texts):
                total += longest[field.name] * (TEXT_LENGTH + TEXT_BYTES)
    return total


def entity_bytes(unit: StorageUnit, events_per_hour: float | None) -> int:
    """Bytes at most that are kept of an entity whose events come steadily, so many an hour (None:
    any number)."""
    hours = -(-unit.retention_us // HOUR_US)

    def rows(step_us: int, around: int, hours: int = hours) -> int:
        """Bytes of all steps that hold events, with so many bytes around a row."""
        steps, events = max(1, hours * HOUR_US // step_us), ANY
        if events_per_hour is not None:
            steps = min(steps, math.ceil(hours * events_per_hour))
            events = math.ceil(events_per_hour * step_us / HOUR_US)
        return steps * (most_row_bytes(unit.layout, events) + around)

    levels = sum(rows(level, NUMBER) for level in (unit.slice_us, *unit.levels))
    totals = rows(HOUR_US, (2 + len(unit.levels)) * HOUR_OVERHEAD)
    days = rows(DAY_US, 2 * HOUR_OVERHEAD + 24 * HOUR_VERSION)
    if unit.five_day_totals:
        days += rows(FIVE_DAYS_US, HOUR_OVERHEAD)
    # The open hour and the one being compacted stand as running partials.
    running = rows(unit.slice_us, RUNNING_OVERHEAD, hours=2)
    # any number in enough years
    ever = most_row_bytes(unit.layout, ANY) + RUNNING_OVERHEAD if unit.lifetime else 0
    return levels + totals + days + running + ever + _ids_bytes(unit.dedupe, events_per_hour)


def _ids_bytes(ids: EventIds | None, events_per_hour: float | None) -> int:
    """Bytes of an entity's ids that are remembered in one partition."""
    if ids is None:
        return 0
    most = ids.most
    if events_per_hour is not None:
        most = min(most, math.ceil(events_per_hour * ids.within_us / HOUR_US))
    return IDS_AROUND + most * ID_BYTES + HOUR_OVERHEAD


def reads_per_request(unit: StorageUnit) -> int:
    """Fields of day hashes that a live read of all features takes, when it takes most; of an event
    list the ranges of it."""
    if isinstance(unit, ListUnit):
        return len({feature.window.kind for feature in unit.features})
    return fields_of_all(unit)
