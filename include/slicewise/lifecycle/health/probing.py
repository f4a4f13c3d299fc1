"""Probes that went all the way decide whether answers are fresh, not what any part says of
itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from slicewise.errors import BadRequest


@dataclass(frozen=True)
class ProbeStatus:
    """Status of the prober. Times run from when a probe was due to the HTTP answer that had its
    event."""

    state: Literal["running", "stopped"]
    heartbeat_us: int
    shown: int
    """In an answer within the last five minutes."""
    lost: int
    """In none, given up within the last five minutes."""
    minute_p50_ms: float | None
    minute_p99_ms: float | None
    recent_p99_ms: float | None
    """Milliseconds of five minutes. None: no probe was in an answer since."""
    waiting_ms: float
    """Age of the oldest that is in no answer yet."""

    @staticmethod
    def parse(text: str) -> ProbeStatus:
        """The status as the prober wrote it. Raises BadRequest when it is none."""
        try:
            raw: dict[str, Any] = json.loads(text)
            if raw["state"] not in ("running", "stopped"):
                raise ValueError(f"state {raw['state']!r}")
            optional = {
                name: None if raw.get(name) is None else float(raw[name])
                for name in ("minute_p50_ms", "minute_p99_ms", "recent_p99_ms")
            }
            return ProbeStatus(
                state=raw["state"],
                heartbeat_us=int(raw["heartbeat_us"]),
                shown=int(raw["shown"]),
                lost=int(raw["lost"]),
                waiting_ms=float(raw["waiting_ms"]),
                **optional,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadRequest(
                f"the status of the probes cannot be read: {error}",
                expected="JSON as slicewise.probes writes it",
                next_step="is the prober of another version than this?",
            ) from error


def late(
    status: ProbeStatus | None, now_us: int, heartbeat_age_us: int, limit_ms: float
) -> tuple[str, ...]:
    """Tells why answers are not known to be fresh, at now_us by the store's clock; nothing where
    they are."""
    if status is None:
        return ("no prober has written a status",)
    age_us = now_us - status.heartbeat_us
    if status.state == "stopped":
        return ("the prober is stopped while the stream runs",)
    if age_us > heartbeat_age_us:
        return (f"no word of the prober for {age_us / 1e6:.0f} s",)
    reasons = []
    if status.lost:
        every = status.lost + status.shown
        reasons.append(
            f"{status.lost} of {every} probes of the last five minutes were in no answer"
        )
    if status.recent_p99_ms is not None and status.recent_p99_ms > limit_ms:
        reasons.append(f"p99 {status.recent_p99_ms:,.0f} ms over the last five minutes")
    if status.waiting_ms > limit_ms:
        reasons.append(f"a probe is in no answer for {status.waiting_ms / 1000:.0f} s")
    return tuple(reasons)
