"""A client that sends or reads slowly holds nothing for longer than a bound: uvicorn alone waits
for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

SEND_S = 5.0
"""Longest from a connection, or the first byte of a request, to the request's last byte."""
READ_S = 5.0
"""Longest that a client leaves an answer unread, once what the system buffers is full."""
TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: "
    b"text/plain\r\ncontent-length: 33\r\n\r\n"
    b"the request was not whole in time"
)


class Protocol(HttpToolsProtocol):
    """uvicorn's, with bounds on both ends of a request."""

    _sending: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _begun = False
    _running: Any = None
    """Request that is being answered; of several sent at once uvicorn knows the last alone."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._sending = self.loop.call_later(SEND_S, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._sent()
        self._read()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._begun = True
        super().on_message_begin()
        if self._sending is None:
            self._sending = self.loop.call_later(SEND_S, self._too_slow)

    def on_message_complete(self) -> None:
        self._sent()
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reading is None:
            self._reading = self.loop.call_later(READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._read()
        super().resume_writing()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _too_slow(self) -> None:
        self._sending = None
        if self._begun and (
            self.cycle is None or not self.cycle.response_started or self.cycle.response_complete
        ):
            self.transport.write(TOO_SLOW)
        self.transport.close()

    def _sent(self) -> None:
        self._begun = False
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _read(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
