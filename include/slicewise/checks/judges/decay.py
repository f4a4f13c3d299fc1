"""Decayed values by fractions: every weight by the words of docs/format.md, the sum divided
once."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Any

from slicewise.checks.judges import END, Row, judge

_WIDE = Context(prec=80, rounding=ROUND_HALF_EVEN)
_MOST_HALVINGS = 1_024
_US = {
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
}


@judge("decay_sum")
def decay_sum(rows: Sequence[Row], spec: Mapping[str, Any]) -> float | None:
    """The sum of value · weight over the weight of the window's end; null without values."""
    column = spec["column"]
    present = [(row.t, row.values[column]) for row in rows if row.values[column] is not None]
    odd = [value for _, value in present if isinstance(value, float) and not math.isfinite(value)]
    if odd:
        return math.fsum(odd) if len({*odd}) == 1 else math.nan
    return _decayed(present, spec) if present else None


@judge("decay_count")
def decay_count(rows: Sequence[Row], spec: Mapping[str, Any]) -> float | None:
    """The same of ones."""
    column = spec["column"]
    present = [(row.t, 1) for row in rows if column is None or row.values[column] is not None]
    return _decayed(present, spec) if present else 0.0


def _decayed(present: Sequence[tuple[int, Any]], spec: Mapping[str, Any]) -> float | None:
    half_life = sum(
        int(n) * _US[unit] for n, unit in re.findall(r"(\d+)([a-z]+)", spec["half_life"])
    )
    landmark = min(t // half_life for t, _ in present)
    if max(t // half_life for t, _ in present) - landmark > _MOST_HALVINGS:
        return None
    total = sum(
        (Fraction(value) * _weight(t, half_life, landmark) for t, value in present), Fraction(0)
    )
    exact = total / _weight(spec[END], half_life, landmark)
    try:
        return exact.numerator / exact.denominator + 0.0
    except OverflowError:
        return None


def _weight(t: int, half_life: int, landmark: int) -> Fraction:
    """2^(t / half-life - landmark)."""
    whole, rest = divmod(t, half_life)
    share = (rest << 33) // half_life
    factor = 1 << 63
    for bits in (11, 22, 33):
        factor = factor * _power(share >> (33 - bits) & 2_047, bits) >> 63
    return Fraction(factor) * Fraction(2) ** (whole - landmark - 63)


@cache
def _power(j: int, bits: int) -> int:
    """2^(j / 2^bits) to 63 bits after the point, rounded to the nearest."""
    power = _WIDE.power(Decimal(2), _WIDE.divide(Decimal(j), Decimal(1 << bits)))
    return int(_WIDE.to_integral_value(_WIDE.multiply(power, Decimal(1 << 63))))
