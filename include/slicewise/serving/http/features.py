"""POST /v1/features: requests of one turn of the loop that ask the same are read together.

What they are answered is what each would be answered by itself: whatever is particular to one of
them (a refusal, pending events) makes all of them be read one by one (docs/adr/0091).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from slicewise.errors import BeyondRetention, NotAcceptable, NotReady, Overloaded, StoreUnavailable
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.requests import FeaturesRequest, parse_body
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.connection import AsyncConnection
from slicewise.serving.http.admission import Ticket
from slicewise.serving.http.errors import JSON, MSGPACK, Response, encoded
from slicewise.serving.http.failures import Failures
from slicewise.serving.http.gate import Gate
from slicewise.serving.http.negotiation import JSON_KINDS, Headers, check_accepted, media_types
from slicewise.serving.http.offline import OfflineAnswers
from slicewise.serving.logged.request_log import RequestLog
from slicewise.serving.metrics import Metrics

HEADS = 4_096
"""Heads of requests that are remembered: a client has one for each length of its bodies."""
HEAD_BYTES = 2_048
"""Longest head that is remembered."""
TOGETHER = 16
"""Most requests that are read together."""
TOGETHER_S = 0.0025
"""Longest that requests which are read together hold the loop, as they did last: a quarter of one
of its turns."""
WAIT_COST_S = 0.0002
"""Least time of the loop that a request takes for which others of its key wait. Of shorter ones the
turn of the store that is lost costs more than reading them together wins."""
WAIT_S = 0.005
"""Longest that a request waits for another."""
APART_S = 1.0
"""Time for which requests are read one by one, after some that were together had to be."""
KEYS = 1_000
Answered = Callable[[Response], None]


class Head(NamedTuple):
    """Meaning of a head that was parsed before: of a request whose body has this length."""

    length: int
    msgpack_in: bool
    msgpack_out: bool
    client: str | None
    """Name of the client that a gateway gives; None: its address is."""


Key = tuple[tuple[str, ...], str | None, bool]
"""Requests of one key read the same, of different entities."""


class Member(NamedTuple):
    """A request in work."""

    request: FeaturesRequest
    ticket: Ticket
    msgpack: bool
    begun: float
    answered: Answered
    key: Key | None
    """None of one that is read by itself."""


class Waiting(NamedTuple):
    """Requests of one key that wait for one that is being read."""

    members: list[Member]
    timer: asyncio.TimerHandle


class Features:
    """Requests for features of one process, from their body to their response."""

    def __init__(
        self,
        service: FeatureService,
        connection: AsyncConnection,
        gate: Gate,
        metrics: Metrics,
        failures: Failures,
        client_header: str = "",
        request_log: RequestLog | None = None,
    ) -> None:
        """client_header: names the client, else its address does. request_log: None where nothing
        is logged."""
        self._request_log = request_log
        self._service, self._connection, self._gate = service, connection, gate
        self._metrics, self._failures = metrics, failures
        self._client_header = client_header.lower().encode("latin-1")
        self.offline = OfflineAnswers()
        self.seconds = metrics.request_seconds.labels("/v1/features")
        self.heads: dict[bytes, Head] = {}
        self._turn: list[Member] = []
        """Members that came in this turn of the loop."""
        self._begins = False
        """Tells whether the turn's requests are begun at its end."""
        self._single = True
        """Tells whether one request came in the turn before."""
        self._under_way: Counter[Key] = Counter()
        """Reads that have begun and are not over."""
        self._waiting: dict[Key, Waiting] = {}
        self._costs: dict[Key, float] = {}
        """Seconds of the loop that an entity takes."""
        self._apart: dict[Key, float] = {}
        """Until when requests are read one by one."""
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------ one by one
    async def answer(self, request: FeaturesRequest, client: str) -> Answer:
        """The answer, once there is room for the work.

        The request was parsed before: what is refused may declare another answer.
        """
        begun = time.perf_counter()
        answer = await self._answer(request, client)
        self._log(request, answer, None, client, begun)
        return answer

    async def _answer(self, request: FeaturesRequest, client: str) -> Answer:
        try:
            ticket = await self._gate.enter(client, len(request.entities))
        except Overloaded as error:
            return self._service.instead(request, error)
        try:
            return await self._connection.run(self._service.read(request))
        except BeyondRetention:
            if not request.offline:
                raise
        finally:
            self._gate.leave(ticket)
        # in no place of an answer: the archive has a line of its own
        question = await self._connection.run(self._service.past(request))
        return await self.offline.answer(question, client)

    def response(self, answer: Answer, *, msgpack: bool) -> Response:
        """The response that an answer makes; it is counted."""
        self._metrics.values.inc(len(answer.results) * len(answer.features))
        for flag in answer.flags:
            self._metrics.flags.labels(flag).inc()
        if len(answer.results) == 1:
            return _written(answer.bodies(text=not msgpack)[0], msgpack)
        return encoded(200, answer.to_wire(text=not msgpack), msgpack=msgpack)

    # ------------------------------------------------------------ heads
    def named(self, headers: Headers) -> str | None:
        """The client that a gateway names in its header."""
        if self._client_header:
            for name, value in headers:
                if name == self._client_header:
                    return str(value[:200], "latin-1")
        return None

    def learn(self, head: bytes, headers: Headers, length: int) -> None:
        """Remembers what the head of a request meant; of one that is refused nothing."""
        if len(head) > HEAD_BYTES:
            return
        msgpack_in, msgpack_out, accept = media_types(headers)
        try:
            check_accepted(accept, JSON_KINDS)
        except NotAcceptable:
            return
        if len(self.heads) >= HEADS:
            self.heads.clear()
        self.heads[head] = Head(length, msgpack_in, msgpack_out, self.named(headers))

    # ------------------------------------------------------------ together
    def start(self, head: Head, body: bytes, client: str, answered: Answered) -> None:
        """Begins a request; `answered` is called once, within this call or later."""
        begun = time.perf_counter()
        try:
            request = parse_body(body, msgpack=head.msgpack_in)
        except Exception as error:  # noqa: BLE001
            response = self._failures.response(error, msgpack=head.msgpack_out)
            self.seconds.observe(time.perf_counter() - begun)
            answered(response)
            return
        named = client if head.client is None else head.client
        entities = len(request.entities)
        ticket = None if request.offline else self._gate.enter_now(named, entities)
        if ticket is None:
            task = asyncio.get_running_loop().create_task(
                self._wait(request, named, head.msgpack_out, begun, answered)
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        key = _key_of(request)
        member = Member(request, ticket, head.msgpack_out, begun, answered, key)
        if key is not None and self._under_way[key] and self._may_wait(key):
            self._wait_for_another(key, member)
            return
        if not self._begins:
            self._begins = True
            asyncio.get_running_loop().call_soon(self._begin)
            if self._single:  # so is this one, most likely: the next turn would be later
                self._one(member)
                self._connection.flush()
                return
        self._turn.append(member)

    async def _wait(
        self,
        request: FeaturesRequest,
        client: str,
        msgpack: bool,
        begun: float,
        answered: Answered,
    ) -> None:
        try:
            answer = await self.answer(request, client)
            response = self.response(answer, msgpack=msgpack)
        except Exception as error:  # noqa: BLE001
            response = self._failures.response(error, msgpack=msgpack)
        self.seconds.observe(time.perf_counter() - begun)
        answered(response)

    def _begin(self) -> None:
        """Begins what came in one turn of the loop."""
        members, self._turn = self._turn, []
        self._single, self._begins = len(members) + self._single == 1, False
        if len(members) > 1:
            self._group(members)
        elif members:
            self._one(members[0])
        self._connection.flush()

    def _group(self, members: Sequence[Member]) -> None:
        groups: dict[Key, list[Member]] = {}
        for member in members:
            if member.key is None:
                self._one(member)
            else:
                groups.setdefault(member.key, []).append(member)
        for key, group in groups.items():
            self._begin_group(key, group)

    def _begin_group(self, key: Key, group: Sequence[Member]) -> None:
        most = self._most(key)
        for first in range(0, len(group), most):
            self._several(key, group[first : first + most])

    def _may_wait(self, key: Key) -> bool:
        """Tells whether requests of this key are better read together, a little later."""
        return self._costs.get(key, 0.0) >= WAIT_COST_S and self._most(key) > 1

    def _wait_for_another(self, key: Key, member: Member) -> None:
        waiting = self._waiting.get(key)
        if waiting is None:
            timer = asyncio.get_running_loop().call_later(WAIT_S, self._end_waiting, key)
            waiting = self._waiting[key] = Waiting([], timer)
        waiting.members.append(member)

    def _end_waiting(self, key: Key) -> None:
        """Begins the requests of this key that wait."""
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting.timer.cancel()
            self._begin_group(key, waiting.members)
            self._connection.flush()

    def _over(self, key: Key) -> None:
        """Takes note that a read of this key is over."""
        self._under_way[key] -= 1
        if self._under_way[key] <= 0:
            del self._under_way[key]
        self._end_waiting(key)

    def _most(self, key: Key) -> int:
        """Number of requests to read together: no more than the loop has time for."""
        cost = self._costs.get(key)
        if (
            cost is None
            or self._connection.is_sharded  # entities of one node do not wait for another node
            or self._apart.get(key, 0.0) > time.monotonic()
        ):
            return 1
        return max(1, min(TOGETHER, int(TOGETHER_S / cost)))

    def _one(self, member: Member, taken_s: float = 0.0) -> None:
        """Reads for one; taken_s: the part of its time that is over."""

        key = member.key

        def done(answer: Answer | None, error: Exception | None) -> None:
            try:
                if answer is None:
                    self._failed(member, error)
                else:
                    if key is not None and not answer.is_particular:
                        self._learn_cost(key, 1)
                    self._end(member, answer)
            finally:
                if key is not None:
                    self._over(key)

        if key is not None:
            self._under_way[key] += 1
        self._connection.start(self._service.read(member.request), done, taken_s)

    def _several(self, key: Key, members: Sequence[Member]) -> None:
        if len(members) == 1:
            self._one(members[0])
            return
        entities = tuple([member.request.entities[0] for member in members])

        begun = time.perf_counter()

        def done(answer: Answer | None, error: Exception | None) -> None:
            try:
                self._end_several(key, members, begun, answer, error)
            finally:
                self._over(key)

        self._under_way[key] += 1
        whole = replace(members[0].request, entities=entities)
        self._connection.start(self._service.read_store(whole), done)

    def _end_several(
        self,
        key: Key,
        members: Sequence[Member],
        begun: float,
        answer: Answer | None,
        error: Exception | None,
    ) -> None:
        if isinstance(error, StoreUnavailable | NotReady) and not self._connection.is_open:
            for member in members:
                self._instead(member, error)
        elif answer is None or answer.is_particular:
            # also where an open store refuses: it may do so for one entity (`Recovering`)
            self._separately(key, members, time.perf_counter() - begun)
        else:
            self._learn_cost(key, len(members))
            try:
                bodies = _bodies(members, answer)
            except Exception:  # noqa: BLE001
                # whose answer cannot be written is told alone
                self._separately(key, members, time.perf_counter() - begun)
            else:
                self._end_together(members, answer, bodies)

    def _separately(self, key: Key, members: Sequence[Member], taken_s: float) -> None:
        """Reads for each by itself, in what is left of its time."""
        if len(self._apart) >= KEYS:
            self._apart.clear()
        self._apart[key] = time.monotonic() + APART_S
        for member in members:
            self._one(member, taken_s)

    def _learn_cost(self, key: Key, entities: int) -> None:
        if len(self._costs) >= KEYS:
            self._costs.clear()
        cost = max(self._connection.worked_s / entities, 1e-6)
        # entities differ: the dearest of the last ones counts
        self._costs[key] = max(cost, 0.75 * self._costs.get(key, 0.0))

    def _end_together(
        self, members: Sequence[Member], answer: Answer, bodies: Mapping[bool, Sequence[bytes]]
    ) -> None:
        self._metrics.values.inc(len(members) * len(answer.features))
        for number, member in enumerate(members):
            self._respond(member, _written(bodies[member.msgpack][number], member.msgpack))
        for number, member in enumerate(members):
            self._log(member.request, answer, number, member.ticket.client, member.begun)

    def _instead(self, member: Member, error: StoreUnavailable | NotReady) -> None:
        try:
            answer = self._service.instead(member.request, error)
        except Exception as refused:  # noqa: BLE001
            self._failed(member, refused)
        else:
            self._end(member, answer)

    def _failed(self, member: Member, error: Exception | None) -> None:
        assert error is not None
        self._respond(member, self._failures.response(error, msgpack=member.msgpack))

    def _end(self, member: Member, answer: Answer) -> None:
        try:
            response = self.response(answer, msgpack=member.msgpack)
        except Exception as error:  # noqa: BLE001
            self._failed(member, error)
        else:
            self._respond(member, response)
            self._log(member.request, answer, None, member.ticket.client, member.begun)

    def _log(
        self,
        request: FeaturesRequest,
        answer: Answer,
        position: int | None,
        client: str,
        begun: float,
    ) -> None:
        if self._request_log is not None:
            seconds = time.perf_counter() - begun
            self._request_log.take(request, answer, position, client, seconds)

    def _respond(self, member: Member, response: Response) -> None:
        self._gate.leave(member.ticket)
        self.seconds.observe(time.perf_counter() - member.begun)
        member.answered(response)


def _key_of(request: FeaturesRequest) -> Key | None:
    """Key of a request that may be read with others; None of one that is read by itself."""
    if len(request.entities) != 1 or request.at_us is not None or request.min_token:
        return None
    return request.features, request.feature_set, request.tokens


def _bodies(members: Sequence[Member], answer: Answer) -> Mapping[bool, Sequence[bytes]]:
    """Msgpack or not -> per member its answer's body, for what is asked for of the two."""
    forms = {member.msgpack for member in members}
    return {msgpack: answer.bodies(text=not msgpack) for msgpack in forms}


def _written(body: bytes, msgpack: bool) -> Response:
    return Response(200, body, MSGPACK if msgpack else JSON)
