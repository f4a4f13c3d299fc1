"""Every answer of an entity is what its token says by the marks of the entity's own node, whatever befalls the others.

The world of slices over a store of three nodes, one of which has no entity: nodes lose their last writes or all of
them, one at a time, between any two commands of whoever is at work on all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from slicewise.cover import Cover, Place
from slicewise.stores import joint, joint_marks, keys, marks, nodes
from slicewise.stores.joint import JointOperations
from slicewise.stores.memory import open_memory
from slicewise.stores.nodes import Joint, at, node_name, node_of, together
from slicewise.stores.operations import Operations
from slicewise.stores.ports import Incarnation, Marks, ReadReply, Renewal, StoredUnit, UnitReply
from slicewise.stores.steps import Fields, Whole
from slicewise.stores.store import Store
from tests.faults.sim import actors, history
from tests.faults.sim.choices import Choices
from tests.faults.sim.play import EXPECTED, Play, finish, joins
from tests.faults.sim.rules import Mutant, flag, patched
from tests.faults.sim.world import DAY_FIELDS, ENTITIES, Actor, Server, World, Wrong, entity_keys
from tests.support.stored import TOPIC, StoreUnit, cover, tag

NODES = 3
NODE_OF = [node_of(tag(entity), NODES) for entity in range(ENTITIES)]
assert len(set(NODE_OF)) == ENTITIES, "each entity is on a node of its own"


class NodesWorld(World):
    """A world whose store is several servers."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.servers = [self.server, *(Server(self) for _ in range(NODES - 1))]
        for number, server in enumerate(self.servers):
            server.name = f"node {number}"
        self.bases: dict[tuple[Incarnation, str, int], list[int]] = {}
        """(life of a node, unit under its generation, entity) -> the base of the newest answer."""
        self.marks_first = False
        """Removed rule: a node's ledger moves before what is written to it."""

    def connect(self) -> Store:
        return open_memory(*self.servers)

    def to_sweep(self) -> tuple[Server, Store]:
        number = self.rng.randrange(NODES)
        server = self.servers[number]
        node = server.connect()
        return server, Store(node, Operations(node.incarnation, node_name(number, NODES)))

    def node(self, entity: int) -> int:
        return NODE_OF[entity]

    def plans(self, store: Store) -> Generator[None, None, Mapping[int, Marks]]:
        assert isinstance(store.steps, JointOperations)
        each = {number: one.marks() for number, one in enumerate(store.steps.each)}
        return (yield from self.on(store, together(each)))

    def early(self, store: Store, start: Sequence[int], end: Sequence[int], found: Marks) -> Actor:
        if self.marks_first and isinstance(store.steps, JointOperations):
            one = store.steps.each[NODE_OF[0]]
            steps = one.advance_ledger(cover(*start), cover(*end), found.epoch, found.units)
            yield from self.on(store, at(NODE_OF[0], steps))

    def recover(self) -> None:
        finish(self, bridge(self))

    @contextmanager
    def on_node(self, number: int) -> Iterator[None]:
        """What is looked at meanwhile is this node's."""
        before, self.server = self.server, self.servers[number]
        try:
            yield
        finally:
            self.server = before

    def marks_of(self, number: int) -> Marks | None:
        return marks.parse(self.servers[number].execute(Whole(keys.MARKS)))

    def marks(self) -> Marks | None:
        """What all nodes claim together."""
        found = [each for number in range(NODES) if (each := self.marks_of(number)) is not None]
        return joint_marks.merged(found) if len(found) == NODES else None

    def check(self) -> None:
        for entity, number in enumerate(NODE_OF):
            found = self.marks_of(number)
            if found is None:
                continue
            with self.on_node(number):
                for unit in self.all_units:
                    if unit.storage_fingerprint in found.ready:
                        self.check_one(unit, entity, found)

    def check_one(self, unit: StoreUnit, entity: int, found: Marks) -> None:
        hot, days = entity_keys(found, unit, entity)
        reply = UnitReply(self.server.execute(Whole(hot)), [self.server.execute(Fields(days, DAY_FIELDS))])
        base = self.judge(unit, entity, found, reply)
        name = f"{found.generation}:{found.name(unit.storage_fingerprint)}"
        before = self.bases.get((self.server.incarnation, name, entity), [])
        if any(new < old for new, old in zip(base, before, strict=False)):
            raise Wrong(f"{unit.view} entity {entity}: a token went back from {before} to {base} within one life")
        self.bases[self.server.incarnation, name, entity] = base
        self.check_named(unit, reply.days[0][0], found.generation)


def lose_some(world: NodesWorld) -> None:
    """One node restarts without its last writes."""
    number = world.rng.randrange(NODES)
    lost = world.servers[number].restart(world.rng.randint(0, world.rng.choice((0, 3, 10, 40, 64))))
    world.say(f"node {number} restarts", f"its last {lost} writes are lost")
    world.check()
    if world.marks_of(number) is None or world.rng.random() < 0.3:
        finish(world, actors.operator(world))
    if world.rng.random() < 0.5:
        del world.groups["streams"][1:]


def empty_one(world: NodesWorld) -> None:
    """One node is emptied; its incarnation stays."""
    number = world.rng.randrange(NODES)
    world.servers[number].flush()
    world.say(f"node {number} is emptied")
    if world.rng.random() < 0.7:
        finish(world, actors.operator(world))


def bridge(world: NodesWorld) -> Actor:
    """As the stream's driver does: where the log no longer reaches back to a node's ledger, that goes on where the
    archive ends, and the node's units are built again."""
    store = world.connect()
    found = yield from world.on(store, store.steps.marks())
    if found.ledger.dominates(cover(*world.log_start)) or found.units != world.deployment().digest:
        return
    _, offsets = world.archived()
    units = frozenset(unit.storage_fingerprint for unit in world.units)
    renewal = Renewal(units, cover(*offsets))
    steps = store.steps.deploy(world.deployment(), found.epoch, {"plays": TOPIC}, cover(), renewal)
    found = yield from world.on(store, steps)
    world.say("ledgers moved", f"epoch {found.epoch}, terms {found.terms}")


def another_bridge(world: NodesWorld) -> None:
    joins(world, "operators", bridge(world), keeping=1)


def heal(world: NodesWorld) -> None:
    """Each node by itself comes to claim all."""
    try:
        history.heal(world)
    except EXPECTED as error:
        raise Wrong(f"not healed: {error}") from error
    wanted = {unit.storage_fingerprint for unit in world.units}
    for number in range(NODES):
        found = world.marks_of(number)
        if found is None or found.units != world.deployment().digest or not found.ready.issuperset(wanted):
            raise Wrong(f"node {number} is not whole: {found}")


_INSTEAD: dict[Any, Any] = {history.lose_some: lose_some, history.empty_under_a_sweep: empty_one}
PLAY = Play(
    "nodes",
    NodesWorld,
    history.begin,
    (
        *(
            (4 if deed is history.empty_under_a_sweep else weight, _INSTEAD.get(deed, deed))
            for weight, deed in history.PLAY.deeds
        ),
        (4, another_bridge),
    ),
    history.go_on,
    heal,
    60,
    900,
)


# ------------------------------------------------------------ without a rule
honest_joined = nodes.joined


def under_the_first(
    replies: Mapping[int, ReadReply], places: Mapping[int, Sequence[int]], n: int, count: int
) -> ReadReply:
    """All that was read, as of the first node that was asked."""
    reply = honest_joined(replies, places, n, count)
    return ReadReply(reply.said, reply.entities, [min(reply.said)] * n)


def largest(covers: Sequence[Cover], places: frozenset[Place]) -> Cover:  # noqa: ARG001
    return joint_marks.joined(covers)


def ledgers_without_gaps(self: JointOperations, start: Cover, end: Cover, epoch: int, units: str) -> Joint[Cover]:
    """A batch moves the ledger of a node wherever that stands."""
    reached = Cover()
    for number, each in enumerate(self.each):
        mine: Marks = yield from at(number, each.marks())
        steps = each.advance_ledger(least([mine.ledger, start], frozenset(start)), end, epoch, units)
        reached = yield from at(number, steps)
    return reached


def begun_on_the_first(self: JointOperations, start: Cover, epoch: int, units: str) -> Joint[Marks]:
    return (yield from at(0, self.each[0].begin_batch(start, epoch, units)))


def ready_anywhere(claimed: Sequence[Marks]) -> Marks:
    found = merged(claimed)
    ready = frozenset.union(*(each.ready for each in claimed))
    return Marks(**{**found.__dict__, "ready": ready})


def built_for_all(self: JointOperations, unit: StoredUnit, start: Cover) -> Joint[list[int]]:  # noqa: ARG001
    yield from ()
    return list(range(self.count))


def keeps_the_generation(self: Operations, set_id: int = 0, after: int = 0, same: int = 0) -> Any:
    return (yield from initialise(self, set_id, 0, same or after))


def never_finished(self: JointOperations, deployment: Any, *arguments: Any) -> Joint[Marks]:
    """A deployment that the first node has stands."""
    found = yield from at(0, self.each[0].marks())
    if found.units == deployment.digest:
        return found
    return (yield from deploy(self, deployment, *arguments))


merged, least = joint_marks.merged, joint_marks.least
initialise, deploy = Operations.initialise, JointOperations.deploy
_READ, _MARKS, _LEDGER = "§6 read", "§6 marks", "§6 ledger"
MUTANTS: dict[str, Mutant] = {
    "node-base": Mutant(_READ, "an answer has the ledger of its own node", patched(joint, "joined", under_the_first)),
    "node-least": Mutant(
        _LEDGER, "a stream begins at the smallest ledger of all nodes", patched(joint_marks, "least", largest)
    ),
    "node-gap": Mutant(
        _LEDGER,
        "a batch leaves no gap on any node",
        lambda: [
            (JointOperations, "advance_ledger", ledgers_without_gaps),
            (JointOperations, "begin_batch", begun_on_the_first),
            (joint_marks, "least", largest),
        ],
    ),
    "node-marks": Mutant(_MARKS, "a node's ledger moves after that node's writes", world=flag("marks_first")),
    "node-ready": Mutant(
        _MARKS, "a unit is ready where every node has built it", patched(joint_marks, "merged", ready_anywhere)
    ),
    "node-start": Mutant(
        "§10",
        "a backfill is for the nodes that begin where it ends",
        patched(JointOperations, "_built_for", built_for_all),
    ),
    "node-generation": Mutant(
        _MARKS, "an emptied node gets another generation", patched(Operations, "initialise", keeps_the_generation)
    ),
    "node-finish": Mutant(
        "§10",
        "a deployment that stopped between two nodes is finished",
        patched(JointOperations, "deploy", never_finished),
    ),
}
