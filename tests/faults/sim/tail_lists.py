"""After every write, a list that fold and tail both add to holds each event that its token says, once, in its order.

The world of lists, beside whose streams tails run: zombies, replays, broken connections whose commands still arrive.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slicewise.stores import keys
from slicewise.stores.ports import Marks
from slicewise.stores.steps import TailListChange, Whole
from slicewise.stores.store import Store
from tests.faults.sim import actors, lists
from tests.faults.sim.history import Told, empty, finish, lose, step
from tests.faults.sim.lists import DEPLOYMENTS, ListServer, ListWorld
from tests.faults.sim.world import Actor, World, Wrong
from tests.support.stored import Event, StoreUnit, cover, place, tag, tail_batch

SOURCE = "plays"


class TailListServer(ListServer):
    """A store that tells of what a tail adds to lists."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.guards = True
        """False: a removed rule, the guard of a list is not looked at."""

    def execute(self, command: Any) -> Any:
        if not isinstance(command, TailListChange):
            return super().execute(command)
        reply = super().execute(command if self.guards else command._replace(guard=b"-"))
        self.world.check()
        return reply


class TailListWorld(ListWorld):
    """A world of lists with a tail."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.server: TailListServer = TailListServer(self)
        self.unsent: list[Actor] = []
        self.backwards = self.forgets = self.late_start = False
        """Removed rules."""
        self.bases: dict[tuple[Any, ...], dict[bytes, int]] = {}

    def judge_list(self, unit: StoreUnit, entity: int, found: Marks) -> None:
        super().judge_list(unit, entity, found)
        name = found.name(unit.storage_fingerprint)
        flat = self.server.execute(Whole(keys.list_key(found.generation, tag(entity), name)))
        now = {field: int(value) for field, value in zip(flat[::2], flat[1::2], strict=True) if field[:2] == b"l:"}
        life = (self.server.incarnation, found.generation, name, entity)
        before = self.bases.get(life, {})
        if any(now.get(field, last) < last for field, last in before.items()):
            raise Wrong(f"{unit.view} entity {entity}: guards went back from {before} to {now}")
        self.bases[life] = now


# ------------------------------------------------------------ actors
def tail(world: TailListWorld, start: tuple[int, ...] | None) -> Actor:
    """Adds all events from `start` (None: the ledger) on, each place's in offset order."""
    store = world.connect()
    found = yield from world.on(store, store.steps.marks())
    position = list(start or [found.ledger.get(place(p)) for p in range(len(world.log))])
    if world.late_start:
        position = [min(at + world.rng.randint(0, 2), end) for at, end in zip(position, world.ends(), strict=True)]
    units, epoch, digest = world.units, found.epoch, found.units
    if digest != world.deployment().digest:
        return
    if not world.late_start:
        yield from world.on(store, store.steps.begin_tail(SOURCE, cover(*position), epoch, digest))
    yield from world.on(store, store.steps.hold(actors.terms_of(found)))
    world.say(f"tail from {position}")
    while True:
        p = world.rng.randrange(len(position))
        end = min(len(world.log[p]), position[p] + world.rng.randint(0, 5))
        for unit in units if end > position[p] else ():
            events = world.events(p, position[p], end)
            if world.rng.random() < 0.1:  # the connection breaks, and what was sent may arrive whenever
                world.unsent.append(sent(world, store, unit, events))
                again = world.connect()
                actors.same_life(world, again, store)
                store = again
                yield from world.on(store, store.steps.hold(actors.terms_of(found)))
                if world.forgets:
                    continue
            if world.backwards and len(events) > 1:
                yield from sent(world, store, unit, events[1:])
            yield from sent(world, store, unit, events)
        position[p] = end
        yield


def sent(world: TailListWorld, store: Store, unit: StoreUnit, events: list[Event]) -> Actor:
    outcome = yield from world.on(store, store.steps.tail(tail_batch(unit, events), 1))
    world.say(f"tail {unit.view} p{events[0].partition} {events[0].offset}..{events[-1].offset}: {outcome}")


def history(seed: int, rules: Iterable[object] = ()) -> Told:
    """Plays one seed; rules: mutants that are applied to the world."""
    world = TailListWorld(seed)
    for rule in rules:
        if callable(rule):
            rule(world)
    try:
        _run(world)
    except Wrong as wrong:
        return Told(seed, str(wrong), world.checked, world.story)
    return Told(seed, None, world.checked, world.story)


def _run(world: TailListWorld) -> None:
    rng = world.rng
    finish(world, actors.operator(world))
    streams: list[Actor] = [lists.stream(world, None)]
    tails: list[Actor] = [tail(world, None)]
    fills: list[Actor] = []
    for _ in range(rng.randint(60, 400)):
        a = rng.random()
        if a < 0.2:
            world.produce()
        elif a < 0.42:
            step(world, streams)
        elif a < 0.68:
            step(world, tails)
        elif a < 0.71:
            step(world, world.unsent)
        elif a < 0.85:
            step(world, fills)
        elif a < 0.875:
            lists.pass_time(world)
        elif a < 0.885:
            lose(world)
        elif a < 0.887:
            empty(world)
        elif a < 0.90:
            world.want(rng.choice([units for units in DEPLOYMENTS if units != world.units]))
            finish(world, actors.operator(world))
            tails = [tail(world, None), *tails[:1]]
        elif a < 0.93:
            streams = [lists.stream(world, lists.nearby(world) if rng.random() < 0.6 else None), *streams[:1]]
        elif a < 0.96:
            tails = [tail(world, lists.nearby(world) if rng.random() < 0.6 else None), *tails[: rng.randint(0, 2)]]
        else:
            fills = [lists.backfill(world, rng.choice(world.units)), *fills[:1]]
        if not streams:
            streams.append(lists.stream(world, None))
        if not tails and rng.random() < 0.3:
            tails.append(tail(world, None))
    world.check()
