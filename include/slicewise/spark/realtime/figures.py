"""The real-time lane counts what its writers acknowledged: they say it in the store, a driver sums
it.

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
from dataclasses import dataclass, field, replace

from slicewise.spark.microbatch.figures import SourceFigures, last_minute
from slicewise.stores.online.model.status import OUTCOMES, Status


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
        counts = {name: int(raw.get(name, 0)) for name in OUTCOMES}
        bounds = [*raw["ms"]["bounds"], math.inf]
        histogram = {
            float(bound): int(count)
            for bound, count in zip(bounds, raw["ms"]["counts"], strict=True)
        }
        return WriterStatus(
            str(raw["run"]), int(raw["partition"]), int(raw["acked"]), counts, histogram
        )


@dataclass
class WriterFigures:
    """Figures of one source's real-time lane."""

    source: SourceFigures
    totals: Counter[str] = field(default_factory=Counter)
    _last: dict[int, WriterStatus] = field(default_factory=dict)
    _recent: deque[tuple[int, int, Mapping[float, int]]] = field(default_factory=deque)
    """Per look its time, rows and, by upper bound, how fresh they were."""

    def take_in(self, statuses: Iterable[WriterStatus]) -> None:
        """Takes in what the writers of the query that runs say."""
        fresh, rows = Counter[float](), -self.totals["rows"]
        for status in statuses:
            before = self._last.get(status.partition)
            if before is not None and not status.continues(before):
                before = None
            self._last[status.partition] = status
            for name, count in status.counts.items():
                # reconnects: those of each batch
                self.totals[name] += max(0, count - (before.counts[name] if before else 0))
            for bound, count in status.histogram.items():
                fresh[bound] += count - (before.histogram.get(bound, 0) if before else 0)
        rows += self.totals["rows"]
        if rows:
            self._recent.append((self.source.progressed(), rows, fresh))

    def status(self) -> Status:
        status = self.source.status()
        recent, _, rate = last_minute(self._recent, status.heartbeat_us)
        whole = Counter[float]()
        for fresh in recent:
            whole.update(fresh)
        histogram = sorted(whole.items())
        return replace(
            status,
            records=self.totals["rows"],
            events_per_s=rate,
            freshness_p50_ms=quantile_of(histogram, 0.5),
            freshness_p99_ms=quantile_of(histogram, 0.99),
            outcomes={name: self.totals[name] for name in OUTCOMES},
        )


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
