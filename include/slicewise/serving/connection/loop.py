"""Every connection is heard in the next turn of the loop: they are taken together, answers give way
to them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import uvloop

AT_ONCE = 64
"""Most connections that are taken in one turn: other workers have a part of a burst, and a turn
stays short."""
TURN_S = 0.01
"""Work of one turn after which what else is to be done waits for the next."""
PAUSE_S = 1.0
"""For how long no connections are taken where the system has no more of them to give."""


class Loop(uvloop.Loop):
    """uvloop's, whose servers take up to AT_ONCE connections in a turn.

    libuv takes one since 1.45 (https://github.com/libuv/libuv/pull/3696): while answers are long,
    connections wait in the system's queue, where nobody refuses them.
    """

    async def create_server(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], *args: Any, **options: Any
    ) -> Any:
        """Creates a server, as asyncio does."""
        return Server(
            self, protocol_factory, await super().create_server(protocol_factory, *args, **options)
        )


class Server:
    """A server of uvloop, and what takes the connections that it leaves."""

    def __init__(
        self, loop: Loop, factory: Callable[[], asyncio.BaseProtocol], server: Any
    ) -> None:
        self._loop, self._factory, self._server = loop, factory, server
        # the same sockets by other numbers: those of the server belong to libuv
        self._listening = [
            socket.socket(fileno=socket.dup(listening.fileno())) for listening in server.sockets
        ]
        self._opening: set[asyncio.Task[Any]] = set()
        for listening in self._listening:
            listening.setblocking(False)
            self._watch(listening)

    @property
    def sockets(self) -> Any:
        return self._server.sockets

    def close(self) -> None:
        """Takes no more connections."""
        for listening in self._listening:
            self._loop.remove_reader(listening)
            listening.close()
        self._listening.clear()
        self._server.close()

    async def wait_closed(self) -> None:
        await self._server.wait_closed()

    def _watch(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._take, listening)

    def _take(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                made = listening.accept()[0]
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no more files, no more memory: asked again at once it would only spin
                self._loop.remove_reader(listening)
                self._loop.call_later(PAUSE_S, self._watch, listening)
                return
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._open(made))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, made: socket.socket) -> None:
        made.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(self._factory, made)
        except OSError:  # its client has gone
            made.close()


class Turns:
    """Turns of the loop: work that lasts long waits until the turn has time left. Between two,
    connections and requests are read, and refused or told how the service is."""

    def __init__(self) -> None:
        self._until: float | None = None

    async def turn(self) -> None:
        """Until there is time; the first of a turn always has some."""
        while self._until is not None and time.perf_counter() >= self._until:
            await asyncio.sleep(0)
        if self._until is None:
            self._begin()

    def has_time(self) -> bool:
        """Tells whether the turn has time left; its first work always has."""
        if self._until is None:
            self._begin()
            return True
        return time.perf_counter() < self._until

    def _begin(self) -> None:
        self._until = time.perf_counter() + TURN_S
        asyncio.get_running_loop().call_soon(self._over)

    def _over(self) -> None:
        self._until = None
