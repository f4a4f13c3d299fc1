"""Operators of versions, stopped anywhere, beside each other and beside all that goes on."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.actors import slices as slice_actors
from tests.simulation.actors import versions as actors
from tests.simulation.actors.versions import Deed, applies, promotes, retires
from tests.simulation.histories.play import finish
from tests.simulation.stops.meetings import logged, one_batch, run
from tests.simulation.stops.pairs import Meeting
from tests.simulation.worlds.history import bounded
from tests.simulation.worlds.versions import VersionsWorld
from tests.simulation.worlds.versions_play import deployed, end
from tests.simulation.worlds.world import Actor

OTHER, THIRD = (1, 1), (2, 2)


def two_stand(world: VersionsWorld) -> None:
    """Version 2 stands beside what is live and is not built; some is compacted, and late events
    have come since."""
    world.now = 2
    deployed(world)
    for partition, entity, hour in ((0, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0), (1, 1, 1)):
        logged(world, partition, entity, hour)
    bounded(world, slice_actors.stream(world, None))
    finish(world, run(world))
    actors.done(world, applies(OTHER))
    for partition, entity, hour in ((0, 0, 0), (0, 0, 1), (1, 1, 0)):
        logged(world, partition, entity, hour)


def two_are_built(world: VersionsWorld) -> None:
    two_stand(world)
    bounded(world, slice_actors.stream(world, None))
    world.archived()
    for unit in world.units:
        finish(world, slice_actors.backfill(world, unit))
    logged(world, 0, 0, 0)


def second_is_live(world: VersionsWorld) -> None:
    two_are_built(world)
    actors.done(world, promoting(world))


def promoting(world: VersionsWorld) -> Deed:
    return promotes(world, ("v", 2), ("w", 2))


def promote(world: VersionsWorld) -> Actor:
    yield from actors.operator(world, promoting(world))


def promote_one(world: VersionsWorld) -> Actor:
    yield from actors.operator(world, promotes(world, ("w", 2)))


def go_back(world: VersionsWorld) -> Actor:
    yield from actors.operator(world, promotes(world, ("v", 1), ("w", 1)))


def retire(world: VersionsWorld) -> Actor:
    yield from actors.operator(world, retires(("v", 2)))


def retire_first(world: VersionsWorld) -> Actor:
    yield from actors.operator(world, retires(("v", 1), ("w", 1)))


def apply(world: VersionsWorld) -> Actor:
    yield from actors.operator(world, applies(THIRD))


def build(world: VersionsWorld) -> Actor:
    for unit in world.units:
        yield from slice_actors.backfill(world, unit)


def read(world: VersionsWorld) -> Actor:
    going = actors.reader(world)
    for _ in range(4):
        yield next(going)


def sweep(world: VersionsWorld) -> Actor:
    yield from slice_actors.sweep(world)


def _of(
    name: str,
    first: Callable[[VersionsWorld], Actor],
    second: Callable[[VersionsWorld], Actor],
    prepare: Callable[[VersionsWorld], None] = two_are_built,
) -> Meeting[VersionsWorld]:
    return Meeting(name, VersionsWorld, prepare, first, second, end)


VERSIONS = (
    _of("apply-stream", apply, one_batch),
    _of("apply-run", apply, run, two_stand),
    _of("build-stream-versions", build, one_batch, two_stand),
    _of("build-run-versions", build, run, two_stand),
    _of("build-promote", build, promote, two_stand),
    _of("build-retire", build, retire, two_stand),
    _of("promotions", promote, promote_one),
    _of("promote-back", go_back, promote_one, second_is_live),
    _of("promote-retire", promote, retire),
    _of("promote-apply", promote, apply),
    _of("promote-stream", promote, one_batch),
    _of("read-promote", read, promote),
    _of("read-back", read, go_back, second_is_live),
    _of("retire-sweep", retire_first, sweep, second_is_live),
    _of("retire-stream", retire_first, one_batch, second_is_live),
    _of("sweep-apply", sweep, apply, second_is_live),
)
