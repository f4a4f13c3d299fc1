"""A connection is one socket for one server run: broken, it is dead, and never comes back by
itself.

Redis clients that reconnect and send again would bring writes of an old server run into a new one.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import hiredis

from slicewise.errors import SettingsError, StoreUnavailable

pack = cast("Callable[[tuple[bytes | str, ...]], bytes]", hiredis.pack_command)
_RECEIVE = 1 << 18


@dataclass(frozen=True)
class Address:
    """Address of a node, and the user as whom to speak to it."""

    host: str
    port: int
    path: str | None = None
    tls: bool = False
    user: str | None = None
    password: str | None = None

    @staticmethod
    def parse(url: str) -> Address:
        """redis://[user:password@]host:port[/0], rediss://..., unix:///path."""
        parts = urlsplit(url)
        database = "" if parts.scheme == "unix" else parts.path.strip("/")
        if parts.scheme not in ("redis", "rediss", "unix") or database not in ("", "0"):
            raise SettingsError(
                "the store's address is none",
                expected="redis://host:port, rediss://host:port or unix:///path; database 0",
                next_step="correct SLICEWISE_REDIS_URL",
            )
        return Address(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or 6379,
            path=parts.path if parts.scheme == "unix" else None,
            tls=parts.scheme == "rediss",
            user=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
        )

    def greeting(self) -> list[bytes]:
        """Commands to send first."""
        if self.password is None:
            return []
        return [pack(("AUTH", self.user or "default", self.password))]

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"


def reader() -> Any:
    """A reply parser; errors come as values, so that later replies are still read."""
    return hiredis.Reader(notEnoughData=NOT_YET)


NOT_YET = object()
"""Value of the parser while a reply is not complete."""
ReplyError = hiredis.ReplyError


class Connection:
    """Blocking; used by one thread at a time."""

    def __init__(self, address: Address, timeout_s: float = 30.0) -> None:
        self.address = address
        self._reader = reader()
        self._socket: socket.socket | None = None
        try:
            self._socket = _open(address, timeout_s)
            for reply in self.exchange(address.greeting(), len(address.greeting())):
                _raise_error(reply, address)
        except OSError as error:
            raise self._broken(error) from error

    def exchange(self, packed: Sequence[bytes], replies: int) -> list[Any]:
        """Sends, and waits for as many replies. Raises StoreUnavailable, and is dead then."""
        self.send(packed)
        return self.receive(replies)

    def send(self, packed: Sequence[bytes]) -> None:
        """Sends, as the first part of `exchange`: `receive` must follow before anything else is
        sent."""
        if self._socket is None:
            raise StoreUnavailable(
                "the connection is closed",
                where=str(self.address),
                next_step="open another connection",
            )
        try:
            if packed:
                self._socket.sendall(b"".join(packed))
        except OSError as error:
            raise self._broken(error) from error
        except BaseException:
            self.close()
            raise

    def receive(self, replies: int) -> list[Any]:
        """Receives so many replies to what was sent."""
        if self._socket is None:
            raise StoreUnavailable(
                "the connection is closed",
                where=str(self.address),
                next_step="open another connection",
            )
        try:
            out: list[Any] = []
            get = self._reader.gets
            while len(out) < replies:
                reply = get()
                if reply is NOT_YET:
                    data = self._socket.recv(_RECEIVE)
                    if not data:
                        raise ConnectionResetError("the store closed the connection")
                    self._reader.feed(data)
                else:
                    out.append(reply)
            return out
        except (OSError, hiredis.ProtocolError) as error:
            raise self._broken(error) from error
        except BaseException:
            self.close()  # interrupted between a command and its reply: the stream is out of step
            raise

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def _broken(self, error: Exception) -> StoreUnavailable:
        self.close()
        return StoreUnavailable(
            f"the store does not answer: {error}",
            where=str(self.address),
            next_step="see that the store runs (slicewise status), then ask again by a new connection",
        )


def _open(address: Address, timeout_s: float) -> socket.socket:
    if address.path is not None:
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        plain.settimeout(timeout_s)
        plain.connect(address.path)
        return plain
    plain = socket.create_connection((address.host, address.port), timeout_s)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not address.tls:
        return plain
    return ssl.create_default_context().wrap_socket(plain, server_hostname=address.host)


def _raise_error(reply: Any, address: Address) -> None:
    if isinstance(reply, ReplyError):
        raise StoreUnavailable(
            f"the store refuses: {reply}",
            where=str(address),
            next_step="see the store's log, and its memory: slicewise status",
        )
