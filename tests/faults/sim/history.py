"""One seed is one history: who acts next, what is lost, what is deployed, and the truth throughout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slicewise.errors import (
    DataLoss,
    EpochSuperseded,
    GapRefused,
    NotReady,
    StoreUnavailable,
)
from tests.faults.sim import actors
from tests.faults.sim.world import FIRST_HOUR, HOURS, PARTITIONS, UNITS, Actor, World, Wrong
from tests.support.stored import StoreUnit, place

EXPECTED = (DataLoss, EpochSuperseded, GapRefused, NotReady, StoreUnavailable)
"""What a process meets in normal life; it ends, and another begins."""


@dataclass(frozen=True)
class Told:
    """A history's end: what was wrong (None: nothing), how many answers were compared, the story."""

    seed: int
    wrong: str | None
    answers: int
    story: list[str]

    def __str__(self) -> str:
        return "\n  ".join([f"seed {self.seed}: {self.wrong}", *self.story])


def history(seed: int, rules: Iterable[object] = ()) -> Told:
    """Plays one seed; rules: mutants that are applied to the world."""
    world = World(seed)
    for rule in rules:
        if callable(rule):
            rule(world)
    try:
        run(world)
        heal(world)
    except Wrong as wrong:
        return Told(seed, str(wrong), world.checked, world.story)
    return Told(seed, None, world.checked, world.story)


def step(world: World, group: list[Actor]) -> None:
    """One of these goes on until something may come between."""
    if not group:
        return
    actor = world.rng.choice(group)
    try:
        next(actor)
    except StopIteration:
        group.remove(actor)
    except EXPECTED as met:
        world.say(f"{type(met).__name__}: {met.what}")
        group.remove(actor)


def finish(world: World, actor: Actor) -> None:
    """Alone, to its end."""
    try:
        for _ in actor:
            pass
    except EXPECTED as met:
        world.say(f"{type(met).__name__}: {met.what}")


def run(world: World) -> None:
    rng = world.rng
    finish(world, actors.operator(world))
    streams: list[Actor] = [actors.stream(world, None)]
    fills: list[Actor] = []
    others = [actors.compaction(world), actors.compaction(world), actors.totals(world)]
    readers = [actors.reader(world)]
    operators: list[Actor] = []
    sweeps: list[Actor] = []
    checkpoint = world.ends()
    epoch = 1
    for _ in range(rng.randint(60, 900)):
        a = rng.random()
        if a < 0.12:
            world.produce()
        elif a < 0.13:
            world.now = min(world.now + 1, HOURS)
        elif a < 0.50:
            step(world, streams)
        elif a < 0.74:
            step(world, others)
        elif a < 0.86:
            step(world, fills)
        elif a < 0.92:
            step(world, readers)
        elif a < 0.93:
            lose(world)
            if rng.random() < 0.5:
                streams = streams[:1]
        elif a < 0.931:
            sweeps = [actors.sweep(world)]
            for _ in range(4):
                step(world, sweeps)
            empty(world)
        elif a < 0.942:
            if sum(world.ends()) > 6:
                before = world.units
                world.want(another(world))
                if rng.random() < 0.3:  # a unit is left out and back at once: jobs span both its terms
                    finish(world, actors.operator(world))
                    world.want(before)
            operators = [actors.operator(world)]
        elif a < 0.946:
            operators = [actors.operator(world)]
        elif a < 0.949 and len(world.log) < PARTITIONS:
            world.log.append([])
            world.log_start.append(0)
            world.say("a partition is added")
        elif a < 0.951:
            forget_log(world)
        elif a < 0.965:
            begins = None if rng.random() < 0.5 else nearby(world)
            if rng.random() < 0.3:
                begins = checkpoint
            streams = [actors.stream(world, begins), *streams[: rng.randint(0, 2)]]
        elif a < 0.975:
            fills = [actors.backfill(world, rng.choice(UNITS)), *fills[:1]]
        elif a < 0.982:
            finish(world, actors.compaction_run(world, most=9))
            others[rng.randrange(len(others))] = actors.trim(world)
        elif a < 0.985:
            sweeps = [actors.sweep(world), *sweeps[:1]]
        elif a < 0.992:
            others[rng.randrange(len(others))] = rng.choice([actors.compaction, actors.totals])(world)
        else:
            readers = [actors.reader(world)]
        found = world.marks()
        if found is not None and found.epoch > epoch and rng.random() < 0.9:
            # the new units' first stream: it may begin below their start covers
            streams = [actors.stream(world, nearby(world))]
        if found is not None and found.epoch > epoch and rng.random() < 0.5:
            sweeps = [actors.sweep(world), *sweeps[:1]]
        epoch = 0 if found is None else found.epoch
        if found is not None and rng.random() < 0.2:
            checkpoint = tuple(found.ledger.get(p) for p in _places(world))
        if not streams:
            streams.append(actors.stream(world, None))
        while len(others) < 3:
            others.append(rng.choice([actors.compaction, actors.totals])(world))
        if rng.random() < 0.2:
            step(world, sweeps)
        if operators and rng.random() < 0.3:
            step(world, operators)
        if not readers:
            readers.append(actors.reader(world))


def another(world: World) -> tuple[StoreUnit, ...]:
    """The units that are wanted next: one comes, one goes, or one goes and comes back."""
    choices = [UNITS, UNITS[:1], UNITS[1:]]
    return world.rng.choice([units for units in choices if units != world.units])


def _places(world: World) -> list[tuple[str, int]]:
    return [place(p) for p in range(len(world.log))]


def nearby(world: World) -> tuple[int, ...]:
    """Some offsets at or below the ledger."""
    found = world.marks()
    if found is None:
        return tuple(world.log_start)
    return tuple(
        max(first, found.ledger.get(p) - world.rng.randint(0, 8))
        for p, first in zip(_places(world), world.log_start, strict=True)
    )


def lose(world: World) -> None:
    """A restart without the last writes."""
    lost = world.server.restart(world.rng.randint(0, world.rng.choice((0, 3, 10, 40, 64))))
    world.say(f"the store restarted without its last {lost} writes")
    world.check()
    if world.marks() is None or world.rng.random() < 0.3:
        finish(world, actors.operator(world))


def empty(world: World) -> None:
    """The operator empties the store: the incarnation stays."""
    world.server.flush()
    world.say("the store was emptied")
    finish(world, actors.operator(world))


def forget_log(world: World) -> None:
    """Retention passes what the archive has and the store says that it holds."""
    found = world.marks()
    if found is None or not world.archive:
        return
    archived = actors.newest(world)[1]
    for p, where in enumerate(_places(world)):
        kept = min(found.ledger.get(where), archived[p] if p < len(archived) else 0)
        world.log_start[p] = max(world.log_start[p], kept - world.rng.randint(0, 5))
    world.say(f"the log begins at {world.log_start}")


def heal(world: World) -> None:
    """Left alone, the platform comes to hold everything, without anybody's help but a rebuild where
    the log no longer has what a loss took."""
    for _ in range(3):
        finish(world, actors.operator(world))
        found = world.marks()
        if found is None:
            raise Wrong("no marks after the operator was there")
        behind = [found.ledger.get(p) < s for p, s in zip(_places(world), world.log_start, strict=True)]
        if any(behind):
            empty(world)
            continue
        bounded(world, actors.stream(world, None))
        for unit in UNITS:
            finish(world, actors.backfill(world, unit))
        world.archived()
        seq, offsets = actors.newest(world)
        store = world.connect()
        for unit in world.units:
            for hour in range(FIRST_HOUR, FIRST_HOUR + HOURS):
                finish(world, actors.compact(world, store, unit, hour, seq, offsets))
        found = world.marks()
        if found is not None and whole(world):
            break
    found = world.marks()
    if found is None or not whole(world):
        raise Wrong(f"not healed: {found}, log {world.ends()}")
    world.check()


def whole(world: World) -> bool:
    found = world.marks()
    assert found is not None
    reached = tuple(found.ledger.get(p) for p in _places(world)) == world.ends()
    ready = found.ready.issuperset(u.storage_fingerprint for u in world.units)
    swapped = all(
        world.connect().swapped(unit).get(hour) == max(world.archive)
        for unit in world.units
        for hour in range(FIRST_HOUR, FIRST_HOUR + HOURS)
    )
    return reached and ready and swapped


def bounded(world: World, actor: Actor) -> None:
    try:
        for _ in range(5_000):
            next(actor)
            found = world.marks()
            if found is not None and tuple(found.ledger.get(p) for p in _places(world)) == world.ends():
                return
    except StopIteration:
        pass
    except EXPECTED as met:
        world.say(f"{type(met).__name__}: {met.what}")
