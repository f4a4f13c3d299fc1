"""A failure is told with its runbook page, and only where the environment says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slicewise.lifecycle.health.alerts import (
    ANCHORS,
    MATTERS,
    RUNBOOK,
    alert,
    channels,
    deadline_alert,
    matter_alert,
    runbook_link,
)

ROOT = Path(__file__).resolve().parents[4]


def test_without_configuration_there_is_the_log_alone() -> None:
    assert channels({}) == ()
    assert channels({"SLICEWISE_ALERT_WEBHOOK": ""}) == ()


def test_channels_are_those_that_the_environment_names() -> None:
    env = {
        "SLICEWISE_ALERT_SLACK_CONN": "slack",
        "SLICEWISE_ALERT_WEBHOOK": "https://hook",
        "OTHER": "x",
    }
    assert [(channel.kind, channel.target) for channel in channels(env)] == [
        ("webhook", "https://hook"),
        ("slack", "slack"),
    ]


def test_an_alert_tells_the_first_line_of_the_error_only() -> None:
    sent = alert("compact_slices", "compact", "r1", ValueError("a\nsecond line"))
    assert sent.error == "a"
    assert "second" not in sent.text()
    assert sent.runbook.endswith("#compaction-fails")
    assert alert("x", "y", "z", None).error == "no error was recorded"


def test_a_missed_deadline_is_told_of_the_run_and_not_of_a_task() -> None:
    sent = deadline_alert("compact_slices", "r1", "2026-11-21T10:55:00+00:00")
    assert sent.text().startswith(
        "slicewise warning deadline_missed: compact_slices (r1): not over by 2026-11-21T10:55"
    )
    assert sent.runbook.endswith("#compaction-fails")


def test_the_link_follows_the_base_of_the_repository() -> None:
    assert runbook_link("stop_stream", "https://host/blob/main/") == (
        "https://host/blob/main/docs/runbook.md#the-stream-does-not-stop"
    )
    assert runbook_link("unknown") == RUNBOOK


@pytest.mark.parametrize("dag", sorted([*ANCHORS, *MATTERS]))
def test_every_link_leads_to_a_section_of_the_runbook(dag: str) -> None:
    headings = re.findall(r"^#+ (.+)$", (ROOT / RUNBOOK).read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert runbook_link(dag).partition("#")[2] in anchors


def test_every_dag_has_a_section() -> None:
    assert {path.stem for path in (ROOT / "dags").glob("*.py")} == set(ANCHORS)


def test_every_matter_has_words_an_event_and_a_section_of_its_own() -> None:
    for of in ("event", "anchor", "message"):
        assert len({getattr(words, of) for words in MATTERS.values()}) == len(MATTERS), of


def test_alerts_of_two_matters_are_two_incidents() -> None:
    realtime, probes = (
        matter_alert(part, "ingest_stream", "watch", "r", ["late"]) for part in ("tail", "probes")
    )
    assert realtime.key != probes.key
    assert realtime.subject != probes.subject


def test_an_alert_tells_every_reason_by_its_first_line_and_counts_what_is_too_long() -> None:
    sent = matter_alert(
        "stream",
        "ingest_stream",
        "watch",
        "r",
        ["plays: it gave up: a\n  where: b", "songs: silent"],
    )
    assert sent.error == "the stream is not well: plays: it gave up: a; songs: silent"
    many = matter_alert(
        "stream", "ingest_stream", "watch", "r", [f"source{n}: {'x' * 400}" for n in range(9)]
    )
    assert many.error.endswith("and 6 more, in the task's log")
    assert "source2" in many.error
