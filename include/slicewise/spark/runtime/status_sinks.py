"""A driver shows a status in three places: store, heartbeat file and Prometheus.

None of them counts: each shows the last status of each source, so that nothing is counted twice.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily as Total
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import Metric
from prometheus_client.core import SummaryMetricFamily as Summary
from prometheus_client.registry import Collector

from slicewise.errors import SettingsError
from slicewise.stores.online.model.status import Status
from slicewise.stores.online.operations.status import PutStatus
from slicewise.stores.online.port import OnlineStore

_SUFFIXES = {Gauge: ("",), Summary: ("_count", "_sum"), Total: ("_total",)}
Table = dict[str, tuple[type[Gauge | Summary | Total], str, str]]
"""Metric -> its kind, its meaning and its labels."""
STREAM: Table = {
    "records": (Total, "Kafka records applied", "source"),
    "bad_records": (Total, "Bad records", "source reason"),
    "rows_left_out": (Total, "Rows left out of a storage unit", "source unit reason"),
    "batch_seconds": (Summary, "Batches", "source"),
    "lag_events": (Gauge, "Not yet applied", "source partition"),
    "freshness_ms": (Gauge, "Kafka time to visible", "source quantile"),
    "lost_events": (Gauge, "Applied, lost by the store, and to be applied again", "source"),
    "restarts": (Total, "Queries started again", "source"),
    "heartbeat_seconds": (Gauge, "Last status", "source"),
    "progress_seconds": (Gauge, "Last time that a batch was applied or no event waited", "source"),
}
REALTIME: Table = {**STREAM, "outcomes": (Total, "Rows by what became of them", "source outcome")}
_STALE = "Leaderboards that were stale before they were written"
EMISSION: Table = {
    **STREAM,
    "windows": (Total, "Rows published at windows' ends", "view"),
    "corrections": (Total, "Corrections published", "view"),
    "leaderboards_skipped": (Total, _STALE, "leaderboard"),
    "behind_seconds": (Gauge, "Wall clock less the last instant published", "view"),
    "partials": (Gauge, "Partials held in memory", "view"),
    "late_events": (Gauge, "Events that came after a window of theirs was published", "view"),
    "too_late_events": (Gauge, "Events whose windows are no longer corrected", "view"),
}


def put_statuses(store: OnlineStore, driver: str, statuses: Sequence[Status]) -> None:
    """Replaces the statuses in the store (`sw:status:<driver>:<source>`)."""
    for status in statuses:
        store.run(PutStatus(f"{driver}:{status.source}", json.dumps(status.to_json())))


def write_heartbeat(file: Path, statuses: Sequence[Status], port: int, realtime: str) -> None:
    """Replaces the heartbeat in one step: a reader sees a whole one, whenever it looks. realtime:
    the setting."""
    sources = {status.source: status.to_json() for status in statuses}
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"metrics_port": port, "tail": realtime, "sources": sources}))
    os.replace(part, file)  # noqa: PTH105


class Metrics(Collector):
    """Prometheus text of all sources of one driver, by their last statuses."""

    def __init__(self, prefix: str = "slicewise_stream", table: Table = STREAM) -> None:
        self._prefix, self._table = prefix, table
        self._last: dict[str, tuple[Status, float]] = {}
        """Per source, and since when it is counted, in seconds."""
        self.registry = CollectorRegistry(auto_describe=True)
        self.registry.register(self)

    def show(self, status: Status) -> None:
        """Shows the status from now on."""
        _, since = self._last.get(status.source, (status, status.heartbeat_us / 1e6))
        self._last[status.source] = status, since

    def collect(self) -> Iterable[Metric]:
        families = {
            name: kind(f"{self._prefix}_{name}", about, labels=labels.split())
            for name, (kind, about, labels) in self._table.items()
        }
        for (name, given), (values, since) in self._together().items():
            family, (kind, _, names) = families[name], self._table[name]
            labels = dict(zip(names.split(), given, strict=True))
            for suffix, value in zip(_SUFFIXES[kind], values, strict=True):
                family.add_sample(family.name + suffix, labels, value)
            if kind is not Gauge:
                family.add_sample(f"{family.name}_created", labels, since)
        return families.values()

    def _together(self) -> dict[tuple[str, tuple[str, ...]], tuple[tuple[float, ...], float]]:
        """Metric and labels -> values, and since when they are counted. What sources have in
        common, as a view that moved from one to another, is counted together; of a gauge the newest
        status is right."""
        together: dict[tuple[str, tuple[str, ...]], tuple[tuple[float, ...], float]] = {}
        last = list(self._last.values())  # in one step: the driver's thread may show a new source
        for status, since in sorted(last, key=lambda one: one[0].heartbeat_us):
            for name, given, values in _samples(status):
                before = together.get((name, given))
                if before is not None and self._table[name][0] is not Gauge:
                    values = tuple(map(sum, zip(before[0], values, strict=True)))
                    since = min(since, before[1])
                together[name, given] = values, since
        return together

    def serve(self, address: str = "127.0.0.1:0", part: str = "stream") -> int:
        """Serves at host:port; the port. Raises SettingsError where it cannot."""
        host, _, port = address.rpartition(":")
        try:
            server, _ = start_http_server(int(port), host, self.registry)
        except OSError as error:
            raise SettingsError(
                f"the metrics of {part} cannot be served: {error}",
                where=f"SLICEWISE_{part.upper()}_METRICS={address}",
                expected="an address of this machine with a free port",
                next_step="set another port, or 0 for any that is free",
            ) from error
        return int(server.server_port)


realtime_metrics = partial(Metrics, "slicewise_realtime", REALTIME)
emission_metrics = partial(Metrics, "slicewise_emit", EMISSION)


def _samples(status: Status) -> Iterator[tuple[str, tuple[str, ...], tuple[float, ...]]]:
    """Metric, its labels' values, and its value; of a summary count and sum."""
    source, totals, bad = (status.source,), status.totals, Counter[str]()
    if totals.batches or status.records:
        yield "records", source, (status.records,)
    for reason, count in status.bad.items():
        bad[reason.partition(":")[0]] += count
    for reason, count in bad.items():
        yield "bad_records", (*source, reason), (count,)
    for unit, counts in status.left_out.items():
        for reason, count in counts.items():
            yield "rows_left_out", (*source, unit, reason), (count,)
    if totals.batches:
        yield "batch_seconds", source, (totals.batches, totals.batch_s)
    for partition, events in status.lag.items():
        yield "lag_events", (*source, partition), (events,)
    for q, ms in (("0.5", status.freshness_p50_ms), ("0.99", status.freshness_p99_ms)):
        yield "freshness_ms", (*source, q), (float("nan") if ms is None else ms,)
    if status.lost is not None:
        yield "lost_events", source, (status.lost,)
    if status.restarts:
        yield "restarts", source, (status.restarts,)
    yield "heartbeat_seconds", source, (status.heartbeat_us / 1e6,)
    if status.progress_us is not None:
        yield "progress_seconds", source, (status.progress_us / 1e6,)
    for outcome, count in (status.outcomes or {}).items():
        if count:
            yield "outcomes", (*source, outcome), (count,)
    for name in ("windows", "corrections", "leaderboards_skipped"):
        for label, count in getattr(totals, name).items():
            yield name, (label,), (count,)
    for view, figures in (status.views or {}).items():
        if figures.behind_ms is not None:
            yield "behind_seconds", (view,), (figures.behind_ms / 1000,)
            for name in ("partials", "late_events", "too_late_events"):
                yield name, (view,), (getattr(figures, name),)
