"""A build gives way to live events, and ends however late they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.lifecycle.pacing.shares import (
    BATCH_TIMES,
    FLOOR,
    MOST_PAUSE_S,
    SILENT_US,
    UNMEASURED,
    Freshness,
    at_work,
    freshness,
    latest,
    next_share,
    pause_s,
    reason,
)
from slicewise.stores.online.model.status import Status

NOW = 1_700_000_000_000_000
shares = st.floats(FLOOR, 1.0)
lates = st.none() | st.floats(0, 1e9)
bounds = st.floats(1, 1e6)


def lane(p99_ms: float | None, *, age_us: int = 0, **more: object) -> Status:
    given: dict[str, Any] = {"freshness_p99_ms": p99_ms, "outcomes": {}, **more}
    return Status("plays", "running", NOW - age_us, NOW - age_us, **given)


@given(shares, lates, bounds)
def test_a_share_is_bounded(share: float, late: float | None, bound: float) -> None:
    assert FLOOR <= next_share(share, late, bound) <= 1.0


@given(shares, shares, st.floats(0, 1e9), st.floats(0, 1e9), bounds)
def test_later_events_and_a_lower_share_never_give_a_higher_one(
    one: float, other: float, early: float, late: float, bound: float
) -> None:
    early, late = sorted((early, late))
    one, other = sorted((one, other))
    assert next_share(one, late, bound) <= next_share(one, early, bound)
    assert next_share(one, late, bound) <= next_share(other, late, bound)


@given(st.floats(0, 1e6), st.floats(0, 1e6), shares, shares)
def test_a_pause_is_bounded_and_monotone(
    took: float, longer: float, share: float, higher: float
) -> None:
    took, longer = sorted((took, longer))
    share, higher = sorted((share, higher))
    assert 0 <= pause_s(took, share) <= MOST_PAUSE_S
    assert pause_s(took, share) <= pause_s(longer, share)
    assert pause_s(took, higher) <= pause_s(took, share)
    assert pause_s(took, 1.0) == 0


@given(st.lists(lates, max_size=50), bounds, st.floats(0.001, 60))
def test_a_build_makes_progress_however_late_events_are(
    looks: list[float | None], bound: float, took: float
) -> None:
    """Work of so many seconds rests for at most 1 / FLOOR - 1 times as many."""
    for share in accumulate(looks, lambda share, late: next_share(share, late, bound), initial=1.0):
        assert pause_s(took, share) <= took * (1 / FLOOR - 1) + 1e-6


def test_it_recovers_within_a_dozen_looks() -> None:
    share = FLOOR
    for _ in range(11):
        share = next_share(share, 10.0, 1_000.0)
    assert share == 1.0


def test_without_a_bound_or_a_measure_it_is_as_fast_as_it_can() -> None:
    assert next_share(FLOOR, 1e9, 0) == 1.0
    assert next_share(FLOOR, None, 1_000.0) == 1.0


def test_the_latest_source_counts() -> None:
    other = Status("clicks", "running", NOW, NOW, freshness_p99_ms=700.0, outcomes={})
    assert freshness([lane(9.0), other], NOW) == Freshness(700.0, "clicks")
    assert freshness([lane(None)], NOW) == Freshness(0.0, "plays")


def test_events_that_wait_for_a_micro_batch_may_be_later() -> None:
    batches = lane(4_000.0, outcomes=None)
    fresh = freshness([batches, lane(700.0)], NOW)
    assert fresh == Freshness(700.0, "plays"), "a lane of its own is nearer to its bound"
    alone = freshness([batches], NOW)
    assert alone == Freshness(4_000.0, "plays", BATCH_TIMES)
    assert "10.0 s is the bound" in reason(replace(alone, late_ms=11_000.0), 0.5, 1_000.0)


def test_events_that_wait_are_late_before_any_is_applied() -> None:
    stalled = Status("plays", "running", NOW, NOW - 4_000_000, {"0": 7})
    assert freshness([stalled], NOW).late_ms == 4_000.0


@pytest.mark.parametrize(("age_us", "late_ms"), [(9_000_000, 5.0), (40_000_000, 40_000.0)])
def test_a_driver_that_writes_nothing_is_late_by_its_silence(age_us: int, late_ms: float) -> None:
    assert freshness([lane(5.0, age_us=age_us)], NOW).late_ms == late_ms


def test_a_driver_that_is_gone_measures_nothing() -> None:
    gone = lane(5.0, age_us=SILENT_US + 1)
    assert freshness([gone], NOW) == freshness([], NOW) == UNMEASURED
    assert freshness([lane(7.0), gone], NOW).late_ms == 7.0
    assert not at_work("stopped", NOW, NOW)


def test_what_measures_nothing_is_never_the_latest() -> None:
    seen = [UNMEASURED, Freshness(3.0, "the probes"), Freshness(2.0, "plays")]
    assert latest(seen).by == "the probes"
    assert latest([UNMEASURED]) == UNMEASURED


def test_a_slowed_build_gives_its_reason() -> None:
    assert reason(Freshness(2_500.0, "plays"), 0.5, 1_000.0) == (
        "slowed to 50% of its rate: live events come into answers after 2.5 s (plays), 1.0 s is "
        "the bound"
    )
    assert reason(Freshness(9.0, "plays"), 0.5, 1_000.0).startswith("slowed to 50% of its rate: li")
    assert reason(Freshness(2_500.0, "plays"), 1.0, 1_000.0) == ""
