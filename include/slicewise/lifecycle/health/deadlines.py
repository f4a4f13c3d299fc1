"""A deadline that passed is seen from what the platform says of itself: answers that are older than
their view's owner wants, and a job of the clock that has not reported.

Decisions only, over the store's status; the watch of Airflow tells of what lasts
(plugins/slicewise_airflow/supervise.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from slicewise.lifecycle.health.alerts import Missed, fresh_cause
from slicewise.lifecycle.health.judge import Limits
from slicewise.stores.online.model.status import Status


def missed_freshness(
    sources: Mapping[str, str],
    statuses: Mapping[str, Status],
    now_us: int,
    limits: Limits,
) -> tuple[Missed, ...]:
    """Views and sources whose events are in answers later than their deadline. sources: of each
    view and source that is deployed; statuses: by view and source, of the lane that brings its
    events first."""
    missed = list[Missed]()
    for name, limit_ms in limits.fresh_within_ms.items():
        if name not in sources:
            text = f"{name}: a deadline for answers, and no such view or source is deployed"
            missed.append(Missed(fresh_cause(name), text, name))
            continue
        of = statuses.get(name)
        # a driver that is silent or ended is a matter of its own
        if of is None or of.state != "running":
            continue
        if now_us - of.heartbeat_us > limits.heartbeat_age_us:
            continue
        late_ms = _late_ms(of)
        if late_ms > limit_ms:
            text = (
                f"{name}: events come into answers {late_ms / 1000:,.1f} s after they came in "
                f"Kafka (p99 of a minute), and {limit_ms / 1000:,.1f} s are agreed"
            )
            missed.append(Missed(fresh_cause(name), text, name))
    return tuple(missed)


def _late_ms(status: Status) -> float:
    """Milliseconds from Kafka to visible: p99 of the last minute, or what waits longer."""
    return max(status.stalled_us / 1000, status.freshness_p99_ms or 0.0)


@dataclass(frozen=True)
class Deadlines:
    """Deadlines that were missed look after look. Only what lasted for `patience` looks is told,
    and is over after as many looks without it."""

    patience: int
    missed: Mapping[str, int] = field(default_factory=dict)
    """Cause -> looks in a row in which it was missed."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """Cause -> looks in a row in which it was kept."""
    notified: frozenset[str] = frozenset()
    """Causes that somebody was notified of."""

    def after(self, missed: Collection[str], watched: Collection[str]) -> Deadlines:
        """The deadlines after one more look. watched: causes that it could judge."""
        return replace(
            self,
            missed={cause: self.missed.get(cause, 0) + 1 for cause in missed},
            kept={c: self.kept.get(c, 0) + 1 for c in watched if c not in missed},
            notified=self.notified & frozenset(missed),
        )

    @property
    def due(self) -> frozenset[str]:
        """Causes that lasted, of which nobody was notified yet."""
        lasting = (cause for cause, looks in self.missed.items() if looks >= self.patience)
        return frozenset(lasting) - self.notified

    @property
    def over(self) -> frozenset[str]:
        """Causes that were kept for as long."""
        return frozenset(cause for cause, looks in self.kept.items() if looks >= self.patience)

    def notifying(self, causes: Collection[str]) -> Deadlines:
        """The deadlines after somebody was notified of these."""
        return replace(self, notified=self.notified | frozenset(causes))
