"""Entities of a node are answered whatever befalls the others: each has a connection, and failures, of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slicewise.errors import IncarnationChanged, NotReady, SlicewiseError, StoreUnavailable
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.connection.connection import AsyncConnection
from slicewise.serving.connection.steps import Ask, Covers, Generation, Manifest, Read, ReadLeaderboard, Reopen, Status
from slicewise.settings import urls_of
from slicewise.stores.online.model.gaps import of_nodes
from slicewise.stores.online.port import EntityRead, LeaderboardReply, ReadReply, TagRead
from slicewise.stores.online.redis.adapter import open_node
from slicewise.stores.online.routing import away, by_node, joined, node_name, node_of, tag_of
from slicewise.stores.online.store import Store

OPEN_S = 0.5
"""For so long who asks for what any node says waits for one that is away; it is opened meanwhile."""


class AsyncNodes(AsyncConnection):
    """Drives flows over a connection to each node of a store."""

    def __init__(
        self,
        urls: Sequence[str],
        timeout_s: float = 5.0,
        observe: Callable[[float], None] | None = None,
        flow_timeout_s: float | None = None,
    ) -> None:
        super().__init__("", timeout_s, observe, flow_timeout_s)
        count = len(urls)
        self._each = [AsyncConnection(url, timeout_s, observe, node=node_name(n, count)) for n, url in enumerate(urls)]

    async def _perform(self, ask: Ask) -> Any:
        if isinstance(ask, Reopen):
            return None  # a node that failed was left where it failed
        if isinstance(ask, Generation):
            return 0  # each node has its own; they come with the data
        if isinstance(ask, Read) and ask.reads:
            return await self._read(ask.reads)
        if isinstance(ask, ReadLeaderboard):
            return await self._ask(node_of(ask.name.encode(), len(self._each)), ask)
        return _of_all(ask, await self._ask_all(ask), len(self._each))

    async def _read(self, reads: Sequence[EntityRead | TagRead]) -> ReadReply:
        places = by_node([tag_of(each) for each in reads], len(self._each))
        asked = [self._ask(number, Read([reads[i] for i in mine])) for number, mine in places.items()]
        # all are waited for: what one fails with says nothing of the replies of the others
        found = await asyncio.gather(*asked, return_exceptions=True)
        replies: dict[int, ReadReply] = {}
        for number, each in zip(places, found, strict=True):
            if isinstance(each, BaseException):
                raise each
            replies[number] = each
        return joined(replies, places, len(reads), len(self._each))

    async def _ask(self, number: int, ask: Ask) -> Any:
        each = self._each[number]
        try:
            return await each._perform(ask)
        except (StoreUnavailable, NotReady) as error:
            if each.is_open and isinstance(error, IncarnationChanged | NotReady):
                each.close()  # it is of another life now, or has no marks: the next ask sees which
                raise
            raise _of_node(error, number, len(self._each)) from error

    async def _ask_all(self, ask: Ask) -> dict[int, Any]:
        async def one(number: int) -> Any:
            return await asyncio.wait_for(self._ask(number, ask), OPEN_S)

        found = await asyncio.gather(*map(one, range(len(self._each))), return_exceptions=True)
        answered = {n: each for n, each in enumerate(found) if not isinstance(each, BaseException)}
        if not answered:
            first = found[0]
            assert isinstance(first, BaseException)
            raise away(0, len(found), "no answer in time") if isinstance(first, TimeoutError) else first
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, SlicewiseError | TimeoutError):
                raise each
        return answered

    @property
    def opened(self) -> int:
        """Connections opened so far."""
        return sum(each.opened for each in self._each)

    @opened.setter
    def opened(self, value: int) -> None:
        """Counted by each node's own."""

    def close(self) -> None:
        for each in self._each:
            each.close()


class SyncNodes:
    """What a blocking reader asks, of each node by a connection that is opened when it is needed."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._urls, self._timeout_s = urls_of(url), timeout_s
        self._open: dict[int, Store] = {}

    generation = 0
    """Each node has its own; they come with the data."""

    def read(self, reads: Sequence[EntityRead | TagRead]) -> ReadReply:
        """As `OnlineStore.read`; nothing: of every node that answers."""
        if not reads:
            found: ReadReply = self._all(Read(()))
            return found
        places = by_node([tag_of(each) for each in reads], len(self._urls))
        replies = {n: self._ask(n, Read([reads[i] for i in mine])) for n, mine in places.items()}
        return joined(replies, places, len(reads), len(self._urls))

    def manifest(self, digest: str) -> str | None:
        found: str | None = self._all(Manifest(digest))
        return found

    def covers(self, source: str) -> Mapping[int, OffsetVector]:
        found: Mapping[int, OffsetVector] = self._all(Covers(source))
        return found

    def status(self, part: str) -> str | None:
        found: str | None = self._all(Status(part))
        return found

    def board(self, name: str) -> LeaderboardReply:
        found: LeaderboardReply = self._ask(node_of(name.encode(), len(self._urls)), ReadLeaderboard(name))
        return found

    def close(self) -> None:
        for each in self._open.values():
            each.close()
        self._open.clear()

    def _all(self, ask: Ask) -> Any:
        answered, failed = {}, list[SlicewiseError]()
        for number in range(len(self._urls)):
            try:
                answered[number] = self._ask(number, ask)
            except (StoreUnavailable, NotReady) as error:
                failed.append(error)
        if not answered:
            raise failed[0]
        return _of_all(ask, answered, len(self._urls))

    def _ask(self, number: int, ask: Ask) -> Any:
        count = len(self._urls)
        try:
            store = self._open.get(number)
            if store is None:
                if self._timeout_s > OPEN_S and not (
                    isinstance(ask, ReadLeaderboard) or (isinstance(ask, Read) and ask.reads)
                ):
                    # what any node says is not waited for as data is
                    open_node(self._urls[number], number, count, OPEN_S).close()
                store = self._open[number] = open_node(self._urls[number], number, count, self._timeout_s)
            if isinstance(ask, Read):
                return store.read(ask.reads)
            if isinstance(ask, Manifest):
                return store.manifest(ask.digest)
            if isinstance(ask, Covers):
                return store.covers(ask.source)
            if isinstance(ask, ReadLeaderboard):
                return store.board(ask.name)
            assert isinstance(ask, Status)
            return store.status(ask.part)
        except (StoreUnavailable, NotReady) as error:
            broken = self._open.pop(number, None)
            if broken is not None:
                broken.close()
                raise
            raise _of_node(error, number, count) from error


def _of_node(error: StoreUnavailable | NotReady, number: int, count: int) -> SlicewiseError:
    return away(number, count, error.what) if isinstance(error, StoreUnavailable) else error


def _of_all(ask: Ask, found: Mapping[int, Any], count: int) -> Any:
    """What the nodes that answered say together."""
    if isinstance(ask, Read):
        return joined(found, {}, 0, count)
    if isinstance(ask, Covers):  # what a seq stands for is the same wherever it is known
        return {seq: cover for each in found.values() for seq, cover in each.items()}
    if isinstance(ask, Status):
        return of_nodes(ask.part, list(found.values()))
    return next((each for each in found.values() if each is not None), None)
