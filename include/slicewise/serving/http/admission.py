"""Admission decides who is answered, waits or is refused: nobody waits beyond the patience, nobody
queues without end.

Pure: times are given, in seconds of one monotonic clock. `serving/http/gate.py` binds it to the
event loop; docs/adr/0061.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from enum import Enum

ENTITIES_PER_UNIT = 64
"""A request counts as one and one more for each of so many entities: what is in work is bounded by
work."""


class Refusal(Enum):
    """Reason for which a request is refused."""

    WAITED = "waited"
    """Refusal of a request that waited for as long as anybody may."""
    FULL = "full"
    """Refusal where so many wait already that there is no place for it."""
    SHARE = "share"
    """Refusal of a client that has more in work and waiting than an equal share, while others ask
    too."""


@dataclass(frozen=True)
class Limits:
    """at_once: units in work together. patience_s: longest wait for work to begin. waiting: most
    that wait."""

    at_once: int
    patience_s: float
    waiting: int


@dataclass(eq=False, slots=True)
class Ticket:
    """A request between its arrival and its answer. since: when it came, in seconds."""

    client: str
    since: float
    units: int
    waits: bool = False


@dataclass
class Admission:
    """The requests that are in work, and those that wait.

    Clients take turns, so that one who asks for more than can be answered makes its own requests
    wait. Of one client the oldest is next; once it has waited for half the patience the newest is,
    since those that will be refused anyhow would else make all others late too.
    """

    limits: Limits
    used: int = 0
    """Units in work."""
    working: int = 0
    """Requests in work."""
    _waiting: OrderedDict[Ticket, None] = field(default_factory=OrderedDict)
    """In the order of arrival."""
    _turns: OrderedDict[str, deque[Ticket]] = field(default_factory=OrderedDict)
    """Tickets of each client, oldest first; the client whose turn it is stands first."""
    _admitted: dict[str, int] = field(default_factory=dict)
    """Requests of each client, in work and waiting."""

    @property
    def waiting(self) -> int:
        """The number of those who wait."""
        return len(self._waiting)

    @property
    def expires(self) -> float | None:
        """The time at which the oldest of those who wait will have waited for too long."""
        return next(iter(self._waiting)).since + self.limits.patience_s if self._waiting else None

    def arrive(
        self, client: str, now: float, entities: int = 1
    ) -> tuple[Ticket, list[tuple[Ticket, Refusal]]]:
        """A request of so many entities came: its ticket, which `waits` or not, and who is refused
        for it (it may be the one)."""
        ticket = self._ticket(client, now, entities)
        self._admitted[client] = self._admitted.get(client, 0) + 1
        if not self._waiting and self._fits(ticket):
            self._begin(ticket)
            return ticket, []
        ticket.waits = True
        self._waiting[ticket] = None
        self._turns.setdefault(client, deque()).append(ticket)
        if len(self._waiting) <= self.limits.waiting:
            return ticket, []
        longest = max(self._turns.values(), key=len)
        # of the client with most: nobody else's place is taken
        return ticket, [self._refuse(longest[-1], Refusal.FULL)]

    def admit(self, client: str, entities: int = 1) -> Ticket | None:
        """A request that came and whose work begins at once; None: it would wait, and has not
        come."""
        if self._waiting:
            return None
        ticket = self._ticket(client, 0.0, entities)
        if not self._fits(ticket):
            return None
        self._admitted[client] = self._admitted.get(client, 0) + 1
        self._begin(ticket)
        return ticket

    def _ticket(self, client: str, now: float, entities: int) -> Ticket:
        units = min(self.limits.at_once, 1 + (entities - 1) // ENTITIES_PER_UNIT)
        return Ticket(client, now, units)

    def leave(self, ticket: Ticket) -> None:
        """An answer was given. `begin` says who is next."""
        self.used -= ticket.units
        self.working -= 1
        self._release(ticket)

    def begin(self, now: float) -> list[Ticket]:
        """Begins work that fits, and gives its tickets."""
        begun: list[Ticket] = []
        while self._turns:
            client, own = next(iter(self._turns.items()))
            stale = now - own[0].since > self.limits.patience_s / 2
            ticket = own[-1] if stale else own[0]
            if not self._fits(ticket):
                break
            self._forget(ticket)
            if client in self._turns:
                self._turns.move_to_end(client)
            self._begin(ticket)
            begun.append(ticket)
        return begun

    def expire(self, now: float) -> list[tuple[Ticket, Refusal]]:
        """Refuses those who have waited for as long as anybody may."""
        refused = []
        while (
            self._waiting
            and now >= (oldest := next(iter(self._waiting))).since + self.limits.patience_s
        ):
            refused.append(self._refuse(oldest, Refusal.WAITED))
        return refused

    def abandon(self, ticket: Ticket) -> None:
        """One that waits went away."""
        self._forget(ticket)
        self._release(ticket)

    def _fits(self, ticket: Ticket) -> bool:
        return self.used + ticket.units <= self.limits.at_once

    def _begin(self, ticket: Ticket) -> None:
        ticket.waits = False
        self.used += ticket.units
        self.working += 1

    def _refuse(self, ticket: Ticket, why: Refusal) -> tuple[Ticket, Refusal]:
        share = (self.working + len(self._waiting)) / len(self._admitted)
        over = len(self._admitted) > 1 and self._admitted[ticket.client] > share
        self.abandon(ticket)
        return ticket, Refusal.SHARE if over else why

    def _forget(self, ticket: Ticket) -> None:
        del self._waiting[ticket]
        own = self._turns[ticket.client]
        if own[-1] is ticket:
            own.pop()
        else:
            own.remove(ticket)  # the oldest, which is found at once, but for one that went away
        if not own:
            del self._turns[ticket.client]

    def _release(self, ticket: Ticket) -> None:
        left = self._admitted[ticket.client] - 1
        if left:
            self._admitted[ticket.client] = left
        else:
            del self._admitted[ticket.client]
