"""Running partials of hours that are over are combined once per hour, and cached.

An hour that is not compacted yet lies in the store slice by slice, and a window over a day reads
all of them. Nothing is written to such an hour but late events. So the partial of a whole hour is
combined when the same bytes are read again, and found by their digest, whatever the plan: it stands
for its slices where no window ends within the hour. An hour that is compacted meanwhile, or that a
window cuts, is read slice by slice as ever.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import compress

import numpy as np

from slicewise.codec import RUNNING_HEAD, SEAL_BYTES, Layout, check_values, pack_running
from slicewise.errors import CodecError
from slicewise.reading.cache import Key, PartialCache
from slicewise.reading.exchange import CachedHours, EarlierHours, Stored
from slicewise.reading.plan import ReadPlan
from slicewise.reading.rows import running_of
from slicewise.windows.durations import HOUR_US

LEAST_FIELDS = 48
"""Fewer running partials are not worth a digest."""
_NO_SLICE = -(1 << 62)


def with_earlier_hours(plan: ReadPlan, part: Stored, cache: PartialCache) -> Stored:
    """The same data, where the running partials of hours that are over stand by themselves if their
    hours are cached."""
    if len(part.hot) < 2 * LEAST_FIELDS or plan.gaps:  # a session looks at each slice by itself
        return part
    names, values = part.hot[::2], part.hot[1::2]
    slice_us = plan.unit.slice_us
    # the hour in which the plan ends changes with every event
    end = (plan.hours[1] - 1) * HOUR_US // slice_us
    numbers = list(map(_slice_of, names))
    is_earlier = [_NO_SLICE < number < end for number in numbers]
    count = sum(is_earlier)
    if count < LEAST_FIELDS:
        return part
    earlier, of_earlier = list(compress(names, is_earlier)), list(compress(values, is_earlier))
    of_earlier_numbers = list(compress(numbers, is_earlier))
    key = _key(plan.unit.storage_fingerprint, of_earlier_numbers, of_earlier)
    cached_hours = cache.get(key)
    if not isinstance(cached_hours, CachedHours):
        if not cache.is_repeated(key):
            return part
        slices_per_hour = HOUR_US // slice_us
        hours = [number // slices_per_hour for number in of_earlier_numbers]
        combined = _combined(plan.unit.layout, hours, of_earlier)
        if combined is None:
            return part
        cached_hours = combined
        cache.put(key, cached_hours)
    hot: list[bytes] = [b""] * (2 * (len(names) - count))
    is_other = [not earlier for earlier in is_earlier]
    hot[::2], hot[1::2] = compress(names, is_other), compress(values, is_other)
    return part._replace(hot=hot, earlier=EarlierHours(earlier, of_earlier, cached_hours))


def _key(unit: str, numbers: Sequence[int], values: Sequence[bytes]) -> Key:
    """The key of running partials of these slices."""
    # their number first: else bytes of the one could stand for those of another
    digest = hashlib.sha256(array("q", [len(numbers), *numbers]))
    digest.update(array("q", map(len, values)))
    digest.update(b"".join(values))
    return unit, digest.digest()


def _combined(layout: Layout, hours: Sequence[int], values: Sequence[bytes]) -> CachedHours | None:
    """Combines each hour. None where a value is damaged: whoever counts it tells which."""
    try:
        check_values(values, RUNNING_HEAD)
        rows = [value[RUNNING_HEAD:-SEAL_BYTES] for value in values]
        numbers, groups = np.unique(np.array(hours, np.int64), return_inverse=True)
        combined = layout.combine_rows(rows, groups, len(numbers))
    except CodecError:
        return None
    positions: dict[int, list[int]] = {}
    for position, hour in enumerate(hours):
        positions.setdefault(hour, []).append(position)
    sealed = {
        hour: pack_running(0, 0, row) for hour, row in zip(numbers.tolist(), combined, strict=True)
    }
    return CachedHours(sealed, positions)


@lru_cache(maxsize=32_768)
def _slice_of(name: bytes) -> int:
    """The slice of a running partial, by the name of its field; `_NO_SLICE` of another field."""
    try:
        running = running_of(name)
    except ValueError:  # whoever counts it refuses it
        return _NO_SLICE
    return _NO_SLICE if running is None else running[0]
