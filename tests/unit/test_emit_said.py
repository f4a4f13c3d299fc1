"""What `slicewise status` says of the emission is what a person on call asks first."""

from __future__ import annotations

from slicewise.local.stream import said_of


def test_status_says_how_far_behind_the_emission_is_and_how_many_boards_it_skipped() -> None:
    views = {"songs": {"boards_skipped": 40}, "plays": {"windows": 3}}
    assert said_of({"sources": {"plays": {"lag": {"0": 1_000, "1": 500}, "views": views}}}) == (
        "lag 1,500 events, 40 boards skipped while it caught up"
    )
    assert (
        said_of({"sources": {"plays": {"lag": {"0": 0}, "views": {"songs": {"boards_skipped": 0}}}}}) == "lag 0 events"
    )
    assert said_of({}) == ""
