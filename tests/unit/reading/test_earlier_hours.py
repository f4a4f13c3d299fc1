"""Hours that are over are combined once while nobody compacts them, and answer as their slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from slicewise import codec
from slicewise.errors import CodecError, DataLoss
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.answer import BatchedPlan, Merged, merge
from slicewise.reading.cache import PartialCache
from slicewise.reading.earlier_hours import LEAST_FIELDS, with_earlier_hours
from slicewise.reading.exchange import Stored
from slicewise.reading.plan import ReadPlan
from slicewise.windows.durations import HOUR_US, MINUTE_US
from slicewise.windows.kinds import as_window
from slicewise.windows.session import session
from slicewise.windows.window import Window
from tests.unit.reading.answers import (
    MONDAY,
    TOPIC,
    Made,
    StoreUnderTest,
    plan_of,
    unit_of,
    values,
)

TOPIC_PARTITION = (TOPIC, 0)
NOW = MONDAY + 13 * HOUR_US + 20 * MINUTE_US
WINDOWS = [as_window("10m"), as_window("90m"), as_window("6h"), as_window("1d")]


def store_of(minutes: int = 300) -> tuple[StoreUnderTest, list[Made]]:
    """One event a minute, none compacted."""
    made = [
        Made(TOPIC_PARTITION, i, NOW - (minutes - i) * MINUTE_US + 5, i % 50)
        for i in range(minutes)
    ]
    store = StoreUnderTest(unit_of(MINUTE_US), {TOPIC_PARTITION: minutes})
    store.apply(made)
    return store, made


def planned(store: StoreUnderTest, windows: Sequence[Window] = WINDOWS, t: int = NOW) -> ReadPlan:
    return plan_of(store.unit, windows, "live", t)


def read(store: StoreUnderTest, cache: PartialCache | None, plan: ReadPlan | None = None) -> Merged:
    plan = plan or planned(store)
    return merge(BatchedPlan((plan,)), [[store.read(plan)]], 1, [store.claims()], cache=cache)


def given_as(store: StoreUnderTest, cache: PartialCache, plan: ReadPlan | None = None) -> Stored:
    plan = plan or planned(store)
    return with_earlier_hours(plan, store.read(plan), cache)


def hours_of(stored: Stored) -> list[int]:
    assert stored.earlier is not None
    return sorted(hour * HOUR_US - MONDAY for hour in stored.earlier.hours.values)


def test_hours_before_the_one_in_which_a_plan_ends_are_kept_when_they_are_read_again() -> None:
    store, _ = store_of()
    cache, alone = PartialCache(), values(read(store, None))
    assert given_as(store, cache).earlier is None
    for _ in range(3):
        stored = given_as(store, cache)
        assert hours_of(stored) == [hour * HOUR_US for hour in range(8, 13)]
        # the running partials of the last hour, and the applied offset
        assert len(stored.hot) == 2 * (20 + 1)
        assert values(read(store, cache)) == alone


def test_another_plan_takes_the_same_hours_and_cuts_its_own() -> None:
    store, _ = store_of()
    cache = PartialCache()
    for _ in range(2):
        read(store, cache)
    hits = cache.hits
    for minutes in range(1, 40):
        plan = planned(store, t=NOW + minutes * MINUTE_US)
        assert values(read(store, cache, plan)) == values(read(store, None, plan))
    assert cache.hits == hits + 39


def test_a_late_event_in_an_hour_that_is_over_is_in_the_next_answer() -> None:
    store, _ = store_of()
    cache = PartialCache()
    for _ in range(3):
        before = values(read(store, cache))
    late = Made((TOPIC, 1), 0, NOW - 4 * HOUR_US, 51)
    store.apply([late])
    for _ in range(3):
        after = values(read(store, cache))
        assert after == values(read(store, None))
        assert after["s_3"] == before["s_3"] + (1 << 51)


def test_an_hour_that_is_compacted_meanwhile_is_read_slice_by_slice() -> None:
    store, made = store_of()
    cache = PartialCache()
    for _ in range(2):
        read(store, cache)
    hour = NOW // HOUR_US - 2
    store.compact(hour, 1, [e for e in made if e.time // HOUR_US == hour])
    store.offset_vectors[1] = OffsetVector({TOPIC_PARTITION: 300})
    # its running partials are not deleted yet, and do not count twice
    assert values(read(store, cache)) == values(read(store, None))
    # one that the compaction cut is told of, cached or not
    store.offset_vectors[1] = OffsetVector({TOPIC_PARTITION: 100})
    first = next(name for name in store.hot if name.startswith(b"r:%d:" % (hour * 60 + 3)))
    _, last, row = codec.open_running(store.hot[first])
    store.hot[first] = codec.pack_running(1, last, row)
    for _ in range(3):
        for given in (cache, None):
            with pytest.raises(DataLoss, match="straddles"):
                read(store, given)


def test_a_damaged_value_is_told_as_without_the_cache() -> None:
    store, _ = store_of()
    cache = PartialCache()
    name = next(name for name in store.hot if name.startswith(b"r:"))
    sound, damaged = store.hot[name], bytearray(store.hot[name])
    damaged[-1] ^= 1
    for _ in range(2):
        read(store, cache)
    store.hot[name] = bytes(damaged)
    for _ in range(3):
        with pytest.raises(CodecError):
            read(store, cache)
    store.hot[name] = sound
    assert values(read(store, cache)) == values(read(store, None))
    # one that no window holds is nobody's matter
    store.hot[name] = bytes(damaged)
    plan = planned(store, [as_window("90m")])
    for _ in range(3):
        assert values(read(store, cache, plan)) == values(read(store, None, plan))


@pytest.mark.parametrize("name", [b"r:%d:%s:none", b"r:%d:%s", b"r:none%d:%s:0", b"r:%d:\xc3%s:0"])
def test_a_field_that_is_none_is_refused_as_without_the_cache(name: bytes) -> None:
    store, _ = store_of()
    store.hot[name % (NOW // MINUTE_US - 200, TOPIC.encode())] = next(
        value for field, value in store.hot.items() if field.startswith(b"r:")
    )
    cache = PartialCache()
    for _ in range(3):
        with pytest.raises(CodecError, match="a hot field that is none"):
            read(store, cache)


def test_sessions_and_small_stores_are_read_slice_by_slice() -> None:
    store, _ = store_of()
    cache = PartialCache()
    by_session = planned(store, [session("30m", max_length="6h")])
    small, _ = store_of(20 + LEAST_FIELDS - 1)
    for _ in range(3):
        assert given_as(store, cache, by_session).earlier is None
        assert given_as(small, cache).earlier is None
    enough, _ = store_of(20 + LEAST_FIELDS)
    assert given_as(enough, cache).earlier is None
    assert given_as(enough, cache).earlier is not None


def test_what_is_kept_of_one_unit_is_not_taken_for_another() -> None:
    store, _ = store_of()
    cache = PartialCache()
    for _ in range(2):
        read(store, cache)
    other = replace(store, unit=replace(store.unit, storage_fingerprint="01" * 8))
    assert given_as(store, cache).earlier is not None
    assert given_as(other, cache).earlier is None
