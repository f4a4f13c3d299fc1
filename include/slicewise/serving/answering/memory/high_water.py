"""An answer is refused while the store holds less than answers held before: right by its token, and
older.

The high water is what the metadata says of a loss (copies kept elsewhere told it), and what this
process saw itself: committed offsets, and how far its answers reached beyond them, pending events
included. The first reply after a loss is judged by it, before anybody has told (docs/adr/0069).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slicewise.errors import Recovering
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.exchange import PendingSeen, Target
from slicewise.reading.reader import Answered
from slicewise.serving.answering.catalog import Part, Selection
from slicewise.serving.answering.memory.pending import Pending
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.keys import whole_entity
from slicewise.stores.online.operations.reading import NodeReply, ReadReply
from slicewise.stores.online.rules.decisions import still_lost


@dataclass(frozen=True)
class Lost:
    """Events of a source that are to be applied again."""

    events: int
    """Offsets between the committed offsets and where they had come."""
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
    """High water of one node: how far its replies, and answers made of them, had come in earlier
    server runs; remembered by this process.

    Within one server run smaller committed offsets, or a smaller base, are an older reply, and no
    loss.
    """

    lost: Mapping[str, Lost] = field(default_factory=dict)
    """Source -> what the newest reply lacks; sources that lack nothing are left out."""
    _run: tuple[ServerRun, int] | None = None
    _before: OffsetVector = field(default_factory=OffsetVector)
    """The largest committed offsets that were seen before this server run."""
    _top: OffsetVector = field(default_factory=OffsetVector)
    """The largest committed offsets that were seen in it."""
    _pending: Pending = field(default_factory=Pending)
    _metadata: StoreMetadata | None = None
    _others: dict[int, HighWater] = field(default_factory=dict)
    """High waters of the store's nodes but the first."""

    def of_node(self, number: int) -> HighWater:
        """The high water of one node's replies."""
        return self if number == 0 else self._others.setdefault(number, HighWater())

    @property
    def anywhere(self) -> Mapping[str, Lost]:
        """Source -> what the newest reply of the node lacks that lacks most."""
        losses = dict(self.lost)
        for other in self._others.values():
            losses |= {
                s: lost
                for s, lost in other.lost.items()
                if s not in losses or lost.events > losses[s].events
            }
        return losses

    def after(
        self, sources: Iterable[Sourced], metadata: StoreMetadata, server_run: ServerRun
    ) -> Mapping[str, Lost]:
        """Source -> what a reply with this metadata lacks. sources: those that are deployed."""
        if metadata is self._metadata:
            return self.lost
        run = (server_run, metadata.store_id)
        if run != self._run:
            self._run = run
            self._restarted()
            self._pending.restarted()
        self._top = self._top.join(metadata.committed)
        self._pending.forget(metadata.committed, metadata.topics.values())
        high_water = self._before.join(metadata.lost_offsets)
        losses = {}
        for source in sources if high_water else ():
            topic_id = metadata.topics.get(source.topic)
            if topic_id is not None and (
                wanted := still_lost(metadata.committed, high_water, [topic_id])
            ):
                losses[source.name] = _lost(metadata.committed, wanted)
        self._metadata, self.lost = metadata, losses
        return losses

    def _restarted(self) -> None:
        """Begins a server run: whatever was seen in the one before is to be reached in it, and in
        all later ones."""
        self._before, self._top = self._before.join(self._top), OffsetVector()

    def answering(
        self,
        unit: str,
        answers: Iterable[tuple[bytes, OffsetVector]],
        committed: OffsetVector,
        node_reply: NodeReply,
    ) -> Lost | None:
        """Remembers what answers of a unit hold beyond the committed offsets of the reply that they
        are made of. What one of them lacks that an answer held in an earlier server run: then none
        is given.

        answers: the entity's tag, and the base: these very committed offsets where it is not ahead
        of them.
        """
        pending, recalls = self._pending, self._pending.recalls
        for tag, base in answers:
            if recalls and (
                wanted := pending.lacking(unit, tag, base, node_reply.metadata.topics.values())
            ):
                return _lost(base, wanted)
            if base is not committed:
                pending.saw(unit, tag, base, committed)
        # another began while this was merged
        if (node_reply.server_run, node_reply.metadata.store_id) != self._run:
            pending.restarted()
        return None


def check_recovered(selection: Selection, lost: Mapping[str, Lost]) -> None:
    """Refuses what a loss has made older than answers were: Recovering with its progress."""
    for part in selection.parts:
        if (loss := lost.get(part.unit.source)) is not None:
            raise Recovering(
                (
                    f"the store lost events of source {part.unit.source!r} that it had applied: "
                    f"{loss.events} to go"
                ),
                progress=loss.progress,
                where=f"view {part.unit.view!r}",
                next_step="ask again: they are being applied",
            )


def check_pending(part: Part, lost: Lost | None) -> None:
    """Refuses an answer without the pending events that answers held before the store began anew:
    Recovering."""
    if lost is not None:
        raise Recovering(
            f"the store began anew, and answers held events of source {part.unit.source!r} that "
            "were not applied yet: "
            f"{lost.events} to go",
            progress=lost.progress,
            where=f"view {part.unit.view!r}",
            next_step="ask again: they are being applied",
        )


def _lost(committed: OffsetVector, wanted: OffsetVector) -> Lost:
    events = sum(
        offset - committed.get(topic_partition)
        for topic_partition, offset in wanted.offsets.items()
    )
    return Lost(events, 1 - events / sum(wanted.offsets.values()))


def check_regression(
    high_water: HighWater,
    selection: Selection,
    targets: Sequence[Target],
    tags: Sequence[bytes],
    reply: ReadReply,
    store_answer: Answered,
    committed_offsets: Sequence[OffsetVector],
) -> None:
    """Refuses an answer without pending events that answers held before the store began anew;
    remembers what this one holds. targets: of each tag; committed_offsets: of the only node, as
    each part was merged under. Raises Recovering."""
    _check_left(selection, store_answer.pending)
    bases_of = [*zip(selection.parts, store_answer.bases, strict=True)]
    if reply.nodes:
        for part, bases in bases_of:
            name = part.unit.storage_fingerprint
            for number, answers in _by_node(part, bases, targets, tags, reply).items():
                node_reply = reply.node_replies[number]
                check_pending(
                    part,
                    high_water.of_node(number).answering(
                        name, answers, node_reply.metadata.committed, node_reply
                    ),
                )
        return
    tagged = _tagged(targets, tags)
    for (part, bases), committed in zip(bases_of, committed_offsets, strict=True):
        # of a topic of which nothing was applied yet there are no partitions, so no tags
        of_group = zip(tagged.get(part.group, ()), bases, strict=False)
        check_pending(
            part,
            high_water.answering(
                part.unit.storage_fingerprint, of_group, committed, reply.node_replies[0]
            ),
        )


def _check_left(selection: Selection, seen: Sequence[PendingSeen]) -> None:
    """Refuses an answer about an entity whose hash still shows pending events of another server
    run: no memory is needed. seen: per part of slices."""
    for part, pending in zip(selection.sliced, seen, strict=False):
        if pending.left:
            check_pending(part, Lost(pending.left, 0.0))


def _tagged(targets: Sequence[Target], tags: Sequence[bytes]) -> Mapping[int, Sequence[bytes]]:
    """Group -> per entity its tag; of one that has several, by partition, what they have in common:
    their number grows with the partitions of which something was applied."""
    by_group: dict[int, dict[int, bytes]] = {}
    for (group, entity, partition), own in zip(targets, tags, strict=True):
        tag = own if partition is None else whole_entity(own)
        by_group.setdefault(group, {}).setdefault(entity, tag)
    return {group: [*by_entity.values()] for group, by_entity in by_group.items()}


def _by_node(
    part: Part,
    bases: Sequence[OffsetVector],
    targets: Sequence[Target],
    tags: Sequence[bytes],
    reply: ReadReply,
) -> Mapping[int, Sequence[tuple[bytes, OffsetVector]]]:
    """Node -> tag and base of what that node has of the answers of a part: its committed offsets
    where that is no less. bases: per entity."""
    by_node: dict[int, list[tuple[bytes, OffsetVector]]] = {}
    for (group, entity, partition), tag, number in zip(targets, tags, reply.nodes, strict=True):
        if group == part.group:
            base, committed = bases[entity], reply.node_replies[number].metadata.committed
            if partition is not None:
                base = OffsetVector(
                    {
                        topic_partition: offset
                        for topic_partition, offset in base.offsets.items()
                        if topic_partition[1] == partition
                    }
                )
            by_node.setdefault(number, []).append(
                (tag, committed if committed.dominates(base) else base)
            )
    return by_node
