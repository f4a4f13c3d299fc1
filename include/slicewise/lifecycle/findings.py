"""Well means all of it: whatever is wrong, or was within a day, is a finding with words and where to look.

Made from what the store holds alone, for `slicewise status` and the page in Airflow's UI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from slicewise import holes
from slicewise.errors import CodecError
from slicewise.features import own
from slicewise.lifecycle import alerted
from slicewise.lifecycle.alerts import RUNBOOK, aging_kind, runbook_link
from slicewise.lifecycle.health import Limits
from slicewise.lifecycle.overview import JobLine, ViewLine, health_of, lost_events, overview
from slicewise.stores.redis.status import StoreStatus

HOUR_S = 3600.0
DAGS: Mapping[str, str] = {
    "compact": "compact_slices",
    "check": "check_consistency",
    "backfill": "backfill_view",
    "maintain": "maintain_iceberg",
    "sweep": "sweep_expired",
}
EVERY_S: Mapping[str, float] = {"compact": HOUR_S, "check": HOUR_S, "sweep": 6 * HOUR_S, "maintain": 24 * HOUR_S}
"""Jobs that run by the clock, as their DAGs have it; what is left out runs when there is something to do."""
ALLOWED_S = HOUR_S
"""From when a job is due until its report: a run that takes longer pages by itself."""


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be."""

    part: str
    text: str
    look: str
    """Where to look: a page of the runbook, a log, or a command."""
    now: bool = True
    """It is so now; else it happened within a day, or somebody accepted it."""


def findings(status: StoreStatus, limits: Limits) -> tuple[Finding, ...]:
    """What is wrong now, worst for answers first, then what happened."""
    if not status.sources:
        return (Finding("views", "nothing is deployed", "slicewise apply", now=False),)
    found = overview(status, limits)
    return (
        *_views(found.views),
        *_stream(status, limits),
        *(each for job in found.jobs for each in _job(job)),
        *_holes(status),
        *_alerts(status),
    )


def _views(views: tuple[ViewLine, ...]) -> list[Finding]:
    look = runbook_link(DAGS["backfill"])
    waits = {each.view: each.waits for each in views if not each.ready}
    return [Finding(f"view {view}", f"answers 503: building, {text}", look) for view, text in waits.items()]


def _stream(status: StoreStatus, limits: Limits) -> list[Finding]:
    health = health_of(status, limits)
    if health.stopped:
        return [Finding("stream", "stopped on purpose: answers grow old", "slicewise stream ensure", now=False)]
    lost = f"{RUNBOOK}#the-store-lost-what-it-had"
    page = runbook_link("ingest_stream")
    reasons = [
        Finding("stream", each, lost if each.startswith("store: it lost") and lost_events(status) else page)
        for each in health.reasons
    ]
    return [*reasons, *(Finding("stream", each, runbook_link(aging_kind([each]))) for each in health.aging)]


def _job(job: JobLine) -> list[Finding]:
    dag, subject = DAGS[job.job], f"job {job.job}"
    found = []
    if not job.ok:
        found.append(Finding(subject, f"its last run failed, {_ago(job.age_s)}", runbook_link(dag)))
    every_s = EVERY_S.get(job.job)
    if every_s is not None and job.age_s > every_s + ALLOWED_S:
        often = "every hour" if every_s == HOUR_S else f"every {every_s / HOUR_S:.0f} hours"
        text = f"overdue: it runs {often}, and reported last {_ago(job.age_s)}; is {dag} paused, is Airflow up?"
        found.append(Finding(subject, text, runbook_link(dag)))
    return found


def _holes(status: StoreStatus) -> list[Finding]:
    found = []
    for source in status.sources:
        text = status.parts.get(f"holes:{source}")
        if text is None or source == own.SOURCE:
            continue
        try:
            gaps = holes.from_json(text, f"status holes:{source}")
        except CodecError as error:
            found.append(Finding(f"source {source}", error.what, "slicewise hole"))
            continue
        lost = sum(gap.end - gap.first for gap in gaps)
        if lost:
            text = f"{lost:,} offsets are lost for good, accepted by {', '.join(sorted({gap.by for gap in gaps}))}"
            found.append(Finding(f"source {source}", text, "slicewise hole", now=False))
    return found


def _alerts(status: StoreStatus) -> list[Finding]:
    found = []
    for each in alerted.recent(status.parts.get(alerted.PART), status.now_us):
        at = datetime.fromtimestamp(each.at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
        often = f", {each.times} times" if each.times > 1 else ""
        found.append(
            Finding(f"alert {each.event}", f"{each.subject} at {at} UTC{often}: {each.error}", each.runbook, False)
        )
    return found


def _ago(seconds: float) -> str:
    if seconds < 5400:
        return f"{seconds / 60:.0f} min ago"
    return f"{seconds / HOUR_S:.1f} h ago"
