"""A reader's memory of compacted hours is found by all of their bytes, and takes bounded room."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slicewise import aggregates
from slicewise.aggregates import Columns, Rows
from slicewise.codec import pack_day, pack_hours, pack_total
from slicewise.codec.envelopes import day_digest
from slicewise.errors import CodecError
from slicewise.offsets.vector import OffsetVector
from slicewise.reading import answer
from slicewise.reading.answer import CACHED_ENTITIES, BatchedPlan, Merged, NodeClaims, Stored, merge
from slicewise.reading.cache import CachedColumns, PartialCache
from slicewise.reading.plan import ReadPlan
from slicewise.reading.scalar import finish_scalars, rows_of
from slicewise.windows.durations import DAY_US, HOUR_US
from slicewise.windows.kinds import as_window
from slicewise.windows.session import session
from tests.support.stores.units import StoreUnit
from tests.unit.reading.answers import COUNT, MONDAY, listed, plan_of, unit_of

DISTINCT = aggregates.distinct_count("v", threshold=3, precision=4).bind({"v": pa.int64()})
NOON = MONDAY + 12 * HOUR_US
CLAIMS = NodeClaims(OffsetVector(), OffsetVector(), {1: OffsetVector()})


def row(unit: StoreUnit, values: list[int]) -> bytes:
    n = len(values)
    numbers, zeros = np.arange(n), np.zeros(n, np.uint64)
    columns = dict.fromkeys("vw", pa.array(values, pa.int64()))
    rows = Rows(numbers, zeros, zeros, np.zeros(n, np.int32), numbers, columns)
    partials = unit.layout.partials
    return unit.layout.encode_rows(
        [p.accumulate_columns(rows, np.zeros(n, np.int64), 1) for p in partials]
    )[0]


def plan(unit: StoreUnit, window: str = "3d") -> ReadPlan:
    return plan_of(unit, [as_window(window)], "live", NOON)


def stored(of: ReadPlan, unit: StoreUnit, days: list[list[int]], entity: int = 0) -> Stored:
    """The values of each of the last whole days before NOON, newest first."""
    by_number = {}
    for back, values in enumerate(days, 1):
        number = MONDAY // DAY_US - back
        hours = pack_hours({number * 24: 1})
        total = pack_total(1, row(unit, values))
        by_number[number] = {
            b"c": hours,
            b"d": pack_day(day_digest(hours), row(unit, values)),
            b"h:%d" % (number * 24): total,
        }
    return Stored(
        entity,
        None,
        [],
        [[by_number.get(day.day, {}).get(name) for name in day.names] for day in of.days],
    )


def read(of: ReadPlan, cache: PartialCache | None, *parts: Stored) -> Merged:
    return merge(
        BatchedPlan((of,)), [list(parts)], len(parts), [CLAIMS], scalar_rows=-1, cache=cache
    )


def test_what_is_cached_is_asked_twice_before_it_is_kept_and_then_gives_the_same_values() -> None:
    unit = unit_of(HOUR_US, (DISTINCT, COUNT))
    of, cache = plan(unit), PartialCache()
    days = stored(of, unit, [[1, 2], [2, 3, 4, 5]])
    answers = [[listed(column) for column in read(of, cache, days).finished] for _ in range(4)]
    assert answers == [[listed(column) for column in read(of, None, days).finished]] * 4
    assert (cache.misses, cache.hits) == (2, 2)


def test_other_bytes_under_the_same_plan_are_not_taken_for_what_is_cached() -> None:
    unit = unit_of(HOUR_US, (DISTINCT, COUNT))
    of, cache = plan(unit), PartialCache()
    one, other = (stored(of, unit, [[1, 2], last]) for last in ([3], [4, 5]))
    for _ in range(3):
        read(of, cache, one)
    assert [listed(column) for column in read(of, cache, other).finished] != [
        listed(e) for e in read(of, cache, one).finished
    ]


def damaged(value: bytes) -> bytes:
    """With a bit of what is stored turned; the checksum stands as it was."""
    return value[:-5] + bytes([value[-5] ^ 1]) + value[-4:]


def test_damaged_bytes_are_refused_however_often_they_are_read() -> None:
    unit = unit_of(HOUR_US, (DISTINCT, COUNT))
    of, cache = plan(unit), PartialCache()
    whole = stored(of, unit, [[1, 2], [3]])
    for _ in range(3):
        read(of, cache, whole)
    values = [
        [
            damaged(value) if name == b"d" and value else value
            for name, value in zip(day.names, row, strict=True)
        ]
        for day, row in zip(of.days, whole.days, strict=True)
    ]
    for _ in range(3):
        with pytest.raises(CodecError):
            read(of, cache, whole._replace(days=values))


def test_nothing_is_remembered_of_sessions_whose_slices_are_looked_at_one_by_one() -> None:
    unit = unit_of(HOUR_US, (DISTINCT, COUNT))
    of, cache = plan_of(unit, [session("2h", max_length="2d")], "live", NOON), PartialCache()
    days = stored(of, unit, [[1, 2], [3]])
    days = days._replace(days=[[None for _ in day] for day in days.days])
    for _ in range(3):
        read(of, cache, days)
    assert (cache.hits, cache.bytes) == (0, 0)


def test_nothing_is_remembered_of_reads_of_many_entities() -> None:
    unit = unit_of(HOUR_US, (DISTINCT, COUNT))
    of, cache = plan(unit), PartialCache()
    many = [stored(of, unit, [[entity]], entity) for entity in range(CACHED_ENTITIES + 1)]
    for _ in range(3):
        read(of, cache, *many)
    assert (cache.hits, cache.misses) == (0, 0)
    for _ in range(3):
        read(of, cache, *many[:CACHED_ENTITIES])
    assert cache.hits == CACHED_ENTITIES


def test_days_that_are_cached_are_no_rows_to_combine(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = unit_of(HOUR_US, (DISTINCT, COUNT))
    of, cache = plan(unit), PartialCache()
    parts = [stored(of, unit, [[entity], [entity, 7]], entity) for entity in range(20)]
    alone = [listed(column) for column in read(of, None, *parts).finished]
    forms = []

    def finished(*arguments: Any) -> Any:
        forms.append("few rows")
        return finish_scalars(*arguments)

    monkeypatch.setattr(answer, "finish_scalars", finished)
    limit = int(rows_of(of, parts)) // 2
    for entity in range(20):  # each alone, so that its days are looked up as those of few rows
        for _ in range(200):
            merge(
                BatchedPlan((of,)), [[parts[entity]._replace(entity=0)]], 1, [CLAIMS], limit, cache
            )
    assert cache.uncached < 0.05
    forms.clear()
    for kept, wanted in ((None, []), (cache, ["few rows"])):
        merged = merge(BatchedPlan((of,)), [parts], 20, [CLAIMS], limit, kept)
        assert [listed(column) for column in merged.finished] == alone
        assert forms == wanted


def test_the_memory_of_whole_columns_is_counted_and_bounded() -> None:
    unit = unit_of(HOUR_US, (DISTINCT, COUNT))
    columns = Columns.empty(DISTINCT.fields, 1_000)
    size = CachedColumns({}, frozenset(), [0], [columns]).size
    assert size >= 2 * 8 * 1_001  # the offsets of its two lists
    cache, of = PartialCache(limit=3 * size), plan(unit)
    for number in range(10):
        cache.put((number, b""), CachedColumns({}, frozenset(), [0], [columns]))
    assert cache.bytes == 3 * size
    assert cache.get((9, b"")) is not None
    assert cache.get((6, b"")) is None
    nothing = PartialCache(limit=0)
    for _ in range(4):
        read(of, nothing, stored(of, unit, [[1]]))
    assert (nothing.bytes, nothing.hits) == (0, 0)
