"""Files go out and come in by parts, at the pace of the client: none is in memory as a whole."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from slicewise import log
from slicewise.errors import NoResult, RangeRefused
from slicewise.serving.http.body import Receive, Send
from slicewise.serving.http.negotiation import Headers

READ_BYTES = 1 << 20
"""Bytes that are read at a time, off the loop."""
SENT_BYTES = 1 << 16
"""Bytes that are sent at a time: a slow reader has the time of one part for one part."""
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True)
class Download:
    """A file of a job, as a response."""

    path: Path
    content_type: bytes
    name: str
    """Name under which a browser keeps it."""
    tag: str
    """Entity tag: a file never changes."""

    async def send(self, headers: Headers, receive: Receive, send: Send, *, head: bool) -> None:
        """Sends it, or the range that the headers name. Raises NoResult where it was removed,
        RangeRefused."""
        try:
            file = await asyncio.to_thread(self.path.open, "rb")
        except FileNotFoundError as error:
            raise NoResult(
                "the training set has no such file",
                where=self.name,
                expected="a file of a training set that is done",
                next_step="see the state of the training set",
            ) from error
        with file:
            size = await asyncio.to_thread(file.seek, 0, 2)
            span = range_of(headers, size)
            first, beyond = span or (0, size)
            lines = [
                (b"content-type", self.content_type),
                (b"content-length", b"%d" % (beyond - first)),
                (b"content-disposition", f'attachment; filename="{self.name}"'.encode("ascii")),
                (b"accept-ranges", b"bytes"),
                (b"etag", f'"{self.tag}"'.encode("ascii")),
            ]
            if span is not None:
                lines.append((b"content-range", b"bytes %d-%d/%d" % (first, beyond - 1, size)))
            status = 200 if span is None else 206
            await send({"type": "http.response.start", "status": status, "headers": lines})
            if head or await _send_parts(file, first, beyond, receive, send):
                await send({"type": "http.response.body", "body": b""})
            # else the server ends the connection, and the reader sees that it lacks something


async def _send_parts(
    file: BinaryIO, first: int, beyond: int, receive: Receive, send: Send
) -> bool:
    """Sends a part of a file. Tells whether all of it went out."""
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.to_thread(file.seek, first)
        while first < beyond and not gone.done():
            read = await asyncio.to_thread(file.read, min(READ_BYTES, beyond - first))
            if not read:
                log.warning("file_shorter_than_it_was", at=first, expected=beyond)
                return False
            first += len(read)
            for begin in range(0, len(read), SENT_BYTES):
                part = read[begin : begin + SENT_BYTES]
                await send({"type": "http.response.body", "body": part, "more_body": True})
        return first >= beyond
    except OSError as error:
        log.warning("file_not_read", at=first, error=str(error))
        return False
    finally:
        gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


def range_of(headers: Headers, size: int) -> tuple[int, int] | None:
    """The range [first, beyond) that the headers name; None: the whole file (RFC 9110, 14.2).

    Several ranges, and other units than bytes, are answered by the whole. Raises RangeRefused.
    """
    given = next((str(value, "latin-1") for name, value in headers if name == b"range"), "")
    match = _RANGE.fullmatch(given.replace(" ", ""))
    if match is None or not (match[1] or match[2]):
        return None
    if match[1]:
        first = int(match[1])
        beyond = min(size, int(match[2]) + 1) if match[2] else size
        if match[2] and int(match[2]) < first:
            return None
    else:
        first, beyond = max(0, size - int(match[2])), size
    if first >= beyond:
        raise RangeRefused(
            f"{given} lies outside of {size} bytes",
            where="header Range",
            expected=f"bytes from 0 to {size - 1}",
            next_step="leave the header out for the whole file",
        )
    return first, beyond


async def receive_file(parts: AsyncIterator[bytes], path: Path) -> int:
    """Writes a body into a file as it comes. Gives its size."""
    size = 0
    with await asyncio.to_thread(path.open, "wb") as file:
        async for part in parts:
            size += len(part)
            await asyncio.to_thread(file.write, part)
    return size
