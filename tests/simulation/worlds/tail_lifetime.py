"""After every write, a lifetime with its tail holds exactly its token's events, and no token goes back.

The world of lifetimes, beside whose streams tails run.
"""

from __future__ import annotations

from tests.simulation.histories.play import Play, joins, steps
from tests.simulation.worlds import lifetime_play as lifetimes
from tests.simulation.worlds.history import empty, lose, nearby
from tests.simulation.worlds.lifetime import LifetimeWorld
from tests.simulation.worlds.tails import Tailing, begin_tail, tail


class TailLifetimeWorld(Tailing, LifetimeWorld):
    """A world of lifetimes with a tail."""


def begin(world: TailLifetimeWorld) -> None:
    lifetimes.begin(world)
    begin_tail(world)


def redeploy(world: TailLifetimeWorld) -> None:
    lifetimes.redeploy(world)
    joins(world, "tails", tail(world, None), keeping=1)


def another_tail(world: TailLifetimeWorld) -> None:
    start = nearby(world) if world.rng.random() < 0.6 else None
    joins(world, "tails", tail(world, start), keeping=world.rng.randint(0, 2))


def go_on(world: TailLifetimeWorld) -> None:
    lifetimes.go_on(world)
    if not world.groups["tails"] and world.rng.random() < 0.3:
        begin_tail(world)


PLAY = Play(
    "tail-lifetimes",
    TailLifetimeWorld,
    begin,
    (
        (150, TailLifetimeWorld.produce),
        (15, lifetimes.day_passes),
        (205, steps("streams")),
        (200, steps("tails")),
        (30, steps("unsent")),
        (230, steps("others")),
        (50, steps("fills")),
        (30, steps("readers")),
        (5, lifetimes.time_passes),
        (5, lose),
        (1, empty),
        (5, redeploy),
        (14, lifetimes.another_stream),
        (20, another_tail),
        (15, lifetimes.another_fill),
        (5, lifetimes.catch_up),
        (10, lifetimes.compact_all),
        (10, lifetimes.another_other),
    ),
    go_on,
    lifetimes.heal,
    100,
    500,
)
