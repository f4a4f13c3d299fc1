"""Answers are held against what answers held in earlier lives of the store, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slicewise.offsets.vector import OffsetVector
from slicewise.reading.pending import PendingSeen
from slicewise.reading.reader import Answered, Target
from slicewise.serving.answering.catalog import Part, Selection
from slicewise.serving.answering.memory.high_water import HighWater, Lost, check_pending
from slicewise.stores.online.keys import whole_entity
from slicewise.stores.online.operations.reading import ReadReply


def check_held(
    reached: HighWater,
    selection: Selection,
    targets: Sequence[Target],
    tags: Sequence[bytes],
    reply: ReadReply,
    found: Answered,
    ledgers: Sequence[OffsetVector],
) -> None:
    """Refuses an answer without pending events that answers held before the store began anew; remembers what this one
    holds. targets: of each tag; ledgers: of the only node, as each part was merged under. Raises Recovering."""
    _check_left(selection, found.pending)
    held = [*zip(selection.parts, found.bases, strict=True)]
    if reply.nodes:
        for part, bases in held:
            name = part.unit.storage_fingerprint
            for number, answers in _by_node(part, bases, targets, tags, reply).items():
                said = reply.said[number]
                check_pending(part, reached.of_node(number).answering(name, answers, said.marks.ledger, said))
        return
    tagged = _tagged(targets, tags)
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


def _tagged(targets: Sequence[Target], tags: Sequence[bytes]) -> Mapping[int, Sequence[bytes]]:
    """Group -> per entity its tag; of one that has several, by partition, what they have in common: their number grows
    with the partitions of which something was applied."""
    found: dict[int, dict[int, bytes]] = {}
    for (group, entity, partition), own in zip(targets, tags, strict=True):
        tag = own if partition is None else whole_entity(own)
        found.setdefault(group, {}).setdefault(entity, tag)
    return {group: [*each.values()] for group, each in found.items()}


def _by_node(
    part: Part, bases: Sequence[OffsetVector], targets: Sequence[Target], tags: Sequence[bytes], reply: ReadReply
) -> Mapping[int, Sequence[tuple[bytes, OffsetVector]]]:
    """Node -> tag and base of what that node has of the answers of a part: its ledger where that is no less. bases: per
    entity."""
    found: dict[int, list[tuple[bytes, OffsetVector]]] = {}
    for (group, entity, partition), tag, number in zip(targets, tags, reply.nodes, strict=True):
        if group == part.group:
            base, ledger = bases[entity], reply.said[number].marks.ledger
            if partition is not None:
                base = OffsetVector({place: offset for place, offset in base.offsets.items() if place[1] == partition})
            found.setdefault(number, []).append((tag, ledger if ledger.dominates(base) else base))
    return found
