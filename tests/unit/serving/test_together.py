"""Requests that are read together are answered, byte for byte, what each is answered by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import msgspec
import pytest

from slicewise.errors import Recovering, StoreUnavailable
from slicewise.serving.answering.answer import Answer, EntityAnswer
from slicewise.serving.answering.requests import FeaturesRequest
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.connection import AsyncConnection, SyncConnection
from slicewise.serving.connection.steps import Flow
from slicewise.serving.http.admission import Limits
from slicewise.serving.http.errors import Response
from slicewise.serving.http.failures import Failures
from slicewise.serving.http.features import WAIT_S, Features, Head
from slicewise.serving.http.gate import Gate
from slicewise.serving.metrics import Metrics
from tests.support.stores.in_memory import deployment
from tests.support.stores.in_memory import world as world_of
from tests.unit.serving.test_pending import REFS, SLICED, USERS, World

Body = dict[str, Any]
OWN = [ref for ref in SLICED if not ref.startswith("all:")]
"""Features of views of users: of nobody, nothing is pending."""
NAMES = ("ann", "bob", "zoë", "nobody", "ann")


class Counting:
    """A connection that answers at once, and counts the flows that it ran."""

    is_sharded = False

    def __init__(self, connection: SyncConnection, worked_s: float = 1e-4) -> None:
        self._connection, self.worked_s, self.flows = connection, worked_s, 0

    @property
    def is_open(self) -> bool:
        return self._connection._store is not None

    def start(
        self, flow: Flow[Any], done: Callable[[Any, Exception | None], None], taken_s: float = 0.0
    ) -> None:
        assert 0 <= taken_s < 60
        self.flows += 1
        try:
            result = self._connection.run(flow)
        except Exception as error:  # noqa: BLE001
            done(None, error)
        else:
            done(result, None)

    async def run(self, flow: Flow[Any]) -> Any:
        return self._connection.run(flow)

    def flush(self) -> None:
        pass


class Slow(Counting):
    """A connection whose replies come when they are let through."""

    def __init__(self, connection: SyncConnection, worked_s: float) -> None:
        super().__init__(connection, worked_s)
        self.stopped: list[Callable[[], None]] | None = None

    def start(
        self, flow: Flow[Any], done: Callable[[Any, Exception | None], None], taken_s: float = 0.0
    ) -> None:
        if self.stopped is None:
            super().start(flow, done, taken_s)
        else:
            self.stopped.append(partial(super().start, flow, done, taken_s))

    def let(self, number: int = 0) -> None:
        """Lets the replies of one read through, of those that wait."""
        assert self.stopped is not None
        self.stopped.pop(number)()


def features_of(
    service: FeatureService, connection: Counting, limits: Limits | None = None
) -> Features:
    metrics = Metrics()
    return Features(
        service,
        cast("AsyncConnection", connection),
        Gate(limits or Limits(16, 0.1, 100), metrics),
        metrics,
        Failures(metrics),
    )


def in_turns(
    features: Features, turns: Sequence[Sequence[Body]], *, msgpack: bool = False
) -> list[list[Response]]:
    """Responses to the requests of several turns of the loop."""

    async def scenario() -> list[list[Response]]:
        result = []
        for bodies in turns:
            responses: dict[int, Response] = {}
            for number, body in enumerate(bodies):
                encoded = json.dumps(body).encode()
                head = Head(len(encoded), False, msgpack, None)

                features.start(head, encoded, "client", partial(_take, responses, number))
            while len(responses) < len(bodies):
                await asyncio.sleep(0)
            result.append([responses[number] for number in range(len(bodies))])
        return result

    return asyncio.run(scenario())


def _take(responses: dict[int, Response], number: int, response: Response) -> None:
    assert number not in responses, "answered twice"
    responses[number] = response


def requests_of(refs: Sequence[str], users: Sequence[str] = NAMES) -> list[Body]:
    return [{"features": list(refs), "entities": [{"user": user}]} for user in users]


@pytest.mark.parametrize("msgpack", [False, True])
@pytest.mark.parametrize("refs", [REFS, SLICED], ids=["with lists", "slices"])
def test_together_each_is_answered_as_by_itself(refs: list[str], msgpack: bool) -> None:
    world = World(to_come=True)
    counted = Counting(world.connection)
    features = features_of(world.service, counted)
    single = [in_turns(features, [[body]], msgpack=msgpack)[0][0] for body in requests_of(refs)]
    assert counted.flows == len(NAMES)
    # the first of a turn after a turn of one begins at once; the turn after it is read together
    _, together = in_turns(features, [requests_of(refs)] * 2, msgpack=msgpack)
    assert counted.flows == len(NAMES) + 2 + 1
    assert [response.status for response in single] == [200] * len(NAMES)
    assert together == single
    assert b"no_data" in together[3].body


def test_where_one_has_pending_events_each_is_read_by_itself() -> None:
    world = World()
    counted = Counting(world.connection)
    features = features_of(world.service, counted)
    single = [in_turns(features, [[body]])[0][0] for body in requests_of(OWN)]
    assert any(b'"tail"' in response.body for response in single)
    assert any(b'"tail"' not in response.body for response in single)
    _, together = in_turns(features, [requests_of(OWN)] * 2)
    assert together == single
    flows = counted.flows
    in_turns(features, [requests_of(OWN)])
    assert counted.flows == flows + len(NAMES), "nothing is read twice for a while"


def test_of_unlike_requests_only_the_like_are_read_together() -> None:
    world = World(to_come=True)
    counted = Counting(world.connection)
    features = features_of(world.service, counted)
    mixed = [
        *requests_of(SLICED[:3]),
        *requests_of(SLICED[:2], USERS),
        {"features": SLICED[:3], "entities": [{"user": "ann"}, {"user": "bob"}]},
        {"features": SLICED[:3], "entities": [{"user": "ann"}], "tokens": False},
        {"features": SLICED[:3], "entities": [{"user": "ann"}], "at": world.service.clock.now_us()},
        {"features": SLICED[:3], "entities": [{"shop": "ann"}]},
        {"features": ["few:nothing"], "entities": [{"user": "ann"}]},
        {"features": SLICED[:3]},
    ]
    single = [in_turns(features, [[body]])[0][0] for body in mixed]
    assert [response.status for response in single] == [200] * 11 + [400, 404, 400]
    _, together = in_turns(features, [mixed] * 2)
    assert together == single


def test_long_answers_are_not_read_together() -> None:
    world = World(to_come=True)
    counted = Counting(world.connection, worked_s=0.1)
    features = features_of(world.service, counted)
    in_turns(features, [requests_of(SLICED)] * 3)
    assert counted.flows == 3 * len(NAMES)


def test_what_does_not_fit_waits_and_is_refused_like_any_other() -> None:
    world = World(to_come=True)
    features = features_of(world.service, Counting(world.connection), Limits(1, 0.0, 0))
    other = features._gate.enter_now("another")
    assert other is not None
    [refused] = in_turns(features, [requests_of(SLICED)])
    assert {(response.status, response.headers[0][0]) for response in refused} == {
        (503, b"retry-after")
    }
    features._gate.leave(other)
    [answered] = in_turns(features, [requests_of(SLICED)])
    assert {response.status for response in answered} == {200}
    assert features._gate.admission.used == 0


@pytest.mark.parametrize("name", ["declared", "remembered", "strict"])
def test_of_a_store_that_goes_away_each_is_answered_as_its_feature_set_declares(name: str) -> None:
    _, _, gone, service, connection = world_of(deployment())
    counted = Counting(connection)
    features = features_of(service, counted)
    bodies = [{"feature_set": name, "entities": [{"user": user}]} for user in ("ada", "bob")]
    in_turns(features, [bodies, bodies])
    unknown = {"feature_set": name, "entities": [{"user": "eve"}]}
    gone.away = True
    connection.close()
    single = [in_turns(features, [[body]])[0][0] for body in (*bodies, unknown)]
    _, together = in_turns(features, [[*bodies, unknown]] * 2)
    assert together == single
    assert [response.status for response in together] == {
        "declared": [200, 200, 200],
        "remembered": [200, 200, 503],
        "strict": [503, 503, 503],
    }[name]


def test_a_broken_answer_is_an_error_of_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(to_come=True)
    features = features_of(world.service, Counting(world.connection))
    in_turns(features, [requests_of(SLICED)])

    def broken(_: Any) -> Flow[Any]:
        yield from ()
        raise ZeroDivisionError

    monkeypatch.setattr(world.service, "read", broken)
    monkeypatch.setattr(world.service, "read_store", broken)
    _, together = in_turns(features, [requests_of(SLICED)] * 2)
    assert {response.status for response in together} == {500}
    assert msgspec.json.decode(together[0].body)["error"]["kind"] == "Defect"


def test_what_the_store_refuses_is_refused_to_each(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(to_come=True)
    features = features_of(world.service, Counting(world.connection))
    in_turns(features, [requests_of(SLICED)])

    def away(_: Any) -> Flow[Any]:
        yield from ()
        raise StoreUnavailable("away")

    monkeypatch.setattr(world.service, "read_store", away)
    _, together = in_turns(features, [requests_of(SLICED)] * 2)
    assert [response.status for response in together] == [503] * len(NAMES)


def test_what_is_refused_for_one_entity_is_refused_to_it_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(to_come=True)
    features = features_of(world.service, Counting(world.connection))
    read_store = world.service.read_store

    def refusing(request: FeaturesRequest) -> Flow[Any]:
        # as of pending events that are left of a server run before
        if {"user": "bob"} in request.entities:
            raise Recovering("events are lost", progress=0.5, next_step="ask again")
        return (yield from read_store(request))

    monkeypatch.setattr(world.service, "read_store", refusing)
    single = [in_turns(features, [[body]])[0][0] for body in requests_of(SLICED)]
    _, together = in_turns(features, [requests_of(SLICED)] * 2)
    assert [response.status for response in together] == [200, 503, 200, 200, 200]
    assert together == single
    assert features._gate.admission.used == 0


def test_of_several_nodes_nothing_is_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(to_come=True)
    counted = Counting(world.connection)
    monkeypatch.setattr(counted, "is_sharded", True)
    features = features_of(world.service, counted)
    in_turns(features, [requests_of(SLICED)] * 3)
    assert counted.flows == 3 * len(NAMES)


def test_an_answer_that_cannot_be_written_is_no_other_requests_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(to_come=True)
    features = features_of(world.service, Counting(world.connection))
    result_of = Answer._result

    def unwritable(answer: Answer, result: EntityAnswer, *, text: bool) -> Any:
        wire = result_of(answer, result, text=text)
        return wire | {"token": object()} if result.entity == {"user": "bob"} else wire

    monkeypatch.setattr(Answer, "_result", unwritable)
    single = [in_turns(features, [[body]])[0][0] for body in requests_of(SLICED)]
    _, together = in_turns(features, [requests_of(SLICED)] * 2)
    assert [response.status for response in together] == [200, 500, 200, 200, 200]
    assert together == single
    assert features._gate.admission.used == 0


def begun(features: Features, body: Body, answered: Callable[[Response], None]) -> None:
    """Begins a request as the protocol does."""
    encoded = json.dumps(body).encode()
    features.start(Head(len(encoded), False, False, None), encoded, "client", answered)


@pytest.mark.parametrize("refs", [REFS, SLICED, OWN], ids=["with lists", "slices", "pending"])
def test_what_comes_while_the_like_is_read_waits_and_is_read_together(
    refs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # a machine that is busy for so long would end the wait
    monkeypatch.setattr("slicewise.serving.http.features.WAIT_S", 60.0)
    world = World(to_come=refs is not OWN)
    slow = Slow(world.connection, worked_s=5e-4)
    features = features_of(world.service, slow)
    bodies = requests_of(refs)
    single = [in_turns(features, [[body]])[0][0] for body in bodies]
    features._apart.clear()  # what was alone had pending events of its own

    async def scenario() -> dict[int, Response]:
        responses: dict[int, Response] = {}
        slow.stopped = []
        for number, body in enumerate(bodies):
            begun(features, body, partial(_take, responses, number))
            await asyncio.sleep(0)
        assert len(slow.stopped) == 1, "four wait for the first"
        slow.let()
        assert len(slow.stopped) == 1, "and are one read"
        flows = slow.flows
        while slow.stopped:
            slow.let()
        assert slow.flows == flows + (5 if refs is OWN else 1)
        return responses

    responses = asyncio.run(scenario())
    assert [responses[number] for number in range(len(bodies))] == single
    assert not features._under_way
    assert not features._waiting
    assert features._gate.admission.used == 0


@pytest.mark.parametrize(("worked_s", "waits"), [(1e-4, False), (5e-4, True), (1e-2, False)])
def test_who_asks_for_little_or_much_waits_for_nobody(worked_s: float, waits: bool) -> None:
    world = World(to_come=True)
    slow = Slow(world.connection, worked_s)
    features = features_of(world.service, slow)
    bodies = requests_of(SLICED)
    for body in bodies:
        in_turns(features, [[body]])

    async def scenario() -> None:
        responses: dict[int, Response] = {}
        slow.stopped = []
        for number, body in enumerate(bodies):
            begun(features, body, partial(_take, responses, number))
            await asyncio.sleep(0)
        assert len(slow.stopped) == (1 if waits else len(bodies))
        while slow.stopped:
            slow.let()
        assert len(responses) == len(bodies)

    asyncio.run(scenario())


def test_nobody_waits_long_for_a_read_that_hangs() -> None:
    world = World(to_come=True)
    slow = Slow(world.connection, worked_s=5e-4)
    features = features_of(world.service, slow)
    bodies = requests_of(SLICED)
    for body in bodies:
        in_turns(features, [[body]])

    async def scenario() -> None:
        responses: dict[int, Response] = {}
        slow.stopped = []
        for number, body in enumerate(bodies):
            begun(features, body, partial(_take, responses, number))
        await asyncio.sleep(20 * WAIT_S)
        assert len(slow.stopped) == 2
        slow.let(1)
        assert sorted(responses) == [1, 2, 3, 4], "all but the first, which hangs"
        slow.let()
        assert len(responses) == len(bodies)

    asyncio.run(scenario())
    assert features._gate.admission.used == 0
