"""A member of an event list is one event: equal events are equal bytes, whose order is the total
order of events.

docs/format.md, "Event lists", gives every byte: identity, which values there are, the values,
CRC-32.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.event_forms import ColumnarEvents, ScalarEvents
from slicewise.aggregates.kernel.events import Rows
from slicewise.aggregates.kernel.fields import IDENTITY, SIGN_BIT
from slicewise.aggregates.kernel.ragged import offsets_of, runs
from slicewise.aggregates.kernel.values import ValueType
from slicewise.codec.arrays import ListType, stored_type
from slicewise.codec.pending import (
    OFFSET_OF,
    PENDING_HEAD,
    PENDING_HEAD_FORM,
    PENDING_SIZE,
    unpack_pending,
)
from slicewise.errors import CodecError

MEMBERS_VERSION = 1
IDENTITY_BYTES = IDENTITY.itemsize
TOPIC_PARTITION = slice(8, 28)
"""Place of topic id partition partition in an identity."""
MOST_SCORE = 2**53 - 1
"""A score is a double: times beyond what one holds exactly have the last exact one, and the order
of the members within it is still that of their times."""
_CRC_BYTES = 4
_WHOLE = 0x2144DF1C
"""CRC-32 of any bytes followed by their own CRC-32, little-endian."""
_WHOLES = frozenset((_WHOLE,))
MANY = 16
"""From so many members on one checksum over all of them is faster than one of each."""


def score_of(time_us: int) -> int:
    """The score of a member: its event time, as far as a double holds it."""
    return max(-MOST_SCORE, min(MOST_SCORE, time_us))


def identity_time(identity: bytes) -> int:
    """Event time in microseconds of an identity (or of a member, which begins with its own)."""
    return int.from_bytes(identity[:8], "big") - SIGN_BIT


@dataclass(frozen=True)
class Members:
    """The form of one list's members. columns: (name, Arrow type), sorted by name."""

    columns: tuple[tuple[str, pa.DataType], ...]

    @cached_property
    def _types(self) -> tuple[ValueType | ListType, ...]:
        return tuple(stored_type(kind) for _, kind in self.columns)

    @cached_property
    def record(self) -> np.dtype[np.void]:
        """The head of every member: identity, a byte per column that is 1 where there is a value,
        and the values; of text, decimals and arrays the number of their bytes, which follow the
        record."""
        fields: list[tuple[str, Any]] = [("identity", IDENTITY)]
        fields += [(f"has{i}", "|u1") for i in range(len(self.columns))]
        fields += [(f"v{i}", kind.dtype or "<u4") for i, kind in enumerate(self._types)]
        return np.dtype(fields)

    def encode(self, rows: Rows) -> list[bytes]:
        """One member per row."""
        n = len(rows)
        records = np.zeros(n, self.record)
        records["identity"] = rows.identities()
        texts: list[list[bytes]] = []
        for i, ((name, _), kind) in enumerate(zip(self.columns, self._types, strict=True)):
            array = rows.columns[name]
            records[f"has{i}"] = array.is_valid().to_numpy(zero_copy_only=False)
            stored = kind.store(array)
            if kind.dtype is None:
                listed: list[bytes] = stored.to_pylist()
                records[f"v{i}"] = list(map(len, listed))
                texts.append(listed)
            else:
                records[f"v{i}"] = stored
        whole, width = records.tobytes(), self.record.itemsize
        heads = [whole[at : at + width] for at in range(0, n * width, width)]
        bodies = list(map(b"".join, zip(heads, *texts, strict=True))) if texts else heads
        return [body + zlib.crc32(body).to_bytes(_CRC_BYTES, "little") for body in bodies]

    def decode(self, members: Sequence[bytes]) -> Rows:
        """The rows of these members. Raises CodecError for one that is damaged."""
        return self.open(members).rows()

    def open(self, members: Sequence[bytes]) -> OpenMembers:
        """These members, seen to be whole. Raises CodecError for one that is damaged."""
        width = self.record.itemsize
        if len(members) >= MANY and not self._texts and self._even(members):
            whole = b"".join(members)
            if zlib.crc32(whole) == _crcs(self._sealed.itemsize).of(len(members)):
                return OpenMembers(
                    self, np.frombuffer(whole, self._sealed)["record"], lambda: members
                )
        least = min(map(len, members), default=width + _CRC_BYTES)
        if least < width + _CRC_BYTES or not _WHOLES.issuperset(map(zlib.crc32, members)):
            raise CodecError(
                "a member of an event list is damaged",
                expected=f"at least {width + _CRC_BYTES} bytes that agree with their checksum",
                next_step="build the view anew: its list comes from the archive",
            )
        records = np.frombuffer(b"".join([member[:width] for member in members]), self.record)
        sizes = [records[f"v{i}"].astype(np.int64) for i in self._texts]
        lengths = np.fromiter(map(len, members), np.int64, len(members))
        if not np.array_equal(
            sum(sizes, np.full(len(members), width + _CRC_BYTES, np.int64)), lengths
        ):
            raise CodecError("the sizes of a member of an event list do not add up")
        return OpenMembers(self, records, lambda: members)

    def open_fields(self, values: Sequence[bytes]) -> OpenMembers:
        """The members of these pending fields, seen to be whole. Raises CodecError for one that is
        damaged."""
        if self._texts:
            opened = [unpack_pending(value)[1] for value in values]
            opened_members = self.open(list(chain.from_iterable(opened)))
            return replace(
                opened_members,
                topic_partition=_only({members[0][TOPIC_PARTITION] for members in opened}),
            )
        width = self._sealed.itemsize
        head, whole, bodies = PENDING_HEAD_FORM.unpack_from, int.from_bytes, []
        for value in values:
            if len(value) < PENDING_HEAD:
                raise self._damaged(values)
            last, n = head(value)
            body = value[PENDING_HEAD + PENDING_SIZE * n :]
            offset = body[OFFSET_OF.start - width : OFFSET_OF.stop - width]
            if len(body) != n * width or whole(offset, "big") != last or not n:
                raise self._damaged(values)
            bodies.append(body)
        joined = b"".join(bodies)
        records = np.frombuffer(joined, self._sealed)["record"]
        if zlib.crc32(joined) != _crcs(width).of(len(records)):
            raise self._damaged(values)
        return OpenMembers(
            self,
            records,
            lambda: [joined[at : at + width] for at in range(0, len(joined), width)],
            _only({body[TOPIC_PARTITION] for body in bodies}),
        )

    def _damaged(self, values: Sequence[bytes]) -> CodecError:
        """Tells what is wrong with one of them."""
        try:
            for value in values:
                self.open(unpack_pending(value)[1])
        except CodecError as error:
            return error
        return CodecError(
            "a pending field whose parts do not agree",
            expected=f"members of {self._sealed.itemsize} bytes",
        )

    @cached_property
    def _texts(self) -> tuple[int, ...]:
        """Columns whose values follow the record."""
        return tuple(i for i, kind in enumerate(self._types) if kind.dtype is None)

    @cached_property
    def _sealed(self) -> np.dtype[np.void]:
        """A member of no such columns."""
        return np.dtype([("record", self.record), ("crc", f"V{_CRC_BYTES}")])

    def _even(self, members: Sequence[bytes]) -> bool:
        return set(map(len, members)) == {self._sealed.itemsize}


@dataclass(frozen=True, eq=False)
class OpenMembers:
    """Whole members: the record of each, and, once they are asked for, their bytes."""

    form: Members
    records: NDArray[np.void]
    cut: Callable[[], Sequence[bytes]]
    topic_partition: bytes | None = None
    """Bytes of the place in each identity, where all are known to be of one partition."""

    @cached_property
    def members(self) -> Sequence[bytes]:
        """The members, with all their bytes."""
        return self.cut()

    def __len__(self) -> int:
        return len(self.records)

    def take(self, indices: Sequence[int] | NDArray[np.int64]) -> OpenMembers:
        """These of them, in this order."""
        return OpenMembers(
            self.form,
            self.records[indices],
            lambda: [self.members[i] for i in indices],
            self.topic_partition,
        )

    def events(self) -> ScalarEvents:
        """The same as Python's own numbers."""
        names = [name for name, _ in self.form.columns]
        rows = list(zip(*self.records.tolist(), strict=True))
        identities = [member[:IDENTITY_BYTES] for member in self.members]
        values = zip(rows[1 : len(names) + 1], rows[len(names) + 1 :], strict=True)
        columns = {
            name: column
            if 0 not in there
            else [v if present else None for v, present in zip(column, there, strict=True)]
            for name, (there, column) in zip(names, values, strict=True)
        }
        return ScalarEvents(identities, columns)

    def many(self) -> ColumnarEvents:
        """The same as arrays; of text, decimals and arrays only their bytes' number."""
        records, columns = self.records, {}
        for i, (name, _) in enumerate(self.form.columns):
            present = records[f"has{i}"] != 0
            columns[name] = (
                np.ascontiguousarray(records[f"v{i}"]),
                None if present.all() else present,
            )
        return ColumnarEvents(records["identity"], columns)

    def rows(self, names: Collection[str] | None = None) -> Rows:
        """The same as columns; names: only these of the columns."""
        records, texts, width = self.records, self.form._texts, self.form.record.itemsize
        identity, columns = records["identity"], {}
        if texts:
            heap = np.frombuffer(
                b"".join([member[width:-_CRC_BYTES] for member in self.members]), np.uint8
            )
            at = offsets_of(
                np.fromiter(map(len, self.members), np.int64, len(records)) - width - _CRC_BYTES
            )[:-1]
        for i, ((name, _), kind) in enumerate(
            zip(self.form.columns, self.form._types, strict=True)
        ):
            valid = records[f"has{i}"] != 0
            if kind.dtype is None:
                size = records[f"v{i}"].astype(np.int64)
                values: Any = _strings(heap, at, size) if names is None or name in names else None
                at = at + size
            else:
                values = np.ascontiguousarray(records[f"v{i}"])
            if names is None or name in names:
                columns[name] = kind.load(values, valid)
        return Rows(
            (identity["time"].astype(np.uint64) ^ np.uint64(SIGN_BIT)).view(np.int64),
            identity["topic_hi"].astype(np.uint64),
            identity["topic_lo"].astype(np.uint64),
            identity["partition"].astype(np.int32),
            identity["offset"].astype(np.int64),
            columns,
        )


def _only(topic_partitions: set[bytes]) -> bytes | None:
    return topic_partitions.pop() if len(topic_partitions) == 1 else None


class _Crcs:
    """CRC-32 of n whole members of one width laid end to end: each that is not whole changes it,
    for good.

    A member takes the checksum c of all before it to shift(c) xor its own, which is the same for
    all that are whole; shift(c), of so many bytes whatever they are, is told by zeros.
    """

    def __init__(self, width: int) -> None:
        self._zeros = bytes(width)
        self._nothing = zlib.crc32(self._zeros)
        self._crcs = [0]
        self._lock = Lock()

    def of(self, n: int) -> int:
        crcs = self._crcs
        # pending events and lists grow: each length is one step beyond those that were asked for
        if n >= len(crcs):
            with self._lock:
                while n >= len(crcs):
                    crcs.append(zlib.crc32(self._zeros, crcs[-1]) ^ self._nothing ^ _WHOLE)
        return crcs[n]


@lru_cache
def _crcs(width: int) -> _Crcs:
    return _Crcs(width)


def _strings(
    data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> pa.Array:
    ends = offsets_of(sizes)
    flat = data[runs(starts, ends)]
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(flat))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(sizes), buffers)
