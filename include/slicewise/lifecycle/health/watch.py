"""A watch of the stream ends by what lasted for several looks, never by one, and tells all of it.

Pure: a look is a `Health`, time is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from slicewise.lifecycle.health.judge import AGING, Health, Part

SETTLE_US = 120_000_000
"""Longest that a watch whose time is up goes on while a driver may still become well."""


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
    """Looks in a row in which the stream was well and its real-time lane was not."""
    streaks: Mapping[Part, int] = field(default_factory=dict)
    """Per part the looks in a row in which it was not well."""
    well: Mapping[Part, int] = field(default_factory=dict)
    """Per part the looks in a row in which it was well."""
    unensured: int = 0
    """Looks in a row in which a driver was wanted that nobody has started since the deployment."""

    def after(self, health: Health, now_us: int) -> Watch:
        """The watch after one more look, at now_us by the watcher's clock."""
        well_once = self.well_once or (health.well and not health.stopped)
        started = now_us >= self.grace_until_us
        counts = well_once or started
        bad = self.bad + 1 if health.reasons and counts else 0
        # the real-time lane's driver waits for the stream's: it has its grace whenever that was
        # well
        old = self.old + 1 if not health.reasons and health.aging and started else 0
        streaks = {
            part: self.streaks.get(part, 0) + 1
            for part, reasons in health.parts.items()
            if reasons and (started if part in AGING else counts)
        }
        unensured = self.unensured + 1 if health.unensured else 0
        stopped = counts and health.stopped
        return replace(
            self,
            bad=bad,
            well_once=well_once,
            stopped=stopped,
            old=old,
            streaks=streaks,
            well={part: self.well.get(part, 0) + 1 for part in _well(health)},
            unensured=unensured,
        )

    @property
    def recovered(self) -> frozenset[Part]:
        """Parts that were well for as many looks in a row as patience allows."""
        return frozenset(part for part, looks in self.well.items() if looks >= self.patience)

    @property
    def lost(self) -> bool:
        return self.bad >= self.patience

    @property
    def aging(self) -> bool:
        """The real-time lane is lost, or probes are late: all is to be ensured again, and nothing
        else is wrong."""
        return self.old >= self.patience and not self.lost

    @property
    def wanting(self) -> bool:
        """A driver is wanted that the next run is to start: nothing is wrong."""
        return self.unensured >= self.patience and not self.lost

    @property
    def over(self) -> bool:
        """Tells whether there is nothing to wait for."""
        return self.stopped or self.lost or self.aging or self.wanting

    def ends(self, health: Health, now_us: int, until_us: int, *, ill: bool) -> bool:
        """Tells whether the watch ends with this look. Where its time is up, and the stream is
        neither well nor lost, as while a driver starts, it goes on for two minutes at most.

        until_us: when its time is up. ill: a driver is lost, and is being started again.
        """
        settled = health.well and not ill
        return self.over or now_us >= until_us + (0 if settled else SETTLE_US)

    @property
    def outcome(self) -> Literal["stopped", "lost", "aging", "wanting", "well"]:
        """Outcome of the watch if it ends now; a stream that was never seen well is lost."""
        if self.stopped:
            return "stopped"
        if self.aging:
            return "aging"
        if self.wanting:
            return "wanting"
        return "lost" if self.lost or not self.well_once else "well"

    def reported(self, health: Health) -> dict[Part, tuple[str, ...]]:
        """Reasons to be told if the watch ends with this look: of each part that was ill for as
        many looks as patience allows; where none of those that end it was by itself, of all of
        them."""
        if self.outcome not in ("lost", "aging"):
            return {}
        ending = {part for part in health.parts if (part in AGING) == (self.outcome == "aging")}
        lasting = {part for part in health.parts if self.streaks.get(part, 0) >= self.patience}
        chosen = lasting if lasting & ending else lasting | ending
        return {part: reasons for part, reasons in health.parts.items() if part in chosen}


def _well(health: Health) -> list[Part]:
    """Parts that a look shows to be well. Where the store is not, nothing of the others is
    known."""
    ill = set(health.parts)
    if "store" in ill:
        return []
    if health.starting:
        ill |= {"stream", "emission"}
    if health.warming:
        ill |= set(AGING)
    return [part for part in get_args(Part) if part not in ill]
