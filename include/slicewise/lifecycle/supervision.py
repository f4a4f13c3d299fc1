"""A driver that died, is silent or is stuck is started again: at once, then ever later. A fault is
told once, and once more when it is over.

Decisions only, over what a look at the drivers' own machine found and what was kept of earlier
looks: Airflow's trigger looks (plugins/slicewise_airflow/stream.py), and `slicewise stream ensure`
starts (local/servers/stream.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, NamedTuple

from slicewise.lifecycle import restarts
from slicewise.lifecycle.health.judge import Part
from slicewise.lifecycle.restarts import Restarts
from slicewise.stores.online.model.status import Status

Kind = Literal["died", "silent", "stuck"]
_SECOND_US = 1_000_000
SETTLED_US = 60_000_000
"""A fault is over once the driver has been well for so long since: one that dies before is the same
fault still."""
_SLOWER = 4
"""A batch hangs that takes so many times as long as the slowest of the last minute."""
MICROBATCH = "stream"
"""Name of the driver of the micro-batch lane."""
PARTS: Mapping[str, Part] = {
    MICROBATCH: "stream",
    "tail": "tail",
    "emit": "emission",
    "probes": "probes",
}
"""Driver -> the part of the platform's health that its words are about."""
NAMED: Mapping[str, str] = {
    MICROBATCH: "the micro-batch lane",
    "tail": "the real-time lane",
    "emit": "the emission",
    "probes": "the prober",
}
_REFUSED = {"refused": "it refuses to go on", "failed": "it gave up"}


@dataclass(frozen=True)
class Patience:
    """Beyond these a driver is not waited for."""

    silent_us: int = 10 * _SECOND_US
    """Between two signs of life, of which a driver gives two a second."""
    stuck_us: int = 12 * _SECOND_US
    """Events wait, and none is applied; a batch that was slow before is given more."""
    unknown_us: int = 30 * _SECOND_US
    """The same of a driver whose batches of the last minute say nothing, or that has shown or
    applied nothing since a server was away: it connects and plans anew."""
    start_us: int = 120 * _SECOND_US
    """From its start to its first sign of life, and to its first batch."""


@dataclass(frozen=True)
class DriverLook:
    """A driver that was started and not stopped, as its machine shows it. Times by that machine."""

    running: bool
    started_us: int
    """Time of its start."""
    heartbeat_us: int | None = None
    """Time of its last sign of life since."""
    statuses: tuple[Status, ...] = ()
    """Statuses of its sources that came with it; none of a prober."""
    elsewhere: bool = False
    """Tells whether it runs where its process cannot be seen, as in another container: it is judged
    by its signs of life, and started by a task there."""


class Fault(NamedTuple):
    """Fault that a look shows."""

    kind: Kind
    reason: str


def fault_of(
    look: DriverLook, now_us: int, patience: Patience = Patience(), *, since_us: int = 0
) -> Fault | None:
    """The fault of a driver, if it has one. since_us: time before which it is not judged: until
    then nobody watched it, or a server that it needs was away."""
    if not (look.running or look.elsewhere):
        return Fault("died", _last_words(look) or "its process is gone")
    if look.heartbeat_us is None:
        silent_us, limit_us = now_us - look.started_us, patience.start_us
    else:
        silent_us, limit_us = now_us - look.heartbeat_us, patience.silent_us
    watched_us = now_us - since_us
    spoke_us = look.started_us if look.heartbeat_us is None else look.heartbeat_us
    anew_us = patience.silent_us if spoke_us > since_us else patience.unknown_us
    if silent_us > limit_us and watched_us > anew_us:
        since = "" if look.heartbeat_us is not None else " since its start"
        return Fault("silent", f"no sign of life for {silent_us / 1e6:.0f} s{since}: it hangs")
    stuck = [
        f"{status.source}: {status.lag_events:,} events wait, and none was applied for "
        f"{status.stalled_us / 1e6:.0f} s"
        for status in look.statuses
        if status.state == "running"
        and status.stalled_us > stall_limit_us(status, patience)
        and watched_us > _anew_us(status, patience, since_us)
    ]
    return Fault("stuck", "; ".join(stuck)) if stuck else None


def _anew_us(status: Status, patience: Patience, since_us: int) -> int:
    """Microseconds since a server was away after which a driver is judged by a source."""
    limit_us = stall_limit_us(status, patience)
    is_new = (status.progress_us or 0) <= since_us
    return max(limit_us, patience.unknown_us) if is_new else limit_us


def stall_limit_us(status: Status, patience: Patience) -> int:
    """Microseconds that events of a source may wait without any being applied."""
    if not status.records:
        return patience.start_us
    if status.outcomes is not None or status.views is not None:  # no lane of batches
        return patience.stuck_us
    if status.batch_ms_p99 is None:
        return patience.unknown_us
    return max(patience.stuck_us, int(_SLOWER * status.batch_ms_p99 * 1000))


def _last_words(look: DriverLook) -> str:
    words = [
        f"{status.source}: {_REFUSED[status.state]}: {status.last_error or 'see its log'}"
        for status in look.statuses
        if status.state in _REFUSED
    ]
    return "; ".join(words)


@dataclass(frozen=True)
class Supervised:
    """State of one driver, kept from look to look."""

    restarts: Restarts = field(default_factory=Restarts)
    fault: str = ""
    """Reason of the fault that is open; empty where none is."""
    since_us: int = 0
    """Time at which it was found."""
    well_us: int | None = None
    """Time since which the driver is well again."""
    excused: bool = False
    """Tells whether it was lost while a server was away: it is started again as part of that."""

    @property
    def ill(self) -> bool:
        """Tells whether a fault is open and the driver is not well yet."""
        return bool(self.fault) and self.well_us is None


class Notice(NamedTuple):
    """Word about a driver: that a fault was found, that it loops, or that the fault is over."""

    kind: Literal["down", "loops", "over"]
    text: str


@dataclass(frozen=True)
class Step:
    """Outcome of a look: what to keep, whether to start the driver, what to tell."""

    kept: Supervised
    start: bool = False
    notices: tuple[Notice, ...] = ()


def step(
    kept: Supervised,
    look: DriverLook | None,
    now_us: int,
    *,
    away: str = "",
    since_us: int = 0,
    excused: bool = False,
    patience: Patience = Patience(),
) -> Step:
    """The outcome of one look. look: None where the driver was stopped on purpose, or never
    started. away: the server that cannot be reached, if any: a driver that waits for it is not to
    blame, and none is started before it answers; one that was lost meanwhile is then started, and
    nobody is paged for it too. since_us: as `fault_of` has it. excused: a server was away until a
    moment ago, and its incident was told."""
    if look is None:
        over = (Notice("over", "it was stopped on purpose"),) if kept.fault else ()
        return Step(Supervised(restarts.stopped(kept.restarts)), notices=over)
    fault = fault_of(look, now_us, patience, since_us=since_us)
    if fault is not None and away:
        return Step(replace(kept, excused=True))
    if fault is None:
        return _without_fault(replace(kept, excused=False), look, now_us)
    if (excused or kept.excused) and not kept.fault:
        dead = restarts.dead(kept.restarts, now_us)
        if not dead.due(now_us):
            return Step(replace(kept, restarts=dead))
        return Step(Supervised(restarts.started(dead, now_us)), start=True)
    return _with_fault(kept, fault, now_us)


def _with_fault(kept: Supervised, fault: Fault, now_us: int) -> Step:
    new = not kept.fault
    since_us = now_us if new else kept.since_us
    dead = restarts.dead(kept.restarts, now_us)
    start = dead.due(now_us)
    begun = restarts.started(dead, now_us) if start else dead
    notices = [Notice("down", f"{fault.reason}; it is started again")] if new else []
    # starts that a server's absence excused count, and were told nobody
    if begun.loops and (new or (start and begun.in_a_row == restarts.LOOP)):
        notices = [
            Notice(
                "loops",
                f"started {begun.in_a_row} times in a row, and each time: {fault.reason}; it is "
                "tried ever later now, every five minutes at last",
            )
        ]
    return Step(Supervised(begun, fault.reason, since_us), start, tuple(notices))


def _without_fault(kept: Supervised, look: DriverLook, now_us: int) -> Step:
    alive = replace(kept, restarts=restarts.alive(kept.restarts, now_us))
    if not kept.fault or not _spoke(look):
        return Step(alive)
    if kept.well_us is None:
        return Step(replace(alive, well_us=now_us))
    # one that was started several times in a row is well once it has lived for long
    if now_us - kept.well_us < SETTLED_US or alive.restarts.in_a_row > 1:
        return Step(alive)
    took_s = (kept.well_us - kept.since_us) / 1e6
    text = f"it is well again, {took_s:.0f} s after it was found ({kept.fault})"
    return Step(Supervised(alive.restarts), notices=(Notice("over", text),))


def _spoke(look: DriverLook) -> bool:
    """Tells whether it gave a sign of life since its start, and got on: one that has read nothing
    of a source whose events wait may be stuck as the driver before it was."""
    spoke = look.heartbeat_us is not None and look.heartbeat_us >= look.started_us
    return spoke and not any(
        status.lag_events > 0 and not status.records
        for status in look.statuses
        # other drivers count what they do otherwise
        if status.outcomes is None and status.views is None
    )


def not_started(kept: Supervised, now_us: int, error: str) -> Supervised:
    """State after a start that failed."""
    return replace(kept, restarts=restarts.failed(kept.restarts, now_us, error))


def to_json(kept: Mapping[str, Supervised]) -> dict[str, object]:
    """Plain values of all drivers."""
    return {name: asdict(supervised) for name, supervised in kept.items()}


def from_json(raw: object) -> dict[str, Supervised]:
    """Raises ValueError, TypeError, KeyError or AttributeError where it is none."""
    named = raw if isinstance(raw, dict) else {}
    kept = restarts.from_json({name: one["restarts"] for name, one in named.items()})
    return {
        name: Supervised(
            kept[name],
            str(one["fault"]),
            int(one["since_us"]),
            None if one["well_us"] is None else int(one["well_us"]),
            bool(one.get("excused")),
        )
        for name, one in named.items()
    }
