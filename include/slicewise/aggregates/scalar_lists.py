"""Lists of few rows, raw as they are stored, are laid end to end as Python's own numbers and
bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any

from slicewise.aggregates.kernel.fields import IDENTITY
from slicewise.aggregates.kernel.values import ValueType
from slicewise.aggregates.scalar import Groups, Run
from slicewise.errors import CodecError

_WIDTH = IDENTITY.itemsize
CODES = {"<i8": "q", "<f8": "d", "|u1": "B"}
"""Codes of stored values, for a struct."""


def values(
    kind: ValueType, column: Sequence[Any], counts: Sequence[int], *, bits: bool = False
) -> list[Any]:
    """Stored values of all rows. counts: per row how many it has. bits: doubles as the integers of
    their bits. Raises CodecError for another number."""
    if kind.dtype is None:
        if list(map(len, column)) != counts:
            raise _unlike("texts")
        return list(chain.from_iterable(column))
    code = "q" if bits else CODES[kind.dtype]
    width = struct.calcsize(f"<{code}")
    if list(map(len, column)) != [width * n for n in counts]:
        raise _unlike("values")
    return list(struct.unpack(f"<{sum(counts)}{code}", b"".join(column)))


def kept(
    entries: list[Any],
    counts: Sequence[int],
    runs: Sequence[Run],
    groups: Groups,
    cached: Sequence[list[Any]],
    keep: Callable[[list[Any]], list[Any]],
) -> list[list[Any]]:
    """Per group the entries that are kept of its runs. counts: per row its entries; cached: those
    kept before, numbered after the runs; keep: chooses among entries."""
    at = list(accumulate(counts, initial=0))
    of_run = [keep(entries[at[a] : at[b]]) for a, b in runs]
    of_run += cached
    return [
        of_run[group[0]]
        if len(group) == 1
        else keep(list(chain.from_iterable([of_run[run] for run in group])))
        for group in groups
    ]


def identities(column: Sequence[bytes], counts: Sequence[int]) -> list[bytes]:
    """Identities of all rows, as bytes that compare as the total order."""
    if list(map(len, column)) != [_WIDTH * n for n in counts]:
        raise _unlike("identities")
    whole = b"".join(column)
    return [whole[at : at + _WIDTH] for at in range(0, len(whole), _WIDTH)]


def counts_of(kind: ValueType, column: Sequence[Any]) -> list[int]:
    """Per row how many values it has."""
    if kind.dtype is None:
        return list(map(len, column))
    width = struct.calcsize(f"<{CODES[kind.dtype]}")
    lengths = list(map(len, column))
    if any(length % width for length in lengths):
        raise _unlike("bytes")
    return [length // width for length in lengths]


def _unlike(what: str) -> CodecError:
    return CodecError(f"lists of {what} of unlike lengths", expected="one item each per entry")
