"""The words of `slicewise status` on emission and tail are what a person on call asks first."""

from __future__ import annotations

from slicewise.local.servers.stream import said_of, tail_said_of


def test_status_says_how_far_behind_the_emission_is_and_how_many_boards_it_skipped() -> None:
    views = {"songs": {"boards_skipped": 40}, "plays": {"windows": 3}}
    assert said_of({"sources": {"plays": {"lag": {"0": 1_000, "1": 500}, "views": views}}}) == (
        "lag 1,500 events, 40 boards skipped while it caught up"
    )
    assert (
        said_of({"sources": {"plays": {"lag": {"0": 0}, "views": {"songs": {"boards_skipped": 0}}}}}) == "lag 0 events"
    )
    assert said_of({}) == ""


def test_status_says_how_fresh_the_tail_is_or_why_it_waits() -> None:
    plays = {"source": "plays", "lag": {"0": 0}, "freshness_p99_ms": 12.5, "skipped": 3_000, "waiting": None}
    orders = {"source": "orders", "lag": {"0": 2}, "freshness_p99_ms": None, "skipped": 0, "waiting": None}
    assert tail_said_of({"sources": {"plays": plays, "orders": orders}}) == (
        "lag 2 events, 99 % visible within 12.5 ms, 3,000 events left to the fold (skipped)"
    )
    assert tail_said_of({"sources": {"orders": {**orders, "waiting": "the fold is behind"}}}) == (
        "orders waits: the fold is behind"
    )
    assert tail_said_of({}) == "nothing to bring"
