"""An error has one status and one shape; what a client sent is never echoed unescaped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from slicewise.errors import (
    BadRequest,
    BehindToken,
    BeyondRetention,
    BodyTooLarge,
    BodyTooSlow,
    CodecError,
    DataLoss,
    DefinitionError,
    NoResult,
    NotAcceptable,
    NotReady,
    Overloaded,
    OverShare,
    RangeRefused,
    RetryLater,
    SlicewiseError,
    StoreUnavailable,
    UnknownName,
)

JSON, MSGPACK, HTML = b"application/json", b"application/msgpack", b"text/html; charset=utf-8"
_JSON = msgspec.json.Encoder()
_MSGPACK = msgspec.msgpack.Encoder()

STATUS: Mapping[type[SlicewiseError], int] = {
    BadRequest: 400,
    BodyTooLarge: 413,
    BodyTooSlow: 408,
    NotAcceptable: 406,
    NoResult: 409,
    RangeRefused: 416,
    UnknownName: 404,
    BeyondRetention: 422,
    BehindToken: 503,
    Overloaded: 503,
    OverShare: 429,
    NotReady: 503,
    StoreUnavailable: 503,
    DataLoss: 500,
    CodecError: 500,
    DefinitionError: 500,
}
RETRY_AFTER_S = 1


class Response(NamedTuple):
    """A whole response."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


def status_of(error: SlicewiseError) -> int:
    """The HTTP status of an error's nearest class."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return 500


def error_body(error: SlicewiseError) -> dict[str, Any]:
    """{"error": {kind, what, where, expected, next_step, …}}."""
    body: dict[str, Any] = {
        "kind": type(error).__name__,
        "what": error.what,
        "where": error.where,
        "expected": error.expected,
        "next_step": error.next_step,
    }
    if isinstance(error, NotReady):
        body["progress"] = error.progress
    if isinstance(error, BeyondRetention):
        body["earliest_at_us"] = error.earliest_at_us
    if isinstance(error, Overloaded):
        body["retry_after_s"] = error.retry_after_s
    return {"error": body}


def error_response(error: SlicewiseError, *, msgpack: bool = False) -> Response:
    """The response to a refused or failed request."""
    status = status_of(error)
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if status in (429, 503):
        after = error.retry_after_s if isinstance(error, RetryLater) else RETRY_AFTER_S
        headers = ((b"retry-after", b"%d" % max(1, round(after))),)
    elif status == 408:
        headers = ((b"connection", b"close"),)  # what is left of the body is not awaited
    return encoded(status, error_body(error), msgpack=msgpack, headers=headers)


def encoded(
    status: int,
    value: Any,
    *,
    msgpack: bool = False,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> Response:
    """A value as JSON or msgpack."""
    if msgpack:
        return Response(status, _MSGPACK.encode(value), MSGPACK, headers)
    return Response(status, _JSON.encode(value), JSON, headers)


class Defect(SlicewiseError):
    """The service itself is wrong: status 500."""


class MethodRefused(SlicewiseError):
    """The route exists, the method does not."""


def method_refused(method: str, allowed: str) -> Response:
    """405 with what is allowed."""
    error = MethodRefused(f"method {method}", expected=allowed, next_step="see /openapi.json")
    return encoded(405, error_body(error), headers=((b"allow", allowed.encode("ascii")),))
