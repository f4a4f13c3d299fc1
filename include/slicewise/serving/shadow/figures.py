"""Figures of models that answer beside the live one: for the status, and for Prometheus."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from slicewise.errors import SettingsError

EXAMPLES = 3


@dataclass
class Figures:
    """Counts of one model since the process began to answer by it.

    scored: predictions with a score. without_score: those without. skipped: logged answers that
    it would have taken, and passed over, since it was too far behind. foreign: records in the log
    that are no answers.
    """

    scored: int = 0
    without_score: int = 0
    skipped: int = 0
    foreign: int = 0
    behind_s: float = 0.0
    error: str = ""
    examples: deque[str] = field(default_factory=lambda: deque(maxlen=EXAMPLES))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "scored": self.scored,
            "without_score": self.without_score,
            "skipped": self.skipped,
            "foreign": self.foreign,
            "behind_s": round(self.behind_s, 3),
            "error": self.error,
            "examples": list(self.examples),
        }


class Collected(Collector):
    """Figures of all models as metrics, as they are when they are read."""

    def __init__(self, figures: Callable[[], Mapping[str, Figures]]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Metrics by model."""
        counters = {
            name: CounterMetricFamily(f"slicewise_shadow_{name}", text, labels=["model"])
            for name, text in (
                ("scores", "Predictions beside the live model that have a score"),
                ("without_score", "Predictions beside the live model that have none"),
                ("skipped", "Logged answers that were passed over: it was too far behind"),
            )
        }
        behind = GaugeMetricFamily(
            "slicewise_shadow_behind_seconds", "Age of the next logged answer", labels=["model"]
        )
        failing = GaugeMetricFamily(
            "slicewise_shadow_failing", "1 where the last try failed", labels=["model"]
        )
        for model, one in self._figures().items():
            counters["scores"].add_metric([model], one.scored)
            counters["without_score"].add_metric([model], one.without_score)
            counters["skipped"].add_metric([model], one.skipped)
            behind.add_metric([model], one.behind_s)
            failing.add_metric([model], float(bool(one.error)))
        yield from (*counters.values(), behind, failing)


def serve(address: str, figures: Callable[[], Mapping[str, Figures]]) -> int:
    """Serves the metrics at host:port; the port. Raises SettingsError where it cannot."""
    host, _, port = address.rpartition(":")
    registry = CollectorRegistry()
    registry.register(Collected(figures))
    try:
        server, _ = start_http_server(int(port), host, registry)
    except OSError as error:
        raise SettingsError(
            f"the metrics of the shadow models cannot be served: {error}",
            where=f"SLICEWISE_SHADOW_METRICS={address}",
            expected="an address of this machine with a free port",
            next_step="set another port, or 0 for any that is free",
        ) from error
    return int(server.server_port)
