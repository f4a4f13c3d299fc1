"""A broken connection is never used again: the next ask opens a new one, and reads who answers.

At most one attempt to open runs at a time, and after a failed one the next waits a little: a store
that is down is not stormed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from slicewise.errors import NotReady, StoreUnavailable
from slicewise.serving.connection.loop import Turns
from slicewise.serving.connection.steps import Flow, Reopen, Request, StoreId
from slicewise.stores.online.operations.reading import Read
from slicewise.stores.online.port import Routed
from slicewise.stores.online.redis.adapter import AsyncReader

T = TypeVar("T")
R = TypeVar("R")
RETRY_OPEN_S = 0.05


class Readable(Protocol):
    """Store as a reader sees it."""

    @property
    def store_id(self) -> int: ...
    def run(self, operation: Routed[R]) -> R: ...
    def close(self) -> None: ...


class SyncConnection:
    """Drives flows over a blocking store; used by one thread at a time."""

    def __init__(self, open_one: Callable[[], Readable]) -> None:
        self._open = open_one
        self._store: Readable | None = None

    def run(self, flow: Flow[T]) -> T:
        """The result of a flow."""
        answer: Any = None
        failure: StoreUnavailable | NotReady | None = None
        try:
            while True:
                request = flow.send(answer) if failure is None else flow.throw(failure)
                answer, failure = None, None
                try:
                    answer = self._perform(request)
                except StoreUnavailable as error:
                    self.close()
                    failure = error
                except NotReady as error:
                    failure = error
        except StopIteration as done:
            value: T = done.value
            return value

    def _perform(self, request: Request) -> Any:
        if isinstance(request, Reopen):
            self.close()
            return None
        if self._store is None:
            self._store = self._open()
        store = self._store
        return self._store_id(store) if isinstance(request, StoreId) else store.run(request)

    def _store_id(self, store: Readable) -> int:
        try:
            return store.store_id
        except NotReady:
            self.close()  # a store that gets its metadata later is seen by a new connection only
            raise

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


class AsyncConnection:
    """Drives flows over one multiplexed connection; many at once."""

    def __init__(
        self,
        url: str,
        timeout_s: float = 5.0,
        observe: Callable[[float], None] | None = None,
        flow_timeout_s: float | None = None,
        *,
        node: str = "",
    ) -> None:
        """timeout_s: a node that answers nothing for so long is left. observe: told the seconds of
        every read's round trip. flow_timeout_s: what a flow asks later than this after its start
        fails, as where the store is away. node: of one of several, as in `StoreMetadata`."""
        self._node = node
        self._url = url
        self._observe = observe
        self._flow_timeout_s = flow_timeout_s
        self._timeout_s = timeout_s
        self._turns = Turns()
        self._reader: AsyncReader | None = None
        self._opening: asyncio.Task[AsyncReader] | None = None
        self._failed: tuple[float, StoreUnavailable] | None = None
        self.opened = 0
        """Connections opened so far."""

    async def run(self, flow: Flow[T]) -> T:
        """The result of a flow."""
        until = (
            None
            if self._flow_timeout_s is None
            else asyncio.get_running_loop().time() + self._flow_timeout_s
        )
        answer: Any = None
        failure: StoreUnavailable | NotReady | None = None
        try:
            while True:
                request = flow.send(answer) if failure is None else flow.throw(failure)
                answer, failure = None, None
                reader = self._reader
                try:
                    if type(request) is StoreId and reader is not None and not reader.closed:
                        answer = self._store_id(reader)  # every read asks this: no coroutine for it
                    else:
                        async with asyncio.timeout_at(until):
                            answer = await self._perform(request)
                        # the answer is made of it: many at once are a long turn
                        await self._turns.turn()
                except TimeoutError:
                    failure = StoreUnavailable(
                        f"no answer of the store within {self._flow_timeout_s} s",
                        next_step="ask again",
                    )
                except (StoreUnavailable, NotReady) as error:
                    failure = error
        except StopIteration as done:
            value: T = done.value
            return value

    async def _perform(self, request: Request) -> Any:
        if isinstance(request, Reopen):
            self.close()
            return None
        reader = self._reader
        if reader is None or reader.closed:
            reader = await self._open()
        if isinstance(request, StoreId):
            return self._store_id(reader)
        begun = time.perf_counter()
        reply = await reader.run(request)
        if self._observe is not None and isinstance(request, Read):
            self._observe(time.perf_counter() - begun)
        return reply

    def _store_id(self, reader: AsyncReader) -> int:
        try:
            return reader.store_id
        except NotReady:
            self.close()  # a store that gets its metadata later is seen by a new connection only
            raise

    async def _open(self) -> AsyncReader:
        if self._failed is not None and time.monotonic() - self._failed[0] < RETRY_OPEN_S:
            raise self._failed[1]
        if self._opening is None:
            self._opening = asyncio.create_task(
                AsyncReader.open(self._url, self._timeout_s, self._node)
            )
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)

    def _opened(self, task: asyncio.Task[AsyncReader]) -> None:
        self._opening = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._reader, self._failed = task.result(), None
            self.opened += 1
        elif isinstance(error, StoreUnavailable):
            self._failed = (time.monotonic(), error)

    @property
    def is_open(self) -> bool:
        """Tells whether a connection stands."""
        return self._reader is not None and not self._reader.closed

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
