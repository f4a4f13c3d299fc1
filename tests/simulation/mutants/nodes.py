"""Mutants without a rule of several nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slicewise.lifecycle import lifetime as moves
from slicewise.lifecycle.lifetime import Reached
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online.attempts import MicroBatchOutcome
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operation import NodeContext, NodesContext
from slicewise.stores.online.operations import reading
from slicewise.stores.online.operations.committed import AdvanceCommitted, BeginBatch
from slicewise.stores.online.operations.connecting import Initialise
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.event_lists import AddToList
from slicewise.stores.online.operations.publish_hour import MarkHour
from slicewise.stores.online.operations.reading import ReadReply
from slicewise.stores.online.routing import ShardedSteps, on_node
from slicewise.stores.online.sharded import metadata as joint_marks
from slicewise.stores.online.stored_unit import StoredUnit
from tests.simulation.mutants.rules import Mutant, flag, patched

honest_joined = reading.joined


def under_the_first(
    replies: Mapping[int, ReadReply], places: Mapping[int, Sequence[int]], n: int, count: int
) -> ReadReply:
    """All that was read, as of the first node that was asked."""
    reply = honest_joined(replies, places, n, count)
    return ReadReply(reply.said, reply.entities, [min(reply.said)] * n)


def largest(covers: Sequence[OffsetVector], places: frozenset[TopicPartition]) -> OffsetVector:  # noqa: ARG001
    return joint_marks.joined(covers)


def ledgers_without_gaps(self: AdvanceCommitted, nodes: NodesContext) -> ShardedSteps[OffsetVector]:
    """A batch moves the ledger of a node wherever that stands."""
    reached = OffsetVector()
    for number, node in enumerate(nodes.contexts):
        record: StoreMetadata = yield from on_node(number, node.metadata())
        moved = replace(self, start=least([record.ledger, self.start], frozenset(self.start)))
        reached = yield from on_node(number, moved.steps(node))
    return reached


def begun_on_the_first(self: BeginBatch, nodes: NodesContext) -> ShardedSteps[StoreMetadata]:
    return (yield from on_node(0, self.steps(nodes.contexts[0])))


def ready_anywhere(claimed: Sequence[StoreMetadata]) -> StoreMetadata:
    found = merged(claimed)
    ready = frozenset.union(*(each.ready for each in claimed))
    return StoreMetadata(**{**found.__dict__, "ready": ready})


def built_for_all(
    self: NodesContext,
    unit: StoredUnit,  # noqa: ARG001
    start: OffsetVector,  # noqa: ARG001
) -> ShardedSteps[list[int]]:
    yield from ()
    return list(range(self.count))


def held_by_the_least(marks: StoreMetadata, unit: str, contained: Any) -> Any:
    """Tells what is held by the start cover of all nodes together."""
    found = marks.horizons.get(unit)
    return None if found is None else Reached(found.hour, found.seq or contained(marks.starts[unit]))


def kept_by_all(marks: StoreMetadata, unit: str, due: int) -> int:
    found = marks.horizons.get(unit)
    return due if found is None else found.hour


def swapped_everywhere(self: MarkHour, nodes: NodesContext) -> ShardedSteps[bool]:
    """Tells whether it was swapped, wherever it was."""
    anywhere = replace(self, start=None)
    return all((yield from nodes.everywhere(anywhere)).values())


def filled_everywhere(self: AddToList, nodes: NodesContext) -> ShardedSteps[MicroBatchOutcome]:
    """Fills every node, whatever start cover it was made for."""
    for number, part in self.split(nodes.count).parts.items():
        assert isinstance(part, AddToList)
        node = nodes.contexts[number]
        build = yield from on_node(number, node.build_of(self.batch.unit))
        yield from on_node(number, part.bring_in(node, build))
    return MicroBatchOutcome()


def keeps_the_generation(self: Initialise, at: NodeContext) -> Any:
    same = self.same or self.later_than
    return (yield from initialise(Initialise(self.set_id, 0, same), at))


def never_finished(self: Deploy, nodes: NodesContext) -> ShardedSteps[StoreMetadata]:
    """A deployment that the first node has stands."""
    record = yield from on_node(0, nodes.contexts[0].metadata())
    if record.units == self.deployment.digest:
        return record
    return (yield from deploy(self, nodes))


merged, least = joint_marks.merged, joint_marks.least
initialise, deploy = Initialise.steps, Deploy.over
_READ, _MARKS, _LEDGER = "read", "marks", "ledger"
START = Mutant(
    "nodes",
    "a backfill is for the nodes that begin where it ends",
    patched(NodesContext, "built_for", built_for_all),
)
MUTANTS: dict[str, Mutant] = {
    "node-base": Mutant(_READ, "an answer has the ledger of its own node", patched(reading, "joined", under_the_first)),
    "node-least": Mutant(
        _LEDGER, "a stream begins at the smallest ledger of all nodes", patched(joint_marks, "least", largest)
    ),
    "node-gap": Mutant(
        _LEDGER,
        "a batch leaves no gap on any node",
        lambda: [
            (AdvanceCommitted, "over", ledgers_without_gaps),
            (BeginBatch, "over", begun_on_the_first),
            (joint_marks, "least", largest),
        ],
    ),
    "node-marks": Mutant(_MARKS, "a node's ledger moves after that node's writes", world=flag("marks_first")),
    "node-ready": Mutant(
        _MARKS, "a unit is ready where every node has built it", patched(joint_marks, "merged", ready_anywhere)
    ),
    "node-start": START,
    "node-swapped": Mutant(
        "nodes",
        "an hour is marked on the nodes that the backfill was made for",
        patched(MarkHour, "over", swapped_everywhere),
    ),
    "node-generation": Mutant(
        _MARKS, "an emptied node gets another generation", patched(Initialise, "steps", keeps_the_generation)
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
        "totals of a backfill hold what lies below their own node's start cover",
        patched(moves, "reached", held_by_the_least),
        met=False,
    ),
    "node-kept": Mutant(
        "lifetime",
        "hours are kept from the smallest horizon of any node",
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
