"""Histories of versions: views change their logic, are promoted, go back and are retired, two
operators at a time, while the stream, compactions, builds, sweeps and readers go on."""

from __future__ import annotations

from slicewise.stores.online.operations.connecting import Initialise
from slicewise.stores.online.operations.deploying import Deploy
from tests.simulation.actors import slices as slice_actors
from tests.simulation.actors import versions as actors
from tests.simulation.histories.play import Play, finish, joins, step, steps
from tests.simulation.worlds import history
from tests.simulation.worlds.versions import Intended, VersionsWorld, planned
from tests.simulation.worlds.world import World, Wrong
from tests.support.stores.stored import TOPIC

_SWEEPS = 3


def deployed(world: VersionsWorld) -> None:
    """The first deployment, over an empty log."""
    store, first = world.connect(), planned((0, 0))
    store.run(Initialise())
    world.means(1, first, (Intended(1, 1, ((1, 0),)),) * 2)
    store.run(Deploy(first, 0, {"plays": TOPIC}, world.earliest()))


def begin(world: VersionsWorld) -> None:
    deployed(world)
    history.begin(world)
    another_reader(world)


def another_command(world: VersionsWorld) -> None:
    deed = actors.any_deed(world)
    if deed is not None:
        joins(world, "operators", actors.operator(world, deed), keeping=1)


def two_commands(world: VersionsWorld) -> None:
    """Two people look at the same moment, and each gives a command."""
    for _ in range(2):
        another_command(world)
    for actor in list(world.groups["operators"]):
        with world.as_actor(actor):
            next(actor, None)


def another_fill(world: VersionsWorld) -> None:
    metadata = world.metadata()
    left = [u for u in world.units if metadata and u.storage_fingerprint not in metadata.ready]
    if left:
        fill = slice_actors.backfill(world, world.rng.choice(left))
        joins(world, "fills", fill, keeping=1)


def another_reader(world: VersionsWorld) -> None:
    joins(world, "named readers", actors.reader(world), keeping=1)


def go_on(world: VersionsWorld) -> None:
    history.go_on(world)
    if world.rng.random() < 0.3:
        step(world, world.groups["operators"])
    if not world.groups["fills"] and world.rng.random() < 0.4:
        another_fill(world)
    if not world.groups["named readers"]:
        another_reader(world)


def end(world: VersionsWorld) -> None:
    """Left alone, all that stands is built and whole, and what was retired is swept."""
    history.heal(world)
    for _ in range(_SWEEPS):
        finish(world, slice_actors.sweep(world))
    world.check()
    world.check_swept()
    metadata = world.metadata()
    assert metadata is not None
    lacks = [unit.view for unit in world.units if unit.storage_fingerprint not in metadata.ready]
    if lacks:
        raise Wrong(f"{lacks} are not built by whoever comes after")


PLAY = Play(
    "versions",
    VersionsWorld,
    begin,
    (
        (110, World.produce),
        (8, history.hour_passes),
        (330, steps("streams")),
        (180, steps("others")),
        (160, steps("fills")),
        (30, steps("readers")),
        (60, steps("named readers")),
        (70, steps("operators")),
        (16, another_command),
        (5, two_commands),
        (12, history.another_stream),
        (8, another_fill),
        (6, history.compact_and_trim),
        (4, history.another_sweep),
        (30, steps("sweeps")),
        (5, history.another_other),
        (5, another_reader),
    ),
    go_on,
    end,
    60,
    500,
)
