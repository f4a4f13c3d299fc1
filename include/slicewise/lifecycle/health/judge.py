"""The stream's own status and the store's clock decide whether it is well, never a guess.

A driver writes a status per source at every batch and at least every few seconds (its heartbeat).
The heartbeat is the driver's, not the batch's: a batch that hangs shows by progress that stands
still while events wait. A judgement names every reason, so that whoever is paged sees what to look
at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from slicewise.lifecycle.realtime import SILENT_US
from slicewise.settings import Settings
from slicewise.stores.online.model.status import Status

Part = Literal["stream", "store", "emission", "tail", "probes"]
"""Parts that a reason is about; each has an alert and a section of the runbook of its own
(lifecycle/alerts)."""
AGING: tuple[Part, ...] = ("tail", "probes")
"""Parts without which answers are right, and older."""

_ENDED = {"refused": "the driver refuses to go on", "failed": "the driver gave up"}


_SILENT_US = 10_000_000


@dataclass(frozen=True)
class Limits:
    """Beyond these the stream is not well."""

    heartbeat_age_us: int = SILENT_US
    stall_us: int = 120_000_000
    """Events that wait for longer, while no batch ends, mean a batch that hangs: batches are
    bounded, so that one takes seconds, also under a surge."""
    lag_events: int | None = None
    """None: any lag is accepted as long as events are being applied."""
    freshness_p99_ms: float | None = None
    probe_ms: float = 30_000.0
    """Milliseconds of probes, from the log to an HTTP answer: p99 of five minutes, and how long one
    may wait."""
    start_us: int = 120_000_000
    """Longest that a driver may take from its start, or from a deployment that wants it, to its
    first status."""
    fresh_within_ms: Mapping[str, int] = field(default_factory=dict)
    """View or source -> milliseconds within which its events are to be in answers."""

    @staticmethod
    def of(settings: Settings) -> Limits:
        """The limits that the settings name."""
        return Limits(
            probe_ms=float(settings.probe_limit_ms),
            fresh_within_ms=settings.freshness_deadlines,
        )


@dataclass(frozen=True)
class Beginning:
    """Since when a driver may be starting: instants by the store's clock; 0 where none was
    recorded."""

    deployed_us: int = 0
    """The last deployment: it may want a driver, or a source of one, that nobody wanted before."""
    ensured_us: int = 0
    """Somebody last made sure that the driver runs."""
    started_us: int = 0
    """The driver was last started."""

    def starting(self, heartbeat_us: int | None, now_us: int, limits: Limits) -> bool:
        """Tells whether a driver's silence is that of one that starts. heartbeat_us: of its last
        status; None: there is none.

        A status from before the start is the word of the driver before it.
        """
        since_us = (
            max(self.deployed_us, self.ensured_us) if heartbeat_us is None else self.started_us
        )
        if heartbeat_us is not None and heartbeat_us >= since_us:
            return False
        return since_us > 0 and now_us - since_us <= limits.start_us

    def words(self, now_us: int) -> str:
        """Text of how long ago it began."""
        if self.unensured:
            return (
                f"deployed {_seconds(now_us - self.deployed_us)} ago, its driver is not started yet"
            )
        return (
            f"its driver was started {_seconds(now_us - max(self.ensured_us, self.started_us))} ago"
        )

    @property
    def unensured(self) -> bool:
        """Tells whether nobody has made sure of the driver since the deployment."""
        return self.deployed_us > self.ensured_us


def _seconds(us: int) -> str:
    return f"{max(0, us) / 1e6:.0f} s"


@dataclass(frozen=True)
class Health:
    """A judgement: well, or the reasons why not."""

    reasons: tuple[str, ...]
    stopped: bool = False
    """Every driver was stopped on purpose: neither well nor a failure."""
    aging: tuple[str, ...] = ()
    """Reasons for which answers are older than they should be: of the real-time lane, and of
    probes. They are right all the same."""
    starting: tuple[str, ...] = ()
    """Parts whose drivers have not spoken yet, and may still be starting: neither well nor a
    failure."""
    warming: tuple[str, ...] = ()
    """The same of the real-time lane and of probes, without which answers are right."""
    unensured: bool = False
    """One of them was deployed, and nobody has made sure since that its driver runs."""
    parts: Mapping[Part, tuple[str, ...]] = field(default_factory=dict)
    """The same reasons by what they are about."""

    @staticmethod
    def of(healths: Mapping[Part, Health]) -> Health:
        """All parts together, each judged by itself; a reason names its part, one of the stream its
        source."""
        parts: dict[Part, tuple[str, ...]] = {
            part: health.reasons for part, health in healths.items() if health.reasons
        }
        named = {
            part: tuple(_named(part, reason) for reason in reasons)
            for part, reasons in parts.items()
        }
        return Health(
            reasons=tuple(
                reason for part, reasons in named.items() if part not in AGING for reason in reasons
            ),
            aging=tuple(
                reason for part, reasons in named.items() if part in AGING for reason in reasons
            ),
            starting=tuple(
                _named(p, word)
                for p, component in healths.items()
                if p not in AGING
                for word in component.starting
            ),
            warming=tuple(
                _named(p, word)
                for p, component in healths.items()
                if p in AGING
                for word in component.starting
            ),
            unensured=any(health.unensured for health in healths.values()),
            parts=parts,
        )

    @property
    def well(self) -> bool:
        return not self.reasons and not self.starting


def _named(part: Part, reason: str) -> str:
    return reason if part == "stream" else f"{part}: {reason}"


def judge(
    statuses: Sequence[Status],
    sources: Sequence[str],
    now_us: int,
    limits: Limits,
    beginning: Beginning = Beginning(),
) -> Health:
    """The health of the streams over `sources`, all of them, at now_us by the store's clock.

    A source without a status is as unwell as a silent one, once its driver had time to start: a
    driver that never came up writes none.
    """
    waited = {
        status.source: beginning.starting(status.heartbeat_us, now_us, limits)
        for status in statuses
    }
    by_source = {status.source: status for status in statuses if not waited[status.source]}
    reported = [by_source[source] for source in sources if source in by_source]
    if (
        reported
        and len(reported) == len(sources)
        and all(stream.state == "stopped" for stream in reported)
    ):
        return Health((), stopped=True)
    reasons: list[str] = []
    starting: list[str] = []
    if not sources:
        reasons.append("nothing is deployed: no source to stream")
    for source in sources:
        status = by_source.get(source)
        if status is None and waited.get(source, beginning.starting(None, now_us, limits)):
            starting.append(f"{source}: {beginning.words(now_us)}")
        elif status is None:
            reasons.append(f"{source}: no driver has written a status")
        else:
            reasons.extend(f"{source}: {reason}" for reason in _reasons(status, now_us, limits))
    unspoken = beginning.unensured and any(source not in waited for source in sources)
    return Health(tuple(reasons), starting=tuple(starting), unensured=bool(starting) and unspoken)


def _reasons(status: Status, now_us: int, limits: Limits) -> list[str]:
    reasons = []
    age_us = now_us - status.heartbeat_us
    if status.state in ("refused", "failed"):
        reasons.append(f"{_ENDED[status.state]}: {status.last_error or 'see its log'}")
    elif status.state == "stopped":
        reasons.append("stopped while other sources are running")
    elif age_us > limits.heartbeat_age_us:
        reasons.append(f"no heartbeat for {age_us / 1e6:.0f} s")
    elif status.stalled_us > limits.stall_us:
        stalled = f"no batch has ended for {status.stalled_us / 1e6:.0f} s"
        reasons.append(f"{status.lag_events} events behind, and {stalled}: it hangs")
    if (
        limits.lag_events is not None
        and status.lag_events > limits.lag_events
        and status.events_per_s <= 0
    ):
        reasons.append(f"{status.lag_events} events behind, and none are being applied")
    if (
        limits.freshness_p99_ms is not None
        and status.freshness_p99_ms is not None
        and status.freshness_p99_ms > limits.freshness_p99_ms
    ):
        reasons.append(f"freshness p99 {status.freshness_p99_ms:.0f} ms")
    return reasons


def lives(realtime: Status | None, now_us: int) -> bool:
    """Tells whether the real-time lane brings events now, so that nobody waits for the micro-batch
    lane."""
    return (
        realtime is not None
        and realtime.state == "running"
        and not realtime.waiting
        and now_us - realtime.heartbeat_us < _SILENT_US
    )
