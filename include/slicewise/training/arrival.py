"""A row knows by arrival what the stream had committed by its instant: never more than an answer
at that instant could have had.

`ops.ledger` and the store say of instants how far the stream had come. The newest entry at or
before a row's instant is what the row knows (docs/adr/0122).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slicewise.errors import BadRequest, DataLoss
from slicewise.offsets.vector import OffsetVector
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
        at_us = np.asarray(entries["at_us"].to_numpy(), np.int64)
        packed = entries["packed"].to_pylist()
        # of one instant the one with the greatest bytes, whatever the order of files
        every = sorted(
            set(zip(at_us.tolist(), packed, strict=True))
            if until_us is None
            else {pair for pair in zip(at_us.tolist(), packed, strict=True) if pair[0] <= until_us}
        )
        return CommittedTimes(
            source,
            np.array([at for at, _ in every], np.int64),
            pa.array([raw for _, raw in every], pa.binary()),
        )

    @property
    def until_us(self) -> int:
        """Instant of the newest entry; 0 where there is none."""
        return int(self.at_us[-1]) if len(self.at_us) else 0

    def newest(self, instant_us: Ints) -> Ints:
        """Per instant the position of the newest entry at or before it. Raises BadRequest where
        there is none."""
        if not len(self.at_us):
            raise BadRequest(
                f"nothing is known of when events of {self.source!r} were applied",
                where="knowledge",
                expected="a source that the stream applies: it enters how far it is every second",
                next_step='ask with knowledge="event_time", or again once the stream has run',
            )
        position: Ints = np.searchsorted(self.at_us, instant_us, "right").astype(np.int64) - 1
        if len(position) and position.min() < 0:
            row = int(np.argmax(position < 0))
            raise BadRequest(
                f"nothing is known of what was applied of {self.source!r} by "
                f"{text_of(int(instant_us[row]))}",
                where=f"column 'at', row {row}",
                expected=f"instants from {text_of(int(self.at_us[0]))} on, where its entries begin",
                next_step=USE_EVENT_TIME,
            )
        return position


@dataclass(frozen=True, eq=False)
class SourceArrival:
    """Knowledge that rows have of a source.

    row: per row its entry, a position among `entered`. entered: offset vectors that some row has.
    """

    row: Ints
    entered: tuple[OffsetVector, ...]
    digest: str
    """SHA-256 of the entries that some row has."""

    def joined(self) -> OffsetVector:
        """All that any row knows."""
        joined = OffsetVector()
        for offset_vector in self.entered:
            joined = joined.join(offset_vector)
        return joined


@dataclass(frozen=True)
class Arrival:
    """Committed offsets by time of every source that a set reads.

    known_at_us: the instant at which all rows know what they know; None: each at its own.
    """

    times: Mapping[str, CommittedTimes]
    known_at_us: int | None = None

    def of(self, source: str, at_us: Ints) -> SourceArrival:
        """Gives what rows at these instants know of a source. Raises BadRequest."""
        times = self.times[source]
        instant_us = at_us
        if self.known_at_us is not None:
            instant_us = np.full(len(at_us), self.known_at_us, np.int64)
        used, row = np.unique(times.newest(instant_us), return_inverse=True)
        raw = times.packed.take(pa.array(used)).to_pylist()
        digest = hashlib.sha256()
        for at, packed in zip(times.at_us[used].tolist(), raw, strict=True):
            digest.update(b"%d:%d:" % (at, len(packed)))
            digest.update(packed)
        return SourceArrival(
            row.astype(np.int64), tuple(map(OffsetVector.unpack, raw)), digest.hexdigest()
        )

    def ages_us(self, source: str, at_us: Ints) -> Ints:
        """Per row how much older its entry is than the instant at which it knows."""
        times = self.times[source]
        if self.known_at_us is not None:
            at_us = np.full(1, self.known_at_us, np.int64)
        return at_us - times.at_us[times.newest(at_us)]


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
