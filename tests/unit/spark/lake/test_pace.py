"""A build looks how late live events are, and rests by what it sees."""

from __future__ import annotations

import time

from slicewise.errors import StoreUnavailable
from slicewise.lifecycle.pacing.shares import FLOOR, UNMEASURED, Freshness
from slicewise.spark.lake.pace import Pace


def test_it_slows_down_and_recovers_with_what_it_sees() -> None:
    seen = iter([Freshness(9_000.0, "plays")] * 9 + [Freshness(9.0, "plays")] * 11)
    pace = Pace(1_000, lambda: next(seen))
    for _ in range(9):
        pace.step()
    assert pace.share == pace.slowest == FLOOR
    assert "9.0 s (plays)" in pace.reason
    for _ in range(11):
        pace.step()
    assert (pace.share, pace.slowed, pace.reason) == (1.0, False, "")
    assert pace.slowest == FLOOR


def test_events_of_micro_batches_have_a_bound_of_their_own() -> None:
    pace = Pace(1_000, lambda: Freshness(4_000.0, "plays", 10.0))
    pace.step()
    assert not pace.slowed


def test_it_rests_where_it_is_slowed_alone() -> None:
    pace = Pace(1_000, lambda: UNMEASURED)
    pace.rest(3_600.0)
    assert pace.rested_s == 0
    pace.share = 0.5
    pace.rest(0.02)
    assert pace.rested_s == 0.02


def test_the_end_of_a_build_ends_its_rest() -> None:
    pace = Pace(1_000, lambda: Freshness(9_000.0, "plays"), share=0.5)
    with pace.looking():
        pass
    begun = time.monotonic()
    pace.rest(20.0)
    assert time.monotonic() - begun < 1


def test_without_a_bound_nothing_is_looked_up() -> None:
    def look() -> Freshness:
        raise AssertionError("no look is due")

    with Pace(0, look).looking() as pace:
        assert not pace.slowed


def test_a_look_that_fails_ends_no_build() -> None:
    def look() -> Freshness:
        raise StoreUnavailable("the store is away")

    pace = Pace(1_000, look, share=0.5)
    with pace.looking():
        time.sleep(0.05)
    assert pace.share == 0.5
