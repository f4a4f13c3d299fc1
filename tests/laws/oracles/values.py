"""Numbers and events as the oracles see them: nearest doubles by `fractions`, total orders,
canonical bytes."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from slicewise.aggregates import Event

OVERFLOW = "overflow"
LARGEST = Fraction(int(math.ldexp(1.0, 1000))) * 2**24 * (1 - Fraction(1, 2**53))


class Error(str):
    """A value that is null with this error code."""


def nearest_double(exact: Fraction) -> float | Error:
    """Half to even, by hand: no float arithmetic before the last, exact, step."""
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    bits = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent = max(bits - 53, -1074)  # this one or the next
    if magnitude / Fraction(2) ** exponent >= 2**53:
        exponent += 1
    scaled = magnitude / Fraction(2) ** exponent
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    if whole * Fraction(2) ** exponent > LARGEST:
        return Error(OVERFLOW)
    # no zero is negative
    return math.copysign(math.ldexp(float(whole), exponent), 1 if exact > 0 else -1) + 0.0


def values_of(events: Sequence[Event], column: str) -> list[Any]:
    """The values of a column that are not null; no zero is negative."""
    columns = [event.columns[column] for event in events]
    return [
        value + 0.0 if isinstance(value, float) else value for value in columns if value is not None
    ]


def rank_of(value: Any) -> Any:
    """The rank that orders values: text by its bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)  # NaN above every number
    return value.encode() if isinstance(value, str) else value


def not_finite(values: Sequence[Any]) -> float | None:
    """The sum by IEEE 754 with NaN or infinities in it; None of a finite one."""
    odd = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    return sum(odd[1:], odd[0]) if odd else None


def identity_of(event: Event) -> tuple[int, ...]:
    """The identity by which events have a total order."""
    return (event.time, event.topic_hi, event.topic_lo, event.partition, event.offset)


def plus(value: Any) -> Any:
    """The value; 0.0 for -0.0."""
    return value + 0.0 if isinstance(value, float) else value


def canonical_bytes(value: Any, kind: pa.DataType) -> bytes:
    """The bytes of a value that are hashed."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Decimal):
        return (int(value.scaleb(kind.scale, decimal.Context(prec=60))) + 2**127).to_bytes(
            16, "big"
        )
    return int(value).to_bytes(8, "little", signed=True)
