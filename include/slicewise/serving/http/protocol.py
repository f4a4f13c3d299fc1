"""A client that sends or reads slowly holds nothing for longer than a bound: uvicorn alone waits
for ever. A request whose head came before is answered without parsing that head again.

uvicorn makes a dictionary, a cycle, an event, two timers and a task of every request; that costs
more than most answers. A request of features is answered without them (`Features.start`), where
its head is byte for byte one that uvicorn's parser took before, and its connection has nothing else
to do. All others, and all that is unlike most, go uvicorn's way (docs/adr/0091).
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from slicewise.serving.http.errors import Response
from slicewise.serving.http.features import HEAD_BYTES, Features, Head
from slicewise.serving.http.negotiation import Headers
from slicewise.serving.http.training_sets.requests import upload_of

SEND_S = 5.0
"""Longest from a connection, or the first byte of a request, to the request's last byte."""
UPLOAD_S = 600.0
"""Longest from the first byte of an upload to its last; within it, no SEND_S go by without any."""
READ_S = 5.0
"""Longest that a client leaves an answer unread, once what the system buffers is full."""
FILE_READ_S = 60.0
"""The same of a file: a system shows that full buffers empty by megabytes."""
TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: "
    b"text/plain\r\ncontent-length: 33\r\n\r\n"
    b"the request was not whole in time"
)
PATH, UPLOADS = "/v1/features", "/v1/training-sets"
END = b"\r\n\r\n"
MOST_BYTES = 256 << 10
"""Longest request that is answered directly."""


class Protocol(HttpToolsProtocol):
    """uvicorn's, with bounds on both ends of a request, and a short way for the usual ones."""

    _sending: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _begun = False
    _uploads_since = 0.0
    _moved = False
    """Tells whether a part of an upload came since that was looked at last."""
    _running: Any = None
    """Request that is being answered; of several sent at once uvicorn knows the last alone."""
    _features: Features | None = None
    """Answers directly; None where something between this and the application changes requests."""
    _answering = False
    """Tells whether a request is being answered directly."""
    _last = False
    """Tells whether the connection is closed after that answer."""
    _came: bytes | None = None
    """Bytes of the request that the parser is in, where they may be learned from."""
    _messages = 0
    """Messages that ended in them."""
    _expected: tuple[Head, int] | None = None
    """Head of a request whose body is on its way, and where the body begins."""
    _behind: bytes = b""
    """Bytes that came while a request was being answered directly."""
    _rests_since = 0.0
    _client = ""
    _fixed: tuple[object, dict[tuple[int, bytes], bytes]] = (None, {})
    """Headers of all answers, and the heads that were written with them."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._sending = self.loop.call_later(SEND_S, self._too_slow)
        features = getattr(self.app, "features", None)
        plain = not (self.access_log or self.root_path or self.limit_concurrency is not None)
        if plain and isinstance(features, Features):
            self._features = features
        self._client = self.client[0] if self.client else ""

    def connection_lost(self, exc: Exception | None) -> None:
        self._sent()
        self._read()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        self._features, self._behind = None, b""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    # ------------------------------------------------------------ the short way
    def data_received(self, data: bytes) -> None:
        features = self._features
        if features is None:
            self._parse(data)
            return
        if self._answering:
            # of a client that does not wait for its answer; what it sends waits with it
            self._behind += data
            self.flow.pause_reading()
            return
        if self._expected is not None:
            self._came = data = (self._came or b"") + data
            head, end = self._expected
        elif self._begun or not self._is_free():
            if self._came is not None:
                self._came = self._came + data if len(self._came) < MOST_BYTES else None
            self._parse(data)
            return
        else:
            end = data.find(END) + len(END)
            remembered = features.heads.get(data[:end])
            if remembered is None:
                self._came, self._messages = data, 0
                self._parse(data)
                return
            head = remembered
        missing = end + head.length - len(data)
        if missing > 0:
            self._await_body(head, end, data)
            return
        self._expected = self._came = None
        if missing < 0:  # another request behind it
            self._sent()
            self._parse(data)
            if self._last:
                super().shutdown()
            return
        self._sent()
        self._answering = True
        features.start(head, data[end:], self._client, self._answered)

    def _parse(self, data: bytes) -> None:
        """Goes uvicorn's way, which ends a connection's rest, also with what begins no request."""
        super().data_received(data)
        if (
            self.timeout_keep_alive_task is None
            and self._sending is None
            and self._is_free()
            and not self.transport.is_closing()
        ):
            rested = self.loop.time() - self._rests_since
            self._rest(max(0.0, self.timeout_keep_alive - rested))

    def _is_free(self) -> bool:
        """Tells whether nothing of this connection is in work, and its client reads."""
        return (self.cycle is None or self.cycle.response_complete) and not self.flow.write_paused

    def _await_body(self, head: Head, end: int, data: bytes) -> None:
        self._expected, self._came, self._begun = (head, end), data, True
        self._unset_keepalive_if_required()
        if self._sending is None:
            self._sending = self.loop.call_later(SEND_S, self._too_slow)

    def _learned(self) -> None:
        """Remembers the head of the request that the parser has taken whole, if it is usual."""
        came, features, self._came = self._came, self._features, None
        scope, cycle = self.scope, self.cycle
        if came is None or features is None or self._messages != 1:
            return
        end = came.find(END) + len(END)
        lengths = [value for name, value in self.headers if name == b"content-length"]
        length = len(came) - end
        if (
            scope["method"] == "POST"
            and scope["path"] == PATH
            and scope["http_version"] == "1.1"
            and cycle.keep_alive
            and not self.expect_100_continue
            and not self.parser.should_upgrade()
            and not any(name in _UNUSUAL for name, _ in self.headers)
            and lengths == [b"%d" % length]
            and end <= HEAD_BYTES
        ):
            features.learn(came[:end], self.headers, length)

    def _answered(self, response: Response) -> None:
        """Writes an answer that was made directly."""
        self._answering = False
        self.server_state.total_requests += 1
        transport = self.transport
        if self._features is None or transport.is_closing():
            return
        last = self._last
        rest = b"\r\n\r\n"
        if response.headers or last:
            closes = ((b"connection", b"close"),) if last else ()
            rest = b"\r\n%s\r\n" % _lines((*response.headers, *closes))
        length = b"%d" % len(response.body)
        transport.write(b"".join((self._head(response), length, rest, response.body)))
        if last:
            transport.close()
            return
        self._rests_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._rest(self.timeout_keep_alive)
        if self._behind:
            behind, self._behind = self._behind, b""
            self.flow.resume_reading()
            self.data_received(behind)

    def _head(self, response: Response) -> bytes:
        """Status and headers up to the length, as uvicorn writes them."""
        default = self.server_state.default_headers
        fixed = Protocol._fixed
        if fixed[0] is not default:
            Protocol._fixed = fixed = (default, {})
        key = response.status, response.content_type
        written = fixed[1].get(key)
        if written is None:
            before = _lines((*default, (b"content-type", response.content_type)))
            written = b"%s%scontent-length: " % (STATUS_LINE[response.status], before)
            fixed[1][key] = written
        return written

    # ------------------------------------------------------------ bounds
    def on_message_begin(self) -> None:
        self._begun = True
        super().on_message_begin()
        self._uploads_since, self._moved = self.loop.time(), False
        if self._sending is None:
            self._sending = self.loop.call_later(SEND_S, self._too_slow)

    def on_body(self, body: bytes) -> None:
        self._moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._sent()
        super().on_message_complete()
        self._messages += 1
        if self._came is not None:
            self._learned()

    def on_response_complete(self) -> None:
        self._rests_since = self.loop.time()
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Closes a connection that has had nothing to do for long; one timer for many answers."""
        self.timeout_keep_alive_task = None
        if self._answering or self._begun or not self._is_free():
            return  # it is set again with the answer
        left = self._rests_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._rest(left)
        else:
            super().timeout_keep_alive_handler()

    def _rest(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def shutdown(self) -> None:
        if self._answering or self._expected is not None:
            self._last = True
        else:
            super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reading is None:
            is_file = self.cycle is not None and self.scope["path"].startswith(f"{UPLOADS}/")
            seconds = FILE_READ_S if is_file else READ_S
            self._reading = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._read()
        super().resume_writing()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _too_slow(self) -> None:
        self._sending = None
        if self._begun and self._is_uploading():
            self._moved = False
            self._sending = self.loop.call_later(SEND_S, self._too_slow)
            return
        if self._begun and (
            self.cycle is None or not self.cycle.response_started or self.cycle.response_complete
        ):
            self.transport.write(TOO_SLOW)
        self.transport.close()

    def _is_uploading(self) -> bool:
        """Tells whether a spine comes in that may take longer than other requests."""
        if self.cycle is None or self.cycle.response_complete or not self._moved:
            return False
        if self.loop.time() - self._uploads_since >= UPLOAD_S:
            return False
        kind = next((value for name, value in self.headers if name == b"content-type"), b"")
        is_spine = upload_of(kind) is not None
        return is_spine and self.scope["path"] == UPLOADS and self.scope["method"] == "POST"

    def _sent(self) -> None:
        self._begun = False
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _read(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None


_UNUSUAL = frozenset((b"transfer-encoding", b"expect", b"upgrade", b"trailer"))


def _lines(headers: Headers) -> bytes:
    return b"".join([b"%s: %s\r\n" % (name.lower(), value) for name, value in headers])
