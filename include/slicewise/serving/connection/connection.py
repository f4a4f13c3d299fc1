"""A broken connection is never used again: the next ask opens a new one, and reads who answers.

At most one attempt to open runs at a time, and after a failed one the next waits a little: a store
that is down is not stormed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from slicewise.errors import NotReady, StoreUnavailable
from slicewise.serving.connection.loop import Turns
from slicewise.serving.connection.steps import Flow, Reopen, Request, StoreId
from slicewise.stores.online.operations.reading import Read
from slicewise.stores.online.port import Routed
from slicewise.stores.online.redis.adapter import AsyncReader

T = TypeVar("T")
R = TypeVar("R")
Done = Callable[[T | None, Exception | None], None]
"""Told the result of a flow, or what it raised."""
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

    is_sharded = False
    """Tells whether entities are on several nodes, any of which may be away."""

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
        self._late = Deadlines(self._overdue)
        self._tasks: set[asyncio.Task[None]] = set()
        self.worked_s = 0.0
        """Seconds that the last reply took to be made an answer of."""
        self.opened = 0
        """Connections opened so far."""

    async def run(self, flow: Flow[T]) -> T:
        """The result of a flow."""
        until = (
            None
            if self._flow_timeout_s is None
            else asyncio.get_running_loop().time() + self._flow_timeout_s
        )
        try:
            return await self._rest(flow, next(flow), until)
        except StopIteration as done:
            value: T = done.value
            return value

    def start(self, flow: Flow[T], done: Done[T], taken_s: float = 0.0) -> None:
        """Runs a flow without a task, where an open connection answers it; `done` is called once,
        within this call or later. taken_s: the part of the flow's time that is over."""
        timeout_s = self._flow_timeout_s
        _Run(self, flow, done).begin(None if timeout_s is None else max(0.0, timeout_s - taken_s))

    def flush(self) -> None:
        """Sends what flows asked for so far; else the loop's next turn does."""
        if self._reader is not None:
            self._reader.flush()

    async def _rest(self, flow: Flow[T], request: Request, until: float | None) -> T:
        """The result of a flow that asks this now."""
        answer: Any = None
        failure: StoreUnavailable | NotReady | None = None
        resumed = 0.0
        try:
            while True:
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
                    failure = self._timed_out()
                except (StoreUnavailable, NotReady) as error:
                    failure = error
                resumed = time.perf_counter()
                request = flow.send(answer) if failure is None else flow.throw(failure)
        except StopIteration as done:
            self.worked_s = time.perf_counter() - resumed
            value: T = done.value
            return value

    def _timed_out(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"no answer of the store within {self._flow_timeout_s} s", next_step="ask again"
        )

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

    def _overdue(self, run: _Run[Any]) -> None:
        run.fail(self._timed_out())

    @property
    def is_open(self) -> bool:
        """Tells whether a connection stands."""
        return self._reader is not None and not self._reader.closed

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class _Run(Generic[T]):
    """A flow that is sent its replies as they come. Whatever an open connection does not answer by
    itself, or in time, a task of `AsyncConnection` goes on with."""

    __slots__ = ("_begun", "_connection", "_done", "_flow", "_resumed", "_until")

    def __init__(self, connection: AsyncConnection, flow: Flow[T], done: Done[T]) -> None:
        self._connection, self._flow, self._done = connection, flow, done
        self._until: float | None = None
        self._begun = self._resumed = 0.0

    def begin(self, timeout_s: float | None) -> None:
        if timeout_s is not None:
            self._until = asyncio.get_running_loop().time() + timeout_s
        self._send(None)

    def fail(self, error: StoreUnavailable | NotReady) -> None:
        """Goes on from a request that failed."""
        try:
            request = self._flow.throw(error)
        except StopIteration as end:
            self._done(end.value, None)
        except Exception as raised:  # noqa: BLE001
            self._done(None, raised)
        else:
            self._in_task(self._connection._rest(self._flow, request, self._until))

    def _send(self, answer: Any) -> None:
        connection, flow = self._connection, self._flow
        try:
            while True:
                request = flow.send(answer)
                reader = connection._reader
                if reader is None or reader.closed or not reader.is_bound:
                    break
                if isinstance(request, StoreId):
                    answer = reader.store_id
                    continue
                if not isinstance(request, Read):
                    break
                self._begun = time.perf_counter()
                reader.start(request, self._replied)
                if self._until is not None:
                    connection._late.add(self, self._until)
                return
        except StopIteration as end:
            if self._resumed:
                connection.worked_s = time.perf_counter() - self._resumed
            self._done(end.value, None)
            return
        except Exception as error:  # noqa: BLE001
            self._done(None, error)
            return
        self._in_task(connection._rest(flow, request, self._until))

    def _replied(self, reply: Any, error: Exception | None) -> None:
        connection = self._connection
        if self._until is not None and not connection._late.remove(self):
            return  # too late: the flow was told
        if error is not None:
            if isinstance(error, StoreUnavailable | NotReady):
                self.fail(error)
            else:
                self._flow.close()
                self._done(None, error)
            return
        if connection._observe is not None:
            connection._observe(time.perf_counter() - self._begun)
        if connection._turns.has_time():
            self._resumed = time.perf_counter()
            self._send(reply)
        else:
            self._in_task(self._in_turn(reply))

    async def _in_turn(self, reply: Any) -> Any:
        """The result of the flow, once a turn of the loop has time for it."""
        connection, flow = self._connection, self._flow
        await connection._turns.turn()
        resumed = time.perf_counter()
        try:
            request = flow.send(reply)
        except StopIteration as end:
            connection.worked_s = time.perf_counter() - resumed
            return end.value
        return await connection._rest(flow, request, self._until)

    def _in_task(self, rest: Coroutine[Any, Any, T]) -> None:
        tasks = self._connection._tasks
        task = asyncio.get_running_loop().create_task(self._end(rest))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _end(self, rest: Coroutine[Any, Any, T]) -> None:
        try:
            result = await rest
        except Exception as error:  # noqa: BLE001
            self._done(None, error)
        else:
            self._done(result, None)


class Deadlines:
    """Runs that are to have a reply in time: one timer for all, at the earliest."""

    def __init__(self, overdue: Callable[[_Run[Any]], None]) -> None:
        self._overdue = overdue
        self._until: dict[_Run[Any], float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0

    def add(self, run: _Run[Any], until: float) -> None:
        self._until[run] = until
        if self._timer is None or until < self._at:
            self._watch(until)

    def remove(self, run: _Run[Any]) -> bool:
        """Tells whether its time was not over."""
        return self._until.pop(run, None) is not None

    def _watch(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at, self._timer = at, asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        # by its own clock a loop may call a little early
        self._timer, now = None, max(asyncio.get_running_loop().time(), self._at)
        late = [run for run, until in self._until.items() if until <= now]
        for run in late:
            del self._until[run]
        if self._until:
            self._watch(min(self._until.values()))
        for run in late:  # each by itself: one that fails ends no other
            asyncio.get_running_loop().call_soon(self._overdue, run)
