"""The real-time lane's status is what its writers acknowledged: they say it in the store, the
driver sums it.

A writer speaks for one partition, once a second, in figures that only grow while it lives; of
another start of the query it is another writer (`run`), whose figures begin anew. So may those of
one run, where a batch ended before it was relieved, and the next one's writer found another run in
its place.
"""

from __future__ import annotations

import json
import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Counter as Total

from slicewise.spark.microbatch.status import Metrics, SourceStatus

PREFIX = "slicewise_realtime"
COUNTED = ("rows", "written", "known", "expired", "skipped", "reconnects")
_RECENT_US = 60_000_000


class RealtimeMetrics(Metrics):
    """Metrics of a stream, and what became of the rows."""

    def __init__(self) -> None:
        super().__init__(PREFIX)
        self.outcomes = Total(
            f"{PREFIX}_outcomes",
            "Rows by what became of them",
            ["source", "outcome"],
            registry=self.registry,
        )


@dataclass(frozen=True)
class WriterStatus:
    """Last status of a writer."""

    run: str
    partition: int
    acked: int
    """Last offset up to which all was acknowledged; -1: none yet."""
    counts: Mapping[str, int]
    histogram: Mapping[float, int]
    """Upper bound in milliseconds -> writes so far that took at most that from Kafka's timestamp to
    acknowledged."""

    def continues(self, before: WriterStatus) -> bool:
        """Tells whether these figures contain those."""
        return (self.run, self.partition) == (before.run, before.partition) and (
            self.acked >= before.acked and self.counts["rows"] >= before.counts["rows"]
        )

    @staticmethod
    def parse(text: str) -> WriterStatus:
        """The status in the store's JSON."""
        raw = json.loads(text)
        counts = {name: int(raw.get(name, 0)) for name in COUNTED}
        bounds = [*raw["ms"]["bounds"], math.inf]
        histogram = {
            float(bound): int(count)
            for bound, count in zip(bounds, raw["ms"]["counts"], strict=True)
        }
        return WriterStatus(
            str(raw["run"]), int(raw["partition"]), int(raw["acked"]), counts, histogram
        )


@dataclass
class RealtimeStatus(SourceStatus):
    """The figures of one source's real-time lane."""

    totals: Counter[str] = field(default_factory=Counter)
    waiting: str | None = None
    """Reason for which it has not begun yet."""
    _last: dict[int, WriterStatus] = field(default_factory=dict)
    _fresh: deque[tuple[int, int, Mapping[float, int]]] = field(default_factory=deque)

    def take_in(self, statuses: Iterable[WriterStatus]) -> None:
        """Takes in what the writers of the query that runs say."""
        now, fresh, rows = self.clock.now_us(), Counter[float](), 0
        for status in statuses:
            before = self._last.get(status.partition)
            if before is not None and not status.continues(before):
                before = None
            self._last[status.partition] = status
            for name, count in status.counts.items():
                # reconnects: those of each batch
                more = max(0, count - (before.counts[name] if before else 0))
                self.totals[name] += more
                self._outcome(name, more)
                rows += more if name == "rows" else 0
            for bound, count in status.histogram.items():
                fresh[bound] += count - (before.histogram.get(bound, 0) if before else 0)
        if rows:
            self.progress_us = now
            self.records += rows
            self.metrics.records.labels(self.source).inc(rows)
            self._fresh.append((now, rows, fresh))

    def lagging(self, lag: Mapping[int, int]) -> None:
        super().lagging(lag)
        if self.waiting:
            self.progress_us = self.clock.now_us()  # it is the micro-batch lane that makes progress

    def _outcome(self, name: str, more: int) -> None:
        assert isinstance(self.metrics, RealtimeMetrics)
        if more > 0:
            self.metrics.outcomes.labels(self.source, name).inc(more)

    def to_json(self) -> dict[str, Any]:
        figures = super().to_json()
        now = int(figures["heartbeat_us"])
        while self._fresh and self._fresh[0][0] < now - _RECENT_US:
            self._fresh.popleft()
        whole = Counter[float]()
        for *_, outcome in self._fresh:
            whole.update(outcome)
        bounds = sorted(whole)
        p50, p99 = (quantile_of([(b, whole[b]) for b in bounds], q) for q in (0.5, 0.99))
        for name, value in (("0.5", p50), ("0.99", p99)):
            self.metrics.freshness.labels(self.source, name).set(
                float("nan") if value is None else value
            )
        span_s = max(1.0, (now - self._fresh[0][0]) / 1e6) if self._fresh else 1.0
        return figures | {
            "freshness_p50_ms": p50,
            "freshness_p99_ms": p99,
            "events_per_s": round(sum(rows for _, rows, _ in self._fresh) / span_s, 1),
            "waiting": self.waiting,
            **{name: self.totals[name] for name in COUNTED},
        }


def quantile_of(histogram: Sequence[tuple[float, int]], q: float) -> float | None:
    """The least upper bound that holds a part q of a cumulative histogram, ascending (at most the
    last finite one); None of an empty one."""
    total = histogram[-1][1] if histogram else 0
    if total <= 0:
        return None
    finite = [bound for bound, _ in histogram if math.isfinite(bound)]
    return next(
        (bound for bound, count in histogram if count >= q * total and math.isfinite(bound)),
        finite[-1],
    )
