"""After every write, a lifetime with its real-time lane holds exactly its token's events, and no
token goes back.

The world of lifetimes, beside whose streams real-time lanes run.
"""

from __future__ import annotations

from tests.simulation.histories.play import Play, joins, steps
from tests.simulation.worlds import lifetime_play as lifetimes
from tests.simulation.worlds.history import empty, lose, nearby
from tests.simulation.worlds.lifetime import LifetimeWorld
from tests.simulation.worlds.realtime import RealtimeBase, begin_realtime, realtime


class RealtimeLifetimeWorld(RealtimeBase, LifetimeWorld):
    """A world of lifetimes with the real-time lane."""


def begin(world: RealtimeLifetimeWorld) -> None:
    lifetimes.begin(world)
    begin_realtime(world)


def redeploy(world: RealtimeLifetimeWorld) -> None:
    lifetimes.redeploy(world)
    joins(world, "realtime", realtime(world, None), keeping=1)


def another_realtime(world: RealtimeLifetimeWorld) -> None:
    start = nearby(world) if world.rng.random() < 0.6 else None
    joins(world, "realtime", realtime(world, start), keeping=world.rng.randint(0, 2))


def go_on(world: RealtimeLifetimeWorld) -> None:
    lifetimes.go_on(world)
    if not world.groups["realtime"] and world.rng.random() < 0.3:
        begin_realtime(world)


PLAY = Play(
    "realtime-lifetimes",
    RealtimeLifetimeWorld,
    begin,
    (
        (150, RealtimeLifetimeWorld.produce),
        (15, lifetimes.day_passes),
        (205, steps("streams")),
        (200, steps("realtime")),
        (30, steps("unsent")),
        (230, steps("others")),
        (50, steps("fills")),
        (30, steps("readers")),
        (5, lifetimes.time_passes),
        (5, lose),
        (1, empty),
        (5, redeploy),
        (14, lifetimes.another_stream),
        (20, another_realtime),
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
