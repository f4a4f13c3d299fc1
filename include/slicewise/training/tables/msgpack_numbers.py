"""Numbers of a token are located among its bytes, which are canonical msgpack.

docs/format.md, section "Tokens", says which they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_HEAD = 23
"""Bytes before the base: array, version, two fingerprints of ten, mode."""
_UNSIGNED = {0xCC: (1, 2**7), 0xCD: (2, 2**8), 0xCE: (4, 2**16), 0xCF: (8, 2**32)}
"""First byte -> (bytes that follow, the least number that needs them)."""
_SIGNED = {0xD0: (1, -(2**5)), 0xD1: (2, -(2**7)), 0xD2: (4, -(2**15)), 0xD3: (8, -(2**31))}
"""The same of negative numbers: (bytes that follow, what is above the greatest)."""


@dataclass(frozen=True)
class Number:
    """A number's bytes, without the one that says how many there are; none where that one is the
    number."""

    first: int
    beyond: int
    signed: bool
    bound: int
    """The least number that needs so many bytes; of negative ones what is above the greatest."""

    def values(
        self, raw: npt.NDArray[np.uint8]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The numbers of rows of bytes [n], and which stand in their shortest form."""
        n = len(raw)
        if self.first == self.beyond:
            return np.full(n, self.bound, np.int64), np.ones(n, np.bool_)
        width = self.beyond - self.first
        kind = f">{'i' if self.signed else 'u'}{width}"
        stored = np.ascontiguousarray(raw[:, self.first : self.beyond]).view(kind).reshape(-1)
        shortest = stored < self.bound if self.signed else stored >= self.bound
        if width == 8 and not self.signed:
            shortest &= stored < 2**63
        return stored.astype(np.int64), shortest


def numbers_of(raw: bytes) -> tuple[tuple[Number, ...], tuple[tuple[Number, Number], ...]]:
    """The offsets of a token's base, and the (start, end) of its intervals. raw: a token without
    hours that are compacted beyond."""
    reader = _Reader(raw, _HEAD)
    offsets = []
    for _ in range(reader.length()):
        reader.skip_text()
        for _ in range(reader.length()):
            reader.number()  # the partition
            offsets.append(reader.number())
    reader.length()  # nothing beyond
    bounds = []
    for _ in range(reader.length()):
        reader.length()
        bounds.append((reader.number(), reader.number()))
        for _ in range(reader.length()):
            reader.skip_text()
    return tuple(offsets), tuple(bounds)


class _Reader:
    """Goes over the bytes of what is canonical already."""

    def __init__(self, raw: bytes, at: int) -> None:
        self._raw = raw
        self._at = at

    def length(self) -> int:
        """Length of the map or the array that begins here."""
        head = self._take(1)[0]
        if head < 0xA0:  # a short map or array
            return head & 0x0F
        return int.from_bytes(self._take(2 if head in (0xDC, 0xDE) else 4), "big")

    def number(self) -> Number:
        head = self._take(1)[0]
        if head < 0x80 or head >= 0xE0:
            value = head if head < 0x80 else head - 256
            return Number(self._at, self._at, False, value)
        signed = head in _SIGNED
        width, bound = _SIGNED[head] if signed else _UNSIGNED[head]
        first = self._at
        self._take(width)
        return Number(first, self._at, signed, bound)

    def skip_text(self) -> None:
        head = self._take(1)[0]
        size = head & 0x1F
        if head >= 0xC0:
            size = int.from_bytes(self._take({0xD9: 1, 0xDA: 2, 0xDB: 4}[head]), "big")
        self._take(size)

    def _take(self, count: int) -> bytes:
        some = self._raw[self._at : self._at + count]
        self._at += count
        return some
