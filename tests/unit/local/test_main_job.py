"""The main job asks Airflow for the hours that nobody has compacted yet, and for no hour twice."""

from __future__ import annotations

from dataclasses import replace

from slicewise.lifecycle.health.overview import job_record
from slicewise.local.main_job import hours_missing
from slicewise.local.run_report import Seconds
from slicewise.stores.online.redis.status import StoreStatus
from slicewise.windows.durations import HOUR_US


def status(now_hour: int, *published: int) -> StoreStatus:
    return StoreStatus(
        now_us=now_hour * HOUR_US + 5, published={"unit": dict.fromkeys(published, 1)}
    )


def test_finished_hours_from_the_first_event_on_are_missing() -> None:
    assert hours_missing(status(103), set(), 100 * HOUR_US + 1) == [100, 101, 102]


def test_an_hour_that_was_published_is_not_missing() -> None:
    assert hours_missing(status(103, 100, 102), set(), 100 * HOUR_US) == [101]


def test_an_hour_without_events_is_asked_for_once() -> None:
    assert hours_missing(status(103, 100), {101}, 100 * HOUR_US) == [102]


def left(dirty: int, over_until: str) -> dict[str, str]:
    """The record that a compaction leaves in the store."""
    report = {"job": "compact", "dirty": dirty, "over_until": over_until, "hours": [1]}
    return {"job:compact": job_record(report, ok=True, at_us=0)}


def test_hours_without_events_are_not_asked_for_after_a_run_that_left_nothing_dirty() -> None:
    done = replace(status(103, 100), parts=left(0, "1970-01-05T06"))  # hour 102
    assert hours_missing(done, set(), 100 * HOUR_US) == [102]


def test_a_run_that_left_something_dirty_says_nothing_of_other_hours() -> None:
    left_some = replace(status(103, 100), parts=left(1, "1970-01-05T06"))
    assert hours_missing(left_some, set(), 100 * HOUR_US) == [101, 102]


def test_a_step_is_done_when_it_is_first_said_to_be() -> None:
    times = iter([10.0, 12.5, 14.0, 99.0])
    seconds = Seconds(lambda: next(times))
    for step in ("deployed", "caught up", "caught up"):
        seconds.done(step)
    assert seconds.of == {"deployed": 2.5, "caught up": 4.0}


def test_the_hour_that_is_not_over_is_never_asked_for() -> None:
    assert hours_missing(status(100), set(), 100 * HOUR_US) == []
