"""A broker that does not answer is told after a while, once, and once more when it answers."""

from __future__ import annotations

import pytest

from slicewise.lifecycle.absence import GAP_US, NOTICE_US, Absence, Watched, step
from slicewise.lifecycle.supervision import Notice

NOW, SECOND = 1_700_000_000_000_000, 1_000_000
AWAY = "the broker: kafka:9092: connection refused"


def test_a_server_that_answers_leaves_nothing_to_tell() -> None:
    assert step(Absence(), "", NOW) == (Absence(), ())


def test_a_short_absence_is_told_nobody() -> None:
    kept, first = step(Absence(), AWAY, NOW)
    kept, second = step(kept, AWAY, NOW + NOTICE_US - 1)
    assert (first, second) == ((), ())
    assert step(kept, "", NOW + NOTICE_US) == (Absence(), ())


def test_a_long_absence_is_told_once_and_its_end_once() -> None:
    kept, notices = Absence(), list[Notice]()
    for second in range(0, 300, 2):
        kept, some = step(kept, AWAY, NOW + second * SECOND)
        notices += some
    assert [notice.kind for notice in notices] == ["down"]
    assert notices[0].text.startswith(f"{AWAY}, for 30 s; ")
    kept, over = step(kept, "", NOW + 301 * SECOND)
    assert [(notice.kind, notice.text) for notice in over] == [
        ("over", f"it answers again, after 301 s ({AWAY})")
    ]
    assert kept == Absence()


def test_the_next_absence_is_another() -> None:
    kept = Absence(AWAY, NOW, notified=True)
    kept, _ = step(kept, "", NOW + SECOND)
    kept, at_once = step(kept, AWAY, NOW + 2 * SECOND)
    assert at_once == ()
    _, later = step(kept, AWAY, NOW + 2 * SECOND + NOTICE_US)
    assert [notice.kind for notice in later] == ["down"]


def test_a_job_has_its_time_anew_after_all_was_off_and_only_then() -> None:
    watched = Watched().after(NOW).after(NOW + GAP_US)
    assert watched.since_us == 0, "no gap is known"
    assert not watched.gives_time(NOW + GAP_US, 3600 * SECOND)
    back_us = NOW + 2 * GAP_US + 1
    watched = watched.after(back_us).after(back_us + SECOND)
    assert watched.since_us == back_us
    assert watched.gives_time(back_us + 3600 * SECOND - 1, 3600 * SECOND)
    assert not watched.gives_time(back_us + 3600 * SECOND, 3600 * SECOND)
    assert not watched.gives_time(back_us - 1, 3600 * SECOND), (
        "a clock that was set back gives none"
    )
    assert Watched(back_us, NOW).after(NOW + SECOND).since_us == 0, "of a wrong clock"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"since_us": null, "last_us": 1}', '{"a": 1}'])
def test_what_no_node_can_say_of_the_watch_is_no_gap(text: str) -> None:
    assert Watched.of([text]) == Watched.of([]) == Watched()
    newest = Watched(5, 9)
    assert Watched.of([text, Watched(1, 2).text(), newest.text()]) == newest
