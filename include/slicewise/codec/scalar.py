"""One call opens a stored value of one row; a value that is not exactly one is refused.

Envelope, record and what follows it are cut by a struct per length of value: for the some hundreds
of rows of one read, whose values have few lengths. Of the rows' partials those that are asked for
alone become Python's own numbers and bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.kernel.fields import Field, Fixed, Items
from slicewise.codec.envelopes import SEAL_BYTES
from slicewise.errors import CodecError

Row = tuple[bytes, bytes]
"""The record of a row, and what follows it: its lists."""
LENGTHS = 4_096
"""Lengths of values for which a struct is kept."""
CUTS = 256
"""Choices of partials for which a cut is kept."""
_COUNT = 4
_CODES = {"<i8": "q", "<i4": "i", "<f8": "d", "|u1": "B"}


class _ByLength(dict[int, Callable[[bytes], Row]]):
    """Length of a value -> what cuts it: `head` bytes, the record, what follows, the checksum."""

    def __init__(self, head: int, size: int) -> None:
        super().__init__()
        self._head, self._size = head, size

    def __missing__(self, length: int) -> Callable[[bytes], Any]:
        rest = length - self._head - self._size - SEAL_BYTES
        if rest < 0:
            raise _refused(f"a value of {length} bytes", f"{length - rest} or more")
        if len(self) >= LENGTHS:
            self.clear()
        unpack = self[length] = struct.Struct(
            f"<{self._head}x{self._size}s{rest}s{SEAL_BYTES}x"
        ).unpack
        return unpack


@dataclass(frozen=True, eq=False)
class _Cut:
    """Parts of the rows that are cut out when some partials are asked for."""

    numbers: struct.Struct
    """The members of a record that are asked for, and the count of an only segment."""
    count_at: int
    """Position of that count among the numbers."""
    fields: tuple[tuple[tuple[type[Field], int], ...], ...]
    """Per partial and field its kind, and its position: of scalars among the numbers, of lists
    among the segments; empty of a partial that is not asked for."""
    segments: tuple[int, ...]
    """The segments that are asked for."""


@dataclass(eq=False)
class ScalarRows:
    """Rows of one layout as Python's own numbers and bytes. Lists stand behind the record in
    segments: one for a list of items, two (lengths, bytes) for a list of texts."""

    partials: tuple[tuple[Field, ...], ...]
    size: int
    """Bytes of a record."""
    counts: NDArray[np.int64]
    """The bytes of a record in which the count of each segment stands."""
    widths: NDArray[np.int64]
    """Per segment the bytes that one count stands for."""
    _cuts: dict[frozenset[int], _Cut] = field(init=False, default_factory=dict)
    _cutters: dict[int, _ByLength] = field(init=False, default_factory=dict)

    def singles(self, values: Sequence[bytes], head: int) -> list[Row]:
        """The row of each sealed value, which begins after `head` bytes."""
        cutters = self._cutters.get(head)
        if cutters is None:
            cutters = self._cutters[head] = _ByLength(head, self.size)
        return [cutters[len(value)](value) for value in values]

    def block(self, value: bytes, start: int, n: int) -> list[Row]:
        """The n rows of the block at `start` of a sealed value."""
        size, end = self.size, len(value) - SEAL_BYTES
        middle = start + n * size
        if middle > end:
            raise _refused(
                f"a block of {end - start} bytes for {n} rows", f"records of {size} bytes"
            )
        records, rest = value[start:middle], value[middle:end]
        widths = self._ends(records, n)[:, -1].tolist() if len(self.widths) else [0] * n
        ends = list(accumulate(widths, initial=0))
        if ends[-1] != len(rest):
            raise _refused(
                f"{len(rest)} bytes after {n} records", f"{ends[-1]}, as the records say"
            )
        return [
            (records[at : at + size], rest[a:b])
            for at, (a, b) in zip(range(0, n * size, size), pairwise(ends), strict=True)
        ]

    def columns(
        self, rows: Sequence[Row], wanted: frozenset[int] | None = None
    ) -> list[Sequence[Sequence[Any]]]:
        """Per partial, per field, its value by row: a list of items is its raw bytes, one of texts
        a tuple of theirs. wanted: partials that are asked for, None for all; others have no
        fields."""
        cut = self._cut(frozenset(range(len(self.partials))) if wanted is None else wanted)
        if not rows:
            return [((),) * len(fields) for fields in cut.fields]
        records, rests = zip(*rows, strict=True)
        joined = b"".join(records)
        numbers = list(zip(*cut.numbers.iter_unpack(joined), strict=True))
        pieces: dict[int, Sequence[bytes]] = {}
        if len(self.widths) == 1:
            width = int(self.widths[0])
            if list(map(len, rests)) != [width * n for n in numbers[cut.count_at]]:
                raise _uneven()
            pieces[0] = rests
        elif len(self.widths):
            ends = self._ends(joined, len(rows))
            if ends[:, -1].tolist() != list(map(len, rests)):
                raise _uneven()
            bounds = {-1: [0] * len(rows)}
            for at in cut.segments:
                for edge in (at - 1, at):
                    if edge not in bounds:
                        bounds[edge] = ends[:, edge].tolist()
                spans = zip(rests, bounds[at - 1], bounds[at], strict=True)
                pieces[at] = [rest[a:b] for rest, a, b in spans]
        elif any(rests):
            raise _uneven()
        return [
            [
                numbers[at]
                if kind is Fixed
                else pieces[at]
                if kind is Items
                else _texts(pieces[at], pieces[at + 1])
                for kind, at in fields
            ]
            for fields in cut.fields
        ]

    def _ends(self, records: bytes, n: int) -> NDArray[np.int64]:
        """Per row and segment where it ends [n, segments]."""
        raw = np.frombuffer(records, np.uint8).reshape(n, self.size)
        counts = raw.take(self.counts, axis=1).view("<u4")
        ends: NDArray[np.int64] = (counts * self.widths).cumsum(axis=1)
        return ends

    def _cut(self, wanted: frozenset[int]) -> _Cut:
        cut = self._cuts.get(wanted)
        if cut is None:
            if len(self._cuts) >= CUTS:
                self._cuts.clear()
            cut = self._cuts[wanted] = self._prepared(wanted)
        return cut

    def _prepared(self, wanted: frozenset[int]) -> _Cut:
        codes, numbers, count_at, segment = "<", 0, 0, 0
        positions: list[tuple[tuple[type[Field], int], ...]] = []
        segments: list[int] = []
        for i, fields in enumerate(self.partials):
            own: list[tuple[type[Field], int]] = []
            for one in fields:
                if isinstance(one, Fixed):
                    own.append((Fixed, numbers))
                    dtype = np.dtype(one.dtype)
                    codes += _CODES[dtype.str] if i in wanted else f"{dtype.itemsize}x"
                    numbers += i in wanted
                    continue
                more = range(segment, segment + (1 if isinstance(one, Items) else 2))
                own.append((type(one), segment))
                segment = more.stop
                if len(self.widths) == 1:
                    codes, count_at, numbers = codes + "I", numbers, numbers + 1
                else:
                    codes += f"{len(more) * _COUNT}x"
                segments += more if i in wanted else ()
            positions.append(tuple(own) if i in wanted else ())
        return _Cut(struct.Struct(codes), count_at, tuple(positions), tuple(segments))


def _texts(lengths: Sequence[bytes], data: Sequence[bytes]) -> list[tuple[bytes, ...]]:
    """Per row its texts."""
    counts = [len(of_row) // _COUNT for of_row in lengths]
    sizes = struct.unpack(f"<{sum(counts)}I", b"".join(lengths))
    if set(counts) == {1}:
        if list(sizes) != list(map(len, data)):
            raise _unlike()
        return list(zip(data, strict=True))
    texts, first = [], 0
    for n, whole in zip(counts, data, strict=True):
        ends = list(accumulate(sizes[first : first + n], initial=0))
        if ends[-1] != len(whole):
            raise _unlike()
        texts.append(tuple([whole[a:b] for a, b in pairwise(ends)]))
        first += n
    return texts


def _unlike() -> CodecError:
    return _refused("lengths of texts that do not add up to their bytes", "as many bytes")


def _uneven() -> CodecError:
    return _refused("rows with more or less after their records", "as much as each record says")


def _refused(what: str, expected: str) -> CodecError:
    return CodecError(
        what,
        expected=expected,
        next_step="the stored value is damaged or of another unit: rebuild it",
    )
