"""Entities of a node are answered whatever befalls the others: each has a connection, and failures,
of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from slicewise.errors import NotReady, ServerRunChanged, SlicewiseError, StoreUnavailable
from slicewise.serving.connection.connection import AsyncConnection
from slicewise.serving.connection.steps import Reopen, Request, StoreId
from slicewise.settings import urls_of
from slicewise.stores.online.port import OnlineStore, Route, Routed
from slicewise.stores.online.redis.adapter import open_node
from slicewise.stores.online.sharded.routing import away, node_name

R = TypeVar("R")
OPEN_S = 0.5
"""For so long who asks for what any node says waits for one that is away; it is opened
meanwhile."""


class AsyncNodes(AsyncConnection):
    """Drives flows over a connection to each node of a store."""

    is_sharded = True

    def __init__(
        self,
        urls: Sequence[str],
        timeout_s: float = 5.0,
        observe: Callable[[float], None] | None = None,
        flow_timeout_s: float | None = None,
    ) -> None:
        super().__init__("", timeout_s, observe, flow_timeout_s)
        count = len(urls)
        self._connections = [
            AsyncConnection(url, timeout_s, observe, node=node_name(n, count))
            for n, url in enumerate(urls)
        ]

    async def _perform(self, request: Request) -> Any:
        if isinstance(request, Reopen):
            return None  # a node that failed was left where it failed
        if isinstance(request, StoreId):
            return 0  # each node has its own; they come with the data
        route = request.route(len(self._connections))
        return await (self._of_all(route) if route.needs_all else self._of_any(route))

    async def _of_all(self, route: Route[R]) -> R:
        """Joins the answers of every part."""
        requests = [self._request(number, part) for number, part in route.parts.items()]
        # all are waited for: what one fails with says nothing of the replies of the others
        replies = await asyncio.gather(*requests, return_exceptions=True)
        answered: dict[int, R] = {}
        for number, reply in zip(route.parts, replies, strict=True):
            if isinstance(reply, BaseException):
                raise reply
            answered[number] = reply
        return route.join(answered)

    async def _of_any(self, route: Route[R]) -> R:
        """Joins the answers of the nodes that answer in time."""

        async def one(number: int, part: Routed[R]) -> R:
            return await asyncio.wait_for(self._request(number, part), OPEN_S)

        requests = [one(number, part) for number, part in route.parts.items()]
        replies = await asyncio.gather(*requests, return_exceptions=True)
        answered = {
            n: reply
            for n, reply in zip(route.parts, replies, strict=True)
            if not isinstance(reply, BaseException)
        }
        if not answered:
            first = replies[0]
            assert isinstance(first, BaseException)
            raise (
                away(0, len(replies), "no answer in time")
                if isinstance(first, TimeoutError)
                else first
            )
        for reply in replies:
            if isinstance(reply, BaseException) and not isinstance(
                reply, SlicewiseError | TimeoutError
            ):
                raise reply
        return route.join(answered)

    async def _request(self, number: int, part: Routed[R]) -> R:
        connection = self._connections[number]
        try:
            reply: R = await connection._perform(part)
        except (StoreUnavailable, NotReady) as error:
            if connection.is_open and isinstance(error, ServerRunChanged | NotReady):
                # it is of another server run now, or has no metadata: the next ask sees which
                connection.close()
                raise
            raise _of_node(error, number, len(self._connections)) from error
        return reply

    @property
    def opened(self) -> int:
        """Connections opened so far."""
        return sum(connection.opened for connection in self._connections)

    @opened.setter
    def opened(self, value: int) -> None:
        """Counted by each node's own."""

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class SyncNodes:
    """Connection of a blocking reader; each node's own is opened when it is needed."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._urls, self._timeout_s = urls_of(url), timeout_s
        self._open: dict[int, OnlineStore] = {}

    store_id = 0
    """Zero here: each node has its own; they come with the data."""

    def run(self, operation: Routed[R]) -> R:
        """The result of an operation; of one that any node answers, by those that do."""
        route = operation.route(len(self._urls))
        answered: dict[int, R] = {}
        failed: list[SlicewiseError] = []
        for number, part in route.parts.items():
            try:
                answered[number] = self._request(number, part, waits=route.needs_all)
            except (StoreUnavailable, NotReady) as error:
                if route.needs_all:
                    raise
                failed.append(error)
        if not answered:
            raise failed[0]
        return route.join(answered)

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def _request(self, number: int, part: Routed[R], *, waits: bool) -> R:
        count = len(self._urls)
        try:
            store = self._open.get(number)
            if store is None:
                if self._timeout_s > OPEN_S and not waits:
                    # what any node says is not waited for as data is
                    open_node(self._urls[number], number, count, OPEN_S).close()
                store = self._open[number] = open_node(
                    self._urls[number], number, count, self._timeout_s
                )
            return store.run(part)
        except (StoreUnavailable, NotReady) as error:
            broken = self._open.pop(number, None)
            if broken is not None:
                broken.close()
                raise
            raise _of_node(error, number, count) from error


def _of_node(error: StoreUnavailable | NotReady, number: int, count: int) -> SlicewiseError:
    return away(number, count, error.what) if isinstance(error, StoreUnavailable) else error
