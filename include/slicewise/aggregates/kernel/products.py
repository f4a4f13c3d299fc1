"""Products of column numbers are exact: a sign, digits of 32 bits, and an exponent of two per row.

Schoolbook multiplication over whole columns in uint64. Every digit knows the most that it holds,
so that small numbers cost few digits, and a column is split only where it could pass 2^64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.kernel.limbs import LIMB_BITS, MASK, Part, Pieces, exponents
from slicewise.aggregates.kernel.ragged import Int64

UInt64 = NDArray[np.uint64]
Digit = tuple[UInt64, int]
"""(values, the most that any of them is)."""

_MASK, _BITS = np.uint64(MASK), np.uint64(LIMB_BITS)
_LOW = 2**LIMB_BITS - 1
_FULL = 2**64


@dataclass(frozen=True, eq=False)
class Factor:
    """sign · Σ digits[i] · 2^(32·i) · 2^exponent, per row."""

    digits: tuple[Digit | None, ...]  # lowest first, each below 2^32; None: zero in every row
    sign: Int64 | None  # 1 or -1; None: nowhere negative
    exponent: Int64 | None  # of two, at least 0; None: 0 in every row


@dataclass(frozen=True, eq=False)
class Operand:
    """A column of numbers, each digits · 2^exponent, made to factors by parts, which caches
    hold."""

    size: int
    bits: int  # of the largest magnitude without its exponent
    least: int  # exponent of two, over all rows
    most: int
    factor: Callable[[Part], Factor]


def of_doubles(values: NDArray[np.float64]) -> Operand:
    """Doubles in units of 2^-1074; NaN and infinities as zero."""
    least, most, _ = exponents(values)

    def factor(part: Part) -> Factor:
        bits = values[part].view(np.int64)
        biased = (bits >> 52) & 0x7FF
        mantissa = (bits & (2**52 - 1)) | (np.minimum(biased, 1) << 52)
        odd = biased == 0x7FF
        if odd.any():
            mantissa = np.where(odd, 0, mantissa)
        # Of zeros, NaN and infinities any exponent will do: one that others have anyway needs no
        # lane.
        return Factor(
            (_digit(mantissa & MASK), _digit(mantissa >> LIMB_BITS)),
            _sign(bits),
            np.clip(biased - 1, least, most),
        )

    return Operand(len(values), 53, least, most, factor)


def of_integers(values: Int64) -> Operand:
    """int64 values."""

    def factor(part: Part) -> Factor:
        chosen = values[part]
        magnitude = np.abs(chosen).view(np.uint64)  # of -2^63 itself, which as uint64 is right
        return Factor((_digit(magnitude & _MASK), _digit(magnitude >> _BITS)), _sign(chosen), None)

    most = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    return Operand(len(values), most.bit_length(), 0, 0, factor)


def of_words(words: UInt64) -> Operand:
    """128-bit two's complement words [n, 2], low word first."""

    def factor(part: Part) -> Factor:
        low, high = words[part, 0], words[part, 1]
        sign = _sign(high.view(np.int64))
        if sign is not None:
            negative = sign < 0
            low = np.where(negative, ~low + np.uint64(1), low)
            high = np.where(negative, ~high + (low == 0), high)
        digits = (low & _MASK, low >> _BITS, high & _MASK, high >> _BITS)
        return Factor(tuple(_digit(digit) for digit in digits), sign, None)

    high = words[:, 1].view(np.int64)
    most = max(int(high.max(initial=0)), ~int(high.min(initial=0)))
    return Operand(len(words), 64 + most.bit_length(), 0, 0, factor)


def _digit(values: NDArray[np.integer]) -> Digit | None:
    bits = values.view(np.uint64)
    most = int(bits.max(initial=0))
    return (bits, most) if most else None


def _sign(values: Int64) -> Int64 | None:
    """1 or -1 of each; None where none is negative."""
    sign = (values >> 63) | 1
    return sign if (sign < 0).any() else None


def times(a: Factor, b: Factor) -> Factor:
    """The product, row by row."""
    same = a is b
    columns: list[Digit | None] = [None] * (len(a.digits) + len(b.digits) + 1)
    for i, x in enumerate(a.digits):
        for j, y in enumerate(b.digits):
            if x is None or y is None or (same and j < i):
                continue
            product, most = x[0] * y[0], x[1] * y[1]
            if same and j > i:
                if 2 * most >= _FULL:
                    _put(columns, i + j, product, most)  # once more below
                else:
                    product, most = product << np.uint64(1), 2 * most
            _put(columns, i + j, product, most)
    sign = (
        a.sign
        if b.sign is None
        else b.sign
        if a.sign is None
        else None
        if same
        else a.sign * b.sign
    )
    exponent = (
        a.exponent
        if b.exponent is None
        else b.exponent
        if a.exponent is None
        else a.exponent + b.exponent
    )
    return Factor(_settled(columns), sign, exponent)


def _put(columns: list[Digit | None], at: int, values: UInt64, most: int) -> None:
    """Adds to a column; where that could pass 2^64, what is above 32 bits goes to the next."""
    column = columns[at]
    if column is None:
        columns[at] = (values, most)
    elif column[1] + most < _FULL:
        columns[at] = (column[0] + values, column[1] + most)
    else:
        (low, low_most), (column_low, column_most) = (_low(values, most), _low(*column))
        columns[at] = (low + column_low, low_most + column_most)
        for addend, its_most in ((values, most), column):
            if its_most > _LOW:
                _put(columns, at + 1, addend >> _BITS, its_most >> LIMB_BITS)


def _low(values: UInt64, most: int) -> Digit:
    return (values & _MASK, _LOW) if most > _LOW else (values, most)


def _settled(columns: list[Digit | None]) -> tuple[Digit | None, ...]:
    """Columns with carries passed on: digits below 2^32."""
    digits: list[Digit | None] = []
    for at in range(len(columns)):
        column = columns[at]
        if column is not None and column[1] > _LOW:
            _put(columns, at + 1, column[0] >> _BITS, column[1] >> LIMB_BITS)
            column = _low(*column)
        digits.append(column)
    # A product has no more digits than its factors together, whatever the bounds say.
    return tuple(digits[:-1])


def pieces(number: Factor) -> Pieces:
    """The number as parts of 32 bits in lanes, signed, for `limbs.add_several`."""
    signed = [
        (i, _signed(digit[0], number.sign) if number.exponent is None else digit[0])
        for i, digit in enumerate(number.digits)
        if digit is not None
    ]
    if number.exponent is None:
        return signed  # type: ignore[return-value]  # int64 all
    lane, shift = number.exponent >> 5, (number.exponent & 31).view(np.uint64)
    parts: dict[int, UInt64] = {}
    for i, digit in signed:
        wide = digit.view(np.uint64) << shift
        low, high = wide & _MASK, wide >> _BITS
        parts[i] = parts[i] + low if i in parts else low
        parts[i + 1] = high
    return [(lane + i if i else lane, _signed(part, number.sign)) for i, part in parts.items()]


def _signed(values: UInt64, sign: Int64 | None) -> Int64:
    return values.view(np.int64) if sign is None else values.view(np.int64) * sign


def span(*operands: Operand) -> tuple[int, int]:
    """(first, last) lane that the product of these can reach."""
    least, most = (
        sum(operand.least for operand in operands),
        sum(operand.most + operand.bits for operand in operands),
    )
    # One more: a digit's bound is not always its most.
    return least // LIMB_BITS, most // LIMB_BITS + 1
