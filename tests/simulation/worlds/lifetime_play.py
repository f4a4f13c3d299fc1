"""Histories of lifetimes: what can happen, and that totals come to hold all that is due."""

from __future__ import annotations

from typing import cast

from slicewise.lifecycle import lifetime as moves
from slicewise.lifecycle.lifetime import TotalsClaim
from slicewise.windows.durations import HOUR_US
from tests.simulation.actors import slices as actors
from tests.simulation.actors.lifetimes import backfill, compaction, compaction_run, reader
from tests.simulation.histories.play import Play, finish, joins, steps
from tests.simulation.worlds.history import behind, bounded, empty, lose, nearby
from tests.simulation.worlds.lifetime import DAYS, UNITS, LifetimeWorld
from tests.simulation.worlds.world import FIRST_HOUR, Wrong


def begin(world: LifetimeWorld) -> None:
    finish(world, actors.operator(world))
    begin_stream(world)
    world.groups["others"] += [compaction(world), compaction(world)]
    another_reader(world)


def begin_stream(world: LifetimeWorld) -> None:
    world.groups["streams"].append(actors.stream(world, None))


def day_passes(world: LifetimeWorld) -> None:
    world.day = min(world.day + 1, DAYS)
    world.note("a day passes")


def time_passes(world: LifetimeWorld) -> None:
    world.pass_time(2 * HOUR_US)
    world.note("two hours of the store's clock pass")


def lose_some(world: LifetimeWorld) -> None:
    lose(world)
    if world.rng.random() < 0.5:
        del world.groups["streams"][1:]


def redeploy(world: LifetimeWorld) -> None:
    world.want(
        world.rng.choice([units for units in (UNITS, UNITS[:1], UNITS[1:]) if units != world.units])
    )
    finish(world, actors.operator(world))


def another_stream(world: LifetimeWorld) -> None:
    start = nearby(world) if world.rng.random() < 0.6 else None
    joins(world, "streams", actors.stream(world, start), keeping=world.rng.randint(0, 2))


def another_fill(world: LifetimeWorld) -> None:
    joins(world, "fills", backfill(world, world.rng.choice(UNITS)), keeping=1)


def catch_up(world: LifetimeWorld) -> None:
    bounded(world, actors.stream(world, None))


def compact_all(world: LifetimeWorld) -> None:
    finish(world, compaction_run(world, everything=True))


def another_other(world: LifetimeWorld) -> None:
    others = world.groups["others"]
    others[world.rng.randrange(len(others))] = compaction(world)


def another_reader(world: LifetimeWorld) -> None:
    world.groups["readers"].append(reader(world))


def go_on(world: LifetimeWorld) -> None:
    if not world.groups["streams"]:
        begin_stream(world)
    while len(world.groups["others"]) < 2:
        world.groups["others"].append(compaction(world))
    if not world.groups["readers"]:
        another_reader(world)


def heal(world: LifetimeWorld) -> None:
    """Left alone, totals come to hold all that is before the total-until hour that is due."""
    world.day = DAYS
    for _ in range(6):  # nodes of which each lost something else are built one after another
        finish(world, actors.operator(world))
        if behind(world):
            world.recover()
        bounded(world, actors.stream(world, None))
        for unit in world.units:
            finish(world, backfill(world, unit))
        finish(world, compaction_run(world, everything=True))
        if _whole(world):
            break
    if not _whole(world):
        raise Wrong(
            f"not healed: {world.metadata()}, log {world.ends()}, target "
            f"{world.target - FIRST_HOUR}"
        )
    world.check()


def _whole(world: LifetimeWorld) -> bool:
    metadata = world.metadata()
    assert metadata is not None
    names = [unit.storage_fingerprint for unit in world.units]
    if not metadata.ready.issuperset(names):
        return False
    return all(
        metadata.totals_until[name].hour >= world.target
        and not moves.late_hours(
            world.hours(unit, metadata), cast(TotalsClaim, world.totals_claim(unit, metadata))
        )
        for name, unit in zip(names, world.units, strict=True)
    )


PLAY = Play(
    "lifetimes",
    LifetimeWorld,
    begin,
    (
        (120, LifetimeWorld.produce),
        (15, day_passes),
        (285, steps("streams")),
        (400, steps("others")),
        (60, steps("fills")),
        (30, steps("readers")),
        (5, time_passes),
        (3, lose_some),
        (1, empty),
        (4, redeploy),
        (20, another_stream),
        (22, another_fill),
        (10, catch_up),
        (10, compact_all),
        (15, another_other),
    ),
    go_on,
    heal,
    100,
    800,
)
