"""A source's figures are counted since its driver began, whatever queries came and went.

They accumulate, and give a `Status`; whoever shows it counts nothing (docs/adr/0084).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from slicewise.clock import Clock
from slicewise.stores.online.model.status import State, Status, Totals

OVER_CAPACITY, DUPLICATE = "over_capacity", "duplicate"
_RECENT_US = 60_000_000
T = TypeVar("T")
Floats = NDArray[np.float64]


@dataclass
class SourceFigures:
    """Figures of one source, in any lane."""

    source: str
    clock: Clock
    state: State = "running"
    restarts: int = 0
    lag: Mapping[int, int] = field(default_factory=dict)
    lost: int | None = None
    last_error: str | None = None
    realtime: str | None = None
    waiting: str | None = None
    pausing: bool = False
    """Tells whether it takes its time on purpose between two batches."""
    progress_us: int | None = None

    def progressed(self) -> int:
        """Records progress; its time."""
        self.progress_us = self.clock.now_us()
        return self.progress_us

    def lagging(self, lag: Mapping[int, int]) -> None:
        """Takes in the events that are not applied yet, by partition."""
        self.lag = lag
        # while the real-time lane waits it is the micro-batch lane that makes progress
        if self.waiting or self.pausing or not any(lag.values()):
            self.progressed()

    def restarted(self, error: str | None) -> None:
        """Counts a query that is started again, and why."""
        self.restarts += 1
        self.last_error = error

    def status(self) -> Status:
        """The status without a lane's own figures. The first one counts as progress."""
        now = self.clock.now_us()
        return Status(
            source=self.source,
            state=self.state,
            heartbeat_us=now,
            lag={str(partition): events for partition, events in self.lag.items()},
            progress_us=self.progressed() if self.progress_us is None else self.progress_us,
            restarts=self.restarts,
            lost=self.lost,
            last_error=self.last_error,
            realtime=self.realtime,
            waiting=self.waiting,
        )


@dataclass
class BatchFigures:
    """Figures of one source's batches."""

    source: SourceFigures
    records: int = 0
    _bad: Counter[str] = field(default_factory=Counter)
    _left_out: dict[str, Counter[str]] = field(default_factory=dict)
    _totals: Totals = field(default_factory=Totals)
    _recent: deque[tuple[int, int, tuple[float, Floats]]] = field(default_factory=deque)
    """Per batch its end, its records, its seconds and how fresh they were (milliseconds)."""

    def applied(
        self, outcomes: Sequence[Mapping[str, Any]], seconds: float, reasons: Mapping[int, str]
    ) -> int:
        """Takes in the outcomes of a batch; how many records it had."""
        records: int = sum(outcome["records"] for outcome in outcomes)
        fresh = [value for outcome in outcomes for value in outcome["freshness_ms"]]
        self._recent.append((self.source.progressed(), records, (seconds, np.array(fresh, float))))
        self.records += records
        self._totals = Totals(self._totals.batches + 1, self._totals.batch_s + seconds)
        for outcome in outcomes:
            self._bad.update(outcome["bad"])
            for unit, figures in outcome["units"].items():
                named = self._left_out.setdefault(unit, Counter())
                for code, count in figures["left_out"].items():
                    named[reasons[int(code)]] += count
                # of an event list: what its capacity left out; of events with ids: what came before
                for figure, reason in (("cut", OVER_CAPACITY), ("duplicates", DUPLICATE)):
                    if figures.get(figure):
                        named[reason] += figures[figure]
        return records

    def status(self) -> Status:
        status = self.source.status()
        batches, span_s, rate = last_minute(self._recent, status.heartbeat_us)
        seconds = sorted(seconds for seconds, _ in batches)
        fresh = np.sort(np.concatenate([values for _, values in batches])) if batches else ()
        return replace(
            status,
            records=self.records,
            events_per_s=rate,
            batches_per_s=round(len(batches) / span_s, 2),
            batch_ms_p50=_ms(quantile(seconds, 0.5)),
            batch_ms_p99=_ms(quantile(seconds, 0.99)),
            freshness_p50_ms=quantile(fresh, 0.5),
            freshness_p99_ms=quantile(fresh, 0.99),
            bad=dict(self._bad),
            left_out={unit: dict(counts) for unit, counts in list(self._left_out.items())},
            totals=self._totals,
        )


def last_minute(recent: deque[tuple[int, int, T]], now_us: int) -> tuple[list[T], float, float]:
    """Forgets what is older. Of the rest: what was measured, seconds since the first (at least one)
    and events per second.

    recent: time, events and what was measured.
    """
    while recent and recent[0][0] < now_us - _RECENT_US:
        recent.popleft()
    kept = tuple(recent)  # in one step: a batch may end meanwhile, in a thread of its own
    span_s = max((now_us - kept[0][0]) / 1e6, 1.0) if kept else 1.0
    rate = sum(events for _, events, _ in kept) / span_s
    return [measured for *_, measured in kept], span_s, round(rate, 1)


def quantile(ascending: Sequence[float] | Floats, q: float) -> float | None:
    """The value at rank q of ascending values (nearest rank); None without any."""
    n = len(ascending)
    return float(ascending[min(n - 1, int(q * n))]) if n else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
