"""Well means all of it: whatever is wrong, or was within a day, is a finding with words and where
to look.

Made from what the store holds alone, for `slicewise status` and the page in Airflow's UI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from slicewise.errors import CodecError
from slicewise.features import own
from slicewise.lifecycle import incidents
from slicewise.lifecycle.health.alerts import Missed, overdue_cause, runbook_link
from slicewise.lifecycle.health.judge import Limits
from slicewise.lifecycle.health.overview import (
    JobLine,
    ViewLine,
    beginning_of,
    health_of,
    jobs_of,
    late_of,
    overview,
    store_reasons,
    unready_units,
)
from slicewise.lifecycle.incidents import Incident
from slicewise.offsets import gaps as accepted_gaps
from slicewise.stores.online.redis.status import StoreStatus

HOUR_S = 3600.0
DAGS: Mapping[str, str] = {
    "compact": "compact_slices",
    "check": "check_consistency",
    "expect": "check_expectations",
    "backfill": "backfill_view",
    "maintain": "maintain_iceberg",
    "sweep": "sweep_expired",
}
EVERY_S: Mapping[str, float] = {
    "compact": HOUR_S,
    "check": HOUR_S,
    "expect": HOUR_S,
    "sweep": 6 * HOUR_S,
    "maintain": 24 * HOUR_S,
}
"""Jobs that run by the clock, as their DAGs have it; what is left out runs when there is something
to do."""
ALLOWED_S = HOUR_S
"""From when a job is due until its report: a run that takes longer pages by itself."""


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be."""

    part: str
    text: str
    look: str
    """Place to look at: a page of the runbook, a log, or a command."""
    now: bool = True
    """True where it is wrong now; else it happened within a day, was accepted, or starts while
    answers are right."""


def findings(status: StoreStatus, limits: Limits) -> tuple[Finding, ...]:
    """Findings that are wrong now, worst for answers first, then what happened."""
    if not status.sources:
        return (Finding("views", "nothing is deployed", "slicewise apply", now=False),)
    summary = overview(status, limits)
    return (
        *_views(summary.views),
        *_parts(status, limits),
        *_late(status, limits),
        *(finding for job in summary.jobs for finding in _job(job, status)),
        *_never(status),
        *_accepted_gaps(status),
        *_alerts(status),
    )


def _views(views: tuple[ViewLine, ...]) -> list[Finding]:
    look = runbook_link(DAGS["backfill"])
    return [
        Finding(f"view {view.view}", f"answers 503: building, {view.waits}", look)
        for view in views
        if not view.ready
    ]


def _parts(status: StoreStatus, limits: Limits) -> list[Finding]:
    """Findings on the stream and what runs beside it; a reason comes with the section of its
    part."""
    health = health_of(status, limits)
    if health.stopped:
        lacks = [
            Finding("store", reason, runbook_link("store")) for reason in store_reasons(status)
        ]
        return [
            Finding(
                "stream",
                "stopped on purpose: answers grow old",
                "slicewise stream ensure",
                now=False,
            ),
            *lacks,
        ]
    findings = [
        Finding(part, reason, runbook_link(part))
        for part, reasons in health.parts.items()
        for reason in reasons
    ]
    if not health.parts:  # none of a part: what of the stream cannot be read
        findings = [Finding("stream", reason, runbook_link("stream")) for reason in health.reasons]
    waits = [Finding("stream", reason, runbook_link("stream")) for reason in health.starting]
    return [
        *findings,
        *waits,
        *(Finding("starting", reason, "slicewise status", now=False) for reason in health.warming),
    ]


def _late(status: StoreStatus, limits: Limits) -> list[Finding]:
    look = runbook_link("freshness")
    return [Finding("freshness", missed.text, look) for missed in late_of(status, limits)]


def _job(job: JobLine, status: StoreStatus) -> list[Finding]:
    faults = []
    # a build runs where a view is not ready: without one, none comes that would end well
    over = job.job == "backfill" and not unready_units(status)
    if not job.ok and not (over and job.age_s > 24 * HOUR_S):
        red = job.job == "check" and (
            job.report.get("mismatches") or job.report.get("plain_sums_off")
        )
        look = runbook_link("check_red" if red else DAGS[job.job])
        faults.append(
            Finding(f"job {job.job}", f"its last run failed, {_ago(job.age_s)}", look, now=not over)
        )
    if _due(job.job, job.age_s):
        faults.append(_overdue(job.job, f"reported last {_ago(job.age_s)}"))
    return faults


def _never(status: StoreStatus) -> list[Finding]:
    return [_overdue(job, "has never reported") for job in _never_reported(status)]


def _never_reported(status: StoreStatus) -> list[str]:
    """Jobs that have not reported once although the last deployment has stood for long."""
    deployed_us = beginning_of(status, "stream").deployed_us
    if not deployed_us:
        return []
    age_s = (status.now_us - deployed_us) / 1e6
    reported = {line.job for line in jobs_of(status)}
    return [job for job in EVERY_S if job not in reported and _due(job, age_s)]


def overdue_jobs(status: StoreStatus) -> frozenset[str]:
    """Jobs that should have reported since they did, or once; none where nothing is deployed."""
    if not status.sources:
        return frozenset()
    late = (line.job for line in jobs_of(status) if _due(line.job, line.age_s))
    return frozenset((*late, *_never_reported(status)))


def missed_jobs(status: StoreStatus) -> tuple[Missed, ...]:
    """Jobs of the clock that should have reported since they did, or once."""
    if not status.sources:
        return ()
    late = {
        one.job: f"reported last {_ago(one.age_s)}"
        for one in jobs_of(status)
        if _due(one.job, one.age_s)
    }
    late |= dict.fromkeys(_never_reported(status), "has never reported")
    return tuple(
        Missed(overdue_cause(DAGS[job]), f"{DAGS[job]}: {_overdue(job, reason).text}")
        for job, reason in late.items()
    )


def _overdue(job: str, reason: str) -> Finding:
    every_s, dag = EVERY_S[job], DAGS[job]
    often = "every hour" if every_s == HOUR_S else f"every {every_s / HOUR_S:.0f} hours"
    return Finding(
        f"job {job}",
        f"overdue: it runs {often}, and {reason}; is {dag} paused, is Airflow up?",
        runbook_link("overdue"),
    )


def _due(job: str, age_s: float) -> bool:
    """Tells whether a job that was heard of, or might have begun, so long ago should have reported
    since."""
    return job in EVERY_S and age_s > EVERY_S[job] + ALLOWED_S


def _accepted_gaps(status: StoreStatus) -> list[Finding]:
    per_source = []
    for source in status.sources:
        text = status.parts.get(f"holes:{source}")
        if text is None or source == own.SOURCE:
            continue
        try:
            gaps = accepted_gaps.from_json(text, f"status holes:{source}")
        except CodecError as error:
            per_source.append(Finding(f"source {source}", error.what, "slicewise hole"))
            continue
        lost = sum(gap.end - gap.first for gap in gaps)
        if lost:
            text = (
                f"{lost:,} offsets are lost for good, accepted by "
                f"{', '.join(sorted({gap.by for gap in gaps}))}"
            )
            per_source.append(Finding(f"source {source}", text, "slicewise hole", now=False))
    return per_source


def _alerts(status: StoreStatus) -> list[Finding]:
    """Incidents that are open, or were over within a day. What is wrong now has findings of its
    own: an incident says who was paged for it, and since when."""
    return [
        Finding(f"alert {one.alert.event}", _incident(one), one.alert.runbook, now=False)
        for one in incidents.from_text(status.parts.get(incidents.PART))
        if one.is_open or status.now_us - one.changed_us < incidents.DAY_US
    ]


def _incident(incident: Incident) -> str:
    at = datetime.fromtimestamp(incident.opened_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
    often = f", {incident.times} times" if incident.times > 1 else ""
    lasted = incidents.span((incident.over_us - incident.opened_us) / 1e6)
    state = "open" if incident.is_open else f"over after {lasted}"
    alert, nobody = incident.alert, ""
    if incident.is_open and incident.undelivered:
        nobody = f"; nobody was paged: {incident.undelivered}"
    return f"{alert.what} since {at} UTC, {state}{often}: {alert.error}{nobody}"


def _ago(seconds: float) -> str:
    if seconds < 5400:
        return f"{seconds / 60:.0f} min ago"
    return f"{seconds / HOUR_S:.1f} h ago"
