"""Features that an answer lacks are asked of the prediction API, at the answer's instant and at a
bounded rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slicewise.client.http import HttpClient
from slicewise.errors import (
    BadRequest,
    BeyondRetention,
    NotReady,
    RetryLater,
    StoreUnavailable,
)

PER_S = 50.0
"""Most requests in a second, of all models together: the API has live ones to answer."""
TRIES = 5
PAUSE_S = 1.0
"""Least pause before a request that was not answered is sent again."""


class Stopped(Exception):
    """A stop was requested: what was under way is left, and made again after the next start."""


class Rate:
    """Turns at a bounded rate, for any number of threads."""

    def __init__(self, per_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._every_s, self._now = 1.0 / per_s, now
        self._free_at = 0.0
        self._lock = threading.Lock()

    def wait_s(self) -> float:
        """Takes the next turn; seconds until it comes."""
        with self._lock:
            now = self._now()
            at = max(now, self._free_at)
            self._free_at = at + self._every_s
            return at - now


class Lookups:
    """Lookups of one model."""

    def __init__(self, url: str, rate: Rate, wait: Callable[[float], bool]) -> None:
        """wait: waits so many seconds, and tells whether it is to end."""
        self._client = HttpClient(url, form="json")
        self._rate, self._wait = rate, wait

    def __call__(
        self, refs: Sequence[str], entities: Sequence[Mapping[str, Any]], instant_us: int
    ) -> Sequence[Sequence[Any] | str]:
        """Per entity its values at this instant, or the reason why it has none.

        Refs are named singly: answers of a feature set would be logged, and read here again. Raises
        NotReady, RetryLater and StoreUnavailable after some tries, and Stopped.
        """
        for left in reversed(range(TRIES)):
            self._pause(self._rate.wait_s())
            try:
                answer = self._client.get(list(refs), list(entities), instant_us, tokens=False)
            except (NotReady, RetryLater, StoreUnavailable) as error:
                if not left:
                    raise
                self._pause(max(PAUSE_S, getattr(error, "retry_after_s", 0.0)))
            except (BadRequest, BeyondRetention) as error:
                if len(entities) > 1:  # one of them may be at fault alone
                    return [self(refs, [one], instant_us)[0] for one in entities]
                return [f"{type(error).__name__}: {error.what}"[:300]]
            else:
                return [result.values for result in answer.results]
        raise AssertionError("a try returns or raises")

    def _pause(self, seconds: float) -> None:
        """Waits. Raises Stopped: a wait that a stop cuts short would bound no rate."""
        if self._wait(seconds):
            raise Stopped

    def close(self) -> None:
        """Closes its connections."""
        self._client.close()
