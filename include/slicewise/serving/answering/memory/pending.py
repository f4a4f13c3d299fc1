"""Answers beyond the committed offsets are remembered by entity until the committed offsets are
there: no restart takes them back.

Only answers with pending events, or of an entity that a running batch has come to first, are ahead
of the committed offsets, and for as long as the next batch takes. So little is remembered, and
nothing of answers that were not ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.rules.decisions import still_lost

Answered = tuple[str, bytes]
"""(unit, tag of the entity)"""
MOST = 10_000
"""Entities that are remembered one by one; of more, together."""
_NOTHING = OffsetVector()


@dataclass
class Pending:
    """Reach of one node's answers beyond the committed offsets, in earlier server of the store and
    in this one."""

    most: int = MOST
    _before: dict[Answered, OffsetVector] = field(default_factory=dict)
    _now: dict[Answered, OffsetVector] = field(default_factory=dict)
    _all_before: dict[str, OffsetVector] = field(default_factory=dict)
    """Reach of a unit's entities together, where they were too many."""
    _all_now: dict[str, OffsetVector] = field(default_factory=dict)
    recalls: bool = False
    """Tells whether anything of earlier server runs is to be reached yet."""

    def restarted(self) -> None:
        """Another server run begins: what answers held is to be reached in it, and in all later
        ones."""
        for key, base in self._now.items():
            self._before[key] = self._before.get(key, _NOTHING).join(base)
        _join(self._all_before, self._all_now.items())
        self._now, self._all_now = {}, {}
        # server runs that follow each other faster than the committed offsets come on
        if len(self._before) > self.most:
            _join(self._all_before, _units_of(self._before))
            self._before = {}
        self.recalls = bool(self._before or self._all_before)

    def forget(self, committed: OffsetVector, topics: Iterable[str]) -> None:
        """Forgets of earlier server runs what the committed offsets hold. topics: ids of those that
        stand."""
        if self.recalls:
            current = frozenset(topics)
            self._before = {
                k: base for k, base in self._before.items() if still_lost(committed, base, current)
            }
            self._all_before = {
                k: base
                for k, base in self._all_before.items()
                if still_lost(committed, base, current)
            }
            self.recalls = bool(self._before or self._all_before)

    def lacking(
        self, unit: str, tag: bytes, base: OffsetVector, topics: Iterable[str]
    ) -> OffsetVector:
        """The reach of an answer in an earlier server run, where this one about the same entity
        falls behind it."""
        wanted = self._before.get((unit, tag), _NOTHING)
        if unit in self._all_before:
            wanted = wanted.join(self._all_before[unit])
        return still_lost(base, wanted, topics)

    def saw(self, unit: str, tag: bytes, base: OffsetVector, committed: OffsetVector) -> None:
        """An answer of this server run that is ahead of the committed offsets. An older reply may
        come later than a newer one."""
        key = unit, tag
        base_before = self._now.get(key)
        if base_before is None and len(self._now) >= self.most:
            self._now = {k: b for k, b in self._now.items() if not committed.dominates(b)}
            if 2 * len(self._now) >= self.most:
                self._together()
        self._now[key] = base if base_before is None else _larger(base_before, base)

    def _together(self) -> None:
        _join(self._all_now, _units_of(self._now))
        self._now = {}


def _units_of(bases: Mapping[Answered, OffsetVector]) -> Iterator[tuple[str, OffsetVector]]:
    return ((unit, base) for (unit, _), base in bases.items())


def _join(together: dict[str, OffsetVector], bases: Iterable[tuple[str, OffsetVector]]) -> None:
    for unit, base in bases:
        together[unit] = together.get(unit, _NOTHING).join(base)


def _larger(vector: OffsetVector, base: OffsetVector) -> OffsetVector:
    """The base, as a rule; both, where it is of an older reply."""
    offsets = base.offsets
    for topic_partition, offset in vector.offsets.items():
        if offset > offsets.get(topic_partition, 0):
            return vector.join(base)
    return base
