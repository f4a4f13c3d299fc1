"""Metrics of the platform are what its store holds at the moment of a scrape: jobs, views,
incidents and the store itself.

A store that is away breaks no scrape: `slicewise_status_read` is 0 then, and what it would say is
left out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from slicewise import log
from slicewise.errors import SlicewiseError
from slicewise.lifecycle import incidents
from slicewise.lifecycle.findings import overdue_jobs
from slicewise.lifecycle.health.alerts import RANKS
from slicewise.lifecycle.health.judge import Limits
from slicewise.lifecycle.health.overview import JOBS, Overview, freshness_of, overview, streams_of
from slicewise.lifecycle.realtime import realtime_views
from slicewise.stores.online.redis.status import NodeUsage, StoreStatus, read_status, read_usage

TIMEOUT_S = 2.0
"""A scrape waits for ten seconds, and several nodes are read one after another."""
TABLE: dict[str, tuple[str, str]] = {
    "status_read": ("Whether the store answered this scrape: 0 or 1", ""),
    "job_reported_seconds": ("Instant of the last report of a job", "job_name"),
    "job_well": ("Whether the last run of a job was well: 0 or 1", "job_name"),
    "job_overdue": ("Whether a job should have reported since: 0 or 1", "job_name"),
    "job_seconds": ("Duration of the last run of a job", "job_name"),
    "job_figure": ("Figures of the last report of a job", "job_name figure"),
    "view_ready": ("Whether a view answers: 0 or 1", "view"),
    "view_built_ratio": ("Part of a view's history that is built", "view"),
    "view_hours": ("Compacted hours of a view", "view"),
    "view_freshness_ms": ("Kafka time to visible, of a view's source", "view quantile"),
    "driver_stopped": (
        "Whether a driver was stopped on purpose, and runs no more: 0 or 1",
        "driver",
    ),
    "store_up": ("Whether a node of the store answered this scrape: 0 or 1", "node"),
    "store_memory_bytes": ("Memory that a node of the store uses", "node"),
    "store_memory_limit_bytes": ("Memory beyond which a node refuses writes; 0: none", "node"),
    "store_keys": ("Keys of a node of the store", "node"),
    "store_evicted_keys": ("Keys that a node threw away since its server started", "node"),
    "store_clients": ("Connections to a node of the store", "node"),
    "incidents_open": ("Open incidents by the severity of their alert", "severity"),
}
"""Metric -> its meaning and its labels; all are gauges. `job` is a label that Prometheus gives."""
DRIVERS: Mapping[str, str] = {"stream": "stream", "emit": "emit", "tail": "realtime"}
"""Part of the status in which the drivers of sources speak -> job that scrapes them."""
Sample = tuple[str, tuple[str, ...], float]


class PlatformMetrics(Collector):
    """Prometheus text of the platform, from its store."""

    def __init__(
        self,
        redis_url: str = "",
        read: Callable[..., StoreStatus] = read_status,
        usage: Callable[..., tuple[NodeUsage | None, ...]] = read_usage,
    ) -> None:
        self._redis_url, self._read, self._usage = redis_url, read, usage
        self._reading: asyncio.Task[bytes] | None = None
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return _families().values()

    def collect(self) -> Iterable[Metric]:
        families = _families()
        for name, labels, value in self._samples():
            families[name].add_metric(labels, value)
        return families.values()

    def text(self) -> bytes:
        """The metrics as Prometheus reads them; waits for the store."""
        return generate_latest(self.registry)

    async def read(self) -> bytes:
        """The same beside an event loop: scrapes that come together share one read of the store."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(asyncio.to_thread(self.text))
        return await asyncio.shield(self._reading)

    def _samples(self) -> Iterator[Sample]:
        for number, node in enumerate(self._usage(self._redis_url, timeout_s=TIMEOUT_S)):
            yield from _store(str(number + 1), node)
        try:
            status = self._read(self._redis_url, JOBS, timeout_s=TIMEOUT_S)
            samples = [*_status(status)]
        except (SlicewiseError, ValueError, TypeError, KeyError, AttributeError) as error:
            # away, or of another version than this
            log.warning("status_not_read", kind=type(error).__name__, what=str(error))
            samples = [("status_read", (), 0.0)]
        yield from samples


def _families() -> dict[str, Gauge]:
    return {
        name: Gauge(f"slicewise_{name}", about, labels=labels.split())
        for name, (about, labels) in TABLE.items()
    }


def _store(node: str, usage: NodeUsage | None) -> Iterator[Sample]:
    yield "store_up", (node,), float(usage is not None)
    if usage is not None:
        yield "store_memory_bytes", (node,), usage.used_bytes
        yield "store_memory_limit_bytes", (node,), usage.limit_bytes
        yield "store_keys", (node,), usage.keys
        yield "store_evicted_keys", (node,), usage.evicted_keys
        yield "store_clients", (node,), usage.clients


def _status(status: StoreStatus) -> Iterator[Sample]:
    summary = overview(status, Limits())
    yield "status_read", (), 1.0
    yield from _jobs(summary, status)
    yield from _views(summary, status)
    yield from _drivers(summary, status)
    stored = incidents.from_text(status.parts.get(incidents.PART))
    severities = Counter(incident.alert.severity for incident in stored if incident.is_open)
    for severity in RANKS:
        yield "incidents_open", (severity,), severities[severity]


def _jobs(summary: Overview, status: StoreStatus) -> Iterator[Sample]:
    overdue = overdue_jobs(status)
    for job in JOBS:
        yield "job_overdue", (job,), float(job in overdue)
    for line in summary.jobs:
        yield "job_reported_seconds", (line.job,), summary.now_us / 1e6 - line.age_s
        yield "job_well", (line.job,), float(line.ok)
        for figure, value in {**_numbers(line.report), **line.counts}.items():
            if figure == "took_ms":
                yield "job_seconds", (line.job,), value / 1000
            else:
                yield "job_figure", (line.job, figure), value


def _drivers(summary: Overview, status: StoreStatus) -> Iterator[Sample]:
    """A driver of several sources is stopped where all of them are; one that never spoke has no
    sample."""
    for part, driver in DRIVERS.items():
        states = {stream.state for stream in streams_of(status, part)[0]}
        if states:
            yield "driver_stopped", (driver,), float(states == {"stopped"})
    if summary.probes is not None:
        yield "driver_stopped", ("probes",), float(summary.probes.state == "stopped")


def _numbers(report: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in report.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _views(summary: Overview, status: StoreStatus) -> Iterator[Sample]:
    sources = {str(unit["view"]): str(unit.get("source", "")) for unit in status.units}
    first = {stream.source: stream for stream in freshness_of(status)}
    batches = {stream.source: stream for stream in streams_of(status)[0]}
    realtime = realtime_views(status.manifest)
    for line in summary.views:
        yield "view_ready", (line.view,), float(line.ready)
        yield "view_built_ratio", (line.view,), line.built
        yield "view_hours", (line.view,), line.hours
        stream = (first if line.view in realtime else batches).get(sources[line.view])
        if stream is not None:
            for q, ms in (("0.5", stream.freshness_p50_ms), ("0.99", stream.freshness_p99_ms)):
                if ms is not None:
                    yield "view_freshness_ms", (line.view, q), ms
