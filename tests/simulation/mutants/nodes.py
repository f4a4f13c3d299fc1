"""Mutants without a rule of several nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slicewise.lifecycle import lifetime as moves
from slicewise.lifecycle.lifetime import TotalsClaim
from slicewise.offsets.vector import OffsetVector, TopicPartition, joined
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations import reading
from slicewise.stores.online.operations.apply_batch import MicroBatchOutcome
from slicewise.stores.online.operations.committed import AdvanceCommitted, BeginBatch
from slicewise.stores.online.operations.connecting import Initialise
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.event_lists import AddToList
from slicewise.stores.online.operations.publish_days import MarkHour
from slicewise.stores.online.operations.reading import ReadReply
from slicewise.stores.online.port import NodeContext, NodesContext
from slicewise.stores.online.sharded import metadata as sharded_metadata
from slicewise.stores.online.sharded.routing import ShardedSteps, on_node
from slicewise.stores.online.stored_unit import StoredUnit
from tests.simulation.mutants.rules import Mutant, flag, patched

honest_joined = reading.joined


def under_the_first(
    replies: Mapping[int, ReadReply],
    topic_partitions: Mapping[int, Sequence[int]],
    n: int,
    count: int,
) -> ReadReply:
    """All that was read, as of the first node that was asked."""
    reply = honest_joined(replies, topic_partitions, n, count)
    return ReadReply(reply.node_replies, reply.entities, [min(reply.node_replies)] * n)


def largest(
    offset_vectors: Sequence[OffsetVector],
    topic_partitions: frozenset[TopicPartition],  # noqa: ARG001
) -> OffsetVector:
    return joined(offset_vectors)


def committed_without_gaps(
    self: AdvanceCommitted, nodes: NodesContext
) -> ShardedSteps[OffsetVector]:
    """A batch moves the committed offsets of a node wherever that stands."""
    highest = OffsetVector()
    for number, node in enumerate(nodes.contexts):
        record: StoreMetadata = yield from on_node(number, node.metadata())
        moved = replace(self, start=least([record.committed, self.start], frozenset(self.start)))
        highest = yield from on_node(number, moved.steps(node))
    return highest


def begun_on_the_first(self: BeginBatch, nodes: NodesContext) -> ShardedSteps[StoreMetadata]:
    return (yield from on_node(0, self.steps(nodes.contexts[0])))


def ready_anywhere(claimed: Sequence[StoreMetadata]) -> StoreMetadata:
    result = merged(claimed)
    ready = frozenset.union(*(node.ready for node in claimed))
    return StoreMetadata(**{**result.__dict__, "ready": ready})


def built_for_all(
    self: NodesContext,
    unit: StoredUnit,  # noqa: ARG001
    start: OffsetVector,  # noqa: ARG001
) -> ShardedSteps[list[int]]:
    yield from ()
    return list(range(self.count))


def archived_by_the_least(metadata: StoreMetadata, unit: str, contained: Any) -> Any:
    """Tells what is held by the start offsets of all nodes together."""
    result = metadata.totals_until.get(unit)
    return (
        None
        if result is None
        else TotalsClaim(result.hour, result.archive_version or contained(metadata.starts[unit]))
    )


def kept_by_all(metadata: StoreMetadata, unit: str, due: int) -> int:
    result = metadata.totals_until.get(unit)
    return due if result is None else result.hour


def published_everywhere(self: MarkHour, nodes: NodesContext) -> ShardedSteps[bool]:
    """Tells whether it was published, wherever it was."""
    anywhere = replace(self, start=None)
    return all((yield from nodes.everywhere(anywhere)).values())


def filled_everywhere(self: AddToList, nodes: NodesContext) -> ShardedSteps[MicroBatchOutcome]:
    """Fills every node, whatever start offsets it was made for."""
    for number, part in self.split(nodes.count).parts.items():
        assert isinstance(part, AddToList)
        node = nodes.contexts[number]
        build = yield from on_node(number, node.build_of(self.batch.unit))
        yield from on_node(number, part.apply(node, build))
    return MicroBatchOutcome()


def keeps_the_store_id(self: Initialise, at: NodeContext) -> Any:
    same = self.same or self.later_than
    return (yield from initialise(Initialise(self.set_id, 0, same), at))


def never_finished(self: Deploy, nodes: NodesContext) -> ShardedSteps[StoreMetadata]:
    """A deployment that the first node has stands."""
    record = yield from on_node(0, nodes.contexts[0].metadata())
    if record.units == self.deployment.digest:
        return record
    return (yield from deploy(self, nodes))


merged, least = sharded_metadata.merged, sharded_metadata.least
initialise, deploy = Initialise.steps, Deploy.over
_READ, _METADATA, _COMMITTED = "read", "metadata", "committed offsets"
START = Mutant(
    "nodes",
    "a backfill is for the nodes that begin where it ends",
    patched(NodesContext, "built_for", built_for_all),
)
MUTANTS: dict[str, Mutant] = {
    "node-base": Mutant(
        _READ,
        "an answer has the committed offsets of its own node",
        patched(reading, "joined", under_the_first),
    ),
    "node-least": Mutant(
        _COMMITTED,
        "a stream begins at the smallest committed offsets of all nodes",
        patched(sharded_metadata, "least", largest),
    ),
    "node-gap": Mutant(
        _COMMITTED,
        "a batch leaves no gap on any node",
        lambda: [
            (AdvanceCommitted, "over", committed_without_gaps),
            (BeginBatch, "over", begun_on_the_first),
            (sharded_metadata, "least", largest),
        ],
    ),
    "node-metadata": Mutant(
        _METADATA,
        "a node's committed offsets move after that node's writes",
        world=flag("metadata_first"),
    ),
    "node-ready": Mutant(
        _METADATA,
        "a unit is ready where every node has built it",
        patched(sharded_metadata, "merged", ready_anywhere),
    ),
    "node-start": START,
    "node-published": Mutant(
        "nodes",
        "an hour is marked on the nodes that the backfill was made for",
        patched(MarkHour, "over", published_everywhere),
    ),
    "node-store-id": Mutant(
        _METADATA,
        "an emptied node gets another store id",
        patched(Initialise, "steps", keeps_the_store_id),
    ),
    "node-finish": Mutant(
        "nodes",
        "a deployment that stopped between two nodes is finished",
        patched(Deploy, "over", never_finished),
    ),
}
OF_LIFETIMES: dict[str, Mutant] = {
    "node-start": START,
    "node-held": Mutant(
        "lifetime",
        "totals of a backfill hold what lies below their own node's start offsets",
        patched(moves, "totals_claim", archived_by_the_least),
        met=False,
    ),
    "node-kept": Mutant(
        "lifetime",
        "hours are kept from the smallest total-until hour of any node",
        patched(moves, "kept_from", kept_by_all),
        met=False,
    ),
}
OF_LISTS: dict[str, Mutant] = {
    "node-fill": Mutant(
        "event lists",
        "a backfill adds on the nodes that it was made for",
        patched(AddToList, "over", filled_everywhere),
    ),
}
