"""A run of a lifetime, stopped anywhere, beside a node that was emptied and begins apart."""

from __future__ import annotations

from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.windows.durations import HOUR_US
from tests.simulation.actors import slices as actors
from tests.simulation.actors.lifetimes import backfill, compact, compaction_run, move, trim
from tests.simulation.histories.play import finish
from tests.simulation.stops.meetings import nobody
from tests.simulation.stops.pairs import Meeting
from tests.simulation.worlds.history import bounded
from tests.simulation.worlds.lifetime import UNITS
from tests.simulation.worlds.nodes import LifetimeNodesWorld, day_passes
from tests.simulation.worlds.several import NODE_OF
from tests.simulation.worlds.world import FIRST_HOUR, Actor, Logged, World

UNIT, NEXT_DAY = UNITS[1], FIRST_HOUR + 24


def two_days(world: LifetimeNodesWorld) -> None:
    """A unit that was built from the archive; the first of its days is in totals, the second is
    compacted."""
    finish(world, actors.operator(world))
    log(world, FIRST_HOUR, 0, 1)
    world.want((UNIT,))
    finish(world, actors.operator(world))
    finish(world, backfill(world, UNIT))
    day_passes(world)
    day_passes(world)
    log(world, NEXT_DAY, 0, 1)
    finish(world, compaction_run(world, everything=True))
    log(world, NEXT_DAY, 0, 1)
    finish(world, compact(world, world.connect(), UNIT, NEXT_DAY, *world.archived()))


def log(world: LifetimeNodesWorld, hour: int, *entities: int) -> None:
    world.log[0] += [Logged(entity, hour, hour * HOUR_US) for entity in entities]
    bounded(world, actors.stream(world, None))


def emptied(world: LifetimeNodesWorld) -> None:
    """The node of the second entity; another day is over."""
    two_days(world)
    world.servers[NODE_OF[1]].flush()
    finish(world, actors.operator(world))
    bounded(world, actors.stream(world, None))
    day_passes(world)


def published_again(world: LifetimeNodesWorld) -> None:
    """Empties a node, which gets all events from the log again."""
    world.from_archive = 0.0
    emptied(world)


def to_be_built(world: LifetimeNodesWorld) -> None:
    """Empties a node, which begins where the archive ends, and has no totals yet; a late event
    comes for the first entity."""
    world.from_archive = 1.0
    emptied(world)
    log(world, NEXT_DAY, 0)


def moving(world: LifetimeNodesWorld) -> Actor:
    yield from move(world, world.connect(), UNIT, *actors.newest(world))


def compacting(world: LifetimeNodesWorld) -> Actor:
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    publish = world.kept_from(UNIT, metadata) <= NEXT_DAY
    yield from compact(world, store, UNIT, NEXT_DAY, *world.archived(), publish=publish)
    yield from trim(world)


BESIDE = (
    Meeting(
        "node-published-again", LifetimeNodesWorld, published_again, moving, nobody, World.check
    ),
    Meeting("node-to-be-built", LifetimeNodesWorld, to_be_built, compacting, nobody, World.check),
)
