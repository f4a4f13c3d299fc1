"""Admission on an event loop: whoever waits is woken when work begins or when the wait has been too
long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from slicewise.errors import Overloaded, OverShare
from slicewise.serving.http.admission import Admission, Limits, Refusal, Ticket
from slicewise.serving.metrics import Metrics

RETRY_AFTER_S = (1, 2, 3)
"""In turn, so that those who were refused together do not come back together."""


class Gate:
    """Gate of one process."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.admission = Admission(limits)
        self._waits: dict[Ticket, asyncio.Future[Refusal | None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._refused = 0
        self._metrics = metrics
        self._shed = {why: metrics.shed.labels(why.value) for why in Refusal}

    async def enter(self, client: str, entities: int = 1) -> Ticket:
        """To be followed by `leave`. Raises Overloaded, or OverShare where the client asks for more
        than its share."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        ticket, refused = self.admission.arrive(client, now, entities)
        if not ticket.waits:
            return ticket
        future = self._waits[ticket] = loop.create_future()
        self._refuse(refused)
        if self._timer is None:
            self._watch(loop)
        try:
            why = await future
        except asyncio.CancelledError:
            if self._waits.pop(ticket, None) is not None:
                self.admission.abandon(ticket)
                self._next()
            elif not future.cancelled() and future.result() is None:
                self.leave(ticket)  # its work began in the same turn of the loop
            raise
        finally:
            self._metrics.wait_seconds.observe(loop.time() - now)
        if why is not None:
            raise self._error(why)
        return ticket

    @asynccontextmanager
    async def entered(self, client: str) -> AsyncIterator[None]:
        """Holds a place for the work within. Raises what `enter` raises."""
        ticket = await self.enter(client)
        try:
            yield
        finally:
            self.leave(ticket)

    def enter_now(self, client: str, entities: int = 1) -> Ticket | None:
        """Enters where the work fits and nobody waits; else None, and nobody came."""
        return self.admission.admit(client, entities)

    def leave(self, ticket: Ticket) -> None:
        """The request was answered, however: the next ones begin."""
        self.admission.leave(ticket)
        self._next()

    def _next(self) -> None:
        if self._waits:
            now = asyncio.get_running_loop().time()
            self._refuse(self.admission.expire(now))
            while gone := [
                waiter for waiter in self.admission.begin(now) if not self._wake(waiter, None)
            ]:
                for waiter in gone:  # cancelled, and not told yet
                    self.admission.leave(waiter)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        expires = self.admission.expires
        self._timer = None if expires is None else loop.call_at(expires, self._late, loop)

    def _late(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next()  # behind a large one that is refused a small one may fit
        self._watch(loop)

    def _refuse(self, refused: list[tuple[Ticket, Refusal]]) -> None:
        for ticket, why in refused:
            self._shed[why].inc()
            self._wake(ticket, why)

    def _wake(self, ticket: Ticket, why: Refusal | None) -> bool:
        """Wakes a request that waits; tells whether anybody was there to be told."""
        future = self._waits.pop(ticket)
        if not future.cancelled():
            future.set_result(why)
        return not future.cancelled()

    def _error(self, why: Refusal) -> Overloaded:
        self._refused += 1
        limits = self.admission.limits
        kind = OverShare if why is Refusal.SHARE else Overloaded
        return kind(
            {
                Refusal.WAITED: (
                    f"the request waited for {limits.patience_s * 1e3:.0f} ms and its work had "
                    "not begun"
                ),
                Refusal.FULL: f"{limits.waiting} requests wait already",
                Refusal.SHARE: "this client has more requests in work and waiting than its share",
            }[why],
            retry_after_s=RETRY_AFTER_S[self._refused % len(RETRY_AFTER_S)],
            expected=f"at most {limits.at_once} requests in work at once",
            next_step=(
                "ask again after Retry-After, with some chance in it; or see what takes the "
                "service's time"
            ),
        )
