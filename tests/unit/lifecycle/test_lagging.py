"""A lane that falls behind is told once, and once more when it is near again; one that catches up
is told nobody."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from slicewise.lifecycle import lagging
from slicewise.lifecycle.lagging import Lag, step
from slicewise.lifecycle.supervision import Notice
from slicewise.stores.online.model.status import Status

NOW, SECOND, LIMIT_S = 1_700_000_000_000_000, 1_000_000, 60.0


def status(lag: int, events_per_s: float = 100.0, source: str = "plays") -> Status:
    return Status(source, "running", NOW, NOW, {"0": lag}, 10, events_per_s)


def looked(lags: Sequence[int], every_s: int = 2) -> tuple[dict[str, Lag], list[Notice]]:
    """State and notices after looks at these lags."""
    kept: dict[str, Lag] = {}
    notices: list[Notice] = []
    for look, lag in enumerate(lags):
        kept, some = step(kept, [status(lag)], NOW + look * every_s * SECOND, LIMIT_S)
        notices += some
    return kept, notices


@pytest.mark.parametrize(("lag", "beyond"), [(6_000, False), (6_001, True)])
def test_a_lane_is_behind_by_what_waits_at_its_rate(lag: int, beyond: bool) -> None:
    kept, notices = looked([lag])
    assert bool(kept) is beyond
    assert notices == []


def test_a_lag_that_grows_is_told_once() -> None:
    kept, notices = looked(range(7_000, 17_000, 50))
    assert notices == [
        (
            "down",
            "plays: 10,000 events behind, 100 s at its 100 events/s, and no fewer since 120 s",
        )
    ]
    assert kept["plays"].notified


def test_a_backlog_that_is_worked_off_is_told_nobody() -> None:
    kept, notices = looked(range(120_000, 0, -100))
    assert notices == []
    assert kept == {}


def test_a_lag_that_falls_by_nothing_is_told_as_one_that_grows() -> None:
    _, notices = looked([7_000] * 200)
    assert [notice.kind for notice in notices] == ["down"]


def test_its_end_is_told_once_it_is_near_and_not_before() -> None:
    grown = list(range(7_000, 17_000, 50))
    kept, notices = looked([*grown, 6_000, 1_501])
    assert len(notices) == 1
    assert kept
    kept, notices = looked([*grown, 1_500, 1_500])
    assert notices[1:] == [("over", "plays: it is near the log's end again, after 400 s")]
    assert kept == {}


def test_a_lane_that_applies_nothing_is_no_lag_of_its_own() -> None:
    assert step({}, [status(9_000, 0.0)], NOW, LIMIT_S) == ({}, ())
    kept, _ = looked([9_000])
    assert step(kept, [status(9_000, 0.0)], NOW + 600 * SECOND, LIMIT_S) == (kept, ())


def test_a_lane_that_is_stopped_on_purpose_has_no_lag() -> None:
    kept = {"plays": Lag(NOW, 9_000, NOW, notified=True), "clicks": Lag(NOW, 9_000, NOW)}
    assert step(kept, [], NOW, LIMIT_S) == (
        {},
        (Notice("over", "plays: it is applied here no more"),),
    )


def test_each_source_has_a_lag_of_its_own() -> None:
    kept, _ = step({}, [status(9_000), status(9_000, source="clicks")], NOW, LIMIT_S)
    assert sorted(kept) == ["clicks", "plays"]
    kept, _ = step(kept, [status(0), status(9_000, source="clicks")], NOW + SECOND, LIMIT_S)
    assert list(kept) == ["clicks"]


def test_what_is_kept_survives_its_file() -> None:
    kept, _ = looked([9_000])
    assert lagging.from_json(json.loads(json.dumps(lagging.to_json(kept)))) == kept
