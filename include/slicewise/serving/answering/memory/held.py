"""Answers are held against what answers held in earlier lives of the store, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slicewise.offsets.vector import OffsetVector
from slicewise.reading.answer import Merged
from slicewise.reading.event_list import ListMerged
from slicewise.reading.pending import PendingSeen
from slicewise.serving.answering.catalog import Part, Selection
from slicewise.serving.answering.memory.high_water import HighWater, Lost, check_pending
from slicewise.serving.answering.planned import Target
from slicewise.stores.online.keys import whole_entity
from slicewise.stores.online.operations.reading import ReadReply, TagRead


def check_held(
    reached: HighWater,
    selection: Selection,
    targets: Sequence[Target],
    reads: Sequence[TagRead],
    reply: ReadReply,
    merged: Merged,
    lists: Sequence[ListMerged],
    ledgers: Sequence[OffsetVector],
) -> None:
    """Refuses an answer without pending events that answers held before the store began anew; remembers what this one
    holds. targets, reads: of each tag; ledgers: of the only node, as each part was merged under. Raises Recovering."""
    _check_left(selection, merged.tail)
    held = [*zip(selection.sliced, merged.base, strict=False)]
    held += [(part, each.base) for part, each in zip(selection.listed, lists, strict=True)]
    if reply.nodes:
        for part, bases in held:
            name = part.unit.storage_fingerprint
            for number, answers in _by_node(part, bases, targets, reads, reply).items():
                said = reply.said[number]
                check_pending(part, reached.of_node(number).answering(name, answers, said.marks.ledger, said))
        return
    tagged = _tagged(targets, reads)
    for (part, bases), ledger in zip(held, ledgers, strict=True):
        # of a topic of which nothing was applied yet there are no partitions, so no tags
        of_group = zip(tagged.get(part.group, ()), bases, strict=False)
        check_pending(part, reached.answering(part.unit.storage_fingerprint, of_group, ledger, reply.said[0]))


def _check_left(selection: Selection, seen: Sequence[PendingSeen]) -> None:
    """Refuses an answer about an entity whose hash still shows pending events of another life: no memory is needed.
    seen: per part of slices."""
    for part, each in zip(selection.sliced, seen, strict=False):
        if each.left:
            check_pending(part, Lost(each.left, 0.0))


def _tagged(targets: Sequence[Target], reads: Sequence[TagRead]) -> Mapping[int, Sequence[bytes]]:
    """Group -> per entity its tag; of one that has several, by partition, what they have in common: their number grows
    with the partitions of which something was applied."""
    found: dict[int, dict[int, bytes]] = {}
    for (group, entity, partition), read in zip(targets, reads, strict=True):
        tag = read.tag if partition is None else whole_entity(read.tag)
        found.setdefault(group, {}).setdefault(entity, tag)
    return {group: [*tags.values()] for group, tags in found.items()}


def _by_node(
    part: Part, bases: Sequence[OffsetVector], targets: Sequence[Target], reads: Sequence[TagRead], reply: ReadReply
) -> Mapping[int, Sequence[tuple[bytes, OffsetVector]]]:
    """Node -> tag and base of what that node has of the answers of a part: its ledger where that is no less. bases: per
    entity."""
    found: dict[int, list[tuple[bytes, OffsetVector]]] = {}
    for (group, entity, partition), read, number in zip(targets, reads, reply.nodes, strict=True):
        if group == part.group:
            base, ledger = bases[entity], reply.said[number].marks.ledger
            if partition is not None:
                base = OffsetVector({place: offset for place, offset in base.offsets.items() if place[1] == partition})
            found.setdefault(number, []).append((read.tag, ledger if ledger.dominates(base) else base))
    return found
