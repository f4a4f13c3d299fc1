"""Metrics for operators: requests, the store's share of them, freshness, and errors by kind."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

_SECONDS = (
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0,
)  # fmt: skip
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Series:
    """Durations of one kind, counted by bucket."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_SECONDS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(_SECONDS, seconds)] += 1
        self._sum += seconds

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """(upper bound, how many up to it) of each bucket, and the sum of all."""
        names = [*map(str, _SECONDS), "+Inf"]
        return list(zip(names, map(float, accumulate(self._counts)), strict=True)), self._sum


class Durations(Collector):
    """A histogram that one thread feeds, without the lock that the library's own takes per step."""

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._series: dict[tuple[str, ...], Series] = {}
        registry.register(self)

    def labels(self, *values: str) -> Series:
        return self._series.setdefault(values, Series())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for values, series in self._series.items():
            buckets, total = series.read()
            family.add_metric(values, buckets, total)
        yield family


class Metrics:
    """Metrics of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.request_seconds = Durations(
            "slicewise_request_seconds",
            "Time from the whole request to the whole answer",
            ("route",),
            self.registry,
        )
        self.store_seconds = Durations(
            "slicewise_store_seconds",
            "Time of one round trip to the online store",
            (),
            self.registry,
        ).labels()
        self.wait_seconds = Durations(
            "slicewise_wait_seconds",
            "Time that requests waited which had to wait for their work",
            (),
            self.registry,
        ).labels()
        self.shed = Counter(
            "slicewise_shed_total",
            (
                "Requests that were refused because of overload: waited (too long), full (queue), "
                "share (of one client)"
            ),
            ["why"],
            registry=self.registry,
        )
        self.requests = Gauge(
            "slicewise_requests",
            "Requests in work, and waiting for it",
            ["in"],
            registry=self.registry,
        )
        self.values = Counter(
            "slicewise_values_total", "Feature values answered", registry=self.registry
        )
        self.errors = Counter(
            "slicewise_errors_total", "Requests refused or failed", ["kind"], registry=self.registry
        )
        self.flags = Counter(
            "slicewise_flagged_total", "Answers by flag", ["flag"], registry=self.registry
        )
        self.logged_answers = Counter(
            "slicewise_logged_answers_total",
            "Answers of entities that stand in a request log",
            registry=self.registry,
        )
        self.lost_answers = Counter(
            "slicewise_lost_answers_total",
            "Answers of entities that a request log may lack: the buffer was full, the broker did "
            "not say in time that it took them, the process ended, or a defect",
            ["why"],
            registry=self.registry,
        )
        self.outcomes = Counter(
            "slicewise_outcomes_total",
            "Predictions and labels that were taken in",
            ["kind"],
            registry=self.registry,
        )
        self.matched_labels = Counter(
            "slicewise_matched_labels_total",
            "Labels that came without their prediction, by whether one was set beside them",
            ["outcome"],
            registry=self.registry,
        )
        self.listening_failures = Counter(
            "slicewise_listening_failures_total",
            "Times that the background listener broke; freshness is not current meanwhile",
            registry=self.registry,
        )
        self.committed_age = Gauge(
            "slicewise_committed_age_seconds",
            "Time since this process last saw the committed offsets move",
            ["source"],
            registry=self.registry,
        )
        self.lag = Gauge(
            "slicewise_lag_events",
            "Events that are not applied yet, as the stream last said",
            ["source"],
            registry=self.registry,
        )
        self.lost = Gauge(
            "slicewise_lost_events",
            "Events that the store had applied and lost, and that are being applied again",
            ["source"],
            registry=self.registry,
        )
        self.realtime_age = Gauge(
            "slicewise_realtime_age_seconds",
            "Age, by its own time, of the latest event that an answer had from the pending events",
            ["source"],
            registry=self.registry,
        )
        self.leaderboard_age = Gauge(
            "slicewise_leaderboard_age_seconds",
            "Time since the end of the window of a leaderboard, when it was last asked for",
            ["leaderboard"],
            registry=self.registry,
        )
        self.training_sets = Gauge(
            "slicewise_training_sets",
            "Training sets that clients requested, of all processes that share the state folder",
            ["state"],
            registry=self.registry,
        )
        self.partial_cache_bytes = Gauge(
            "slicewise_partial_cache_bytes",
            "About the bytes of combined compacted hours that are remembered",
            registry=self.registry,
        )
        self.partial_cache_reads = Gauge(
            "slicewise_partial_cache_asked",
            "Reads of an entity's compacted hours since the start, by whether they were remembered",
            ["found"],
            registry=self.registry,
        )

    def text(self) -> bytes:
        """The metrics as Prometheus reads them."""
        return bytes(generate_latest(self.registry))
