"""An entry of the history is one small JSON object with its kind and its time; its size has a
bound, whatever a job reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slicewise.errors import BadRequest
from slicewise.features import own
from slicewise.lifecycle.health.overview import JOBS, freshness_of, probes_of, streams_of
from slicewise.lifecycle.incidents import Incident
from slicewise.lifecycle.reports import slice_rows
from slicewise.stores.online.redis.status import NodeUsage, StoreStatus
from slicewise.windows.durations import DAY_US, HOUR_US

Entry = dict[str, Any]
LATENESS: Mapping[str, int] = {
    "under 5 min": 0,
    "5 min to 1 h": 300_000_000,
    "1 h to 6 h": HOUR_US,
    "6 h to 1 day": 6 * HOUR_US,
    "over 1 day": DAY_US,
}
"""Classes of how long after its hour was over an event came in Kafka -> the least of each."""
MOST_NAMES = 200
"""Most views, sources or features of an entry: those first by name."""
ARCHIVE = "archive"
"""Name of the run that archives for a training set, and of one by hand."""
_PLAIN = ("outcome", "run_id", "took_ms", "values", "mismatches", "mismatches_per_million")


def of_job(job: str, report: Mapping[str, Any], *, ok: bool, at_us: int) -> Entry | None:
    """Entry of a job's run by its report; None for a command that is no job of the platform."""
    if job not in (*JOBS, ARCHIVE) or report.get("dry_run"):
        return None
    entry: Entry = {"kind": "job", "at_us": at_us, "job": job, "ok": ok}
    entry |= {name: report[name] for name in _PLAIN if _is_plain(report.get(name))}
    if views := _compacted(slice_rows(report)):
        entry["slices"] = _bounded(views)
    if archived := _archived(report.get("archived")):
        entry["archived"] = _bounded(archived)
    for name in ("views", "distributions", "memory"):
        if isinstance(report.get(name), Mapping):
            entry[name] = _bounded(report[name])
    return entry


def of_minute(
    status: StoreStatus | None, nodes: Sequence[NodeUsage | None], at_us: int
) -> Entry | None:
    """Entry of what drivers, prober and store show now; None where the store does not answer."""
    up = [node for node in nodes if node is not None]
    if status is None or not up:
        return None
    entry: Entry = {
        "kind": "minute",
        "at_us": at_us,
        "used_bytes": sum(node.used_bytes for node in up),
        "limit_bytes": sum(node.limit_bytes for node in up),
        "keys": sum(node.keys for node in up),
    }
    try:
        probes = probes_of(status)
    except BadRequest:
        probes = None
    if probes is not None and probes.state == "running":
        figures = {"p50_ms": probes.minute_p50_ms, "p99_ms": probes.minute_p99_ms}
        entry["probes"] = {"lost": probes.lost} | figures
    visible = {of.source: of for of in freshness_of(status)}
    entry["sources"] = _bounded(
        {
            stream.source: {
                "lag": stream.lag_events,
                "events_per_s": stream.events_per_s,
                "p99_ms": visible[stream.source].freshness_p99_ms,
            }
            for stream in streams_of(status)[0]
            if stream.source != own.SOURCE and stream.state == "running"
        }
    )
    return entry


def of_failed_try(task: str, run_id: str, map_index: int, number: int, at_us: int) -> Entry:
    """Entry of a task's try that failed, where another follows."""
    return {
        "kind": "failed_try",
        "at_us": at_us,
        "task": task,
        "run_id": run_id,
        "map_index": map_index,
        "try": number,
    }


def of_incident(incident: Incident) -> Entry:
    """Entry of an incident that is over."""
    return {
        "kind": "incident",
        "at_us": incident.over_us,
        "event": incident.alert.event,
        "cause": incident.key,
        "severity": incident.alert.severity,
        "began_us": incident.began_us,
        "opened_us": incident.opened_us,
    }


def is_entry(raw: object) -> bool:
    """Tells whether a line of the history can be read as an entry."""
    return (
        isinstance(raw, dict)
        and isinstance(raw.get("kind"), str)
        and isinstance(raw.get("at_us"), int)
    )


def _compacted(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """View -> events, late ones and bytes of the slices that a run wrote."""
    views: dict[str, Counter[str]] = {}
    for row in rows:
        figures = {name: row.get(name) for name in ("events", "late", "bytes")}
        counted = {name: value for name, value in figures.items() if isinstance(value, int)}
        views.setdefault(str(row.get("view")), Counter()).update(counted)
    return {view: dict(figures) for view, figures in views.items()}


def _archived(archived: object) -> dict[str, dict[str, Any]]:
    """Source -> new events, bad ones, and late ones by how late they were."""
    rows = archived if isinstance(archived, Sequence) and not isinstance(archived, str) else ()
    sources: dict[str, dict[str, Any]] = {}
    for row in rows:
        if isinstance(row, Mapping) and row.get("events") and row.get("source") != own.SOURCE:
            bad = row.get("bad")
            sources[str(row.get("source"))] = {
                "events": row["events"],
                "bad": sum(bad.values()) if isinstance(bad, Mapping) else 0,
                "late": dict(row.get("late") or {}),
            }
    return sources


def _bounded(named: Mapping[str, Any]) -> dict[str, Any]:
    return {name: named[name] for name in sorted(named)[:MOST_NAMES]}


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float) and len(str(value)) <= 200
