"""The stream's status is what it measured; it writes it at every batch and every second.

The same figures go to the store (`sw:status:stream:<source>`), to the heartbeat file of the
supervisor, and to Prometheus.
"""

from __future__ import annotations

import json
import os
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Summary, start_http_server
from prometheus_client import Counter as Total

from slicewise.clock import Clock
from slicewise.errors import SettingsError

OVER_CAPACITY, DUPLICATE = "over_capacity", "duplicate"
_RECENT_US = 60_000_000
"""Rates and freshness are those of the last minute."""


@dataclass(frozen=True)
class BatchFigures:
    """One applied batch."""

    ended_us: int
    records: int
    seconds: float
    freshness_ms: Sequence[float]


class Metrics:
    """Prometheus text of all sources of one driver."""

    def __init__(self, prefix: str = "slicewise_stream") -> None:
        self.registry = CollectorRegistry()

        def labels(*more: str) -> dict[str, Any]:
            return {"labelnames": ("source", *more), "registry": self.registry}

        self.records = Total(f"{prefix}_records", "Kafka records applied", **labels())
        self.bad = Total(f"{prefix}_bad_records", "Bad records", **labels("reason"))
        self.left_out = Total(
            f"{prefix}_rows_left_out", "Rows left out of a storage unit", **labels("unit", "reason")
        )
        self.batches = Summary(f"{prefix}_batch_seconds", "Batches", **labels())
        self.lag = Gauge(f"{prefix}_lag_events", "Not yet applied", **labels("partition"))
        self.freshness = Gauge(
            f"{prefix}_freshness_ms", "Kafka time to visible", **labels("quantile")
        )
        self.lost = Gauge(
            f"{prefix}_lost_events",
            "Applied, lost by the store, and to be applied again",
            **labels(),
        )
        self.restarts = Total(f"{prefix}_restarts", "Queries started again", **labels())
        self.heartbeat = Gauge(f"{prefix}_heartbeat_seconds", "Last status", **labels())
        self.progress = Gauge(
            f"{prefix}_progress_seconds",
            "Last time that a batch was applied or no event waited",
            **labels(),
        )

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


@dataclass
class SourceStatus:
    """The figures of one source."""

    source: str
    clock: Clock
    metrics: Metrics
    state: str = "running"
    records: int = 0
    restarts: int = 0
    lag: Mapping[int, int] = field(default_factory=dict)
    bad: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, Counter[str]] = field(default_factory=dict)
    lost: int = 0
    """Events that the store had applied and lost, and that are to be applied again."""
    last_error: str | None = None
    realtime: str | None = None
    """Setting of the stream: whether it knows of the real-time lane."""
    progress_us: int | None = None
    """Time at which a batch was last applied or no event was waiting; at first, when it first
    spoke."""
    _recent: deque[BatchFigures] = field(default_factory=deque)

    def applied(
        self, outcomes: Sequence[Mapping[str, Any]], seconds: float, reasons: Mapping[int, str]
    ) -> int:
        """Takes in the outcomes of a batch; how many records it had."""
        records: int = sum(outcome["records"] for outcome in outcomes)
        fresh = [value for outcome in outcomes for value in outcome["freshness_ms"]]
        self.progress_us = self.clock.now_us()
        self._recent.append(BatchFigures(self.progress_us, records, seconds, fresh))
        self.records += records
        self.metrics.records.labels(self.source).inc(records)
        self.metrics.batches.labels(self.source).observe(seconds)
        for outcome in outcomes:
            for reason, count in outcome["bad"].items():
                self.bad[reason] += count
                self.metrics.bad.labels(self.source, reason.partition(":")[0]).inc(count)
            for unit, figures in outcome["units"].items():
                named = self.left_out.setdefault(unit, Counter())
                for code, count in figures["left_out"].items():
                    named[reasons[int(code)]] += count
                    self.metrics.left_out.labels(self.source, unit, reasons[int(code)]).inc(count)
                # of an event list: what its capacity left out; of events with ids: what came before
                for figure, reason in (("cut", OVER_CAPACITY), ("duplicates", DUPLICATE)):
                    if figures.get(figure):
                        named[reason] += figures[figure]
                        self.metrics.left_out.labels(self.source, unit, reason).inc(figures[figure])
        return records

    def lagging(self, lag: Mapping[int, int]) -> None:
        self.lag = lag
        if not any(lag.values()):
            self.progress_us = self.clock.now_us()
        for partition, events in lag.items():
            self.metrics.lag.labels(self.source, str(partition)).set(events)

    def lacking(self, events: int) -> None:
        """Sets what the store had applied and lost."""
        self.lost = events
        self.metrics.lost.labels(self.source).set(events)

    def restarted(self, error: str | None) -> None:
        self.restarts += 1
        self.last_error = error
        self.metrics.restarts.labels(self.source).inc()

    def to_json(self) -> dict[str, Any]:
        """The figures as plain values."""
        now = self.clock.now_us()
        if self.progress_us is None:
            self.progress_us = now
        while self._recent and self._recent[0].ended_us < now - _RECENT_US:
            self._recent.popleft()
        fresh = sorted(value for batch in self._recent for value in batch.freshness_ms)
        p50, p99 = quantile(fresh, 0.5), quantile(fresh, 0.99)
        span = (now - self._recent[0].ended_us) / 1e6 if self._recent else 0.0
        rate = sum(batch.records for batch in self._recent) / max(span, 1.0)
        seconds = sorted(batch.seconds for batch in self._recent)
        self.metrics.heartbeat.labels(self.source).set(now / 1e6)
        self.metrics.progress.labels(self.source).set(self.progress_us / 1e6)
        for name, value in (("0.5", p50), ("0.99", p99)):
            self.metrics.freshness.labels(self.source, name).set(
                float("nan") if value is None else value
            )
        return {
            "source": self.source,
            "state": self.state,
            "heartbeat_us": now,
            "progress_us": self.progress_us,
            "lag": {str(partition): events for partition, events in self.lag.items()},
            "records": self.records,
            "events_per_s": round(rate, 1),
            "batches_per_s": round(len(self._recent) / max(span, 1.0), 2),
            "batch_ms_p50": _ms(quantile(seconds, 0.5)),
            "batch_ms_p99": _ms(quantile(seconds, 0.99)),
            "freshness_p50_ms": p50,
            "freshness_p99_ms": p99,
            "bad": dict(self.bad),
            "left_out": {unit: dict(counts) for unit, counts in self.left_out.items()},
            "restarts": self.restarts,
            "lost": self.lost,
            "last_error": self.last_error,
            **({} if self.realtime is None else {"tail": self.realtime}),
        }


def quantile(ascending: Sequence[float], q: float) -> float | None:
    """The value at rank q of ascending values (nearest rank); None without any."""
    if not ascending:
        return None
    return ascending[min(len(ascending) - 1, int(q * len(ascending)))]


def write_heartbeat(
    file: Path, statuses: Mapping[str, Mapping[str, Any]], port: int, realtime: str
) -> None:
    """Replaces the heartbeat in one step: a reader sees a whole one, whenever it looks. realtime:
    the setting."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"metrics_port": port, "tail": realtime, "sources": statuses}))
    os.replace(part, file)  # noqa: PTH105


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
