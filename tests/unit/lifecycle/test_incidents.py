"""A fault is one incident: it pages once, again where it is worse or lasts, and is over once."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.lifecycle.health.alerts import Alert, Matter, alert, deadline_alert, matter_alert
from slicewise.lifecycle.incidents import (
    KEPT_US,
    Incident,
    Incidents,
    from_text,
    merged,
    met,
    not_delivered,
    reminded,
    settled,
    to_text,
)

NOW = 1_700_000_000_000_000
SECOND_US = 1_000_000
AGAIN_US = 4 * 3600 * SECOND_US
LOST = matter_alert("driver_lost", "ingest_stream", "watch", "r", ["it died"], cause="driver.tail")
LOOPS = matter_alert("driver_loops", "ingest_stream", "watch", "r", ["again"], cause="driver.tail")
WELL = matter_alert("driver_well", "ingest_stream", "watch", "r", ["well"], cause="driver.tail")


def of_task(run: str = "r1", error: str = "broken") -> Alert:
    return alert("compact_slices", "compact", run, error)


def everything(_: Incident) -> bool:
    return True


def test_a_fault_that_is_met_by_many_runs_pages_once() -> None:
    before: Incidents = ()
    pages: list[Alert] = []
    for number in range(5):
        before, some = met(
            before, of_task(f"r{number}", f"e{number}"), NOW + number * SECOND_US, AGAIN_US
        )
        pages += some
    assert [sent.run for sent in pages] == ["r0"]
    (incident,) = before
    assert (incident.times, incident.pages, incident.is_open) == (5, 1, True)
    assert (incident.alert.error, incident.opened_us) == ("e4", NOW)


def test_a_fault_that_lasts_pages_again_after_the_stated_time_and_says_for_how_long() -> None:
    before, _ = met((), of_task(), NOW, AGAIN_US)
    before, pages = met(before, of_task(), NOW + AGAIN_US - 1, AGAIN_US)
    assert pages == ()
    before, (page,) = met(before, of_task(), NOW + AGAIN_US, AGAIN_US)
    assert page.error == "broken (open for 4.0 h, met 3 times)"
    before, pages = met(before, of_task(), NOW + 2 * AGAIN_US - 1, AGAIN_US)
    assert pages == ()


def test_one_that_nobody_meets_again_is_reminded_of_while_it_lasts() -> None:
    before, _ = met((), LOST, NOW, AGAIN_US)
    assert reminded(before, {"driver.tail"}, NOW + AGAIN_US - 1, AGAIN_US) == (before, ())
    assert reminded(before, {"driver.stream"}, NOW + AGAIN_US, AGAIN_US) == (before, ())
    before, (page,) = reminded(before, {"driver.tail"}, NOW + AGAIN_US, AGAIN_US)
    assert page.error == "a driver is lost: it died (open for 4.0 h, met once)"
    assert reminded(before, {"driver.tail"}, NOW + AGAIN_US + 1, AGAIN_US)[1] == ()
    assert (before[0].pages, before[0].times) == (2, 1)


def test_one_that_gets_worse_pages_at_once_and_stays_as_bad_as_it_was() -> None:
    before, _ = met((), LOST, NOW, AGAIN_US)
    before, pages = met(before, LOOPS, NOW + 1, AGAIN_US)
    assert pages == (LOOPS,)
    before, pages = met(before, LOST, NOW + 2, AGAIN_US)
    assert pages == ()
    assert before[0].alert == LOOPS


def test_the_word_that_it_is_over_is_told_once() -> None:
    before, _ = met((), LOST, NOW, AGAIN_US)
    before, pages = met(before, WELL, NOW + SECOND_US, AGAIN_US)
    assert pages == (WELL,)
    assert not before[0].is_open
    assert met(before, WELL, NOW + 2 * SECOND_US, AGAIN_US) == (before, ())
    assert met((), WELL, NOW, AGAIN_US) == ((), (WELL,)), "nobody knows whether it was told"


def test_what_settles_ends_what_is_open_and_only_once() -> None:
    before, _ = met((), of_task(), NOW, AGAIN_US)
    before, _ = met(before, LOST, NOW, AGAIN_US)
    before, (page,) = settled(
        before, lambda one: one.key == "compact_slices.compact", NOW + 90 * SECOND_US
    )
    assert (page.event, page.over, page.severity) == ("incident_over", True, "info")
    assert page.key == "compact_slices.compact", "a pager takes both for one incident"
    assert page.error == "it is over, after 2 min, met once: broken"
    assert page.runbook.endswith("docs/runbook.md#an-incident-is-over")
    assert settled(before, lambda one: one.key == page.key, NOW)[1] == ()
    assert [one.key for one in before if one.is_open] == ["driver.tail"]


@pytest.mark.parametrize(
    ("matter", "cause", "event"),
    [
        ("broker_away", "broker", "broker_back"),
        ("driver_lost", "driver.tail", "driver_well"),
        ("lagging", "lag.payments", "stream_caught_up"),
        ("store", "store", "incident_over"),
    ],
)
def test_an_incident_is_over_by_the_same_word_whoever_saw_it_first(
    matter: Matter, cause: str, event: str
) -> None:
    before, _ = met((), matter_alert(matter, "d", "t", "r", ["x"], cause=cause), NOW, AGAIN_US)
    # what follows from it is met meanwhile, and joins it
    before, _ = met(before, matter_alert("stream", "d", "t", "r", [], cause=cause), NOW, AGAIN_US)
    _, (page,) = settled(before, everything, NOW + SECOND_US)
    assert (page.event, page.key, page.over) == (event, cause, True)


def test_a_fault_that_comes_back_is_another_incident() -> None:
    before, _ = met((), of_task(), NOW, AGAIN_US)
    before, _ = settled(before, everything, NOW + 1)
    before, pages = met(before, of_task(), NOW + 2, AGAIN_US)
    assert len(pages) == 1
    assert [one.is_open for one in before] == [False, True]


def test_a_page_that_no_channel_took_is_tried_the_next_time() -> None:
    before, _ = met((), of_task(), NOW, AGAIN_US)
    before = not_delivered(before, "compact_slices.compact")
    assert (before[0].paged_us, before[0].pages) == (0, 0)
    before, pages = met(before, of_task(), NOW + 1, AGAIN_US)
    assert len(pages) == 1
    assert before[0].pages == 1


def test_each_failed_run_of_what_a_person_triggers_is_an_incident() -> None:
    sent = [alert("build_training_set", "build", run, "no spine") for run in ("r1", "r2")]
    assert [one.key for one in sent] == [
        "build_training_set.build.r1",
        "build_training_set.build.r2",
    ]
    assert deadline_alert("compact_slices", "r", "noon").key == "compact_slices"


def test_two_copies_become_one_by_what_happened_last() -> None:
    before, _ = met((), of_task(), NOW, AGAIN_US)
    over, _ = settled(before, everything, NOW + 5)
    later, _ = met(before, of_task(), NOW + 9, AGAIN_US)
    assert merged(before, later, NOW) == later
    assert merged(later, over, NOW) == over, "what is over stays over"
    other, _ = met((), of_task("r2"), NOW + 3, AGAIN_US)
    assert merged(other, before, NOW) == before, "a cause has one open incident: the first"


def test_old_incidents_are_left_out() -> None:
    over, _ = settled(met((), of_task(), NOW, AGAIN_US)[0], everything, NOW + 1)
    assert merged(over, (), NOW + 1 + KEPT_US) == over
    assert merged(over, (), NOW + 2 + KEPT_US) == ()
    many: Incidents = ()
    for number in range(300):
        many, _ = met(many, alert(f"dag{number}", "t", "r", "e"), NOW + number, AGAIN_US)
    assert len(merged(many, (), NOW + 300)) == 100


CHANGES = st.lists(st.sampled_from(["lost", "loops", "well", "settled"]), max_size=12)


@given(CHANGES, CHANGES)
def test_merging_forgets_nothing_twice_and_does_not_depend_on_the_order(
    own: list[str], theirs: list[str]
) -> None:
    def after(changes: list[str]) -> Incidents:
        before: Incidents = ()
        for number, change in enumerate(changes):
            now_us = NOW + number * SECOND_US
            if change == "settled":
                before, _ = settled(before, everything, now_us)
            else:
                sent = {"lost": LOST, "loops": LOOPS, "well": WELL}[change]
                before, _ = met(before, sent, now_us, AGAIN_US)
        return before

    one, other = after(own), after(theirs)
    both = merged(one, other, NOW)
    assert merged(both, one, NOW) == both
    assert merged(one, one, NOW) == merged(one, (), NOW)
    assert {(i.key, i.is_open) for i in both} == {
        (i.key, i.is_open) for i in merged(other, one, NOW)
    }
    assert sum(one.is_open for one in both) <= 1
    assert merged(from_text(to_text(both)), (), NOW) == both


@pytest.mark.parametrize(
    "text", [None, "", "torn", "7", '[{"alert": 1}]', '[{"alert": {}, "opened_us": "x"}]']
)
def test_a_text_that_cannot_be_read_holds_none(text: str | None) -> None:
    assert from_text(text) == ()


def test_alerts_that_an_older_release_kept_are_read_as_over() -> None:
    old = {
        "event": "check_red",
        "subject": "check_consistency.check",
        "error": "3 values differ",
        "runbook": "docs/runbook.md#the-check-is-red",
        "at_us": NOW,
        "times": 2,
    }
    (incident,) = from_text(json.dumps([old]))
    assert (incident.alert.what, incident.alert.event) == ("check_consistency.check", "check_red")
    assert (incident.times, incident.is_open) == (2, False)


def test_an_alert_says_how_bad_it_is_what_was_tried_and_what_to_do() -> None:
    sent = alert("compact_slices", "compact", "r", "broken", tries=3, owner="team-music")
    text = sent.text()
    assert text.startswith("slicewise warning task_failed: compact_slices.compact (r): broken.")
    assert "Tried: 3 times, and each failed. Next: read the task's log;" in text
    fields = sent.fields()
    assert (fields["severity"], fields["owner"]) == ("warning", "team-music")
    assert alert("ingest_stream", "ensure_running", "r", "e").severity == "critical"
    assert "Next" not in replace(WELL, next_step="").text()
