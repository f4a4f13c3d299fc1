"""A number is a sign and a magnitude in 32-bit digits. It is split off by parts, which caches hold.

Products of magnitudes with 64-bit factors are exact: no digit's product and carries pass 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.kernel.ragged import Int64

LOW, BITS = np.uint64(2**32 - 1), np.uint64(32)

Digits = list[NDArray[np.uint64]]
"""Magnitudes as 32-bit digits, the lowest first, each [n]."""
Part = slice | Int64


@dataclass(frozen=True, eq=False)
class Magnitudes:
    """Values [n], none of them null."""

    width: int
    """Digits of a magnitude."""
    digits: Callable[[Part], Digits]
    sign: Callable[[Part], Int64 | None]
    """Per value 1 or -1; None where all are positive."""
    shift: Int64 | None = None
    """Per value the power of two that it stands times, in units of 2^-1074; None: no such power."""
    special: Int64 | None = None
    """Per value 0 of a NaN, 1 of +infinity, 2 of -infinity, else -1; None: all are finite."""

    def take(self, at: Int64) -> Magnitudes:
        """The magnitudes at these places, whose parts are numbered anew."""
        return Magnitudes(
            self.width, lambda part: self.digits(at[part]), lambda part: self.sign(at[part])
        )


def of_ones(n: int) -> Magnitudes:
    """n times one."""
    ones = np.ones(n, np.uint64)
    return Magnitudes(1, lambda part: [ones[part]], lambda _: None)


def of_integers(values: Int64) -> Magnitudes:
    """int64 values."""

    def digits(part: Part) -> Digits:
        magnitude = np.abs(values[part]).view(np.uint64)  # of -2^63 too: its bits are 2^63
        return [magnitude & LOW, magnitude >> BITS]

    return Magnitudes(2, digits, lambda part: 1 | (values[part] >> 63))


def of_doubles(values: NDArray[np.float64]) -> Magnitudes:
    """Doubles as integers of 53 bits and a power of two; what is not finite has no digits that
    count."""
    bits = values.view(np.int64)
    biased = (bits >> 52) & 0x7FF

    def digits(part: Part) -> Digits:
        mantissa = (bits[part] & (2**52 - 1)) | (np.minimum(biased[part], 1) << 52)
        return [(mantissa & 0xFFFFFFFF).view(np.uint64), (mantissa >> 32).view(np.uint64)]

    special = None
    if len(values) and int(biased.max()) == 0x7FF:
        kind = np.where(np.isnan(values), 0, np.where(values > 0, 1, 2))
        special = np.where(biased == 0x7FF, kind, -1)
    return Magnitudes(
        2, digits, lambda part: 1 | (bits[part] >> 63), np.maximum(biased - 1, 0), special
    )


def of_words(words: NDArray[np.uint64]) -> Magnitudes:
    """128-bit two's complement words [n, 2], low word first."""

    def digits(part: Part) -> Digits:
        low, high = words[part, 0], words[part, 1]
        negative = high.view(np.int64) < 0
        high = np.where(negative, ~high + (low == 0), high)
        low = np.where(negative, ~low + np.uint64(1), low)
        return [low & LOW, low >> BITS, high & LOW, high >> BITS]

    return Magnitudes(4, digits, lambda part: 1 | (words[part, 1].view(np.int64) >> 63))


def times(digits: Digits, factor: NDArray[np.uint64]) -> Digits:
    """Magnitudes times 64-bit factors; two digits more."""
    result: Digits = []
    for offset, by in enumerate((factor & LOW, factor >> BITS)):
        carry: NDArray[np.uint64] | None = None
        for i, digit in enumerate(digits):
            # At most (2^32 - 1)^2 + 2 · (2^32 - 1), which is 2^64 - 1.
            product = digit * by
            if carry is not None:
                product += carry
            if offset and i + offset < len(result):
                product += result[i + offset]
            carry = product >> BITS
            result[i + offset : i + offset + 1] = [product & LOW]
        assert carry is not None
        result.append(carry)
    return result


def shifted(digits: Digits, shift: NDArray[np.uint64]) -> Digits:
    """Digits times 2^shift, shift below 32; one digit more."""
    result: Digits = []
    carry: NDArray[np.uint64] | None = None
    for digit in digits:
        moved = digit << shift
        result.append(moved & LOW if carry is None else (moved & LOW) | carry)
        carry = moved >> BITS
    assert carry is not None
    return [*result, carry]
