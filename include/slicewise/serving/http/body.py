"""A body is read whole and within its bound, or refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from slicewise.errors import BodyTooLarge, BodyTooSlow
from slicewise.serving.answering.requests import MAX_BODY_BYTES
from slicewise.serving.http.negotiation import Headers

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
LESS = "ask for fewer entities at once"


async def whole(headers: Headers, receive: Receive, next_step: str = LESS) -> bytes:
    """The body. Raises BodyTooLarge, BodyTooSlow."""
    return b"".join([part async for part in parts(headers, receive, MAX_BODY_BYTES, next_step)])


async def parts(
    headers: Headers, receive: Receive, most: int, next_step: str = LESS
) -> AsyncIterator[bytes]:
    """The body as it comes, of up to so many bytes. Raises BodyTooLarge, BodyTooSlow."""
    for name, value in headers:
        if name == b"content-length" and int(value) > most:
            raise _too_large(int(value), most, next_step)
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BodyTooSlow(
                "the request was not whole in time, or its client went away",
                next_step="send it again",
            )
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise _too_large(size, most, next_step)
        yield part
        more = message.get("more_body", False)


def _too_large(size: int, most: int, next_step: str) -> BodyTooLarge:
    return BodyTooLarge(
        f"a body of {size} bytes or more",
        expected=f"at most {most} bytes",
        next_step=next_step,
    )
