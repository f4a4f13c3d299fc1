"""A store on Redis is bound to the server run that answered when its connection opened."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import hiredis

from slicewise.errors import StoreUnavailable
from slicewise.settings import urls_of
from slicewise.stores.online.control_record import ServerRun
from slicewise.stores.online.operations.connecting import Bind
from slicewise.stores.online.operations.reading import Read, ReadReply, read_commands
from slicewise.stores.online.port import NodeContext, Operation
from slicewise.stores.online.redis.commands import decode, encode
from slicewise.stores.online.redis.scripts import SCRIPTS
from slicewise.stores.online.redis.wire import (
    NOT_YET,
    Address,
    Connection,
    ReplyError,
    pack,
    reader,
)
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded.routing import Nodes, node_name
from slicewise.stores.online.steps import Command
from slicewise.stores.online.store import Store

T = TypeVar("T")
Replied = Callable[["ReadReply | None", Exception | None], None]
"""Told the reply of a read, or why there is none."""

_SCRIPTS = tuple(pack((b"SCRIPT", b"LOAD", script.text)) for script in SCRIPTS)
_HELLO = (pack((b"INFO",)), *_SCRIPTS)


def open_store(url: str, timeout_s: float = 30.0) -> Store:
    """A store over a new connection, to each of its nodes where the address has several
    (`urls_of`). Raises StoreUnavailable where one does not answer, or a server does on which the
    promises do not hold."""
    addresses = addresses_of(url)
    if len(addresses) == 1:
        return Store(RedisNode(addresses[0], timeout_s))
    opened: list[RedisNode] = []
    try:
        for address in addresses:
            opened.append(RedisNode(address, timeout_s))
        return Store(Nodes(opened))
    except BaseException:
        for node in opened:
            node.close()
        raise


def addresses_of(url: str) -> list[Address]:
    """The addresses of the store's nodes, in their order."""
    return [Address.parse(node_url) for node_url in urls_of(url)]


def open_node(url: str, number: int, count: int, timeout_s: float = 30.0) -> Store:
    """One of the nodes by itself, for a reader: the others may be away."""
    node = RedisNode(Address.parse(url), timeout_s)
    try:
        return Store(node, node_name(number, count))
    except BaseException:
        node.close()
        raise


def check_hello(replies: Sequence[Any], address: Address) -> ServerRun:
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise StoreUnavailable(
                f"the store refuses: {reply}",
                where=str(address),
                next_step="see the store's log, and its memory: slicewise status",
            )
    info = parse_info(replies[0])
    decisions.check_server(
        info.get("redis_version", "0"),
        info.get("maxmemory_policy", "unknown"),
        info.get("role", "unknown"),
    )
    return ServerRun(info["run_id"], info["master_replid"])


def parse_info(raw: bytes) -> Mapping[str, str]:
    lines = (line.partition(":") for line in raw.decode().splitlines() if not line.startswith("#"))
    return {name: value for name, _, value in lines}


class RedisNode:
    """One blocking connection."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._connection = Connection(address, timeout_s)
        try:
            self.server_run = check_hello(self._connection.exchange(_HELLO, len(_HELLO)), address)
        except BaseException:
            self._connection.close()
            raise

    def run(self, commands: Sequence[Command]) -> list[Any]:
        packed, replies = encode(commands)
        return decode(commands, self._connection.exchange(packed, replies))

    def start(self, commands: Sequence[Command]) -> Callable[[], list[Any]]:
        packed, replies = encode(commands)
        self._connection.send(packed)
        return lambda: decode(commands, self._connection.receive(replies))

    def plain(self, commands: Sequence[tuple[bytes, ...]]) -> list[Any]:
        """Replies to commands that no step has: of upkeep, which never writes data."""
        return self._connection.exchange([pack(command) for command in commands], len(commands))

    def close(self) -> None:
        self._connection.close()


class AsyncReader:
    """Reads for many requests at once over one connection: sent as they come, answered in order.

    Like every connection it lives once: after StoreUnavailable, open another.
    """

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._protocol = _Protocol(address, timeout_s)
        self._context: NodeContext | None = None

    @classmethod
    async def open(cls, url: str, timeout_s: float = 5.0, node: str = "") -> AsyncReader:
        """node: of one of several, as in `StoreMetadata`."""
        self = cls(Address.parse(url), timeout_s)
        loop = asyncio.get_running_loop()
        address = self.address
        try:
            async with asyncio.timeout(timeout_s):
                if address.path is not None:
                    await loop.create_unix_connection(lambda: self._protocol, address.path)
                else:
                    await loop.create_connection(
                        lambda: self._protocol, address.host, address.port, ssl=address.tls or None
                    )
                greeting = address.greeting()
                packed = [*greeting, *_HELLO]
                replies = await self._protocol.exchange(b"".join(packed), len(packed))
        except (OSError, TimeoutError) as error:
            self.close()
            raise StoreUnavailable(
                f"the store does not answer: {error}",
                where=str(address),
                next_step="see that it runs: slicewise status; then try again",
            ) from error
        try:
            self._context = NodeContext(check_hello(replies[len(greeting) :], address), node)
            opening = Bind()
            self._context = opening.after(self._context, await self.run(opening))
        except BaseException:
            self.close()
            raise
        return self

    @property
    def context(self) -> NodeContext:
        """The context that the connection is bound to."""
        if self._context is None:
            raise StoreUnavailable(
                "the connection is closed",
                where=str(self.address),
                next_step="open another connection",
            )
        return self._context

    @property
    def server_run(self) -> ServerRun:
        return self.context.server_run

    @property
    def store_id(self) -> int:
        """The store id. NotReady where the store has none yet."""
        return self.context.store_id

    @property
    def closed(self) -> bool:
        return self._protocol.dead is not None

    async def run(self, operation: Operation[T]) -> T:
        """The result of an operation that writes nothing."""
        steps = operation.steps(self.context)
        try:
            commands = next(steps)
            while True:
                packed, n = encode(commands)
                replies = await self._protocol.exchange(b"".join(packed), n)
                commands = steps.send(decode(commands, replies))
        except StopIteration as done:
            value: T = done.value
            return value

    @property
    def is_bound(self) -> bool:
        """Tells whether the store had metadata when this connection was opened."""
        return self._context is not None and self._context.bound_to is not None

    def start(self, read: Read, replied: Replied) -> None:
        """Sends a read; `replied` is called once, when its reply comes or none will. Raises
        StoreUnavailable where the connection is over already."""
        context, commands = self.context, read_commands(read.reads)
        packed, n = encode(commands)

        def taken(replies: list[Any], error: Exception | None) -> None:
            reply: ReadReply | None = None
            if error is None:
                try:
                    reply = read.reply(context, decode(commands, replies))
                except Exception as refused:  # noqa: BLE001
                    error = refused
            replied(reply, error)

        self._protocol.send(b"".join(packed), n, _Callback(taken))

    def flush(self) -> None:
        """Sends what was asked in this turn of the loop."""
        self._protocol.flush()

    def close(self) -> None:
        self._protocol.fail("closed")


class _Callback:
    """A callback in the place of a future."""

    __slots__ = ("_taken",)

    def __init__(self, taken: Callable[[list[Any], Exception | None], None]) -> None:
        self._taken = taken

    def done(self) -> bool:
        return False

    def set_result(self, replies: list[Any]) -> None:
        self._call(replies, None)

    def set_exception(self, error: Exception) -> None:
        self._call([], error)

    def _call(self, replies: list[Any], error: Exception | None) -> None:
        try:
            self._taken(replies, error)
        except Exception as failed:  # noqa: BLE001
            # replies of others stand behind this one, and nobody would read them
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a reply was not taken", "exception": failed}
            )


class _Protocol(asyncio.Protocol):
    """Replies in the order of the requests."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._reader = reader()
        self._unsent: list[bytes] = []
        self._watch: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[asyncio.Future[list[Any]] | _Callback, int, float]] = deque()
        """Calls that wait, for how many replies, since when."""
        self._replies: list[Any] = []
        self.dead: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no asyncio.Transport, but have all its methods
        self._transport = cast("asyncio.Transport", transport)

    def exchange(self, packed: bytes, replies: int) -> asyncio.Future[list[Any]]:
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        self.send(packed, replies, future)
        return future

    def send(
        self, packed: bytes, replies: int, waiter: asyncio.Future[list[Any]] | _Callback
    ) -> None:
        """Sends; the waiter is given so many replies. Raises StoreUnavailable where it is over."""
        if self.dead is not None or self._transport is None:
            raise self._error()
        loop = self._loop
        now = loop.time()
        self._waiting.append((waiter, replies, now))
        # What is asked in one turn of the loop is sent at once: a call of the system costs more
        # than the rest of a request.
        if not self._unsent:
            loop.call_soon(self.flush)
        self._unsent.append(packed)
        if self._watch is None:
            self._watch = loop.call_at(now + self._timeout_s, self._late)

    def flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and self.dead is None and self._transport is not None:
            self._transport.write(b"".join(unsent))

    def _late(self) -> None:
        """One timer for all who wait: it looks at the one who has waited longest."""
        self._watch = None
        if not self._waiting:
            return
        until = self._waiting[0][2] + self._timeout_s
        if until <= self._loop.time():
            # The answer may still come, for this request only: but a node that is this late is
            # no node to wait for with every later request.
            self.fail(f"no answer within {self._timeout_s} s")
        else:
            self._watch = self._loop.call_at(until, self._late)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        replies = self._replies
        try:
            while self._waiting:
                future, wanted, _ = self._waiting[0]
                while len(replies) < wanted:
                    reply = self._reader.gets()
                    if reply is NOT_YET:
                        return
                    replies.append(reply)
                self._waiting.popleft()
                whole, replies = replies, []
                self._replies = replies
                if not future.done():  # its request was cancelled: the replies were for it alone
                    future.set_result(whole)
        except hiredis.ProtocolError as error:
            self.fail(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(str(exc) if exc else "the store closed the connection")

    def fail(self, why: str) -> None:
        """Dead from now on; everybody who waits is told."""
        if self.dead is None:
            self.dead = why
        if self._transport is not None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed already
                self._transport.abort()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        waiting, self._waiting = self._waiting, deque()
        for future, _, _ in waiting:
            if not future.done():
                future.set_exception(self._error())

    def _error(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"the connection is over: {self.dead}",
            where=str(self._address),
            next_step="open a new connection",
        )
