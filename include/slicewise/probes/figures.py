"""Figures of probes are what was seen: a histogram since the start, and the quantiles of the last
minutes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from slicewise.clock import Clock
from slicewise.errors import SettingsError
from slicewise.probes.prober import Seen

SECONDS = (
    0.001,
    0.002,
    0.003,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
)
MINUTE_US = 60_000_000
RECENT_US = 5 * MINUTE_US


class Metrics:
    """Prometheus text of the prober."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.freshness = Histogram(
            "slicewise_probe_freshness_seconds",
            "From when a probe was due to the HTTP answer that has its event",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.lost = Counter(
            "slicewise_probes_lost",
            "Probes that were in no answer within a minute",
            registry=self.registry,
        )
        self.refused = Counter(
            "slicewise_probe_questions_refused",
            "Questions that nobody answered",
            registry=self.registry,
        )
        self.waiting = Gauge(
            "slicewise_probe_waiting_seconds",
            "Age of the oldest probe in no answer yet",
            registry=self.registry,
        )

    def serve(self, address: str) -> int:
        """Serves at host:port; the port. Raises SettingsError where it cannot."""
        host, _, port = address.rpartition(":")
        try:
            server, _ = start_http_server(int(port), host, self.registry)
        except OSError as error:
            raise SettingsError(
                f"the metrics of the probes cannot be served: {error}",
                where=f"SLICEWISE_PROBES_METRICS={address}",
                expected="an address of this machine with a free port",
                next_step="set another port, or 0 for any that is free",
            ) from error
        return int(server.server_port)


@dataclass
class Recent:
    """Probes of the last minutes, by the clock at which they showed or were given up."""

    clock: Clock
    _shown: deque[tuple[int, float]] = field(default_factory=deque)
    _lost: deque[int] = field(default_factory=deque)

    def add(self, seen: Seen) -> None:
        now = self.clock.now_us()
        self._shown.extend((now, seconds) for seconds in seen.freshness)
        self._lost.extend([now] * seen.lost)
        while self._shown and self._shown[0][0] < now - RECENT_US:
            self._shown.popleft()
        while self._lost and self._lost[0] < now - RECENT_US:
            self._lost.popleft()

    def to_json(self, state: str, waiting_s: float) -> dict[str, Any]:
        """`lifecycle.probing.ProbeStatus` as plain values. minute: of the last; recent: of the last
        five."""
        now = self.clock.now_us()
        minute = sorted(seconds for at, seconds in self._shown if at >= now - MINUTE_US)
        recent = sorted(seconds for at, seconds in self._shown if at >= now - RECENT_US)
        return {
            "state": state,
            "heartbeat_us": now,
            "shown": len(recent),
            "lost": sum(at >= now - RECENT_US for at in self._lost),
            "minute_p50_ms": _quantile_ms(minute, 0.5),
            "minute_p99_ms": _quantile_ms(minute, 0.99),
            "recent_p99_ms": _quantile_ms(recent, 0.99),
            "waiting_ms": round(waiting_s * 1000, 1),
        }


def _quantile_ms(ascending: list[float], q: float) -> float | None:
    """By nearest rank; None without any."""
    if not ascending:
        return None
    return round(ascending[min(len(ascending) - 1, int(q * len(ascending)))] * 1000, 2)
