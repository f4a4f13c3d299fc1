"""A driver ends where another of its part was started later: of two the last goes on.

Nothing depends on it: what two drivers write at once counts once (docs/adr/0050). It spares a
machine the work of both, and a person the question which of them is meant.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass, field

from slicewise.clock import Clock
from slicewise.errors import DriverSuperseded
from slicewise.stores.online.operations.status import PutStatus, ReadStatus
from slicewise.stores.online.port import OnlineStore


@dataclass
class Fence:
    """The number that a driver took when it began, which is greater than that of any before."""

    part: str
    clock: Clock
    number: int | None = field(default=None, init=False)

    def check(self, store: OnlineStore) -> None:
        """Takes the number, or looks whether another driver has taken a greater one since. Raises
        DriverSuperseded. A store that lost the number is told again."""
        named = f"driver:{self.part}"
        last, who = _parsed(store.run(ReadStatus(named)))
        if self.number is None:
            self.number = max(self.clock.now_us(), last + 1)
        if last > self.number:
            raise DriverSuperseded(
                f"another driver of part {self.part!r} was started later: {who}",
                next_step="one of the two is too many: stop the one that is not meant",
            )
        if last < self.number:
            own = {"number": self.number, "host": socket.gethostname(), "pid": os.getpid()}
            store.run(PutStatus(named, json.dumps(own)))


def _parsed(text: str | None) -> tuple[int, str]:
    """Number of the driver that took it last, and where that runs; 0 where none can be read."""
    try:
        raw = json.loads(text or "")
        return int(raw["number"]), f"process {int(raw['pid'])} on {raw['host']}"
    except (ValueError, TypeError, KeyError):
        return 0, ""
