"""Whether the stream is well is decided from its own status and the store's clock, never from a guess.

A driver writes a status per source at every batch and at least every few seconds (its heartbeat). The heartbeat is
the driver's, not the batch's: a batch that hangs shows by progress that stands still while events wait.
A judgement names every reason, so that whoever is paged sees what to look at.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from slicewise.errors import BadRequest

State = Literal["running", "stopped", "refused", "failed"]
_STATES: tuple[State, ...] = ("running", "stopped", "refused", "failed")

_SAID = {"refused": "the driver refuses to go on", "failed": "the driver gave up"}


@dataclass(frozen=True)
class StreamStatus:
    """What a stream driver says about one source."""

    source: str
    state: State
    heartbeat_us: int
    """When it was written, in microseconds UTC."""
    lag_events: int
    """Events in the topic that are not yet applied, over all partitions."""
    events_per_s: float
    freshness_p50_ms: float | None
    """Kafka timestamp to visible, over the last batches; None before the first."""
    freshness_p99_ms: float | None
    last_error: str | None = None
    progress_us: int | None = None
    """When a batch was last applied or no event was waiting, by the driver's clock as heartbeat_us; None: not said."""
    tail: str | None = None
    """Of the stream: whether it knows of a tail, "on" or "off"; None: not said."""
    waiting: str | None = None
    """Of the tail: why it has not begun yet."""

    @property
    def stalled_us(self) -> int:
        """How long events have been waiting without any being applied; 0 where none wait."""
        if self.progress_us is None or self.lag_events <= 0:
            return 0
        return max(0, self.heartbeat_us - self.progress_us)

    @staticmethod
    def parse(source: str, text: str) -> StreamStatus:
        """The status that a driver wrote as JSON. Raises BadRequest when it is none."""
        try:
            raw = json.loads(text)
            lag = raw.get("lag", 0)
            state = raw.get("state", "running")
            if state not in _STATES:
                raise ValueError(f"state {state!r}")
            return StreamStatus(
                source=source,
                state=state,
                heartbeat_us=int(raw["heartbeat_us"]),
                lag_events=int(sum(lag.values()) if isinstance(lag, dict) else lag),
                events_per_s=float(raw.get("events_per_s") or 0.0),
                freshness_p50_ms=_optional(raw.get("freshness_p50_ms")),
                freshness_p99_ms=_optional(raw.get("freshness_p99_ms")),
                last_error=raw.get("last_error"),
                progress_us=None if raw.get("progress_us") is None else int(raw["progress_us"]),
                tail=raw.get("tail"),
                waiting=raw.get("waiting"),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadRequest(
                f"the status of source {source!r} cannot be read: {error}",
                expected="JSON with state, heartbeat_us, lag, events_per_s, freshness_p50_ms and _p99_ms",
                next_step="is the stream driver of another version than this?",
            ) from error


def _optional(value: object) -> float | None:
    return None if value is None else float(str(value))


@dataclass(frozen=True)
class Limits:
    """Beyond these the stream is not well."""

    heartbeat_age_us: int = 60_000_000
    stall_us: int = 120_000_000
    """Events that wait for longer, while no batch ends, mean a batch that hangs: batches are bounded, so that one
    takes seconds, also under a surge."""
    lag_events: int | None = None
    """None: any lag is accepted as long as events are being applied."""
    freshness_p99_ms: float | None = None
    probe_ms: float = 30_000.0
    """Of probes, from the log to an HTTP answer: p99 of five minutes, and how long one may wait."""


@dataclass(frozen=True)
class Health:
    """A judgement: well, or the reasons why not."""

    reasons: tuple[str, ...]
    stopped: bool = False
    """Every driver was stopped on purpose: neither well nor a failure."""
    aging: tuple[str, ...] = ()
    """Why answers are older than they should be: of the tail, and of probes. They are right all the same."""

    @property
    def well(self) -> bool:
        return not self.reasons


def judge(statuses: Sequence[StreamStatus], sources: Sequence[str], now_us: int, limits: Limits) -> Health:
    """The health of the streams over `sources`, all of them, at now_us by the store's clock.

    A source without a status is as unwell as a silent one: a driver that never came up writes none.
    """
    by_source = {status.source: status for status in statuses}
    known = [by_source[source] for source in sources if source in by_source]
    if known and len(known) == len(sources) and all(each.state == "stopped" for each in known):
        return Health((), stopped=True)
    reasons: list[str] = []
    if not sources:
        reasons.append("nothing is deployed: no source to stream")
    for source in sources:
        status = by_source.get(source)
        if status is None:
            reasons.append(f"{source}: no driver has written a status")
        else:
            reasons.extend(f"{source}: {reason}" for reason in _reasons(status, now_us, limits))
    return Health(tuple(reasons))


def _reasons(status: StreamStatus, now_us: int, limits: Limits) -> list[str]:
    reasons = []
    age_us = now_us - status.heartbeat_us
    if status.state in ("refused", "failed"):
        reasons.append(f"{_SAID[status.state]}: {status.last_error or 'see its log'}")
    elif status.state == "stopped":
        reasons.append("stopped while other sources are running")
    elif age_us > limits.heartbeat_age_us:
        reasons.append(f"no heartbeat for {age_us / 1e6:.0f} s")
    elif status.stalled_us > limits.stall_us:
        stalled = f"no batch has ended for {status.stalled_us / 1e6:.0f} s"
        reasons.append(f"{status.lag_events} events behind, and {stalled}: it hangs")
    if limits.lag_events is not None and status.lag_events > limits.lag_events and status.events_per_s <= 0:
        reasons.append(f"{status.lag_events} events behind, and none are being applied")
    if (
        limits.freshness_p99_ms is not None
        and status.freshness_p99_ms is not None
        and status.freshness_p99_ms > limits.freshness_p99_ms
    ):
        reasons.append(f"freshness p99 {status.freshness_p99_ms:.0f} ms")
    return reasons


@dataclass(frozen=True)
class Watch:
    """One look after another, over one watch of the stream.

    Only `patience` bad looks in a row count, so that a restart of the store or of the driver, which
    mends itself, pages nobody. A driver that was just started is given until `grace_until_us`:
    before its first word the store still holds what the driver before it said last.
    """

    patience: int
    grace_until_us: int = 0
    bad: int = 0
    well_once: bool = False
    stopped: bool = False
    old: int = 0
    """Looks in a row in which the stream was well and its tail was not."""

    def after(self, health: Health, now_us: int) -> Watch:
        """The watch after one more look, at now_us by the watcher's clock."""
        well_once = self.well_once or (health.well and not health.stopped)
        counts = well_once or now_us >= self.grace_until_us
        bad = 0 if health.well or not counts else self.bad + 1
        # the tail's driver waits for the stream's: it has its grace whenever that was well
        old = self.old + 1 if health.well and health.aging and now_us >= self.grace_until_us else 0
        return replace(self, bad=bad, well_once=well_once, stopped=counts and health.stopped, old=old)

    @property
    def lost(self) -> bool:
        return self.bad >= self.patience

    @property
    def aging(self) -> bool:
        """The tail is lost: it is to be ensured again, and nothing else is wrong."""
        return self.old >= self.patience and not self.lost

    @property
    def outcome(self) -> Literal["stopped", "lost", "aging", "well"]:
        """What the watch has shown if it ends now; a stream that was never seen well is lost."""
        if self.stopped:
            return "stopped"
        if self.aging:
            return "aging"
        return "lost" if self.lost or not self.well_once else "well"
