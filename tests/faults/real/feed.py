"""A producer that goes on whatever happens to the platform; what it sent, the log itself tells."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence

from confluent_kafka import Producer

from tests.e2e.payments import Produced, payments
from tests.support.oracle import HOUR, MINUTE

TICK_S = 0.05
_FLUSH_S = 120.0


class Feed:
    """Payments of now, some late, a few records that are none; so many a second from `resume` to `pause`."""

    def __init__(self, bootstrap: str, topic: str, rng: random.Random, per_second: int) -> None:
        self._topic, self._rng, self._each = topic, rng, max(1, round(per_second * TICK_S))
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._lock = threading.Lock()
        self._paused, self._over = threading.Event(), threading.Event()
        self._paused.set()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def resume(self) -> None:
        self._paused.clear()

    def pause(self) -> None:
        """Returns when all that was sent stands in the log."""
        self._paused.set()
        assert self._thread.is_alive(), "nothing is produced any more: see the trace of the thread 'feed'"
        with self._lock:
            assert self._producer.flush(_FLUSH_S) == 0, "the broker does not take what was sent"

    def stop(self) -> None:
        """For good; what is on its way is left."""
        self._over.set()
        self._thread.join(30)

    def burst(self, n: int) -> None:
        """So many at once, of the hour before now."""
        now = time.time_ns() // 1000
        self._send(payments(self._rng.getrandbits(32), n, now, now - HOUR, now, bad=n // 1000))

    def _run(self) -> None:
        while not self._over.wait(TICK_S):
            if self._paused.is_set():
                continue
            now, rng = time.time_ns() // 1000, self._rng
            late = rng.random() < 0.1
            oldest = now - 10 * MINUTE if late else now - 1_000_000
            self._send(payments(rng.getrandbits(32), self._each, now, oldest, now + 1, bad=int(rng.random() < 0.02)))

    def _send(self, records: Sequence[Produced]) -> None:
        with self._lock:
            for each in records:
                while not self._over.is_set():
                    try:
                        self._producer.produce(
                            self._topic, value=each.value, partition=each.partition, timestamp=each.time_ms
                        )
                        break
                    except BufferError:  # the broker is away
                        self._producer.poll(0.1)
            self._producer.poll(0)
