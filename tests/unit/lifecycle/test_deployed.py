"""A deployment is undone once, where a driver is lost under it again and again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slicewise.lifecycle.deployed import (
    STARTS,
    WELL_US,
    Deployed,
    Deployments,
    DriverState,
    from_json,
    not_undone,
    step,
    to_json,
    undone,
)

NOW, SECOND = 1_700_000_000_000_000, 1_000_000
OLD, NEW = Deployed(6, "old"), Deployed(7, "new")
WELL, MORE = DriverState(records=5), DriverState(records=9)
GOOD = Deployments("old", 6, "old", 6, NOW - 600 * SECOND, NOW - 500 * SECOND)
SEEN = step(GOOD, NEW, {"stream": WELL}, NOW).kept
LOST = DriverState("it hangs", NOW + SECOND, STARTS, 5)


def test_a_deployment_is_good_after_two_minutes_in_which_all_drivers_were_well() -> None:
    kept = step(Deployments(), OLD, {"stream": WELL, "tail": WELL}, NOW).kept
    assert kept.good == ""
    early = step(kept, OLD, {"stream": WELL, "tail": WELL}, NOW + WELL_US - 1).kept
    assert early.good == ""
    kept = step(early, OLD, {"stream": MORE, "tail": WELL}, NOW + WELL_US).kept
    assert (kept.good, kept.good_version) == ("old", 6)


@pytest.mark.parametrize(
    "between",
    [{"stream": replace(LOST, starts=0)}, {"stream": WELL, "tail": LOST}, {}],
    ids=["lost", "another is lost", "stopped"],
)
def test_the_two_minutes_begin_anew_when_a_driver_was_not_well(
    between: dict[str, DriverState],
) -> None:
    kept = step(Deployments(), OLD, {"stream": WELL}, NOW).kept
    kept = step(kept, OLD, between, NOW + WELL_US // 2).kept
    kept = step(kept, OLD, {"stream": MORE}, NOW + WELL_US).kept
    assert kept.good == ""
    most = DriverState(records=20)
    assert step(kept, OLD, {"stream": most}, NOW + 2 * WELL_US).kept.good == "old"


def test_a_deployment_under_which_nothing_was_read_is_not_known_to_be_good() -> None:
    idle = {"stream": DriverState()}
    kept = step(Deployments(), OLD, idle, NOW).kept
    assert step(kept, OLD, idle, NOW + 2 * WELL_US).kept.good == ""


@pytest.mark.parametrize(("starts", "due"), [(STARTS - 1, False), (STARTS, True)])
def test_two_starts_that_did_not_help_undo_a_deployment(starts: int, due: bool) -> None:
    outcome = step(SEEN, NEW, {"stream": replace(LOST, starts=starts), "emit": WELL}, NOW)
    assert outcome.driver == ("stream" if due else "")
    assert (outcome.kept.good, outcome.kept.good_version) == ("old", 6)


def test_nothing_is_undone_where_none_is_known_to_be_good() -> None:
    first = step(Deployments(), NEW, {"stream": WELL}, NOW).kept
    assert step(first, NEW, {"stream": LOST}, NOW + 60 * SECOND).driver == ""


def test_a_driver_that_is_lost_under_the_good_one_undoes_nothing() -> None:
    assert step(GOOD, OLD, {"stream": LOST}, NOW + 60 * SECOND).driver == ""


def test_a_driver_that_was_lost_before_somebody_deployed_undoes_nothing() -> None:
    before = replace(LOST, since_us=SEEN.since_us - 1)
    assert step(SEEN, NEW, {"stream": before}, NOW + 60 * SECOND).driver == ""


def test_a_deployment_is_undone_once_whether_or_not_that_went_well() -> None:
    kept = step(SEEN, NEW, {"stream": LOST}, NOW).kept
    assert step(kept, NEW, {"stream": LOST}, NOW + SECOND).driver == ""
    failed = not_undone(kept, "the schema of 'plays' changed since")
    assert step(failed, NEW, {"stream": LOST}, NOW + SECOND).driver == ""
    assert failed.undone == "it could not be undone: the schema of 'plays' changed since"


def test_what_was_undone_is_known_until_somebody_deploys() -> None:
    kept = step(SEEN, NEW, {"stream": LOST}, NOW).kept
    back = Deployed(8, "old")
    kept = undone(kept, back, "it hangs", NOW)
    kept = step(kept, back, {"stream": LOST}, NOW + SECOND).kept
    assert (kept.undone_version, kept.undone, kept.version) == (7, "it hangs", 8)
    again = step(kept, Deployed(9, "new"), {"stream": WELL}, NOW + 2 * SECOND).kept
    assert (again.undone_version, again.undone) == (0, "")
    lost = replace(LOST, since_us=NOW + 3 * SECOND)
    assert step(again, Deployed(9, "new"), {"stream": lost}, NOW + 4 * SECOND).driver == "stream"


def test_what_is_kept_is_read_again_and_what_is_torn_is_refused() -> None:
    assert from_json(json.loads(json.dumps(to_json(SEEN)))) == SEEN
    torn: object
    for torn in ([], {"god": 1}, None):
        with pytest.raises(TypeError):
            from_json(torn)


def test_an_idle_deployment_is_not_known_to_be_good() -> None:
    """The driver goes on over a deployment: what it read before says nothing of it."""
    before = DriverState(records=5_000)
    kept = step(
        Deployments("old", 6, "old", 6, NOW - 10**9, NOW - 10**9),
        Deployed(7, "new"),
        {"stream": before},
        NOW,
    ).kept
    kept = step(kept, Deployed(7, "new"), {"stream": before}, NOW + WELL_US).kept
    assert kept.good == "old", "no event was read since it was deployed"
    lost = DriverState("it hangs", NOW + 200 * SECOND, STARTS, 5_001)
    assert step(kept, Deployed(7, "new"), {"stream": lost}, NOW + 300 * SECOND).driver == "stream"
