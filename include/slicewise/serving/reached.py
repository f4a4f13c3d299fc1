"""An answer is refused while the store holds less than it is known to have held: right by its token, and older.

Known is what the marks say of a loss (copies kept elsewhere told it), and what this process saw itself: the first reply
after a loss is judged by it, before anybody has told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slicewise.cover import Cover
from slicewise.errors import Recovering
from slicewise.serving.catalog import Catalog, Selection
from slicewise.stores.decisions import still_lost
from slicewise.stores.ports import Incarnation, Marks


@dataclass(frozen=True)
class Lost:
    """What is to be applied again of a source."""

    events: int
    """Offsets between the ledger and where it had come."""
    progress: float
    """The part of what was applied that is held."""


@dataclass
class Reached:
    """How far the ledgers of replies had come in earlier lives of the store; remembered by this process.

    Within one life a smaller ledger is an older reply, and no loss.
    """

    lost: Mapping[str, Lost] = field(default_factory=dict)
    """Source -> what the newest reply lacks; sources that lack nothing are left out."""
    _life: tuple[Incarnation, int] | None = None
    _before: Cover = field(default_factory=Cover)
    """The largest that were seen before this life."""
    _top: Cover = field(default_factory=Cover)
    """And in it."""
    _marks: Marks | None = None
    _others: dict[int, Reached] = field(default_factory=dict)
    """Of the store's nodes but the first."""

    def of_node(self, number: int) -> Reached:
        """How far the ledgers of one node had come."""
        return self if number == 0 else self._others.setdefault(number, Reached())

    @property
    def anywhere(self) -> Mapping[str, Lost]:
        """Source -> what the newest reply of the node lacks that lacks most."""
        found = dict(self.lost)
        for each in self._others.values():
            found |= {s: lost for s, lost in each.lost.items() if s not in found or lost.events > found[s].events}
        return found

    def after(self, catalog: Catalog, marks: Marks, incarnation: Incarnation) -> Mapping[str, Lost]:
        """Source -> what a reply with these marks lacks."""
        if marks is self._marks:
            return self.lost
        life = (incarnation, marks.generation)
        if life != self._life:
            self._before, self._top, self._life = self._before.join(self._top), Cover(), life
        self._top = self._top.join(marks.ledger)
        known = self._before.join(marks.known)
        found = {}
        for source in catalog.deployment.sources if known else ():
            topic_id = marks.topics.get(source.topic)
            if topic_id is not None and (wanted := still_lost(marks.ledger, known, [topic_id])):
                found[source.name] = _lost(marks.ledger, wanted)
        self._marks, self.lost = marks, found
        return found


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


def _lost(ledger: Cover, wanted: Cover) -> Lost:
    events = sum(offset - ledger.get(place) for place, offset in wanted.offsets.items())
    return Lost(events, 1 - events / sum(wanted.offsets.values()))
