"""Decides whether and when a read is sent once more, over plain values; both clients carry it out.

Reads change nothing, so that sending one twice is safe. Three bounds keep retries from feeding an
overload: their number, the time that the call has, and a budget over all calls of a client.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass

from slicewise.errors import BadRequest

AGAIN = frozenset({429, 502, 503, 504})
"""Statuses after which the same request may be answered."""
BUDGET = 10.0
"""Retries that a client has in reserve at most; it begins with them."""


@dataclass(frozen=True)
class Retry:
    """Rules by which a client repeats reads that failed for the moment.

    times: further attempts of a call at most; 0 never repeats. The n-th waits for a random part of
    `first_wait_s * 2 ** (n - 1)`, at most `longest_wait_s`, and before that as long as the API's
    Retry-After says. share: retries for each call, over many calls. A service that fails for long
    gets so many more requests, not all of them several times.
    """

    times: int = 2
    first_wait_s: float = 0.1
    longest_wait_s: float = 2.0
    share: float = 0.1

    def __post_init__(self) -> None:
        waits = (self.first_wait_s, self.longest_wait_s, self.share)
        numbers = type(self.times) is int and all(type(part) in (int, float) for part in waits)
        if not (numbers and self.times >= 0 and all(0 <= part < math.inf for part in waits)):
            raise BadRequest(
                f"{self} has a part that is no such number",
                where="retry",
                expected="times: a whole number of at least 0; others: finite numbers of at least 0",
                next_step="write Retry(times=0) for no retries",
            )

    def wait_s(self, n: int, retry_after_s: float, random: float) -> float:
        """Seconds before the n-th further attempt, n from 1; random is in [0, 1)."""
        longest = min(self.longest_wait_s, self.first_wait_s * float(2 ** min(n - 1, 62)))
        return retry_after_s + random * longest


class Budget:
    """Retries that a client may still spend. Used by several threads."""

    def __init__(self, share: float) -> None:
        self._share, self._left, self._lock = share, BUDGET, threading.Lock()

    def earn(self) -> None:
        """Counts a call."""
        with self._lock:
            self._left = min(BUDGET, self._left + self._share)

    def spend(self) -> bool:
        """Takes a retry from what is left; False if less than one is."""
        with self._lock:
            if self._left < 1.0:
                return False
            self._left -= 1.0
            return True


@dataclass(frozen=True)
class Send:
    """A step: send the request, and take up to timeout_s for it."""

    timeout_s: float


@dataclass(frozen=True)
class Wait:
    """A step: wait."""

    seconds: float


@dataclass(frozen=True)
class Reply:
    """A whole reply."""

    status: int
    body: bytes
    retry_after_s: float | None = None
    """Seconds of its Retry-After."""


@dataclass(frozen=True)
class NoReply:
    """The connection failed, or the time was over."""

    error: Exception


Outcome = Reply | NoReply
Attempts = Generator[Send | Wait, Outcome | None, Outcome]


def attempts(
    retry: Retry,
    budget: Budget,
    timeout_s: float,
    monotonic: Callable[[], float],
    random: Callable[[], float],
) -> Attempts:
    """The steps of one call; `Send` is answered with its outcome. Returns the outcome that
    counts."""
    ends = monotonic() + timeout_s
    budget.earn()
    n = 1
    while True:
        outcome = yield Send(max(0.001, ends - monotonic()))
        assert outcome is not None, "a Send is answered"
        if isinstance(outcome, Reply) and outcome.status not in AGAIN:
            return outcome
        retry_after_s = (outcome.retry_after_s or 0.0) if isinstance(outcome, Reply) else 0.0
        wait_s = retry.wait_s(n, retry_after_s, random())
        # what would begin after the caller's time is over helps nobody
        if n > retry.times or monotonic() + wait_s >= ends or not budget.spend():
            return outcome
        yield Wait(wait_s)
        n += 1
