"""A lost driver is started at once and then ever later; its fault is told once, and its end
once."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from slicewise.lifecycle import restarts, supervision
from slicewise.lifecycle.supervision import (
    SETTLED_US,
    DriverLook,
    Notice,
    Supervised,
    fault_of,
    step,
)
from slicewise.stores.online.model.status import Status, ViewStatus

NOW, SECOND = 1_700_000_000_000_000, 1_000_000


def status(stalled_s: float, **more: object) -> Status:
    """A source with waiting events, of which none was applied for so long."""
    given = {"records": 10, "lag": {"0": 7}} | more
    return Status("plays", "running", NOW, NOW - int(stalled_s * SECOND), **given)  # type: ignore[arg-type]


def look(
    now_us: int = NOW,
    *statuses: Status,
    running: bool = True,
    beat_s: float | None = 0.5,
    started_s: float = 600.0,
) -> DriverLook:
    beat_us = None if beat_s is None else now_us - int(beat_s * SECOND)
    return DriverLook(running, now_us - int(started_s * SECOND), beat_us, statuses)


# ------------------------------------------------------------------ faults
def test_a_process_that_is_gone_died_and_its_last_words_say_why() -> None:
    gone = look(running=False)
    assert fault_of(gone, NOW) == ("died", "its process is gone")
    words = replace(status(0), state="refused", last_error="offsets 3 to 9 are gone")
    refused = look(NOW, words, running=False)
    assert fault_of(refused, NOW) == (
        "died",
        "plays: it refuses to go on: offsets 3 to 9 are gone",
    )


@pytest.mark.parametrize(("beat_s", "silent"), [(9.9, False), (10.1, True)])
def test_a_driver_is_silent_after_ten_seconds_without_a_sign_of_life(
    beat_s: float, silent: bool
) -> None:
    fault = fault_of(look(beat_s=beat_s), NOW)
    assert (fault is not None and fault.kind == "silent") is silent


@pytest.mark.parametrize(("started_s", "silent"), [(119.0, False), (121.0, True)])
def test_a_driver_that_starts_is_given_time_to_its_first_sign_of_life(
    started_s: float, silent: bool
) -> None:
    fault = fault_of(look(beat_s=None, started_s=started_s), NOW)
    assert (fault is not None and fault.kind == "silent") is silent


@pytest.mark.parametrize(
    ("more", "limit_s"),
    [
        ({"batch_ms_p99": 400.0}, 12.0),
        ({"batch_ms_p99": 9_000.0}, 36.0),
        ({}, 30.0),
        ({"records": 0}, 120.0),
        ({"outcomes": {"rows": 3}}, 12.0),
        ({"views": {"songs": ViewStatus(NOW)}}, 12.0),
    ],
    ids=["quick-batches", "slow-batches", "none-lately", "none-ever", "real-time", "emission"],
)
def test_a_driver_is_stuck_when_events_wait_for_longer_than_its_batches_explain(
    more: dict[str, object], limit_s: float
) -> None:
    assert fault_of(look(NOW, status(limit_s - 0.1, **more)), NOW) is None
    fault = fault_of(look(NOW, status(limit_s + 0.1, **more)), NOW)
    assert fault is not None
    assert fault.kind == "stuck"
    assert fault.reason.startswith("plays: 7 events wait, and none was applied for")


def test_a_driver_without_waiting_events_is_not_stuck() -> None:
    assert fault_of(look(NOW, status(600, lag={"0": 0}, batch_ms_p99=400.0)), NOW) is None


# ------------------------------------------------------------------ what follows from a look
def test_a_driver_that_was_stopped_on_purpose_is_left_alone() -> None:
    outcome = step(Supervised(), None, NOW)
    assert not outcome.start
    assert outcome.notices == ()


def test_a_lost_driver_is_started_at_once_and_told_once() -> None:
    first = step(Supervised(), look(running=False), NOW)
    assert first.start
    assert [notice.kind for notice in first.notices] == ["down"]
    later = NOW + 2 * SECOND
    starting = step(first.kept, look(later, beat_s=None, started_s=1.0), later)
    assert (starting.start, starting.notices, starting.kept.ill) == (False, (), True)


def test_a_fault_is_over_once_the_driver_has_been_well_for_a_minute() -> None:
    kept = step(Supervised(), look(running=False), NOW).kept
    back = NOW + 12 * SECOND
    kept = step(kept, look(back, beat_s=0.1, started_s=8.0), back).kept
    assert not kept.ill
    before = step(kept, look(back + SETTLED_US - 1, started_s=60.0), back + SETTLED_US - 1)
    assert before.notices == ()
    after = step(before.kept, look(back + SETTLED_US, started_s=68.0), back + SETTLED_US)
    assert after.notices == (
        Notice("over", "it is well again, 12 s after it was found (its process is gone)"),
    )
    assert after.kept.fault == ""


def test_a_driver_that_dies_before_that_is_the_same_fault() -> None:
    kept = step(Supervised(), look(running=False), NOW).kept
    back = NOW + 10 * SECOND
    kept = step(kept, look(back, started_s=6.0), back).kept
    again = step(kept, look(back + SECOND, running=False), back + SECOND)
    assert again.notices == ()
    assert not again.start, "the second start waits for a second"
    due = step(again.kept, look(back + 2 * SECOND, running=False), back + 2 * SECOND)
    assert due.start


def test_a_driver_that_ends_again_and_again_is_told_as_a_loop_once_and_tried_ever_later() -> None:
    kept, at, starts, notices = Supervised(), NOW, [], []
    for _ in range(1_200):
        outcome = step(kept, look(at, running=False), at)
        kept = outcome.kept
        notices += [notice.kind for notice in outcome.notices]
        starts += [at] if outcome.start else []
        at += SECOND
    assert notices == ["down", "loops"]
    waits = [(b - a) // SECOND for a, b in pairwise(starts)]
    assert waits == sorted(waits)
    assert waits[-1] >= restarts.MOST_WAIT_US // SECOND


def test_no_driver_is_started_while_a_server_is_away() -> None:
    stuck = look(NOW, status(60, batch_ms_p99=400.0))
    assert not step(Supervised(), stuck, NOW, away="the broker: timed out").start
    assert step(Supervised(), stuck, NOW).start
    died = look(running=False)
    assert not step(Supervised(), died, NOW, away="the store: gone").start
    assert step(Supervised(), died, NOW).start


def test_a_driver_that_was_lost_while_a_server_was_away_is_started_and_no_page_of_its_own() -> None:
    died = look(running=False)
    waited = step(Supervised(), died, NOW, away="the store: gone")
    back = step(waited.kept, died, NOW + SECOND)
    assert (back.start, back.notices, back.kept.fault) == (True, (), "")
    again = step(back.kept, died, NOW + 3 * SECOND)
    assert [notice.kind for notice in again.notices] == ["down"], "it dies by itself"
    late = step(Supervised(), died, NOW, excused=True)
    assert (late.start, late.notices) == (True, ())
    soon = step(late.kept, died, NOW + SECOND // 2, excused=True)
    assert (soon.start, soon.notices) == (False, ()), "it is not due"
    assert step(soon.kept, died, NOW + 9 * SECOND, excused=True).start
    well = step(waited.kept, look(NOW + SECOND), NOW + SECOND)
    assert (well.start, well.kept) == (False, Supervised(well.kept.restarts))
    opened = step(Supervised(), died, NOW).kept
    assert step(opened, died, NOW, away="the store: gone").kept.fault, "its incident stays open"


@pytest.mark.parametrize(("since_s", "kind"), [(30, None), (31, "stuck"), (600, "stuck")])
def test_a_driver_has_its_time_anew_once_a_server_is_back(since_s: int, kind: str | None) -> None:
    waited = look(NOW, status(600, batch_ms_p99=400.0))
    fault = fault_of(waited, NOW, since_us=NOW - since_s * SECOND)
    assert (fault and fault.kind) == kind
    silent = look(NOW, beat_s=60)
    assert fault_of(silent, NOW, since_us=NOW - 30 * SECOND) is None
    assert fault_of(silent, NOW, since_us=NOW - 31 * SECOND) is not None
    # one that got on since is judged as ever
    went_on = look(NOW, status(13, batch_ms_p99=400.0))
    assert fault_of(went_on, NOW, since_us=NOW - 20 * SECOND) is not None
    spoke = look(NOW, beat_s=11)
    assert fault_of(spoke, NOW, since_us=NOW - 20 * SECOND) is not None
    gone = look(running=False)
    assert fault_of(gone, NOW, since_us=NOW) is not None, "a process that is gone is gone"


def test_a_start_that_failed_is_counted_once_and_tried_again() -> None:
    begun = step(Supervised(), look(running=False), NOW)
    failed = supervision.not_started(begun.kept, NOW, "its program is missing")
    assert failed.restarts.in_a_row == 1
    assert failed.restarts.error == "its program is missing"
    due = step(failed, look(NOW + SECOND, running=False), NOW + SECOND)
    assert due.start


def test_what_is_kept_survives_its_file() -> None:
    kept = {"tail": step(Supervised(), look(running=False), NOW).kept, "emit": Supervised()}
    text = json.dumps(supervision.to_json(kept))
    assert supervision.from_json(json.loads(text)) == kept


def test_a_driver_that_reads_nothing_after_its_start_is_the_same_fault_still() -> None:
    """Signs of life alone end no incident, and begin none."""
    kept = step(Supervised(), look(NOW, status(40)), NOW).kept
    assert kept.fault
    waiting = status(0, records=0)
    for later_s in (10, 40, 100):
        now = NOW + later_s * SECOND
        outcome = step(kept, look(now, waiting, started_s=later_s), now)
        assert (outcome.start, outcome.notices, outcome.kept.ill) == (False, (), True)
        kept = outcome.kept
    again = step(kept, look(NOW + 130 * SECOND, status(125, records=0)), NOW + 130 * SECOND)
    assert again.notices == ()
    assert again.kept.restarts.in_a_row == 1
    read = step(kept, look(NOW + 130 * SECOND, status(0)), NOW + 130 * SECOND).kept
    assert not read.ill


def lives(alive_s: int, hours: int, excused_s: int = 0) -> list[tuple[int, str]]:
    """Words about a driver that dies alive_s after each of its starts, by the second. excused_s:
    for so long it is the aftermath of a server's absence."""
    kept, started = Supervised(), 0
    words: list[tuple[int, str]] = []
    for second in range(hours * 3600):
        now = NOW + second * SECOND
        running = bool(started) and now - started < alive_s * SECOND
        beat = now - SECOND // 2 if running and now > started else None
        before = started or NOW - 3600 * SECOND
        shown = DriverLook(running, before, beat if running else before + 1)
        outcome = step(kept, shown, now, excused=second < excused_s)
        kept, started = outcome.kept, now if outcome.start else started
        words += [(second, notice.kind) for notice in outcome.notices]
    return words


def test_a_driver_that_dies_every_90_seconds_is_alerted_once_as_a_loop() -> None:
    kinds = [kind for _, kind in lives(90, 6)]
    assert kinds == ["down", "over", "down", "loops"]


def test_a_driver_that_loops_after_a_servers_absence_is_told_as_a_loop() -> None:
    words = lives(6, 2, excused_s=120)
    assert "loops" in [kind for _, kind in words]
