"""An exact sum is one integer in two's complement, in 32-bit limbs, of exactly one form.

The integer counts units (1, 10^-scale, or 2^-1074 for doubles). Low zero limbs are left out
(`start` counts them), the top limb is signed and as few limbs as possible follow; zero has
no limb and start 0. Whole columns are added lane by lane in 64-bit integers, with carries
settled before any lane could overflow (superaccumulator: Kulisch, and Neal, arXiv:1505.05571).

NaN and infinities, where a column allows them, are counted in lanes above every finite sum: they
add and deduct like all else, and cost nothing where there are none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.kernel.ragged import Int64, Ragged, offsets_of
from slicewise.errors import CodecError

LIMB_BITS = 32
MASK = np.int64(2**LIMB_BITS - 1)
SPECIAL_LANE = 72
"""Above the lanes of every finite sum: 2^1024 in units of 2^-1074, times 2^63 events, is below
2^2162.

Two lanes each count the NaN, the +infinity and the -infinity: 2^(32 · 72), · 74 and · 76.
"""
MOST_LANES = SPECIAL_LANE + 6
WIDEST = 1 << 10
"""Above every lane of a sum of numbers or of their products."""
FINITE_BITS = LIMB_BITS * (SPECIAL_LANE - 1)
"""Every finite sum is shorter; one that counts NaN or infinities is not."""
CARRY_LANES = 2
INFINITE = 0x7FF  # the exponent of infinities and NaN
LONG_CHUNK = 2**20  # rows between two carries: values below 2^33, so that a lane stays below 2^54
SHORT_CHUNK = 2**15  # temporaries stay in cache
NEAR_VALUES = 2**12
NEAR_BITS = 24
"""Doubles whose exponents lie so near to each other are added at once: a half of a mantissa has 27
bits, shifted 51, so many of them 63."""
SCALAR_GROUPS = 12
"""Up to so many groups Python's integers are faster than the fixed cost of whole columns."""
CELLS = 2**22  # lanes x groups held at once: 32 MiB

Pieces = Sequence[tuple[Int64 | int, Int64]]
"""(lane of each number, or one for all; its signed value there, below 2^33) per part of a
number."""
Part = slice | Int64


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers [size] to be added, split into pieces only a part at a time, so that caches hold
    them."""

    size: int
    least: int  # first lane that any number reaches
    most: int  # last lane
    pieces: Callable[[Part], Pieces]


@dataclass(frozen=True, eq=False)
class Several:
    """Numbers [size] that each give one number to every one of several sums, split together."""

    size: int
    spans: Sequence[tuple[int, int]]
    """Per sum the first and the last lane that any number reaches."""
    pieces: Callable[[Part], Sequence[Pieces]]


def of_integers(values: Int64) -> Numbers:
    """int64 values as parts of 32 bits."""

    def pieces(part: Part) -> Pieces:
        return [(0, values[part] & MASK), (1, values[part] >> LIMB_BITS)]

    return Numbers(len(values), 0, 1, pieces)


def of_words(words: NDArray[np.uint64]) -> Numbers:
    """128-bit two's complement words [n, 2], low word first, as parts of 32 bits."""

    def pieces(part: Part) -> Pieces:
        low, high = words[part, 0].view(np.int64), words[part, 1].view(np.int64)
        mask, bits = MASK, LIMB_BITS
        return [(0, low & mask), (1, (low >> bits) & mask), (2, high & mask), (3, high >> bits)]

    return Numbers(len(words), 0, 3, pieces)


def of_doubles(values: NDArray[np.float64]) -> Numbers:
    """Doubles, in units of 2^-1074, by their bits; NaN and infinities as one in a lane of their
    own."""
    least, most, special = exponents(values)

    def pieces(part: Part) -> Pieces:
        bits = values[part].view(np.int64)
        biased = (bits >> 52) & 0x7FF
        # A zero may have any exponent: one that others have anyway needs no lane.
        shift = np.maximum(biased - 1, least)
        mantissa = (bits & (2**52 - 1)) | (np.minimum(biased, 1) << 52)
        lane, shift = shift >> 5, shift & 31
        sign = 1 | (bits >> 63)
        if special:
            odd = biased == 0x7FF
            kind = np.where(mantissa != 1 << 52, 0, np.where(sign > 0, 2, 4))
            lane = np.where(odd, SPECIAL_LANE + kind, lane)
            mantissa, shift, sign = (
                np.where(odd, 1, mantissa),
                np.where(odd, 0, shift),
                np.where(odd, 1, sign),
            )
        low = (mantissa & MASK) << shift
        high = (mantissa >> LIMB_BITS) << shift
        middle = (low >> LIMB_BITS) + (high & MASK)
        parts = (low & MASK, middle, high >> LIMB_BITS)
        return [(lane + i if i else lane, value * sign) for i, value in enumerate(parts)]

    highest = SPECIAL_LANE + 4 if special else most >> 5
    return Numbers(len(values), least >> 5, highest + 2, pieces)


def exponents(values: NDArray[np.float64]) -> tuple[int, int, bool]:
    """The least and the most exponent, in units of 2^-1074, of what is finite and not zero; whether
    anything is not finite."""
    least, most, special = INFINITE, 0, False
    for begin in range(0, len(values), SHORT_CHUNK):
        magnitude = values[begin : begin + SHORT_CHUNK].view(np.int64) & (2**63 - 1)
        low, high = int(magnitude.min()) >> 52, int(magnitude.max()) >> 52
        if low == 0 or high == INFINITE:
            special |= high == INFINITE
            finite = magnitude[(magnitude != 0) & (magnitude < INFINITE << 52)]
            low, high = (
                (int(finite.min()) >> 52, int(finite.max()) >> 52) if len(finite) else (INFINITE, 0)
            )
        least, most = min(least, low), max(most, high)
    return (max(least - 1, 0), max(most - 1, 0), special) if least < INFINITE else (0, 0, special)


def of_limbs(start: NDArray[np.int32], limbs: Ragged) -> Numbers:
    """The limbs of partials, each a number of its own."""
    return of_lanes(*signed_limbs(start, limbs))


def of_lanes(lane: Int64, values: Int64) -> Numbers:
    """values · 2^(32 · lane), |values| < 2^33."""
    if len(lane) == 0:
        return Numbers(0, 0, 0, lambda _: [])
    return Numbers(
        len(lane), int(lane.min()), int(lane.max()), lambda part: [(lane[part], values[part])]
    )


def signed_limbs(start: NDArray[np.int32], limbs: Ragged) -> tuple[Int64, Int64]:
    """(lane, signed value) of each limb of partials."""
    lengths = limbs.lengths
    lane = np.arange(len(limbs.values)) + np.repeat(start - limbs.offsets[:-1], lengths)
    values = limbs.values.astype(np.int64)
    top = limbs.offsets[1:][lengths > 0] - 1
    values[top] = limbs.values[top].view(np.int32)
    return lane, values


def add(
    numbers: Numbers, groups: Int64, n_groups: int, highest: int = MOST_LANES
) -> tuple[NDArray[np.int32], Ragged]:
    """(start, limbs) [n_groups] of the sum of each group's numbers; groups [numbers.size].

    Lanes beyond `highest`, where no such sum can reach, are refused: what is stored may be damaged.
    """
    together = Several(
        numbers.size, [(numbers.least, numbers.most)], lambda part: [numbers.pieces(part)]
    )
    return add_several(together, groups, n_groups, highest)[0]


def add_several(
    numbers: Several, groups: Int64, n_groups: int, highest: int = MOST_LANES
) -> list[tuple[NDArray[np.int32], Ragged]]:
    """Per sum what `add` gives."""
    if numbers.size == 0:
        return [
            (np.zeros(n_groups, np.int32), Ragged.empty(n_groups, "<u4")) for _ in numbers.spans
        ]
    for least, most in numbers.spans:
        if least < 0 or most > highest:
            raise CodecError(f"a sum with limbs {least} to {most}", expected=f"0 to {highest}")
    lanes = sum(most - least + 1 + CARRY_LANES for least, most in numbers.spans)
    if n_groups * lanes <= CELLS:
        return _canonicals(numbers, None, groups, n_groups)
    # Runs of groups, so that few lanes stand in memory at once.
    order = np.argsort(groups, kind="stable")
    step = max(1, CELLS // lanes)
    firsts = range(0, n_groups, step)
    edges = [*np.searchsorted(groups[order], firsts).tolist(), len(order)]
    parts: list[list[tuple[NDArray[np.int32], Ragged]]] = []
    for first, begin, end in zip(firsts, edges, edges[1:], strict=False):
        rows = order[begin:end]
        parts.append(_canonicals(numbers, rows, groups[rows] - first, min(step, n_groups - first)))
    return [
        (
            np.concatenate([start for start, _ in addends]),
            Ragged.concat([limbs for _, limbs in addends]),
        )
        for addends in zip(*parts, strict=True)
    ]


def _canonicals(
    numbers: Several, rows: Int64 | None, groups: Int64, n: int
) -> list[tuple[NDArray[np.int32], Ragged]]:
    totals = _lanes(numbers, rows, groups, n)
    return [
        canonical(total, least) for total, (least, _) in zip(totals, numbers.spans, strict=True)
    ]


def _lanes(numbers: Several, rows: Int64 | None, groups: Int64, n: int) -> list[Int64]:
    """Per sum the lanes [lanes, n] of these rows (None: all), signed, each below 2^56."""
    totals = [
        np.zeros((most - least + 1 + CARRY_LANES, n), np.int64) for least, most in numbers.spans
    ]
    chunk = min(SHORT_CHUNK, LONG_CHUNK)
    added = 0
    for begin in range(0, len(groups), chunk):
        part = slice(begin, begin + chunk)
        if added + chunk > LONG_CHUNK:
            added = 0
            for total in totals:
                _carry(total)
        added += chunk
        split = numbers.pieces(part if rows is None else rows[part])
        owners = groups[part]
        for total, (least, _), pieces in zip(totals, numbers.spans, split, strict=True):
            for lane, values in pieces:
                if isinstance(lane, int):
                    np.add.at(total[lane - least], owners, values)
                else:
                    np.add.at(total.reshape(-1), (lane - least) * n + owners, values)
    return totals


def _carry(total: Int64) -> None:
    """Settles lanes in place: each in 0..2^32, the top one signed."""
    for j in range(len(total) - 1):
        total[j + 1] += total[j] >> LIMB_BITS
        total[j] &= MASK


def canonical(total: Int64, least: int) -> tuple[NDArray[np.int32], Ragged]:
    """(start, limbs) of lanes [lanes, n]."""
    if total.shape[1] <= SCALAR_GROUPS:
        numbers = [
            of_int(sum(value << (LIMB_BITS * (least + j)) for j, value in enumerate(column)))
            for column in total.T.tolist()
        ]
        return np.array([start for start, _ in numbers], np.int32), Ragged.of(
            [limbs for _, limbs in numbers], "<u4"
        )
    _carry(total)
    return _trim(total, least)


def _trim(total: Int64, least: int) -> tuple[NDArray[np.int32], Ragged]:
    """Canonical (start, limbs) of settled lanes [lanes, n]."""
    lanes, n = total.shape
    digits = (total & MASK).astype(np.uint32)
    negative = total[-1] < 0
    fill = np.where(negative, np.uint32(MASK), np.uint32(0))
    differs = digits != fill
    high = lanes - 1 - np.argmax(differs[::-1], axis=0)
    high[~differs.any(axis=0)] = -1
    sign_bit = np.where(high >= 0, digits[high, np.arange(n)] >> 31 != 0, False)
    # One limb more where the highest one that is no mere sign does not show the sign itself.
    top = high + (sign_bit != negative)
    first = np.argmax(digits != 0, axis=0)
    lengths = np.maximum(top - first + 1, 0)
    lane = np.arange(lanes)[:, None]
    kept = (lane >= first) & (lane <= top)
    start = np.where(lengths > 0, first + least, 0).astype(np.int32)
    return start, Ragged(offsets_of(lengths), digits.T[kept.T])


# ---- one sum of many


def total_of_integers(values: Int64) -> int:
    """The sum of int64 values; requires fewer than 2^31 of them."""
    return (int((values >> LIMB_BITS).sum()) << LIMB_BITS) + int((values & MASK).sum())


def total_of_doubles(values: NDArray[np.float64]) -> tuple[int, int]:
    """The sum of finite doubles in units of 2^-1074, and how many limbs it is shifted down by.

    Mantissas are added by their exponent, in halves: sums of doubles that stay below 2^53, so that
    they are exact.
    """
    mantissa, exponent = np.frexp(values)
    whole = (mantissa * 2.0**53).astype(np.int64)
    least = int(exponent.min(initial=INFINITE))
    total = 0
    if 0 < len(values) <= NEAR_VALUES and int(exponent.max()) - least <= NEAR_BITS:
        left = exponent - least
        return _unit_total(
            (int(((whole >> 26) << left).sum()) << 26) + int(((whole & (2**26 - 1)) << left).sum()),
            least,
        )
    for begin in range(0, len(values), LONG_CHUNK):
        part = slice(begin, begin + LONG_CHUNK)
        at, numbers = exponent[part] - least, whole[part]
        high, low = np.bincount(at, numbers >> 26), np.bincount(at, numbers & (2**26 - 1))
        for bits in np.flatnonzero((high != 0) | (low != 0)).tolist():
            total += ((int(high[bits]) << 26) + int(low[bits])) << bits
    return _unit_total(total, least)


def _unit_total(total: int, least: int) -> tuple[int, int]:
    """A sum in units of 2^(least - 53), turned into units of 2^-1074, and its shift in limbs."""
    shift = least - 53 + 1074
    if shift < 0:  # a double is a multiple of the unit, and so is their sum
        return total >> -shift, 0
    return total << (shift % LIMB_BITS), shift // LIMB_BITS


# ---- NaN and infinities


def specials(total: int) -> tuple[int, int, int]:
    """The numbers of NaN, +infinity and -infinity in a sum of doubles."""
    counts = (total + (1 << (LIMB_BITS * SPECIAL_LANE - 1))) >> (LIMB_BITS * SPECIAL_LANE)
    return counts & (2**64 - 1), (counts >> 64) & (2**64 - 1), counts >> 128


def special_of(value: float) -> int:
    """The addend of a NaN or an infinity to a sum of doubles."""
    return 1 << (LIMB_BITS * (SPECIAL_LANE + (0 if value != value else 2 if value > 0 else 4)))


def not_finite(total: int) -> float | None:
    """The value of a sum of doubles with NaN or infinities in it; None of a finite one."""
    nan, positive, negative = specials(total)
    if nan or (positive and negative):
        return math.nan
    return math.inf if positive else -math.inf if negative else None


def has_specials(start: NDArray[np.int32], limbs: Ragged) -> NDArray[np.bool_]:
    """Marks the sums of doubles that have NaN or infinities in them [n]."""
    result: NDArray[np.bool_] = start + limbs.lengths > SPECIAL_LANE
    return result


# ---- rows


def to_int(start: int, limbs: Iterable[int]) -> int:
    """The integer of one partial."""
    if start < 0:
        raise _no_sum(start)
    raw = b"".join(limb.to_bytes(4, "little") for limb in limbs)
    return int.from_bytes(raw, "little", signed=True) << (LIMB_BITS * start)


def of_int(value: int) -> tuple[int, tuple[int, ...]]:
    """(start, limbs) of an integer."""
    if value == 0:
        return 0, ()
    start = ((value & -value).bit_length() - 1) // LIMB_BITS
    value >>= LIMB_BITS * start
    count = (value if value > 0 else ~value).bit_length() // LIMB_BITS + 1
    raw = value.to_bytes(4 * count, "little", signed=True)
    return start, tuple(int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4))


def to_ints(start: NDArray[Any], limbs: Ragged) -> list[int]:
    """The integers of partials [n], one Python integer each."""
    check_starts(start.tolist())
    raw = limbs.values.astype("<u4", copy=False).tobytes()
    ends = (limbs.offsets * 4).tolist()
    return [
        int.from_bytes(raw[ends[i] : ends[i + 1]], "little", signed=True) << (LIMB_BITS * lane)
        for i, lane in enumerate(start.tolist())
    ]


def check_starts(starts: Collection[int]) -> None:
    """Raises CodecError for lanes at which no sum of numbers begins, before anything of their size
    is made."""
    if starts and not 0 <= min(starts) <= max(starts) < WIDEST:
        raise _no_sum(next(start for start in starts if not 0 <= start < WIDEST))


def _no_sum(start: int) -> CodecError:
    return CodecError(f"a sum that begins at limb {start}", expected=f"0 to {WIDEST - 1}")
