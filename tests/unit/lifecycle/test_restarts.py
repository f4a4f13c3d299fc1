"""A server that died comes back at once, then ever later; a long life ends its waits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewise.lifecycle import restarts
from slicewise.lifecycle.restarts import DAY_US, LOOP, MOST_WAIT_US, WELL_US, Restarts

NOW = 1_700_000_000_000_000
S = 1_000_000


def test_the_first_start_is_at_once_and_each_further_one_waits_twice_as_long_up_to_a_bound() -> (
    None
):
    waits, kept, now = [], Restarts(), NOW
    for _ in range(12):
        kept = restarts.dead(kept, now)
        assert kept.next_us is not None
        waits.append((kept.next_us - now) // S)
        now = kept.next_us
        assert kept.due(now)
        kept = restarts.alive(restarts.started(kept, now), now)  # and it dies right after
    assert waits == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_a_look_does_not_put_off_the_next_start() -> None:
    kept = Restarts((NOW,), in_a_row=3)
    first = restarts.dead(kept, NOW + S)
    assert restarts.dead(first, NOW + 3 * S) == first
    assert not first.due(NOW + 4 * S)
    assert first.due(NOW + 5 * S)


def test_one_that_lived_for_long_begins_without_a_wait_again() -> None:
    kept = Restarts((NOW,), in_a_row=7, error="no memory")
    assert restarts.alive(kept, NOW + WELL_US - 1).in_a_row == 7
    long = restarts.alive(kept, NOW + WELL_US)
    assert long == Restarts((NOW,))
    assert restarts.dead(long, NOW + WELL_US).due(NOW + WELL_US)


def test_a_start_that_fails_waits_like_one_that_dies_and_says_why() -> None:
    kept = restarts.started(restarts.dead(Restarts(), NOW), NOW, "its program is missing")
    assert kept.next_us == NOW + S
    assert restarts.summary(kept, NOW).endswith(
        "the last start failed: its program is missing; next try in 1 s"
    )


def test_one_that_was_stopped_waits_for_nothing() -> None:
    kept = restarts.stopped(restarts.dead(Restarts((NOW,), in_a_row=4), NOW))
    assert kept == Restarts((NOW,))
    assert not kept.due(NOW + DAY_US)


@pytest.mark.parametrize("back_us", [2 * MOST_WAIT_US, DAY_US])
def test_a_clock_that_is_set_back_delays_no_start_beyond_the_bound(back_us: int) -> None:
    kept = restarts.dead(Restarts((NOW,), in_a_row=20), NOW)
    assert kept.due(NOW - back_us)
    assert restarts.alive(Restarts((NOW,), in_a_row=2), NOW - back_us).in_a_row == 0


def test_it_is_told_in_words() -> None:
    assert restarts.summary(Restarts(), NOW) == ""
    assert (
        restarts.summary(Restarts((NOW,)), NOW + S)
        == "restarted once in the last day, last at 22:13:20 UTC"
    )
    loop = Restarts((NOW - DAY_US, *range(NOW, NOW + LOOP)), in_a_row=LOOP, next_us=NOW + 16 * S)
    assert restarts.summary(loop, NOW + S) == (
        "restarted 5 times in the last day, last at 22:13:20 UTC; it dies again and again; "
        "next try in 15 s"
    )


def test_starts_of_the_last_day_are_kept_and_few() -> None:
    kept = Restarts((NOW - DAY_US, NOW - 1))
    assert restarts.started(kept, NOW).at_us == (NOW - 1, NOW)
    for number in range(500):
        kept = restarts.started(kept, NOW + number)
    assert len(kept.at_us) == 100


def test_what_is_kept_is_read_as_it_was_written() -> None:
    kept = {"redis": Restarts((NOW, NOW + 1), 2, NOW + 9, "why"), "kafka": Restarts()}
    assert restarts.from_json(json.loads(json.dumps(restarts.to_json(kept)))) == kept
    no_list = {"at_us": 3, "in_a_row": 0, "next_us": None, "error": ""}
    broken: tuple[dict[str, Any], ...] = ({"redis": {}}, {"redis": no_list}, {"redis": "x"})
    for torn in broken:
        with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
            restarts.from_json(torn)
