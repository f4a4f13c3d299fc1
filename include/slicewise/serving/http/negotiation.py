"""A client's Accept decides the form of its answer; what it does not accept is not sent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from slicewise.errors import NotAcceptable

Headers = Sequence[tuple[bytes, bytes]]
JSON_KINDS = (b"application/json", b"application/msgpack", b"application/x-msgpack")
HTML_KINDS = (b"text/html",)
_USUAL = frozenset((b"", b"*/*", *JSON_KINDS))
"""Headers of most clients: of routes that answer JSON or msgpack, nothing is parsed then."""


def media_types(headers: Headers) -> tuple[bool, bool, bytes]:
    """Tells whether the request is msgpack, whether the answer shall be, and what the client
    accepts."""
    sent = accepted = False
    accept = b""
    for name, value in headers:
        if name == b"content-type":
            sent = value.lower().startswith((b"application/msgpack", b"application/x-msgpack"))
        elif name == b"accept":
            accept = b"%s,%s" % (accept, value) if accept else value
            accepted = b"application/msgpack" in accept.lower() or (
                b"application/x-msgpack" in accept.lower()
            )
    return sent, accepted, accept


def check_accepted(accept: bytes, kinds: tuple[bytes, ...]) -> None:
    """Refuse a request whose Accept header names none of these media types. NotAcceptable says
    which there are."""
    if kinds is JSON_KINDS and accept in _USUAL:
        return
    if accept and not _accepts(accept.lower(), kinds):
        offered = " or ".join(kind.decode("ascii") for kind in kinds if b"/x-" not in kind)
        raise NotAcceptable(
            f"an answer as {str(accept[:200], 'latin-1')!r} is asked for",
            where="header Accept",
            expected=offered,
            next_step="ask for one of these, or leave the header out",
        )


@lru_cache(maxsize=256)
def _accepts(accept: bytes, kinds: tuple[bytes, ...]) -> bool:
    """Tells whether one of the kinds is accepted, the most specific range deciding for each (RFC
    9110, 12.5.1)."""
    ranges: dict[bytes, bool] = {}
    for part in accept.split(b","):
        name, *parameters = (word.strip() for word in part.split(b";"))
        ranges[name] = not any(_is_refusal(parameter) for parameter in parameters)
    for kind in kinds:
        for named in (kind, kind.partition(b"/")[0] + b"/*", b"*/*"):
            if named in ranges:
                if ranges[named]:
                    return True
                break
    return False


def _is_refusal(parameter: bytes) -> bool:
    """Tells whether it is q=0."""
    name, _, value = parameter.partition(b"=")
    return name.strip() == b"q" and value.strip().rstrip(b"0") in (b"", b"0.", b".")
