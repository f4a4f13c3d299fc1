"""A request that cannot be answered in time is refused in time, over real sockets: nobody waits
where nobody refuses."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import uvicorn

from benchmarks.whole.http_load import Connection, get, post
from slicewise.serving.connection import loop as loops
from slicewise.serving.connection.loop import Loop, Turns
from slicewise.serving.connection.steps import Flow
from slicewise.serving.http.admission import Limits
from slicewise.serving.http.app import App
from slicewise.stores.online.operations.reading import Read

LIMITS = Limits(at_once=4, patience_s=0.1, waiting=1_000)
REQUEST = post("/v1/features", {"feature_set": "any", "entities": [{"user_id": "ann"}]}).encode()
PATIENCE_S = 30.0


class Reply(NamedTuple):
    """at: when it was whole; seconds: from the sending of all requests on."""

    status: int
    at: float
    seconds: float
    head: bytes


@pytest.fixture(
    params=[pytest.param(True, marks=pytest.mark.long), False],
    ids=["uvicorn's way", "the short way"],
)
def changes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something between protocol and application changes requests, or nothing does."""
    monkeypatch.setattr(f"{__name__}.PROXY_HEADERS", request.param)


PROXY_HEADERS = True


@contextmanager
def serving(
    monkeypatch: pytest.MonkeyPatch, store_s: float, merge_s: float, limits: Limits = LIMITS
) -> Iterator[int]:
    """An API whose store takes so long, and whose answers hold the loop for so long; its port."""
    app = App("redis://127.0.0.1:1/0", limits=limits)

    async def slow(_: Any) -> None:
        await asyncio.sleep(store_s)

    def read(_: Any) -> Flow[Any]:
        yield Read(())
        time.sleep(merge_s)
        return SimpleNamespace(
            results=(), features=(), flags=(), is_particular=True, to_wire=lambda **_: {}
        )

    reader = SimpleNamespace(
        closed=False, is_bound=False, run=slow, close=lambda: None, flush=lambda: None
    )
    monkeypatch.setattr(app.connection, "_reader", reader)
    monkeypatch.setattr(app.service, "read", read)
    monkeypatch.setattr(app.service, "read_store", read)
    config = uvicorn.Config(
        app,
        port=0,
        loop="slicewise.serving.connection.loop:Loop",
        http="slicewise.serving.http.protocol:Protocol",
        ws="none",
        lifespan="off",
        proxy_headers=PROXY_HEADERS,
        log_config=None,
        access_log=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)


def replies_of(port: int, requests: list[bytes]) -> list[Reply]:
    """Sends the requests on connections of their own, all at once; fails where one of them has no
    answer."""
    made = [Connection("127.0.0.1", port) for _ in requests]
    begun, result = time.perf_counter(), dict[Connection, Reply]()
    for connection, request in zip(made, requests, strict=True):
        connection.send(request, 0.0)
    while left := [connection for connection in made if connection not in result]:
        ready = select.select(left, (), (), PATIENCE_S)[0]
        assert ready, f"{len(left)} of {len(requests)} requests had no answer within {PATIENCE_S} s"
        for connection in ready:
            answer = connection.receive()
            if answer is not None:
                now = time.perf_counter()
                result[connection] = Reply(answer[0], now, now - begun, connection._got.lower())
    for connection in made:
        connection.socket.close()
    return [result[connection] for connection in made]


@pytest.mark.usefixtures("changes")
def test_of_a_slow_store_what_fits_is_answered_and_all_else_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(monkeypatch, store_s=3.0, merge_s=0.0) as port:
        replies = replies_of(port, [REQUEST] * 60)
    assert Counter(reply.status for reply in replies) == {
        200: LIMITS.at_once,
        503: 60 - LIMITS.at_once,
    }
    refused = [reply for reply in replies if reply.status == 503]
    # before any was answered: 0.1 s, and what the machine takes
    assert max(reply.seconds for reply in refused) < 3.0
    assert all(b"\r\nretry-after: " in reply.head for reply in refused)


@pytest.mark.usefixtures("changes")
def test_new_connections_are_heard_while_answers_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    # one connection in a turn, as libuv takes them, and an answer in each: the last of 100 would be
    # heard after 10 s
    with serving(monkeypatch, store_s=0.0, merge_s=0.1) as port:
        replies = replies_of(
            port, [REQUEST] * 100 + [get("/healthz").encode(), get("/metrics").encode()]
        )
        [shown] = replies_of(port, [get("/metrics").encode()])
    *features, health, metrics = replies
    counted = Counter(feature.status for feature in features)
    print(counted, max(feature.seconds for feature in features), health.seconds, metrics.seconds)
    assert set(counted) == {200, 503}
    assert counted[200] >= LIMITS.at_once
    assert max(feature.seconds for feature in features) < 5.0
    assert (health.status, metrics.status) == (200, 200)
    assert max(health.seconds, metrics.seconds) < 5.0
    assert f'slicewise_shed_total{{why="waited"}} {counted[503]}.0'.encode() in shown.head


@pytest.mark.usefixtures("changes")
def test_health_is_told_between_two_long_answers_of_those_in_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = Limits(at_once=16, patience_s=0.1, waiting=1_000)
    with (
        serving(monkeypatch, store_s=0.0, merge_s=0.15, limits=limits) as port,
        ThreadPoolExecutor(1) as pool,
    ):
        working = pool.submit(replies_of, port, [REQUEST] * limits.at_once)
        time.sleep(0.3)  # of 2.4 s of work
        [health] = replies_of(port, [get("/healthz").encode()])
        features = working.result()
    assert Counter(feature.status for feature in features) == {200: limits.at_once}
    assert sum(feature.at < health.at for feature in features) <= 12


def test_long_answers_leave_turns_to_others() -> None:
    async def scenario() -> list[str]:
        turns, seen = Turns(), list[str]()

        async def answer() -> None:
            await turns.turn()
            seen.append("answer")
            time.sleep(2 * loops.TURN_S)

        async def other() -> None:
            while seen.count("answer") < 4:
                seen.append("other")
                await asyncio.sleep(0)

        await asyncio.gather(*(answer() for _ in range(4)), other())
        return seen

    seen = asyncio.run(scenario())
    assert "answer answer" not in " ".join(seen)


def test_short_answers_share_a_turn() -> None:
    async def scenario() -> int:
        turns, turn, seen = Turns(), 0, set[int]()

        async def answer() -> None:
            await turns.turn()
            seen.add(turn)

        async def count() -> None:
            nonlocal turn
            while turn < 20:
                await asyncio.sleep(0)
                turn += 1

        await asyncio.gather(*(answer() for _ in range(10)), count())
        return len(seen)

    assert asyncio.run(scenario()) == 1


def test_a_closed_server_takes_no_more_connections_and_those_it_took_go_on() -> None:
    with asyncio.Runner(loop_factory=Loop) as runner:

        async def scenario() -> None:
            async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                while chunk := await reader.read(100):
                    writer.write(chunk)
                writer.close()

            server = await asyncio.start_server(echo, "127.0.0.1", 0, backlog=100)
            port = server.sockets[0].getsockname()[1]
            made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            for number, (reader, writer) in enumerate(made):
                writer.write(b"%d." % number)
                assert await reader.readuntil(b".") == b"%d." % number
            server.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            for reader, writer in made:
                writer.write(b"on.")
                assert await reader.readuntil(b".") == b"on."
                writer.close()
            await server.wait_closed()

        runner.run(scenario())


def test_where_the_system_has_no_connection_to_give_it_is_asked_again_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loops, "PAUSE_S", 0.05)
    refusals = 0

    class Full(socket.socket):
        def accept(self) -> tuple[socket.socket, Any]:
            nonlocal refusals
            if refusals < 3:
                refusals += 1
                raise OSError(24, "too many open files")
            return super().accept()

    with (
        asyncio.Runner(loop_factory=Loop) as runner,
        socket.create_server(("127.0.0.1", 0)) as listening,
    ):

        async def scenario() -> None:
            connected = asyncio.Event()
            protocol = type(
                "Heard", (asyncio.Protocol,), {"connection_made": lambda *_: connected.set()}
            )
            nothing = SimpleNamespace(sockets=[listening], close=lambda: None)
            loop = asyncio.get_running_loop()
            assert isinstance(loop, Loop)
            with monkeypatch.context() as patched:
                patched.setattr(socket, "socket", Full)
                server = loops.Server(loop, protocol, nothing)
            with socket.create_connection(listening.getsockname()):
                await asyncio.wait_for(connected.wait(), PATIENCE_S)
            server.close()

        runner.run(scenario())
    assert refusals == 3
