"""An answer is refused while the store holds less than answers held before: right by its token, and older.

Known is what the marks say of a loss (copies kept elsewhere told it), and what this process saw itself: ledgers, and
how far its answers reached beyond them, pending events included. The first reply after a loss is judged by it, before
anybody has told (docs/adr/0069).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from slicewise.errors import Recovering
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.answering.catalog import Part, Selection
from slicewise.serving.answering.memory.pending import Pending
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.operations.reading import NodeReply
from slicewise.stores.online.rules.decisions import still_lost


@dataclass(frozen=True)
class Lost:
    """Events of a source that are to be applied again."""

    events: int
    """Offsets between the ledger and where it had come."""
    progress: float
    """The part of what was applied that is held."""


class Sourced(Protocol):
    """A source of the deployment; `features.unit.Source` is one."""

    @property
    def name(self) -> str: ...
    @property
    def topic(self) -> str: ...


@dataclass
class HighWater:
    """High water of one node: how far its replies, and answers made of them, had come in earlier lives of the store; remembered
    by this process.

    Within one life a smaller ledger, or base, is an older reply, and no loss.
    """

    lost: Mapping[str, Lost] = field(default_factory=dict)
    """Source -> what the newest reply lacks; sources that lack nothing are left out."""
    _life: tuple[ServerRun, int] | None = None
    _before: OffsetVector = field(default_factory=OffsetVector)
    """The largest ledgers that were seen before this life."""
    _top: OffsetVector = field(default_factory=OffsetVector)
    """And in it."""
    _pending: Pending = field(default_factory=Pending)
    _marks: StoreMetadata | None = None
    _others: dict[int, HighWater] = field(default_factory=dict)
    """Of the store's nodes but the first."""

    def of_node(self, number: int) -> HighWater:
        """The high water of one node's replies."""
        return self if number == 0 else self._others.setdefault(number, HighWater())

    @property
    def anywhere(self) -> Mapping[str, Lost]:
        """Source -> what the newest reply of the node lacks that lacks most."""
        found = dict(self.lost)
        for each in self._others.values():
            found |= {s: lost for s, lost in each.lost.items() if s not in found or lost.events > found[s].events}
        return found

    def after(self, sources: Iterable[Sourced], marks: StoreMetadata, incarnation: ServerRun) -> Mapping[str, Lost]:
        """Source -> what a reply with these marks lacks. sources: those that are deployed."""
        if marks is self._marks:
            return self.lost
        life = (incarnation, marks.generation)
        if life != self._life:
            self._life = life
            self._restarted()
            self._pending.restarted()
        self._top = self._top.join(marks.ledger)
        self._pending.reached(marks.ledger, marks.topics.values())
        known = self._before.join(marks.known)
        found = {}
        for source in sources if known else ():
            topic_id = marks.topics.get(source.topic)
            if topic_id is not None and (wanted := still_lost(marks.ledger, known, [topic_id])):
                found[source.name] = _lost(marks.ledger, wanted)
        self._marks, self.lost = marks, found
        return found

    def _restarted(self) -> None:
        """Begins a life: whatever was seen in the one before is to be reached in it, and in all later ones."""
        self._before, self._top = self._before.join(self._top), OffsetVector()

    def answering(
        self, unit: str, answers: Iterable[tuple[bytes, OffsetVector]], ledger: OffsetVector, said: NodeReply
    ) -> Lost | None:
        """Remembers what answers of a unit hold beyond the ledger of the reply that they are made of. What one of them
        lacks that an answer held in an earlier life: then none is given.

        answers: the entity's tag, and the base: this very ledger where it is not ahead of it.
        """
        pending, recalls = self._pending, self._pending.recalls
        for tag, base in answers:
            if recalls and (wanted := pending.lacking(unit, tag, base, said.marks.topics.values())):
                return _lost(base, wanted)
            if base is not ledger:
                pending.saw(unit, tag, base, ledger)
        if (said.incarnation, said.marks.generation) != self._life:  # another began while this was merged
            pending.restarted()
        return None


def check_recovered(selection: Selection, lost: Mapping[str, Lost]) -> None:
    """Refuses what a loss has made older than answers were: Recovering with its progress."""
    for part in selection.parts:
        if (found := lost.get(part.unit.source)) is not None:
            raise Recovering(
                f"the store lost events of source {part.unit.source!r} that it had applied: {found.events} to go",
                progress=found.progress,
                where=f"view {part.unit.view!r}",
                next_step="ask again: they are being applied",
            )


def check_pending(part: Part, lost: Lost | None) -> None:
    """Refuses an answer without the pending events that answers held before the store began anew: Recovering."""
    if lost is not None:
        raise Recovering(
            f"the store began anew, and answers held events of source {part.unit.source!r} that were not applied yet: "
            f"{lost.events} to go",
            progress=lost.progress,
            where=f"view {part.unit.view!r}",
            next_step="ask again: they are being applied",
        )


def _lost(ledger: OffsetVector, wanted: OffsetVector) -> Lost:
    events = sum(offset - ledger.get(place) for place, offset in wanted.offsets.items())
    return Lost(events, 1 - events / sum(wanted.offsets.values()))
