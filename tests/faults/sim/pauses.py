"""Two runs of compaction, one of which trims covers, through every pair of points at which they can stop."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from slicewise.slices import HOUR_US
from tests.faults.sim import actors
from tests.faults.sim.history import finish
from tests.faults.sim.world import FIRST_HOUR, UNITS, Actor, Logged, World, Wrong
from tests.support.stored import cover

STEPS = 24
"""More than either run has."""


def wrong(rules: Iterable[object] = ()) -> str | None:
    """What is wrong at the first pair of stops at which anything is; None: nothing anywhere."""
    for again, trimmed, announced in product((False, True), range(STEPS), range(STEPS)):
        try:
            _play(again, trimmed, announced, rules)
        except Wrong as found:
            return f"trim stopped after {trimmed}, the other run after {announced}: {found}"
    return None


def _play(again: bool, trimmed: int, announced: int, rules: Iterable[object]) -> None:
    """A slow run commits, announces and swaps hour 0, while another that has swapped hour 1 from the
    newest archive trims what no hour names. The slow one is of an older archive; again: of the
    newest, and hour 0 stands at the older one."""
    world = World(0)
    for rule in rules:
        if callable(rule):
            rule(world)
    world.rng.random = lambda: 0.0  # type: ignore[method-assign]  # stop before every command
    world.now = 2
    finish(world, actors.operator(world))
    for hour in (0, 1):
        world.log[0].append(Logged(0, FIRST_HOUR + hour, (FIRST_HOUR + hour) * HOUR_US))
    seq, offsets = world.archived()
    store = world.connect()
    store.put_cover("plays", seq, cover(*offsets))
    world.log[0].append(Logged(0, FIRST_HOUR + 1, (FIRST_HOUR + 1) * HOUR_US))
    finish(world, actors.compact(world, store, UNITS[0], FIRST_HOUR + 1, *world.archived()))
    if again:
        finish(world, actors.compact(world, store, UNITS[0], FIRST_HOUR, seq, offsets))
        seq, offsets = actors.newest(world)
    slow = actors.compact(world, world.connect(), UNITS[0], FIRST_HOUR, seq, offsets)
    trim = actors.trim(world)
    for actor, steps in ((trim, trimmed), (slow, announced), (trim, 99), (slow, 99)):
        _advance(actor, steps)


def _advance(actor: Actor, steps: int) -> None:
    for _ in range(steps):
        if next(actor, actor) is actor:
            return
