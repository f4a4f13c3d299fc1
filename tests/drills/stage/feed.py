"""A producer that goes on whatever happens to the platform; what it sent, the log itself tells."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from confluent_kafka import Producer

from tests.e2e.payments import CARDS, Produced, payments
from tests.support.oracles.answers import HOUR, MINUTE

TICK_S = 0.05
_FLUSH_S = 120.0
_MANY_HOURS = 20


class Feed:
    """Payments of now, some late, a few records that are none; so many a second from `resume` to
    `pause`."""

    def __init__(self, bootstrap: str, topic: str, rng: random.Random, per_second: int) -> None:
        self._bootstrap = bootstrap
        self._topic, self._rng = topic, rng
        self.pace(per_second)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self.shape: Callable[[random.Random, Produced], Produced] | None = None
        """Shape that each payment gets before it is sent."""
        self._lock = threading.Lock()
        self._paused, self._over = threading.Event(), threading.Event()
        self._paused.set()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def pace(self, per_second: float) -> None:
        """Sends so many events a second from now on, at least one a tick."""
        self._per_tick = max(1, round(per_second * TICK_S))

    def resume(self) -> None:
        self._paused.clear()

    def pause(self) -> None:
        """Returns when all that was sent stands in the log."""
        self._paused.set()
        assert self._thread.is_alive(), (
            "nothing is produced any more: see the trace of the thread 'feed'"
        )
        with self._lock:
            assert self._producer.flush(_FLUSH_S) == 0, "the broker does not take what was sent"

    def stop(self) -> None:
        """For good; what is on its way is left."""
        self._over.set()
        self._thread.join(30)

    def burst(self, n: int, hours: int = 1) -> None:
        """Sends so many at once, of the hours before now."""
        now = time.time_ns() // 1000
        self._send(
            payments(self._rng.getrandbits(32), n, now, now - hours * HOUR, now, bad=n // 1000)
        )

    def history(self, n: int, hours: int) -> None:
        """Sends so many of the hours before now, which came when they happened: in their order, by
        Kafka's time too."""
        now = time.time_ns() // 1000
        made = payments(self._rng.getrandbits(32), n, now, now - hours * HOUR, now)
        came = [
            replace(payment, time_ms=int(json.loads(payment.value)["paid_at"]) // 1000 + 1)
            for payment in made
        ]
        self._send(sorted(came, key=lambda payment: payment.time_ms))

    def transactions(self, n: int, size: int) -> int:
        """Sends so many transactions of so many events of now: about half are aborted, and stand in
        the log for nobody. Returns how many were."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": f"drill-{self._rng.random()}",
            }
        )
        producer.init_transactions(_FLUSH_S)
        aborted = 0
        for _ in range(n):
            now = time.time_ns() // 1000
            producer.begin_transaction()
            for made in payments(self._rng.getrandbits(32), size, now, now - 1_000_000, now + 1):
                producer.produce(
                    self._topic, value=made.value, partition=made.partition, timestamp=made.time_ms
                )
            producer.flush(_FLUSH_S)  # else what is aborted may never have left
            if self._rng.random() < 0.5:
                producer.abort_transaction(_FLUSH_S)
                aborted += 1
            else:
                producer.commit_transaction(_FLUSH_S)
        return aborted

    def hot(self, n: int) -> None:
        """Sends so many of now, nine of ten of them of one card."""
        now, rng = time.time_ns() // 1000, self._rng
        made = payments(rng.getrandbits(32), n, now, now - 1_000_000, now + 1)
        card = rng.choice(CARDS)
        self._send([_of(payment, card) if rng.random() < 0.9 else payment for payment in made])

    def many(self, first: int, n: int) -> None:
        """One event of each of so many cards, `key-<number>` from the first on: most of them of the
        hours before now, one in twenty of the last minutes."""
        now, rng = time.time_ns() // 1000, self._rng
        old = payments(rng.getrandbits(32), n - n // 20, now, now - _MANY_HOURS * HOUR, now)
        new = payments(rng.getrandbits(32), n // 20, now, now - 10 * MINUTE, now)
        self._send([_of(payment, f"key-{first + i}") for i, payment in enumerate((*old, *new))])

    def _run(self) -> None:
        while not self._over.wait(TICK_S):
            if self._paused.is_set():
                continue
            now, rng = time.time_ns() // 1000, self._rng
            late = rng.random() < 0.1
            oldest = now - 10 * MINUTE if late else now - 1_000_000
            self._send(
                payments(
                    rng.getrandbits(32),
                    self._per_tick,
                    now,
                    oldest,
                    now + 1,
                    bad=int(rng.random() < 0.02),
                )
            )

    def _send(self, records: Sequence[Produced]) -> None:
        with self._lock:
            for record in (
                records if self.shape is None else [self.shape(self._rng, made) for made in records]
            ):
                while not self._over.is_set():
                    try:
                        self._producer.produce(
                            self._topic,
                            value=record.value,
                            partition=record.partition,
                            timestamp=record.time_ms,
                        )
                        break
                    except BufferError:  # the broker is away
                        self._producer.poll(0.1)
            self._producer.poll(0)


def _of(payment: Produced, card: str) -> Produced:
    return replace(payment, value=json.dumps({**json.loads(payment.value), "card": card}).encode())
