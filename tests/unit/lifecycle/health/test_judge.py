"""The stream counts as well, as lost, or as stopped on purpose."""

from __future__ import annotations

import json

import pytest

from slicewise.errors import BadRequest
from slicewise.lifecycle.health.judge import Health, Limits, judge
from slicewise.lifecycle.health.watch import Watch
from slicewise.stores.online.model.status import Status

NOW = 1_000_000_000_000_000
SECOND = 1_000_000
LIMITS = Limits(heartbeat_age_us=30 * SECOND)
WELL, ILL, STOPPED = Health(()), Health(("silent",)), Health((), stopped=True)


def status(
    source: str = "flights", *, age_s: int = 1, state: str = "running", lag: int = 0
) -> Status:
    reported = {
        "state": state,
        "heartbeat_us": NOW - age_s * SECOND,
        "lag": {"0": lag, "1": 0},
        "events_per_s": 0,
    }
    return Status.parse(source, json.dumps(reported))


def test_a_fresh_heartbeat_is_well() -> None:
    assert judge([status()], ["flights"], NOW, LIMITS).well


def test_a_heartbeat_at_the_limit_is_well_and_one_beyond_is_not() -> None:
    assert judge([status(age_s=30)], ["flights"], NOW, LIMITS).well
    judged = judge([status(age_s=31)], ["flights"], NOW, LIMITS)
    assert judged.reasons == ("flights: no heartbeat for 31 s",)


def stalled(for_s: int, lag: int = 5, age_s: int = 1) -> Status:
    heartbeat = NOW - age_s * SECOND
    reported = {
        "state": "running",
        "heartbeat_us": heartbeat,
        "lag": {"0": lag},
        "progress_us": heartbeat - for_s * SECOND,
    }
    return Status.parse("flights", json.dumps(reported))


def test_a_batch_that_does_not_end_while_events_wait_is_not_well() -> None:
    assert judge([stalled(120)], ["flights"], NOW, LIMITS).well
    judged = judge([stalled(121)], ["flights"], NOW, LIMITS)
    assert judged.reasons == (
        "flights: 5 events behind, and no batch has ended for 121 s: it hangs",
    )


def test_without_events_that_wait_nothing_hangs() -> None:
    assert judge([stalled(9_999, lag=0)], ["flights"], NOW, LIMITS).well
    assert judge([status(lag=5)], ["flights"], NOW, LIMITS).well, (
        "a driver that says nothing of its progress"
    )


def test_a_silent_driver_is_told_by_its_heartbeat_alone() -> None:
    judged = judge([stalled(500, age_s=31)], ["flights"], NOW, LIMITS)
    assert judged.reasons == ("flights: no heartbeat for 31 s",)


def test_a_source_that_no_driver_speaks_for_is_not_well() -> None:
    judged = judge([status()], ["flights", "plays"], NOW, LIMITS)
    assert judged.reasons == ("plays: no driver has written a status",)


def test_nothing_deployed_is_not_well() -> None:
    assert not judge([], [], NOW, LIMITS).well


def test_all_stopped_is_on_purpose_and_one_stopped_of_two_is_not() -> None:
    both = [status(state="stopped", age_s=900), status("plays", state="stopped", age_s=900)]
    assert judge(both, ["flights", "plays"], NOW, LIMITS).stopped
    one = [status(state="stopped"), status("plays")]
    judged = judge(one, ["flights", "plays"], NOW, LIMITS)
    assert not judged.stopped
    assert judged.reasons == ("flights: stopped while other sources are running",)


def test_a_stopped_driver_of_a_source_that_is_no_more_deployed_says_nothing() -> None:
    assert judge([status(), status("gone", state="stopped")], ["flights"], NOW, LIMITS).well


@pytest.mark.parametrize(
    ("state", "words"), [("refused", "refuses to go on"), ("failed", "gave up")]
)
def test_a_driver_that_ended_by_itself_tells_why(state: str, words: str) -> None:
    reported = {"state": state, "heartbeat_us": NOW, "last_error": "records are gone"}
    judged = judge([Status.parse("flights", json.dumps(reported))], ["flights"], NOW, LIMITS)
    assert judged.reasons == (f"flights: the driver {words}: records are gone",)
    assert not judged.stopped


def test_lag_counts_only_when_nothing_is_applied() -> None:
    limits = Limits(lag_events=100)
    assert judge([status(lag=100)], ["flights"], NOW, limits).well
    assert not judge([status(lag=101)], ["flights"], NOW, limits).well


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"heartbeat_us": "soon"}', '{"state": "odd", "heartbeat_us": 1}']
)
def test_a_status_that_cannot_be_read_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(BadRequest, match="heartbeat_us"):
        Status.parse("flights", text)


def looks(watch: Watch, *healths: Health, now_us: int = NOW) -> Watch:
    for health in healths:
        watch = watch.after(health, now_us)
    return watch


def test_only_as_many_bad_looks_in_a_row_as_patience_allows_lose_the_stream() -> None:
    watch = looks(Watch(3), WELL, ILL, ILL, WELL, ILL, ILL)
    assert not watch.lost
    assert looks(watch, ILL).outcome == "lost"


def test_a_driver_that_was_just_started_is_given_time() -> None:
    #  looks:     ILL ILL ILL | grace over
    starting = Watch(2, grace_until_us=NOW + 60 * SECOND)
    watch = looks(starting, ILL, ILL, ILL)
    assert not watch.lost
    assert looks(watch, ILL, ILL, now_us=NOW + 60 * SECOND).lost


def test_what_the_driver_before_said_is_not_believed_while_a_new_one_starts() -> None:
    starting = Watch(2, grace_until_us=NOW + 60 * SECOND)
    assert not looks(starting, STOPPED).stopped
    assert looks(starting, STOPPED, WELL, STOPPED).outcome == "stopped"
    assert looks(starting, STOPPED, now_us=NOW + 60 * SECOND).outcome == "stopped"


def test_a_driver_that_was_seen_well_has_no_grace_left() -> None:
    watch = looks(Watch(2, grace_until_us=NOW + 60 * SECOND), WELL, ILL, ILL)
    assert watch.lost


STARTING = Health((), starting=("flights: its driver was started 3 s ago",))


@pytest.mark.parametrize(
    ("health", "ill", "ends_s"),
    [(WELL, False, 0), (STOPPED, False, 0), (WELL, True, 120), (STARTING, False, 120)],
    ids=["well", "stopped", "lost", "starting"],
)
def test_a_watch_whose_time_is_up_waits_two_minutes_for_a_driver_that_starts(
    health: Health, ill: bool, ends_s: int
) -> None:
    watch, until_us = looks(Watch(3), health), NOW + 60 * SECOND
    ends_us = until_us + ends_s * SECOND
    assert watch.stopped or not watch.ends(health, ends_us - 1, until_us, ill=ill)
    assert watch.ends(health, ends_us, until_us, ill=ill)


def test_a_watch_whose_time_is_up_ends_as_soon_as_the_stream_is_lost() -> None:
    watch, until_us = looks(Watch(2), ILL), NOW - 1
    assert not watch.ends(ILL, NOW, until_us, ill=False), "one look says nothing"
    assert looks(watch, ILL).ends(ILL, NOW, until_us, ill=False)


def test_a_watch_that_never_saw_the_stream_well_ends_lost() -> None:
    assert looks(Watch(3, grace_until_us=NOW + 60 * SECOND), ILL).outcome == "lost"
