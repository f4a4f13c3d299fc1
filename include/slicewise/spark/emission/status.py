"""An emission's status is what it measured: beside the figures of every stream, those of its
views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Counter, Gauge

from slicewise.emission.ticks import Correction, Tick
from slicewise.emission.view import Progress, ViewEmission
from slicewise.spark.microbatch.status import Metrics, SourceStatus

PREFIX = "slicewise_emit"


class EmissionMetrics(Metrics):
    """Metrics of a stream, and per view what it published."""

    def __init__(self) -> None:
        super().__init__(PREFIX)
        view: dict[str, Any] = {"labelnames": ("view",), "registry": self.registry}
        self.windows = Counter(f"{PREFIX}_windows", "Rows published at windows' ends", **view)
        self.corrections = Counter(f"{PREFIX}_corrections", "Corrections published", **view)
        self.skipped = Counter(
            f"{PREFIX}_leaderboards_skipped",
            "Leaderboards that were stale before they were written",
            ["leaderboard"],
            registry=self.registry,
        )
        self.behind = Gauge(
            f"{PREFIX}_behind_seconds", "Wall clock less the last instant published", **view
        )
        self.partials = Gauge(f"{PREFIX}_partials", "Partials held in memory", **view)
        self.late = Gauge(
            f"{PREFIX}_late_events",
            "Events that came after a window of theirs was published",
            **view,
        )
        self.too_late = Gauge(
            f"{PREFIX}_too_late_events", "Events whose windows are no longer corrected", **view
        )


@dataclass
class EmissionStatus(SourceStatus):
    """The figures of one source's emissions."""

    views: dict[str, dict[str, Any]] = field(default_factory=dict)

    def begun(self, view: str, instant_us: int) -> None:
        self.views[view] = {
            "instant_us": instant_us,
            "windows": 0,
            "corrections": 0,
            "boards_skipped": 0,
        }

    def read(self, records: int, seconds: float) -> None:
        """A batch was read, and what it let pass was published."""
        self.applied(
            [{"records": records, "freshness_ms": [], "bad": {}, "units": {}}], seconds, {}
        )

    def published(
        self, emission: ViewEmission, progress: Progress, published: Sequence[Tick | Correction]
    ) -> None:
        """An instant's ticks and corrections were handed over."""
        name, metrics = emission.view, self.metrics
        self.progress_us = self.clock.now_us()  # also within a batch that lets many instants pass
        assert isinstance(metrics, EmissionMetrics)
        windows = sum(int(tick.changed.sum()) for tick in published if isinstance(tick, Tick))
        corrections = sum(
            len(correction.ends_us)
            for correction in published
            if isinstance(correction, Correction)
        )
        figures = self.views[name]
        figures["instant_us"] = progress.instant_us
        figures["windows"] += windows
        figures["corrections"] += corrections
        figures["partials"] = sum(of_unit.state.rows for of_unit in emission.emissions)
        figures["late_events"] = sum(of_unit.late_rows for of_unit in emission.emissions)
        figures["too_late_events"] = sum(of_unit.too_late for of_unit in emission.emissions)
        figures["behind_ms"] = round((self.clock.now_us() - progress.instant_us) / 1000)
        metrics.windows.labels(name).inc(windows)
        metrics.corrections.labels(name).inc(corrections)
        metrics.behind.labels(name).set(figures["behind_ms"] / 1000)
        metrics.partials.labels(name).set(figures["partials"])
        metrics.late.labels(name).set(figures["late_events"])
        metrics.too_late.labels(name).set(figures["too_late_events"])

    def skipped(self, view: str, leaderboards: Mapping[str, int]) -> None:
        """Leaderboards of these names were left to newer ones."""
        assert isinstance(self.metrics, EmissionMetrics)
        for leaderboard, n in leaderboards.items():
            self.metrics.skipped.labels(leaderboard).inc(n)
            self.views[view]["boards_skipped"] += n

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {
            "views": {name: dict(figures) for name, figures in self.views.items()}
        }
