"""A row knows by arrival what the stream had committed by its instant: never more than an answer
at that instant could have had.

`ops.ledger` and the store say of instants how far the stream had come. The newest entry at or
before a row's instant is what the row knows (docs/adr/0122).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.errors import BadRequest, DataLoss
from slicewise.features import row_columns
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.training.ranges import Ints
from slicewise.training.tables.instants import text_of

USE_EVENT_TIME = 'leave these rows out, or ask with knowledge="event_time"'


@dataclass(frozen=True, eq=False)
class CommittedTimes:
    """Committed offsets of a source by time.

    at_us: int64 [n], ascending. packed: binary [n], what was applied by then.
    """

    source: str
    at_us: Ints
    packed: pa.Array

    @staticmethod
    def of(source: str, entries: pa.Table, until_us: int | None = None) -> CommittedTimes:
        """Takes a table of `at_us` and `packed`, in any order and maybe twice, up to an instant."""
        if until_us is not None:
            entries = entries.filter(pc.less_equal(entries["at_us"], until_us))
        # of one instant the one with the greatest bytes is last, whatever the order of files
        order = [("at_us", "ascending"), ("packed", "ascending")]
        entries = entries.sort_by(order).combine_chunks()
        at_us = np.asarray(entries["at_us"].to_numpy(), np.int64)
        packed = row_columns.flat(entries["packed"])
        new = np.ones(len(at_us), np.bool_)
        new[1:] = at_us[1:] != at_us[:-1]
        new[1:] |= np.asarray(pc.not_equal(packed[1:], packed[:-1]))
        return CommittedTimes(source, at_us[new], packed.filter(pa.array(new)))

    @property
    def until_us(self) -> int:
        """Instant of the newest entry; 0 where there is none."""
        return int(self.at_us[-1]) if len(self.at_us) else 0

    def newest(self, instant_us: Ints) -> Ints:
        """Per instant the position of the newest entry at or before it. Raises BadRequest where
        there is none."""
        position: Ints = np.searchsorted(self.at_us, instant_us, "right").astype(np.int64) - 1
        if len(position) and position.min() < 0:
            row = int(np.argmax(position < 0))
            begins = "a second after its stream first ran"
            if len(self.at_us):
                begins = f"{text_of(int(self.at_us[0]))} on, where its entries begin"
            raise BadRequest(
                f"nothing is known of what was applied of {self.source!r} by "
                f"{text_of(int(instant_us[row]))}",
                where=f"column 'at', row {row}",
                expected=f"instants from {begins}",
                next_step=USE_EVENT_TIME,
            )
        return position


@dataclass(frozen=True, eq=False)
class SourceArrival:
    """Knowledge that rows have of a source.

    row: per row its entry, a position among those that some row has. base: int64 [entries,
    partitions], first offset that was not applied.
    """

    row: Ints
    topic_partitions: tuple[TopicPartition, ...]
    base: npt.NDArray[np.int64]
    digest: str
    """SHA-256 of the entries that some row has."""

    def joined(self) -> OffsetVector:
        """All that any row knows."""
        most = self.base.max(axis=0, initial=0).tolist()
        return OffsetVector(dict(zip(self.topic_partitions, most, strict=True)))


@dataclass(frozen=True)
class Arrival:
    """Committed offsets by time of every source that a set reads.

    known_at_us: the instant at which all rows know what they know; None: each at its own.
    """

    times: Mapping[str, CommittedTimes]
    known_at_us: int | None = None
    _made: dict[str, tuple[Ints, SourceArrival]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def of(self, source: str, at_us: Ints) -> SourceArrival:
        """Gives what rows at these instants know of a source. Raises BadRequest."""
        made = self._made.get(source)
        if made is None or made[0] is not at_us:  # a spine's is one array, for all of its units
            made = self._made[source] = (at_us, self._of(self.times[source], at_us))
        return made[1]

    def _of(self, times: CommittedTimes, at_us: Ints) -> SourceArrival:
        instant_us = at_us
        if self.known_at_us is not None:
            instant_us = np.full(len(at_us), self.known_at_us, np.int64)
        used, row = np.unique(times.newest(instant_us), return_inverse=True)
        raw = times.packed.take(pa.array(used)).to_pylist()
        digest = hashlib.sha256()
        for at, packed in zip(times.at_us[used].tolist(), raw, strict=True):
            digest.update(b"%d:%d:" % (at, len(packed)))
            digest.update(packed)
        topic_partitions, base = _columns(raw)
        return SourceArrival(row.astype(np.int64), topic_partitions, base, digest.hexdigest())

    def ages_us(self, source: str, at_us: Ints) -> Ints:
        """Per row how much older its entry is than the instant at which it knows."""
        times = self.times[source]
        if self.known_at_us is not None:
            at_us = np.full(1, self.known_at_us, np.int64)
        return at_us - times.at_us[times.newest(at_us)]


def _columns(
    packed: Sequence[bytes],
) -> tuple[tuple[TopicPartition, ...], npt.NDArray[np.int64]]:
    """Packed offset vectors as columns: partitions, and int64 [vectors, partitions]. Raises
    CodecError."""
    numbers: dict[TopicPartition, int] = {}
    runs: list[tuple[tuple[TopicPartition, ...], list[list[int]]]] = []
    """Vectors of the same partitions, one after another: partitions are seldom added."""
    for raw in packed:
        try:
            nested = msgpack.unpackb(raw, strict_map_key=False)
            partitions = tuple([(topic, one) for topic, some in nested.items() for one in some])
        except (ValueError, AttributeError, TypeError, msgpack.UnpackException):
            OffsetVector.unpack(raw)  # says what is wrong with it
            raise
        if not runs or runs[-1][0] != partitions:
            OffsetVector.unpack(raw)
            runs.append((partitions, []))
        runs[-1][1].append([offset for some in nested.values() for offset in some.values()])
    for partitions, _ in runs:
        for one in partitions:
            numbers.setdefault(one, len(numbers))
    base = np.zeros((len(packed), len(numbers)), np.int64)
    first = 0
    for partitions, offsets in runs:
        own = slice(first, first + len(offsets))
        base[own, [numbers[one] for one in partitions]] = np.array(offsets, np.int64).reshape(
            len(offsets), len(partitions)
        )
        first += len(offsets)
    return tuple(numbers), base


def refuse_later(at_us: Ints, known_at_us: int) -> None:
    """Refuses rows after the instant at which they are to be known."""
    later = np.flatnonzero(at_us > known_at_us)
    if len(later):
        row = int(later[0])
        raise BadRequest(
            f"`at` of {text_of(int(at_us[row]))} is later than known_at, {text_of(known_at_us)}",
            where=f"column 'at', row {row}",
            expected="instants up to known_at: nobody knew then what was still to come",
            next_step="leave the row out, or give a later known_at",
        )


def refuse_changed(source: str, digest: str, wanted: str) -> None:
    """Refuses to build a set again from entries that are not those that it was built from."""
    if digest != wanted:
        raise DataLoss(
            f"what was known of {source!r} is {digest} now and was {wanted}",
            where="ops.ledger",
            expected="the entries that the data set was built from",
            next_step="see whether rows of ops.ledger were deleted",
        )
