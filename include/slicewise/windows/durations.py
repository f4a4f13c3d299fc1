"""Lengths of time as text and as whole microseconds."""

from __future__ import annotations

import re

from slicewise.calls import shown
from slicewise.errors import DefinitionError

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US

_UNITS = (
    ("w", 7 * DAY_US),
    ("d", DAY_US),
    ("h", HOUR_US),
    ("m", MINUTE_US),
    ("s", SECOND_US),
    ("ms", 1_000),
    ("us", 1),
)
_DURATION = re.compile("".join(rf"(?:(\d+){unit}(?![a-z]))?" for unit, _ in _UNITS))
LONGEST_US = 10_000 * DAY_US
"""The longest length that a definition may give."""
FOR_EVER_US = 100 * LONGEST_US
"""Longer than any span of event times: the length of a lifetime, where one is asked for."""


def parse_duration(text: str) -> int:
    """Microseconds of "10m", "7d", "100ms", "1h30m": units w d h m s ms us, the larger first.

    Raises DefinitionError for anything else, zero included.
    """
    matched = _DURATION.fullmatch(text) if isinstance(text, str) else None
    total = 0
    if matched and text.isascii():
        total = sum(
            int(digits) * size
            for digits, (_, size) in zip(matched.groups(), _UNITS, strict=True)
            if digits
        )
    if not 0 < total <= LONGEST_US:
        raise DefinitionError(
            f"{shown(text)} is no duration",
            expected="a positive number and a unit of w d h m s ms us, as in 10m, 7d or 1h30m",
            next_step="write it so, at most 10000d",
        )
    return total


def format_duration(us: int) -> str:
    """The shortest text that one unit allows: 90 minutes is "90m", seven days "7d"."""
    for unit, size in _UNITS[1:]:  # weeks are read, never written
        if us % size == 0:
            return f"{us // size}{unit}"
    raise AssertionError("every integer is a multiple of a microsecond")


def format_span(us: int) -> str:
    """The same for reading: "1d16m" instead of "1456m"."""
    parts = []
    for unit, size in _UNITS[1:]:
        count, us = divmod(us, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
