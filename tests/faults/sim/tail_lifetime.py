"""After every write, a lifetime with its tail holds exactly the events that its token says, and no token goes back.

The world of lifetimes, beside whose streams tails run.
"""

from __future__ import annotations

from collections.abc import Iterable

from slicewise.slices import HOUR_US
from tests.faults.sim import actors
from tests.faults.sim.history import Told, bounded, empty, finish, lose, nearby, step
from tests.faults.sim.lifetime import (
    DAYS,
    UNITS,
    LifetimeWorld,
    backfill,
    compaction,
    compaction_run,
    heal,
    reader,
)
from tests.faults.sim.tails import Tailing, tail
from tests.faults.sim.world import Actor, Wrong


class TailLifetimeWorld(Tailing, LifetimeWorld):
    """A world of lifetimes with a tail."""


def history(seed: int, rules: Iterable[object] = ()) -> Told:
    """Plays one seed; rules: mutants that are applied to the world."""
    world = TailLifetimeWorld(seed)
    for rule in rules:
        if callable(rule):
            rule(world)
    try:
        _run(world)
        heal(world)
    except Wrong as wrong:
        return Told(seed, str(wrong), world.checked, world.story)
    return Told(seed, None, world.checked, world.story)


def _run(world: TailLifetimeWorld) -> None:
    rng = world.rng
    finish(world, actors.operator(world))
    streams: list[Actor] = [actors.stream(world, None)]
    tails: list[Actor] = [tail(world, None)]
    fills: list[Actor] = []
    others = [compaction(world)]
    readers = [reader(world)]
    for _ in range(rng.randint(100, 500)):
        a = rng.random()
        if a < 0.15:
            world.produce()
        elif a < 0.165:
            world.day = min(world.day + 1, DAYS)
        elif a < 0.37:
            step(world, streams)
        elif a < 0.57:
            step(world, tails)
        elif a < 0.60:
            step(world, world.unsent)
        elif a < 0.83:
            step(world, others)
        elif a < 0.88:
            step(world, fills)
        elif a < 0.91:
            step(world, readers)
        elif a < 0.915:
            world.server.time.advance(2 * HOUR_US)
        elif a < 0.92:
            lose(world)
        elif a < 0.921:
            empty(world)
        elif a < 0.926:
            world.want(rng.choice([units for units in (UNITS, UNITS[:1], UNITS[1:]) if units != world.units]))
            finish(world, actors.operator(world))
            tails = [tail(world, None), *tails[:1]]
        elif a < 0.94:
            streams = [actors.stream(world, nearby(world) if rng.random() < 0.6 else None), *streams[:1]]
        elif a < 0.96:
            tails = [tail(world, nearby(world) if rng.random() < 0.6 else None), *tails[: rng.randint(0, 2)]]
        elif a < 0.975:
            fills = [backfill(world, rng.choice(UNITS)), *fills[:1]]
        elif a < 0.98:
            bounded(world, actors.stream(world, None))
        elif a < 0.99:
            finish(world, compaction_run(world, everything=True))
        else:
            others = [compaction(world)]
        if not streams:
            streams.append(actors.stream(world, None))
        if not tails and rng.random() < 0.3:
            tails.append(tail(world, None))
        if not others:
            others.append(compaction(world))
        if not readers:
            readers.append(reader(world))
