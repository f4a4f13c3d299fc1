"""One call opens a stored value of one row; a value that is not exactly one is refused.

Envelope, record and list of a row are cut at once, by a struct per length of value: for the some
hundreds of rows of one read, whose values have few lengths.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from slicewise.codec.envelopes import SEAL_BYTES
from slicewise.errors import CodecError

Row = tuple[Any, ...]
"""Members of the record as Python's own numbers, then what follows the record, as bytes."""
LENGTHS = 4_096
"""Lengths of values for which a struct is kept."""


class _ByLength(dict[int, Callable[[bytes], Row]]):
    """Length of a value -> what cuts it: `head` bytes, the record, what follows, the checksum."""

    def __init__(self, head: int, codes: str, size: int) -> None:
        super().__init__()
        self._head, self._codes, self._size = head, codes, size

    def __missing__(self, length: int) -> Callable[[bytes], Row]:
        rest = length - self._head - self._size - SEAL_BYTES
        if rest < 0:
            raise _refused(f"a value of {length} bytes", f"{length - rest} or more")
        if len(self) >= LENGTHS:
            self.clear()
        unpack = self[length] = struct.Struct(
            f"<{self._head}x{self._codes}{rest}s{SEAL_BYTES}x"
        ).unpack
        return unpack


@dataclass(eq=False)
class ScalarRows:
    """Form of the rows of one layout in Python's own numbers; none of its fields is a text."""

    codes: str
    """Codes of the record's members, for a struct."""
    lists: tuple[tuple[int, int], ...]
    """Per list of items its member in the record (how many items), and the bytes of an item."""
    widths: tuple[int, ...]
    """Per partial how many members of the record are its own."""
    size: int = field(init=False)
    """Bytes of a record."""
    _record: struct.Struct = field(init=False)
    _cutters: dict[int, _ByLength] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._record = struct.Struct("<" + self.codes)
        self.size = self._record.size

    def singles(self, values: Sequence[bytes], head: int) -> list[Row]:
        """The row of each sealed value, which begins after `head` bytes."""
        cutters = self._cutters.get(head)
        if cutters is None:
            cutters = self._cutters[head] = _ByLength(head, self.codes, self.size)
        return [cutters[len(value)](value) for value in values]

    def block(self, value: bytes, start: int, n: int) -> list[Row]:
        """The n rows of the block at `start` of a sealed value."""
        size, end = self.size, len(value) - SEAL_BYTES
        middle = start + n * size
        if middle > end:
            raise _refused(
                f"a block of {end - start} bytes for {n} rows", f"records of {size} bytes"
            )
        records = list(self._record.iter_unpack(value[start:middle]))
        rest = value[middle:end]
        if len(self.lists) == 1:
            ((at, width),) = self.lists
            widths = [width * record[at] for record in records]
        else:
            widths = [sum([width * record[at] for at, width in self.lists]) for record in records]
        ends = list(accumulate(widths, initial=0))
        if ends[-1] != len(rest):
            raise _refused(
                f"{len(rest)} bytes after {n} records", f"{ends[-1]}, as the records say"
            )
        return list(
            map(operator.add, records, zip([rest[a:b] for a, b in pairwise(ends)], strict=True))
        )

    def columns(self, rows: Sequence[Row]) -> list[Sequence[Sequence[Any]]]:
        """Per partial, per field, its value by row; a list of items is its raw bytes."""
        if not rows:
            return [((),) * width for width in self.widths]
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        rests = columns.pop()
        if len(self.lists) == 1:
            ((at, width),) = self.lists
            if list(map(len, rests)) != [width * n for n in columns[at]]:
                raise _uneven()
            columns[at] = rests
        else:
            self._split(columns, rests)
        parts: list[Sequence[Sequence[Any]]] = []
        first = 0
        for width in self.widths:
            parts.append(columns[first : first + width])
            first += width
        return parts

    def _split(self, columns: list[Sequence[Any]], rests: Sequence[bytes]) -> None:
        """Cuts what follows each record into its lists, in their order."""
        ends = [0] * len(rests)
        for at, width in self.lists:
            begins, ends = ends, [end + width * n for end, n in zip(ends, columns[at], strict=True)]
            columns[at] = [rest[a:b] for rest, a, b in zip(rests, begins, ends, strict=True)]
        if list(map(len, rests)) != ends:
            raise _uneven()


def _uneven() -> CodecError:
    return _refused("rows with more or less after their records", "as much as each record says")


def _refused(what: str, expected: str) -> CodecError:
    return CodecError(
        what,
        expected=expected,
        next_step="the stored value is damaged or of another unit: rebuild it",
    )
