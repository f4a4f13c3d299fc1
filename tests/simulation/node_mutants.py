"""What removes a rule of several nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slicewise.lifecycle import lifetime as moves
from slicewise.lifecycle.lifetime import Reached
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online import routing as nodes
from slicewise.stores.online.operations import event_lists as stored_lists
from slicewise.stores.online.operations.bound import Operations
from slicewise.stores.online.port import ListBatch, MicroBatchOutcome, ReadReply, StoredUnit, StoreMetadata
from slicewise.stores.online.routing import Joint, at, together
from slicewise.stores.online.sharded import metadata as joint_marks
from slicewise.stores.online.sharded import operations as joint
from slicewise.stores.online.sharded.operations import ShardedOperations
from slicewise.stores.online.sharded.splitting import listed_parts
from tests.simulation.rules import Mutant, flag, patched

honest_joined = nodes.joined


def under_the_first(
    replies: Mapping[int, ReadReply], places: Mapping[int, Sequence[int]], n: int, count: int
) -> ReadReply:
    """All that was read, as of the first node that was asked."""
    reply = honest_joined(replies, places, n, count)
    return ReadReply(reply.said, reply.entities, [min(reply.said)] * n)


def largest(covers: Sequence[OffsetVector], places: frozenset[TopicPartition]) -> OffsetVector:  # noqa: ARG001
    return joint_marks.joined(covers)


def ledgers_without_gaps(
    self: ShardedOperations, start: OffsetVector, end: OffsetVector, epoch: int, units: str
) -> Joint[OffsetVector]:
    """A batch moves the ledger of a node wherever that stands."""
    reached = OffsetVector()
    for number, each in enumerate(self.each):
        mine: StoreMetadata = yield from at(number, each.marks())
        steps = each.advance_ledger(least([mine.ledger, start], frozenset(start)), end, epoch, units)
        reached = yield from at(number, steps)
    return reached


def begun_on_the_first(self: ShardedOperations, start: OffsetVector, epoch: int, units: str) -> Joint[StoreMetadata]:
    return (yield from at(0, self.each[0].begin_batch(start, epoch, units)))


def ready_anywhere(claimed: Sequence[StoreMetadata]) -> StoreMetadata:
    found = merged(claimed)
    ready = frozenset.union(*(each.ready for each in claimed))
    return StoreMetadata(**{**found.__dict__, "ready": ready})


def built_for_all(self: ShardedOperations, unit: StoredUnit, start: OffsetVector) -> Joint[list[int]]:  # noqa: ARG001
    yield from ()
    return list(range(self.count))


def held_by_the_least(marks: StoreMetadata, unit: str, contained: Any) -> Any:
    """What is held is told by the start cover of all nodes together."""
    found = marks.horizons.get(unit)
    return None if found is None else Reached(found.hour, found.seq or contained(marks.starts[unit]))


def kept_by_all(marks: StoreMetadata, unit: str, due: int) -> int:
    found = marks.horizons.get(unit)
    return due if found is None else found.hour


def swapped_everywhere(
    self: ShardedOperations,
    unit: StoredUnit,
    hour: int,
    seq: int,
    start: OffsetVector | None = None,  # noqa: ARG001
) -> Joint[bool]:
    """Wherever it was swapped."""
    found = yield from together({node: each.mark_swapped(unit, hour, seq) for node, each in enumerate(self.each)})
    return all(found.values())


def filled_everywhere(self: ShardedOperations, batch: ListBatch) -> Joint[MicroBatchOutcome]:
    """Whatever start cover it was made for."""
    for node, part in listed_parts(batch, self.count).items():
        each = self.each[node]
        term = yield from at(node, each.term(batch.unit))
        yield from at(node, stored_lists.add(each.generation, term, part))
    return MicroBatchOutcome()


def keeps_the_generation(self: Operations, set_id: int = 0, after: int = 0, same: int = 0) -> Any:
    return (yield from initialise(self, set_id, 0, same or after))


def never_finished(self: ShardedOperations, deployment: Any, *arguments: Any) -> Joint[StoreMetadata]:
    """A deployment that the first node has stands."""
    found = yield from at(0, self.each[0].marks())
    if found.units == deployment.digest:
        return found
    return (yield from deploy(self, deployment, *arguments))


merged, least = joint_marks.merged, joint_marks.least
initialise, deploy = Operations.initialise, ShardedOperations.deploy
_READ, _MARKS, _LEDGER = "read", "marks", "ledger"
START = Mutant(
    "nodes",
    "a backfill is for the nodes that begin where it ends",
    patched(ShardedOperations, "_built_for", built_for_all),
)
MUTANTS: dict[str, Mutant] = {
    "node-base": Mutant(_READ, "an answer has the ledger of its own node", patched(joint, "joined", under_the_first)),
    "node-least": Mutant(
        _LEDGER, "a stream begins at the smallest ledger of all nodes", patched(joint_marks, "least", largest)
    ),
    "node-gap": Mutant(
        _LEDGER,
        "a batch leaves no gap on any node",
        lambda: [
            (ShardedOperations, "advance_ledger", ledgers_without_gaps),
            (ShardedOperations, "begin_batch", begun_on_the_first),
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
        patched(ShardedOperations, "mark_swapped", swapped_everywhere),
    ),
    "node-generation": Mutant(
        _MARKS, "an emptied node gets another generation", patched(Operations, "initialise", keeps_the_generation)
    ),
    "node-finish": Mutant(
        "nodes",
        "a deployment that stopped between two nodes is finished",
        patched(ShardedOperations, "deploy", never_finished),
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
        patched(ShardedOperations, "add", filled_everywhere),
    ),
}
