"""One picture of the platform, made from what the store holds alone: for the UI page, the CLI and
checks of health."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from slicewise.errors import BadRequest, UnknownName
from slicewise.features import own
from slicewise.lifecycle.health.alerts import Missed
from slicewise.lifecycle.health.deadlines import missed_freshness
from slicewise.lifecycle.health.judge import Beginning, Health, Limits, Part, judge, lives
from slicewise.lifecycle.health.probing import ProbeStatus, late
from slicewise.lifecycle.realtime import realtime_sources, realtime_views
from slicewise.lifecycle.reports import counts
from slicewise.stores.online.model import phases
from slicewise.stores.online.model.status import Status
from slicewise.stores.online.redis.status import DEPLOYED, StoreStatus
from slicewise.windows.durations import HOUR_US

JOBS = ("compact", "check", "expect", "backfill", "maintain", "sweep")
_SHOWN = (
    *("source", "state", "heartbeat_us", "lag_events", "events_per_s", "freshness_p50_ms"),
    *("freshness_p99_ms", "last_error", "progress_us", "waiting"),
)


@dataclass(frozen=True)
class ViewLine:
    """A view, of all units that it is stored in."""

    view: str
    units: tuple[str, ...]
    ready: bool
    built: float
    """Part of its history that is built, from 0 to 1, of the unit that is behind."""
    hours: int
    """Hours that are compacted, of the unit that has most."""
    newest_hour: str | None
    """Start of the newest compacted hour, `2026-11-21T08Z`."""
    waits: str = ""
    """Progress of units that are not ready, and what they wait for."""


@dataclass(frozen=True)
class JobLine:
    """The last run of a job, as it reported."""

    job: str
    ok: bool
    age_s: float
    report: Mapping[str, Any]
    counts: Mapping[str, int] = field(default_factory=dict)
    """Lengths and sums of the lists that its report had (`reports.counts`)."""


@dataclass(frozen=True)
class Overview:
    """Overview that somebody who looks after the platform asks for first."""

    now_us: int
    store_id: int | None
    deployment_version: int | None
    health: Health
    streams: tuple[Status, ...]
    probes: ProbeStatus | None
    views: tuple[ViewLine, ...]
    jobs: tuple[JobLine, ...]
    realtime: tuple[Status, ...] = ()
    """Statuses of the real-time lane's driver, of sources where one has spoken and was not switched
    off."""

    def to_json(self) -> dict[str, Any]:
        """Plain values for a page and for `--json`, by their public names; ages in seconds."""
        document = asdict(replace(self, streams=(), realtime=()))
        document["generation"] = document.pop("store_id")
        document["epoch"] = document.pop("deployment_version")
        document["health"]["well"] = self.health.well
        document["streams"] = [_line(status, self.now_us) for status in self.streams]
        del document["realtime"]
        document["tails"] = [_line(status, self.now_us) for status in self.realtime]
        return document


def _line(status: Status, now_us: int) -> dict[str, Any]:
    """A source's line for people, of what they look at first."""
    return {name: getattr(status, name) for name in _SHOWN} | {
        "tail": status.realtime,
        "heartbeat_age_s": (now_us - status.heartbeat_us) / 1e6,
    }


def streams_of(
    status: StoreStatus, part: str = "stream"
) -> tuple[tuple[Status, ...], tuple[str, ...]]:
    """The statuses of the stream's drivers (or of another part: "emit", "tail"), and the reason for
    each source whose words cannot be read."""
    streams, unread = [], []
    for source in status.emitted if part == "emit" else status.sources:
        text = status.parts.get(f"{part}:{source}")
        if text is None:
            continue
        try:
            streams.append(Status.parse(source, text))
        except BadRequest as error:
            unread.append(error.what)
    return tuple(streams), tuple(unread)


def health_of(status: StoreStatus, limits: Limits, supervised: Collection[Part] = ()) -> Health:
    """The health of all streams, and of what publishes beside them, at the store's time.
    supervised: parts whose drivers are known to be lost, and are being started again."""
    streams, unread = streams_of(status)
    judged = judge(streams, status.sources, status.now_us, limits, beginning_of(status, "stream"))
    if judged.stopped and "stream" not in supervised:
        return Health(unread, stopped=not unread)
    healths: dict[Part, Health] = {
        "stream": replace(judged, reasons=(*judged.reasons, *unread), stopped=False),
        "store": Health(store_reasons(status)),
        "emission": _emission(status, limits),
        "tail": _realtime(status, streams, limits),
        "probes": _probes(status, limits),
    }
    return Health.of({part: of for part, of in healths.items() if part not in supervised})


def beginning_of(status: StoreStatus, driver: str) -> Beginning:
    """Since when a driver may be starting, as far as that was recorded."""
    instants = (
        status.parts.get(part, "") for part in (DEPLOYED, f"ensured:{driver}", f"started:{driver}")
    )
    return Beginning(*(int(text) if text.isdigit() else 0 for text in instants))


def lost_events(status: StoreStatus) -> int:
    """Events that the store had applied and lost, and that are to be applied again."""
    return sum(
        max(0, int(value) - int(status.metadata.get(f"g:{name[2:]}", 0)))
        for name, value in status.metadata.items()
        if name.startswith("w:")
    )


def unready(status: StoreStatus) -> tuple[str, ...]:
    """Views whose history is not built."""
    return tuple(dict.fromkeys(unready_units(status).values()))


def require_view(status: StoreStatus, name: object) -> None:
    """Raises UnknownName where a view is named that is not deployed."""
    views = sorted({str(unit["view"]) for unit in status.units})
    if name and name not in {*views, *(unit["storage_fingerprint"] for unit in status.units)}:
        raise UnknownName(
            f"no view {name!r} is deployed",
            where="param view",
            expected=", ".join(views) or "a view that was deployed",
            next_step="correct the name, or leave it empty for all that are not ready",
        )


def unready_units(status: StoreStatus) -> dict[str, str]:
    """Unit -> its view, of those whose history is not built."""
    named = {str(unit["storage_fingerprint"]): str(unit["view"]) for unit in status.units}
    return {unit: view for unit, view in named.items() if f"y:{unit}" not in status.metadata}


def store_reasons(status: StoreStatus) -> tuple[str, ...]:
    """Tells what is wrong with the store itself, whether or not a stream runs."""
    return (*status.wanting, *_lost(status))


def _lost(status: StoreStatus) -> tuple[str, ...]:
    events = lost_events(status)
    return (f"it lost what it had applied, {events} events to go",) if events else ()


def _realtime(status: StoreStatus, streams: Sequence[Status], limits: Limits) -> Health:
    """Health of the real-time lanes of sources whose stream knows of one."""
    written = realtime_sources(status.manifest)
    return _beside(
        status,
        "tail",
        [
            stream.source
            for stream in streams
            if stream.realtime == "on" and stream.source in written
        ],
        limits,
    )


def _emission(status: StoreStatus, limits: Limits) -> Health:
    return _beside(status, "emit", status.emitted, limits)


def _beside(status: StoreStatus, driver: str, sources: Sequence[str], limits: Limits) -> Health:
    """Health of a driver that is wanted for these sources while the stream runs."""
    if not sources:
        return Health(())
    statuses, unread = streams_of(status, driver)
    judged = judge(statuses, sources, status.now_us, limits, beginning_of(status, driver))
    stopped = ("stopped while the stream runs",) if judged.stopped else ()
    return replace(judged, reasons=(*judged.reasons, *stopped, *unread), stopped=False)


def freshness_of(status: StoreStatus) -> tuple[Status, ...]:
    """The status that makes a source's events visible first: its real-time lane's while that lives,
    else its stream's."""
    realtime = {
        stream.source: stream
        for stream in streams_of(status, "tail")[0]
        if lives(stream, status.now_us)
    }
    return tuple(realtime.get(stream.source, stream) for stream in streams_of(status)[0])


def late_of(status: StoreStatus, limits: Limits) -> tuple[Missed, ...]:
    """Views and sources whose events are in answers later than their deadline; a view that the
    real-time lane does not write is judged by the micro-batch lane."""
    if not limits.fresh_within_ms:
        return ()
    return missed_freshness(_sources(status), visible_by(status), status.now_us, limits)


def visible_by(status: StoreStatus) -> dict[str, Status]:
    """View or source -> status of the driver that makes its events visible first; a view that the
    real-time lane does not write has that of the micro-batch lane."""
    by_batches = {str(unit["view"]) for unit in status.units} - realtime_views(status.manifest)
    first = {one.source: one for one in freshness_of(status)}
    streams = {one.source: one for one in streams_of(status)[0]}
    return {
        name: of
        for name, source in _sources(status).items()
        if (of := (streams if name in by_batches else first).get(source)) is not None
    }


def _sources(status: StoreStatus) -> dict[str, str]:
    """View or source -> its source."""
    sources = {name: name for name in status.sources}
    return sources | {str(unit["view"]): str(unit["source"]) for unit in status.units}


def probes_of(status: StoreStatus) -> ProbeStatus | None:
    """The prober's status; None where there never was one. Raises BadRequest."""
    text = status.parts.get("probes")
    return None if text is None else ProbeStatus.parse(text)


def _probes(status: StoreStatus, limits: Limits) -> Health:
    if own.SOURCE not in status.sources:
        return Health(())
    try:
        probes = probes_of(status)
    except BadRequest as error:
        return Health((error.what,))
    beginning, heartbeat_us = (
        beginning_of(status, "probes"),
        None if probes is None else probes.heartbeat_us,
    )
    if beginning.starting(heartbeat_us, status.now_us, limits):
        return Health(
            (),
            starting=(beginning.words(status.now_us),),
            unensured=probes is None and beginning.unensured,
        )
    return Health(late(probes, status.now_us, limits.heartbeat_age_us, limits.probe_ms))


def overview(status: StoreStatus, limits: Limits) -> Overview:
    """The picture."""
    streams, _ = streams_of(status)
    try:
        probes = probes_of(status)
    except BadRequest:
        probes = None  # its health says so
    return Overview(
        now_us=status.now_us,
        store_id=_number(status.metadata.get("generation")),
        deployment_version=_number(status.metadata.get("epoch")),
        health=health_of(status, limits),
        streams=streams,
        probes=probes,
        views=_views(status),
        jobs=jobs_of(status),
        realtime=tuple(
            stream for stream in streams_of(status, "tail")[0] if stream.state != "stopped"
        ),
    )


def job_record(report: Mapping[str, object], *, ok: bool, at_us: int) -> str:
    """Record that a job leaves in the store for the page: its report without long lists, and what
    they come to."""
    short = {
        k: v
        for k, v in report.items()
        if not isinstance(v, Sequence | Mapping) or isinstance(v, str)
    }
    record = {"ok": ok, "at_us": at_us, "report": short, "counts": counts(report)}
    return json.dumps(record, sort_keys=True)


def _views(status: StoreStatus) -> tuple[ViewLine, ...]:
    units: dict[str, list[str]] = {}
    for unit in status.units:
        if unit.get("project") != own.PROJECT:
            units.setdefault(str(unit["view"]), []).append(str(unit["storage_fingerprint"]))
    return tuple(_view(view, tuple(unit), status) for view, unit in units.items())


def _view(view: str, units: tuple[str, ...], status: StoreStatus) -> ViewLine:
    hours = [status.published.get(unit, {}) for unit in units]
    left = [unit for unit in units if f"y:{unit}" not in status.metadata]
    return ViewLine(
        view=view,
        units=units,
        ready=not left,
        built=min((_built(unit, status) for unit in left), default=1.0),
        hours=max(map(len, hours)),
        newest_hour=max((_hour(max(hour)) for hour in hours if hour), default=None),
        waits="; ".join(dict.fromkeys(_waits(unit, status) for unit in left)),
    )


def _built(unit: str, status: StoreStatus) -> float:
    done, _, total = status.metadata.get(f"b:{unit}", b"").partition(b"/")
    return (_number(done) or 0) / (_number(total) or 1)


def _waits(unit: str, status: StoreStatus) -> str:
    done, _, total = status.metadata.get(f"b:{unit}", b"").partition(b"/")
    phase = phases.phases_of(status.parts.get(phases.PART)).get(unit)
    return (
        f"{phases.progress(_number(done) or 0, _number(total) or 0)}; "
        f"{phases.waits_for(phase, status.now_us)}"
    )


def jobs_of(status: StoreStatus) -> tuple[JobLine, ...]:
    """The last run of each job that has reported, in words that can be read."""
    lines = (_job(job, status.parts.get(f"job:{job}"), status.now_us) for job in JOBS)
    return tuple(line for line in lines if line is not None)


def _job(job: str, text: str | None, now_us: int) -> JobLine | None:
    try:
        reported = json.loads(text or "")
        age_s = max(0.0, (now_us - int(reported["at_us"])) / 1e6)
        return JobLine(
            job,
            bool(reported["ok"]),
            age_s,
            reported.get("report", {}),
            reported.get("counts", {}),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _hour(number: int) -> str:
    return datetime.fromtimestamp(number * HOUR_US / 1e6, UTC).strftime("%Y-%m-%dT%HZ")


def _number(raw: bytes | None) -> int | None:
    return int(raw) if raw is not None and raw.isdigit() else None
