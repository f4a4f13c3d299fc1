"""Instants as the API writes them: RFC 3339 text outside, microseconds UTC inside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from slicewise.clock import END_OF_TIME_US
from slicewise.errors import BadRequest

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_us(at: str | int | datetime) -> int:
    """Microseconds UTC of an instant: RFC 3339 text or a datetime, both with zone, or an
    integer."""
    us: int | None = None
    if isinstance(at, bool):
        us = None
    elif isinstance(at, int):
        us = at
    else:
        moment = at if isinstance(at, datetime) else _parsed(at)
        if moment is not None and moment.tzinfo is not None:
            us = (moment - _EPOCH) // timedelta(microseconds=1)
    if us is None or not 0 <= us < END_OF_TIME_US:
        raise BadRequest(
            f"{at!r} is no instant",
            where="at",
            expected="RFC 3339 with zone, as 2013-01-01T12:00:00Z, or microseconds since 1970",
            next_step="write the instant so, or leave `at` out for now",
        )
    return us


def bound_us(text: str) -> int:
    """Microseconds UTC of a window's bound as the API writes it; a lifetime begins in the year
    1."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def _parsed(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except (ValueError, TypeError):
        return None


def instant(us: int) -> datetime:
    """The aware datetime of microseconds UTC."""
    return _EPOCH + timedelta(microseconds=us)


def instant_text(us: int) -> str:
    """RFC 3339 in UTC, with as many digits as it needs."""
    second, rest = divmod(us, 1_000_000)
    # instants of answers come by the second: within it only the digits change
    text = _second_text(second)
    return f"{text}.{rest:06d}Z" if rest else f"{text}Z"


@lru_cache(maxsize=16_384)
def _second_text(second: int) -> str:
    return instant(second * 1_000_000).replace(tzinfo=None).isoformat()
