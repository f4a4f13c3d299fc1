"""The main job asks Airflow for the hours that nobody has compacted yet, and for no hour twice."""

from __future__ import annotations

from slicewise.local.main_job import hours_missing
from slicewise.slices import HOUR_US
from slicewise.stores.redis.status import StoreStatus


def status(now_hour: int, *swapped: int) -> StoreStatus:
    return StoreStatus(now_us=now_hour * HOUR_US + 5, swapped={"unit": dict.fromkeys(swapped, 1)})


def test_finished_hours_from_the_first_event_on_are_missing() -> None:
    assert hours_missing(status(103), set(), 100 * HOUR_US + 1) == [100, 101, 102]


def test_an_hour_that_was_swapped_is_not_missing() -> None:
    assert hours_missing(status(103, 100, 102), set(), 100 * HOUR_US) == [101]


def test_an_hour_without_events_is_asked_for_once() -> None:
    assert hours_missing(status(103, 100), {101}, 100 * HOUR_US) == [102]


def test_the_hour_that_is_not_over_is_never_asked_for() -> None:
    assert hours_missing(status(100), set(), 100 * HOUR_US) == []
