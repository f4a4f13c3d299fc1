"""Tokens of many rows are read as columns: those that differ in numbers alone are cut at the same
bytes.

One of them is decoded as any token is, and says where the numbers stand. Of the others every byte
beside the numbers must be the same, each number in its shortest form, the bounds in order and the
checksum right: then each is the one text of its values. All else is decoded by itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.errors import BadRequest
from slicewise.offsets import token as tokens
from slicewise.offsets.token import Token
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.training.ranges import Ints, batches
from slicewise.training.tables.msgpack_numbers import Number, numbers_of

Bytes = npt.NDArray[np.uint8]

AT_ONCE = 2**24
"""Characters that are looked at together."""
MOST_FORMS = 32
"""Forms that are looked for among tokens of one length; what has none of them goes one by one."""
SEAL = 4
_DIGITS = np.full(256, 255, np.uint8)
_DIGITS[
    np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
] = np.arange(64)


@dataclass(frozen=True, eq=False)
class AlikeTokens:
    """Tokens of n rows that differ in numbers alone.

    row: of each. order: position among all tokens, of which a row may have several. base: [n,
    partitions]. beyond: (position among these, hour, partition, offset) of hours compacted beyond.
    """

    row: Ints
    order: Ints
    unit: str
    definition: str
    topic_partitions: tuple[TopicPartition, ...]
    base: npt.NDArray[np.int64]
    bounds: Mapping[str, tuple[Ints, Ints]]
    beyond: tuple[tuple[int, int, TopicPartition, int], ...] = ()

    def chosen(self, flags: npt.NDArray[np.bool_]) -> AlikeTokens:
        """The tokens that are marked."""
        if flags.all():
            return self
        new = np.cumsum(flags) - 1
        return AlikeTokens(
            self.row[flags],
            self.order[flags],
            self.unit,
            self.definition,
            self.topic_partitions,
            self.base[flags],
            {name: (start[flags], end[flags]) for name, (start, end) in self.bounds.items()},
            tuple((int(new[at]), *rest) for at, *rest in self.beyond if flags[at]),  # type: ignore[misc]
        )

    def joined(self) -> OffsetVector:
        """All that any of them contains."""
        most = self.base.max(axis=0, initial=0).tolist()
        joined = dict(zip(self.topic_partitions, most, strict=True))
        for _, _, topic_partition, offset in self.beyond:
            joined[topic_partition] = max(joined.get(topic_partition, 0), offset)
        return OffsetVector(joined)


@dataclass(frozen=True, eq=False)
class TokenColumns:
    """The tokens of n rows, each of one unit or several."""

    n: int
    alike: tuple[AlikeTokens, ...]

    @staticmethod
    def of(texts: pa.ChunkedArray) -> TokenColumns:
        """The tokens of joined texts without nulls. Raises BadToken for the first row of which one
        is none."""
        row, order, parts = _parts(texts)
        alike: list[AlikeTokens] = []
        lengths = np.asarray(pc.binary_length(texts).to_numpy())
        bad = np.flatnonzero(lengths > tokens.MAX_TEXT)[:1].tolist()
        for some in _by_length(parts):
            made, left = _of_one_length(parts, some)
            single, refused = _one_by_one(parts, left)
            alike += [_with_rows(group, row, order) for group in (*made, *single)]
            bad += row[refused].tolist()
        if bad:
            raise BadToken(min(bad))
        return TokenColumns(len(texts), tuple(alike))

    def of_unit(self, unit: str, definition: str) -> tuple[AlikeTokens, ...]:
        """Per row its token of this unit; of several that of this definition, else the first.

        Raises NoToken for the first row without one.
        """
        best = np.full(self.n, np.iinfo(np.int64).max)
        own = [group for group in self.alike if group.unit == unit]
        keys = [group.order + (group.definition != definition) * 2**62 for group in own]
        for group, key in zip(own, keys, strict=True):
            np.minimum.at(best, group.row, key)
        lacking = np.flatnonzero(best == np.iinfo(np.int64).max)
        if len(lacking):
            raise NoToken(int(lacking[0]))
        chosen = [
            group.chosen(key == best[group.row]) for group, key in zip(own, keys, strict=True)
        ]
        return tuple(group for group in chosen if len(group.row))


class BadToken(ValueError):
    """A row's text is no token. args: the row."""


class NoToken(ValueError):
    """A row has no token of the unit. args: the row."""


def _parts(texts: pa.ChunkedArray) -> tuple[Ints, Ints, pa.Array]:
    """Row, position and text of each token."""
    whole = texts.cast(pa.large_string()).combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    if not pc.any(pc.match_substring(whole, tokens.SEPARATOR)).as_py():
        every = np.arange(len(whole), dtype=np.int64)
        return every, every, whole
    lists = pc.split_pattern(whole, tokens.SEPARATOR)
    row = np.asarray(pc.list_parent_indices(lists).to_numpy()).astype(np.int64)
    return row, np.arange(len(row), dtype=np.int64), lists.flatten()


def _by_length(parts: pa.Array) -> Iterator[Ints]:
    """Tokens of one length, some at a time."""
    lengths = np.asarray(pc.binary_length(parts).to_numpy()).astype(np.int64)
    for length in np.unique(lengths).tolist():
        same = np.flatnonzero(lengths == length)
        for some in batches(np.full(len(same), max(1, length), np.int64), AT_ONCE):
            yield same[some]


def _with_rows(group: AlikeTokens, row: Ints, order: Ints) -> AlikeTokens:
    own = (row[group.row], order[group.row], group.unit, group.definition)
    return AlikeTokens(*own, group.topic_partitions, group.base, group.bounds, group.beyond)


def _of_one_length(parts: pa.Array, some: Ints) -> tuple[list[AlikeTokens], Ints]:
    """Tokens that have a form with others of their length, and which are left."""
    texts = parts.take(pa.array(some))
    raw, valid = _unarmoured(texts)
    left, made = np.flatnonzero(valid), []
    for _ in range(MOST_FORMS):
        if len(left) < 2:
            break
        form = _form(texts[int(left[0])].as_py())
        if form is None:  # this one has none that others could have
            left = left[1:]
            continue
        like, group = form.cut(raw[left])
        made.append(_with_rows(group, some[left[like]], some[left[like]]))
        left = left[~like]
    rest = np.ones(len(some), np.bool_)
    for group in made:
        rest[np.searchsorted(some, group.row)] = False
    return made, some[rest]


def _unarmoured(texts: pa.Array) -> tuple[Bytes, npt.NDArray[np.bool_]]:
    """The bytes [n, m] of base64url texts of one length.

    Also which of them are such texts, in their one form.
    """
    n = len(texts)
    ends = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + n + 1]
    length = int(ends[1] - ends[0]) if n else 0
    data = texts.buffers()[2]
    if not length or data is None or length > tokens.MAX_TEXT or length % 4 == 1:
        return np.zeros((n, 0), np.uint8), np.zeros(n, np.bool_)
    characters = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].reshape(n, length)
    digits = np.zeros((n, -(-length // 4) * 4), np.uint8)
    digits[:, :length] = _DIGITS[characters]
    valid = (digits < 64).all(axis=1)
    a, b, c, d = (digits[:, i::4] for i in range(4))
    raw = np.empty((n, digits.shape[1] // 4 * 3), np.uint8)
    raw[:, 0::3], raw[:, 1::3], raw[:, 2::3] = a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d
    size = length * 3 // 4
    valid &= (raw[:, size:] == 0).all(axis=1)  # bits that stand for nothing
    return np.ascontiguousarray(raw[:, :size]), valid


@dataclass(frozen=True, eq=False)
class _Form:
    """Positions of the numbers in tokens that differ in numbers alone."""

    token: Token
    raw: Bytes
    offsets: tuple[Number, ...]
    """Offsets of the base, in the order of its partitions."""
    bounds: tuple[tuple[Number, Number], ...]
    columns: tuple[tuple[str, ...], ...]
    """Per interval the features that have it."""

    def cut(self, raw: Bytes) -> tuple[npt.NDArray[np.bool_], AlikeTokens]:
        """Marks those of these tokens [n, m] that have this form, and gives them."""
        fixed = np.ones(raw.shape[1], np.bool_)
        fixed[-SEAL:] = False
        for number in (*self.offsets, *(side for pair in self.bounds for side in pair)):
            fixed[number.first : number.beyond] = False
        like = (raw[:, fixed] == self.raw[fixed]).all(axis=1)
        rows = np.flatnonzero(like)
        sealed = raw[rows]
        ok = np.ones(len(rows), np.bool_)
        base = np.empty((len(rows), len(self.offsets)), np.int64)
        for i, number in enumerate(self.offsets):
            base[:, i], shortest = number.values(sealed)
            ok &= shortest
        bounds: list[tuple[Ints, Ints]] = []
        for pair in self.bounds:
            (start, first), (end, second) = (side.values(sealed) for side in pair)
            ok &= first & second
            if bounds:  # ascending, each interval once
                before, beyond = bounds[-1]
                ok &= (before < start) | ((before == start) & (beyond < end))
            bounds.append((start, end))
        ok &= _sealed(sealed)
        like[rows[~ok]] = False
        named = {
            column: interval
            for interval, columns in zip(bounds, self.columns, strict=True)
            for column in columns
        }
        partitions = tuple(self.token.base.offsets)
        where = np.arange(len(rows), dtype=np.int64)
        group = AlikeTokens(
            where, where, self.token.unit, self.token.definition, partitions, base, named
        ).chosen(ok)
        every = np.arange(len(group.row), dtype=np.int64)
        return like, AlikeTokens(
            every, every, group.unit, group.definition, partitions, group.base, group.bounds
        )


def _form(text: str) -> _Form | None:
    """The form of this token; None where hours are compacted beyond, or it is none."""
    try:
        token = tokens.decode(text)
    except BadRequest:
        return None
    if token.compacted_beyond:
        return None
    raw = tokens.raw(text)
    offsets, bounds = numbers_of(raw)
    grouped: dict[tuple[int, int], list[str]] = {}
    for column, interval in token.bounds.items():
        grouped.setdefault(interval, []).append(column)
    columns = tuple(tuple(grouped[interval]) for interval in sorted(grouped))
    return _Form(token, np.frombuffer(raw, np.uint8), offsets, bounds, columns)


def _sealed(raw: Bytes) -> npt.NDArray[np.bool_]:
    """Marks those whose checksum is right."""
    n, size = raw.shape
    body, view = size - SEAL - 2, memoryview(raw.tobytes())
    crc = np.fromiter(
        (zlib.crc32(view[at : at + body]) for at in range(0, n * size, size)), np.uint32, n
    )
    stored = np.ascontiguousarray(raw[:, -SEAL:]).view("<u4").reshape(-1)
    right: npt.NDArray[np.bool_] = stored == crc
    return right


def _one_by_one(parts: pa.Array, some: Ints) -> tuple[tuple[AlikeTokens, ...], Ints]:
    """The tokens that are left, those with the same columns together; and which are none."""
    decoded, refused = [], []
    for at, text in zip(some.tolist(), parts.take(pa.array(some)).to_pylist(), strict=True):
        try:
            decoded.append((at, tokens.decode(text)))
        except BadRequest:
            refused.append(at)
    return alike_tokens(decoded), np.array(refused, np.int64)


def alike_tokens(some: Iterable[tuple[int, Token]]) -> tuple[AlikeTokens, ...]:
    """The tokens of these rows, those of the same unit, partitions and columns together."""
    together: dict[tuple[object, ...], list[tuple[int, Token]]] = {}
    for row, token in some:
        form = (token.unit, token.definition, tuple(token.base.offsets), tuple(token.bounds))
        together.setdefault(form, []).append((row, token))
    return tuple(_grouped(own) for own in together.values())


def _grouped(some: Sequence[tuple[int, Token]]) -> AlikeTokens:
    _, first = some[0]
    own = [token for _, token in some]
    where = np.array([at for at, _ in some], np.int64)
    pairs = np.array([list(token.bounds.values()) for token in own], np.int64)
    pairs = pairs.reshape(len(own), len(first.bounds), 2)
    return AlikeTokens(
        where,
        where,
        first.unit,
        first.definition,
        tuple(first.base.offsets),
        np.array([list(token.base.offsets.values()) for token in own], np.int64).reshape(
            len(own), -1
        ),
        {name: (pairs[:, i, 0], pairs[:, i, 1]) for i, name in enumerate(first.bounds)},
        tuple(
            (i, hour, topic_partition, offset)
            for i, token in enumerate(own)
            for hour, vector in token.compacted_beyond.items()
            for topic_partition, offset in vector.offsets.items()
        ),
    )
