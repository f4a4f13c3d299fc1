"""Data is merged under the claims of the node that gave it, in its reply: never under another's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slicewise.offsets.vector import OffsetVector, TopicPartition

START_SEQ = 0
"""Seq of a backfilled hour: its cover is the unit's start cover."""


@dataclass(eq=False)
class NodeClaims:
    """Claims of the store for a unit, read with the data: never from another reply.

    Whoever answers keeps it for as long as replies bring equal marks; what follows from it is remembered in it.
    """

    ledger: OffsetVector
    """Of the source's places."""
    start: OffsetVector
    covers: Mapping[int, OffsetVector]
    """Archive seq -> cover. A seq that is not there raises KeyError: load the map again."""
    tail: bool = False
    """Whether the tail counts: the source's began at or below the ledger, on the incarnation that replied."""
    tail_left: str = ""
    """Id of the topic whose fields of a tail are of another life of the store: they counted then, and do not now. ""
    where those of this life count; of a topic that is gone nothing comes again."""
    _floors: dict[tuple[int, TopicPartition], int] = field(default_factory=dict)
    _ahead: dict[tuple[int, int | None], OffsetVector | None] = field(default_factory=dict)
    _held: dict[int | None, OffsetVector] = field(default_factory=dict)
    behind: set[int] = field(default_factory=set)
    """Seqs seen so far whose whole cover the ledger contains."""

    def cover(self, seq: int) -> OffsetVector:
        """The cover of an hour compacted by `seq`."""
        return self.start if seq == START_SEQ else self.covers[seq]

    def floor(self, seq: int, place: TopicPartition) -> int:
        """First offset at `place` that an hour compacted by `seq` may still have running."""
        key = (seq, place)
        found = self._floors.get(key)
        if found is None:
            found = self._floors[key] = max(self.cover(seq).get(place), self.start.get(place))
        return found

    def ahead(self, seq: int, partition: int | None) -> OffsetVector | None:
        """The cover of `seq` (of one partition alone, if given) where the ledger does not contain
        all of it."""
        key = (seq, partition)
        if key not in self._ahead:
            cover = self.cover(seq)
            ahead = None if self.ledger.dominates(cover) else _only(cover, partition)
            self._ahead[key] = ahead
            if ahead is None:
                self.behind.add(seq)
        return self._ahead[key]

    def held(self, partition: int | None) -> OffsetVector:
        """The ledger (of one partition alone, if given)."""
        found = self._held.get(partition)
        if found is None:
            found = self._held[partition] = _only(self.ledger, partition)
        return found


class Stored(NamedTuple):
    """Data that the store gave for one entity, or for one partition's part of it in a spread unit."""

    entity: int
    """Which entity of the read."""
    partition: int | None
    """Of a spread unit: whose part this is; its hours are compacted for this partition alone."""
    hot: Sequence[bytes]
    """Field, value, field, value, ..."""
    days: Sequence[Sequence[bytes | None]]
    """Values in the order of the plan's `days` and their `names`."""
    base: NodeClaims | None = None
    """What its node claims, where parts are of several nodes; None: what is given for the plan."""


def _only(cover: OffsetVector, partition: int | None) -> OffsetVector:
    if partition is None:
        return cover
    return OffsetVector({place: o for place, o in cover.offsets.items() if place[1] == partition})
