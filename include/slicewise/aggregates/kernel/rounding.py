"""An exact integer or quotient becomes the nearest double, once, half to even; zero is +0.0.

One rule in two forms: Python's integer division, which rounds correctly, and whole columns
of limbs, for rows whose result is a normal double; the law suite holds them bit-identical.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.kernel import limbs as exact
from slicewise.aggregates.kernel.ragged import Int64, Ragged

COLUMN_ROWS = 48
"""Below so many rows Python's integers are faster than the fixed cost of whole columns."""
BATCH_ROWS = 2**16
QUOTIENT_LIMBS = 3  # more than 65 bits of quotient for any divisor below 2^31
LARGEST_DIVISOR = 2**31 - 1
INFINITE_BITS = 0x7FF << 52
LEAST_NORMAL, MOST_NORMAL = -1022, 1023

Doubles = NDArray[np.float64]


def to_doubles(
    start: NDArray[np.int32], limbs: Ragged, divisor: Int64 | None, unit: int
) -> tuple[Doubles, NDArray[np.bool_]]:
    """(integer · 2^unit / divisor) of each partial [n], and where that is beyond the largest
    double.

    `divisor` is at least 1; None divides by nothing. What overflows is given as 0.
    """
    n = len(start)
    values = np.zeros(n)
    overflow = np.zeros(n, bool)
    if n < COLUMN_ROWS:
        _by_integers(start, limbs, divisor, unit, np.arange(n), values, overflow)
        return values, overflow
    for begin in range(0, n, BATCH_ROWS):
        rows = np.arange(begin, min(n, begin + BATCH_ROWS))
        by = None if divisor is None else divisor[rows]
        doubles, beyond, done = _by_columns(start[rows], limbs.take(rows), by, unit)
        values[rows], overflow[rows] = doubles, beyond
        _by_integers(start, limbs, divisor, unit, rows[~done], values, overflow)
    return values, overflow


def quotient(numerator: int, denominator: int) -> float | None:
    """The nearest double, half to even, zero is +0.0 also where it was less; None beyond the
    largest."""
    try:
        return numerator / denominator + 0.0
    except OverflowError:
        return None


def scaled(numerator: int, unit: int, divisor: int) -> float | None:
    """numerator · 2^unit / divisor as `quotient`."""
    if unit < 0:
        return quotient(numerator, divisor << -unit)
    return quotient(numerator << unit, divisor)


def half_up(numerator: int, denominator: int) -> int:
    """The nearest integer, halves away from zero, as SQL rounds decimals; denominator > 0."""
    magnitude = (2 * abs(numerator) + denominator) // (2 * denominator)
    return -magnitude if numerator < 0 else magnitude


def _by_integers(
    start: NDArray[np.int32],
    limbs: Ragged,
    divisor: Int64 | None,
    unit: int,
    rows: Int64,
    values: Doubles,
    overflow: NDArray[np.bool_],
) -> None:
    if len(rows) == 0:
        return
    by: Sequence[int] = [1] * len(rows) if divisor is None else divisor[rows].tolist()
    if len(rows) < len(start):
        start, limbs = start[rows], limbs.take(rows)
    numbers = exact.to_ints(start, limbs)
    for row, number, count in zip(rows.tolist(), numbers, by, strict=True):
        double = scaled(number, unit, count)
        if double is None:
            overflow[row] = True
        else:
            values[row] = double


def _by_columns(
    start: NDArray[np.int32], limbs: Ragged, divisor: Int64 | None, unit: int
) -> tuple[Doubles, NDArray[np.bool_], NDArray[np.bool_]]:
    """(values, overflow, done) [n]; rows that are not done have a result near or below 2^-1022."""
    low = 0 if divisor is None else QUOTIENT_LIMBS
    digits, negative = _magnitudes(limbs, low)
    done = np.ones(len(start), bool)
    sticky = np.zeros(len(start), bool)
    if divisor is not None:
        done = divisor <= LARGEST_DIVISOR
        sticky = _divide(digits, np.where(done, divisor, 1).astype(np.uint64))
    top, bits, odd = _leading(digits)
    exponent = (start.astype(np.int64) - low + top) * 32 + bits - 1 + unit
    window, rest = _window(digits, top, bits)
    sticky |= rest
    mantissa, dropped = window >> np.uint64(11), window & np.uint64(0x7FF)
    half = np.uint64(0x400)
    up = (dropped > half) | ((dropped == half) & (sticky | ((mantissa & np.uint64(1)) != 0)))
    # The implicit bit of the mantissa and a carry out of it both step the exponent, as they should.
    exponent = np.where(odd, 0, exponent)
    raw = (
        ((np.clip(exponent, LEAST_NORMAL, MOST_NORMAL) + 1022) << 52)
        + mantissa.astype(np.int64)
        + up
    )
    overflow = ~odd & ((exponent > MOST_NORMAL) | (raw >= INFINITE_BITS))
    done &= (exponent >= LEAST_NORMAL) | odd
    raw = np.where(odd | overflow, 0, raw | (negative.astype(np.int64) << 63))
    return raw.view(np.float64), overflow & done, done


def _magnitudes(limbs: Ragged, low: int) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Absolute values as digits [width, n], lowest first, above `low` zero digits; and the
    signs."""
    n, lengths = len(limbs.offsets) - 1, limbs.lengths
    width = int(lengths.max(initial=0)) + 1
    digits = np.zeros((low + width, n), np.uint64)
    row = limbs.row_numbers()
    digits[low + np.arange(len(row)) - limbs.offsets[:-1][row], row] = limbs.values
    negative = np.zeros(n, bool)
    nonempty = lengths > 0
    negative[nonempty] = limbs.values[limbs.offsets[1:][nonempty] - 1] >> 31 != 0
    if negative.any():
        mask = np.uint64(exact.MASK)
        above = np.arange(width)[:, None] >= lengths
        whole = digits[low:]
        whole[above & negative] = mask
        carry = negative.astype(np.uint64)
        for j in range(width):
            flipped = np.where(negative, whole[j] ^ mask, whole[j]) + carry
            whole[j], carry = flipped & mask, flipped >> np.uint64(32)
    return digits, negative


def _divide(digits: NDArray[np.uint64], divisor: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Divides in place, highest digit first; returns where a remainder is left."""
    rest = np.zeros(digits.shape[1], np.uint64)
    for j in range(len(digits) - 1, -1, -1):
        whole = (rest << np.uint64(32)) | digits[j]
        digits[j] = whole // divisor
        rest = whole - digits[j] * divisor
    left: NDArray[np.bool_] = rest != 0
    return left


def _leading(digits: NDArray[np.uint64]) -> tuple[Int64, Int64, NDArray[np.bool_]]:
    """Per row: its highest digit that is not zero, that digit's bits, and whether there is none."""
    nonzero = digits != 0
    top = len(digits) - 1 - np.argmax(nonzero[::-1], axis=0)
    leading = digits[top, np.arange(digits.shape[1])]
    # A digit below 2^32 is exact as a double, whose exponent is its number of bits.
    bits = (leading.astype(np.float64).view(np.int64) >> 52) - 1022
    none = leading == 0
    return top, np.where(none, 1, bits), none


def _window(
    digits: NDArray[np.uint64], top: Int64, bits: Int64
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """The 64 bits from the leading one down, and whether any bit below them is set."""
    column = np.arange(digits.shape[1])
    padded = np.concatenate([np.zeros((2, digits.shape[1]), np.uint64), digits])
    first, second, third = padded[top + 2, column], padded[top + 1, column], padded[top, column]
    shift = bits.astype(np.uint64)
    window = (
        (first << (np.uint64(64) - shift)) | (second << (np.uint64(32) - shift)) | (third >> shift)
    )
    below = np.arange(len(padded))[:, None] < top
    rest = (padded != 0) & below
    return window, rest.any(axis=0) | ((third & ((np.uint64(1) << shift) - np.uint64(1))) != 0)
