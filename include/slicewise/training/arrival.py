"""A row knows by arrival what the stream had committed by its instant: never more than an answer
at that instant could have had.

`ops.ledger` and the store say of instants how far the stream had come. The newest entry at or
before a row's instant is what the row knows (docs/adr/0122).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slicewise.errors import BadRequest, DataLoss
from slicewise.features import row_columns
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.training.ranges import Ints
from slicewise.training.tables.instants import text_of

LATER_OR_NOW = "give a later known_at, or leave it out for all that is known now"
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
    def of(source: str, entries: pa.Table) -> CommittedTimes:
        """Takes a table of `at_us` and `packed`, ascending."""
        at_us = np.asarray(entries["at_us"].to_numpy(), np.int64)
        return CommittedTimes(source, at_us, row_columns.flat(entries["packed"]))

    def newest(self, instant_us: Ints, *, known_at: bool = False) -> Ints:
        """Per instant the position of the newest entry at or before it. Raises BadRequest where
        there is none. known_at: whether it is one instant for all rows."""
        position: Ints = np.searchsorted(self.at_us, instant_us, "right").astype(np.int64) - 1
        if len(position) and position.min() < 0:
            row = int(np.argmax(position < 0))
            begins = "a second after its stream first ran"
            if len(self.at_us):
                begins = f"{text_of(int(self.at_us[0]))} on, where its entries begin"
            raise BadRequest(
                f"nothing is known of what was applied of {self.source!r} by "
                f"{text_of(int(instant_us[row]))}",
                where="known_at" if known_at else f"column 'at', row {row}",
                expected=f"instants from {begins}",
                next_step=LATER_OR_NOW if known_at else USE_EVENT_TIME,
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
    entries: pa.Table
    """The entries that some row has: `at_us`, `packed`."""
    digest: str
    """SHA-256 of them."""

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
        instant_us, known_at = at_us, self.known_at_us is not None
        if known_at:
            instant_us = np.full(len(at_us), self.known_at_us, np.int64)
        newest = times.newest(instant_us, known_at=known_at)
        used, row = np.unique(newest, return_inverse=True)
        raw = times.packed.take(pa.array(used)).to_pylist()
        digest = hashlib.sha256()
        at_used = times.at_us[used]
        for at, packed in zip(at_used.tolist(), raw, strict=True):
            digest.update(b"%d:%d:" % (at, len(packed)))
            digest.update(packed)
        topic_partitions, base = _columns(raw)
        entries = pa.table({"at_us": at_used, "packed": pa.array(raw, pa.large_binary())})
        own = digest.hexdigest()
        return SourceArrival(row.astype(np.int64), topic_partitions, base, entries, own)

    def table(self, at_us: Ints) -> pa.Table:
        """The entries that rows at these instants know, of all sources: `source`, `at_us`,
        `packed`. From it the same set is built again, whatever becomes of the others."""
        parts = []
        for source in sorted(self.times):
            entries = self.of(source, at_us).entries
            names = pa.array([source] * len(entries), pa.string())
            parts.append(entries.add_column(0, "source", names))
        return pa.concat_tables(parts)

    @staticmethod
    def of_table(entries: pa.Table, known_at_us: int | None) -> Arrival:
        """Inverse of `table`."""
        return Arrival(
            {
                source: CommittedTimes.of(
                    source, entries.filter(pc.equal(entries["source"], source))
                )
                for source in pc.unique(entries["source"]).to_pylist()
            },
            known_at_us,
        )

    def ages_us(self, source: str, at_us: Ints) -> Ints:
        """Per row how much older its entry is than the instant at which it knows."""
        arrived = self.of(source, at_us)
        entered_us = np.asarray(arrived.entries["at_us"].to_numpy())[arrived.row]
        return (at_us if self.known_at_us is None else self.known_at_us) - entered_us


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


def read_entries(path: Path) -> pa.Table:
    """The entries in a file beside a manifest (`Arrival.table`). Raises BadRequest."""
    try:
        return pq.read_table(path, columns=["source", "at_us", "packed"])
    except (OSError, pa.ArrowException) as error:
        raise BadRequest(
            f"cannot read what the set's rows knew: {error}",
            where=str(path),
            expected="the file that was written beside the data set",
            next_step="put it beside the manifest, or build the set anew",
        ) from error


def refuse_later(at_us: Ints, known_at_us: int, where: str = "") -> None:
    """Refuses rows after the instant at which they are to be known. where: in place of the
    row."""
    later = np.flatnonzero(at_us > known_at_us)
    if len(later):
        row = int(later[0])
        raise BadRequest(
            f"`at` of {text_of(int(at_us[row]))} is later than known_at, {text_of(known_at_us)}",
            where=where or f"column 'at', row {row}",
            expected="instants up to known_at: nobody knew then what was still to come",
            next_step="leave it out, or give a later known_at",
        )


def refuse_changed(source: str, digest: str, wanted: str, where: str) -> None:
    """Refuses to build a set again from entries that are not those that it was built from."""
    if digest != wanted:
        raise DataLoss(
            f"what was known of {source!r} is {digest} now and was {wanted}",
            where=where,
            expected="the entries that the data set was built from",
            next_step="give the file that was written beside the data set",
        )
