"""A run moves the total-until hour of a lifetime while another brings late events of an hour before
it."""

from __future__ import annotations

from slicewise.windows.durations import HOUR_US
from tests.simulation.actors import slices as actors
from tests.simulation.actors.lifetimes import compact, move
from tests.simulation.histories.play import finish
from tests.simulation.stops.pairs import Meeting
from tests.simulation.worlds.history import bounded
from tests.simulation.worlds.lifetime import HOURS, UNITS, LifetimeWorld
from tests.simulation.worlds.world import Actor, Logged, World

UNIT, HOUR = UNITS[0], HOURS[0]


def compacted(world: LifetimeWorld) -> None:
    world.day = 1
    finish(world, actors.operator(world))
    log(world, 0)
    finish(world, compact(world, world.connect(), UNIT, HOUR, *world.archived()))


def log(world: LifetimeWorld, *entities: int) -> None:
    world.log[0] += [Logged(entity, HOUR, HOUR * HOUR_US) for entity in entities]
    bounded(world, actors.stream(world, None))


def late(world: LifetimeWorld) -> None:
    log(world, 0, 1)


def moving(world: LifetimeWorld) -> Actor:
    yield from move(world, world.connect(), UNIT, *actors.newest(world))


def compacting_late(world: LifetimeWorld) -> Actor:
    yield from compact(world, world.connect(), UNIT, HOUR, *world.archived())


LATE = Meeting(
    "late-move", LifetimeWorld, compacted, moving, compacting_late, World.check, between=late
)
