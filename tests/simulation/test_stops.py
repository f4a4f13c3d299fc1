"""Crashes and pauses at every step of small histories: true after each, and false without the rules
that they need."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.catalog import MEETINGS, Entry, rules
from tests.simulation.histories.search import LEAST_DEATHS, LEAST_PAIRS
from tests.simulation.stops.lifetimes import LATE
from tests.simulation.stops.meetings import TRIM
from tests.simulation.stops.pairs import Meeting

UNMET = [(entry, rule) for entry, rule in rules() if not entry.mutants[rule].met]
IN_PAIRS = (*TRIM, LATE)
"""Meetings that rules are removed from. `python -m tests.simulation --stops` plays all pairs of
all."""


@pytest.mark.long
@pytest.mark.replayed
def test_wherever_anybody_dies_the_others_go_on_and_all_is_true() -> None:
    played = 0
    for meeting in MEETINGS.values():
        some, met = meeting.wrong(alone=True)
        assert met is None, f"{meeting.name}\n{met}"
        played += some
    print(f"{len(MEETINGS)} meetings, {played} deaths, none wrong")
    assert played > LEAST_DEATHS


@pytest.mark.long
@pytest.mark.replayed
@pytest.mark.parametrize("meeting", [pytest.param(m, id=m.name) for m in IN_PAIRS])
def test_wherever_two_stop_and_go_on_all_is_true(meeting: Meeting[Any]) -> None:
    played, met = meeting.wrong()
    assert met is None, str(met)
    print(f"{meeting.name}: {played} pairs of stops, none wrong")
    assert played > LEAST_PAIRS


@pytest.mark.long
@pytest.mark.parametrize(
    ("entry", "rule"), [pytest.param(e, r, id=f"{e.name}-{r}") for e, r in UNMET]
)
def test_without_the_rule_two_that_stop_go_wrong(entry: Entry, rule: str) -> None:
    stops = entry.meet(rule)
    assert stops is not None, f"no pair of stops needs the rule {rule!r}"
    name, met = stops
    print(f"{entry.name} without {rule}: {name}: {met.stops}: {met.wrong}")
