"""Answers are held against what answers held in earlier server runs, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slicewise.offsets.vector import OffsetVector
from slicewise.reading.pending import PendingSeen
from slicewise.reading.reader import Answered, Target
from slicewise.serving.answering.catalog import Part, Selection
from slicewise.serving.answering.memory.high_water import HighWater, Lost, check_pending
from slicewise.stores.online.keys import whole_entity
from slicewise.stores.online.operations.reading import ReadReply


def check_regression(
    high_water: HighWater,
    selection: Selection,
    targets: Sequence[Target],
    tags: Sequence[bytes],
    reply: ReadReply,
    found: Answered,
    committed_offsets: Sequence[OffsetVector],
) -> None:
    """Refuses an answer without pending events that answers held before the store began anew;
    remembers what this one holds. targets: of each tag; committed_offsets: of the only node, as
    each part was merged under. Raises Recovering."""
    _check_left(selection, found.pending)
    bases_of = [*zip(selection.parts, found.bases, strict=True)]
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
    return {group: [*each.values()] for group, each in by_group.items()}


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
