"""The words of `slicewise status` on emission and real-time lane are what a person on call asks
first."""

from __future__ import annotations

from slicewise.local.servers.stream import emission_summary, realtime_summary


def test_status_says_how_far_behind_the_emission_is_and_how_many_leaderboards_it_skipped() -> None:
    views = {"songs": {"boards_skipped": 40}, "plays": {"windows": 3}}
    assert emission_summary(
        {"sources": {"plays": {"lag": {"0": 1_000, "1": 500}, "views": views}}}
    ) == ("lag 1,500 events, 40 leaderboards skipped while it caught up")
    assert (
        emission_summary(
            {"sources": {"plays": {"lag": {"0": 0}, "views": {"songs": {"boards_skipped": 0}}}}}
        )
        == "lag 0 events"
    )
    assert emission_summary({}) == ""


def test_status_says_how_fresh_the_real_time_lane_is_or_why_it_waits() -> None:
    plays = {
        "source": "plays",
        "lag": {"0": 0},
        "freshness_p99_ms": 12.5,
        "skipped": 3_000,
        "waiting": None,
    }
    orders = {
        "source": "orders",
        "lag": {"0": 2},
        "freshness_p99_ms": None,
        "skipped": 0,
        "waiting": None,
    }
    assert realtime_summary({"sources": {"plays": plays, "orders": orders}}) == (
        "lag 2 events, 99 % visible within 12.5 ms, 3,000 events left to the micro-batch lane "
        "(skipped)"
    )
    assert realtime_summary(
        {"sources": {"orders": {**orders, "waiting": "the micro-batch lane is behind"}}}
    ) == ("orders waits: the micro-batch lane is behind")
    assert realtime_summary({}) == "nothing to bring"
