"""A store that goes away or restarts under the check is waited for, within bounds that the log
tells.

Waiting takes nothing back: what was read and found before stands, and no value is asked a second
time for another answer. Only a question that got no answer is asked again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from slicewise import log
from slicewise.errors import StoreUnavailable, TopicGone

T = TypeVar("T")
FIRST_S, LONGEST_S = 1.0, 15.0
"""The first wait, and the longest; each is twice the one before."""
LIMIT_S = 300.0
"""All that one run of the check waits: far below its deadline, and above any restart."""


@dataclass
class Patience:
    """The rest of a run's waiting."""

    left_s: float = LIMIT_S
    pause: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic
    waits: int = 0
    """Number of times that it has waited."""

    def through(self, what: str, request: Callable[[], T]) -> T:
        """The answer of `request`, asked again while the store is away. Raises StoreUnavailable
        once nothing is left.

        what: for the log. Time in which `request` fails counts as waiting.
        """
        wait_s = FIRST_S
        while True:
            begun = self.now()
            try:
                return request()
            except TopicGone:
                raise  # another topic of that name is no answer
            except StoreUnavailable as error:
                self.left_s -= self.now() - begun
                if self.left_s <= 0:
                    raise _given_up(error, self.waits) from error
                seconds = min(wait_s, self.left_s)
                self.waits += 1
                left_s = round(self.left_s)
                log.warning(
                    "check_waits",
                    what=what,
                    seconds=seconds,
                    left_s=left_s,
                    waits=self.waits,
                    reason=error.what,
                )
                self.pause(seconds)
                self.left_s -= seconds
                wait_s = min(2 * wait_s, LONGEST_S)


def _given_up(error: StoreUnavailable, waits: int) -> StoreUnavailable:
    return StoreUnavailable(
        f"{error.what} (asked again {waits} times)" if waits else error.what,
        where=error.where,
        expected=error.expected,
        next_step=error.next_step or "is it up? slicewise status",
    )
