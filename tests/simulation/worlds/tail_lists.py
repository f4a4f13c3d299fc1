"""After every write, a list that fold and tail both add to holds its token's events, once, in order.

The world of lists, beside whose streams tails run: zombies, replays, broken connections whose commands still arrive.
"""

from __future__ import annotations

from typing import Any

from slicewise.stores.online import keys
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.connecting import HoldBuilds, ReadMetadata
from slicewise.stores.online.operations.pending import BeginRealtime, WritePending
from slicewise.stores.online.steps import Command, PendingListChange, Whole
from slicewise.stores.online.store import Store
from tests.simulation.actors import slices as actors
from tests.simulation.histories.choices import Choices
from tests.simulation.histories.play import Play, joins, steps
from tests.simulation.worlds import lists
from tests.simulation.worlds.history import empty, lose
from tests.simulation.worlds.lists import ListServer, ListWorld
from tests.simulation.worlds.world import Actor, World, Wrong
from tests.support.stores.stored import Event, StoreUnit, cover, place, tag, tail_batch

SOURCE = "plays"


class TailListServer(ListServer):
    """A store that tells of what a tail adds to lists."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.guards = True
        """False: a removed rule, the guard of a list is not looked at."""

    def written(self, command: Command) -> Any:
        if isinstance(command, PendingListChange) and not self.guards:
            return super().written(command._replace(guard=b"-"))
        return super().written(command)


class TailListWorld(ListWorld):
    """A world of lists with a tail."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.server: TailListServer = TailListServer(self)
        self.backwards = self.forgets = self.late_start = False
        """Removed rules."""
        self.bases: dict[tuple[Any, ...], dict[bytes, int]] = {}

    def judge_list(self, unit: StoreUnit, entity: int, found: StoreMetadata) -> list[int]:
        base = super().judge_list(unit, entity, found)
        name = found.name(unit.storage_fingerprint)
        flat = self.server.execute(Whole(keys.list_key(found.generation, tag(entity), name)))
        now = {field: int(value) for field, value in zip(flat[::2], flat[1::2], strict=True) if field[:2] == b"l:"}
        life = (self.server.incarnation, found.generation, name, entity)
        before = self.bases.get(life, {})
        if any(now.get(field, last) < last for field, last in before.items()):
            raise Wrong(f"{unit.view} entity {entity}: guards went back from {before} to {now}")
        self.bases[life] = now
        return base


# ------------------------------------------------------------ actors
def tail(world: TailListWorld, start: tuple[int, ...] | None) -> Actor:
    """Adds all events from `start` (None: the ledger) on, each place's in offset order."""
    store = world.connect()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    position = list(start or [found.ledger.get(place(p)) for p in range(len(world.log))])
    if world.late_start:
        position = [min(at + world.rng.randint(0, 2), end) for at, end in zip(position, world.ends(), strict=True)]
    units, epoch, digest = world.units, found.epoch, found.units
    if digest != world.deployment().digest:
        return
    if not world.late_start:
        yield from world.on(store, store.steps(BeginRealtime(SOURCE, cover(*position), epoch, digest)))
    yield from world.on(store, store.steps(HoldBuilds(actors.terms_of(found))))
    world.say(f"begins at {position}")
    while True:
        p = world.rng.randrange(len(position))
        end = min(len(world.log[p]), position[p] + world.rng.randint(0, 5))
        for unit in units if end > position[p] else ():
            events = world.events(p, position[p], end)
            if world.rng.random() < 0.1:  # the connection breaks, and what was sent may arrive whenever
                world.groups["unsent"].append(sent(world, store, unit, events))
                again = world.connect()
                actors.same_life(world, again, store)
                store = again
                yield from world.on(store, store.steps(HoldBuilds(actors.terms_of(found))))
                if world.forgets:
                    continue
            if world.backwards and len(events) > 1:
                yield from sent(world, store, unit, events[1:])
            yield from sent(world, store, unit, events)
        position[p] = end
        yield


def sent(world: TailListWorld, store: Store, unit: StoreUnit, events: list[Event]) -> Actor:
    outcome = yield from world.on(store, store.steps(WritePending(tail_batch(unit, events), 1)))
    world.say(f"tail {unit.view} p{events[0].partition} {events[0].offset}..{events[-1].offset}", outcome)


def begin(world: TailListWorld) -> None:
    lists.begin(world)
    begin_tail(world)


def begin_tail(world: TailListWorld) -> None:
    world.groups["tails"].append(tail(world, None))


def another_tail(world: TailListWorld) -> None:
    start = lists.nearby(world) if world.rng.random() < 0.6 else None
    joins(world, "tails", tail(world, start), keeping=world.rng.randint(0, 2))


def redeploy(world: TailListWorld) -> None:
    lists.redeploy(world)
    joins(world, "tails", tail(world, None), keeping=1)


def go_on(world: TailListWorld) -> None:
    lists.go_on(world)
    if not world.groups["tails"] and world.rng.random() < 0.3:
        begin_tail(world)


PLAY = Play(
    "tail-lists",
    TailListWorld,
    begin,
    (
        (200, TailListWorld.produce),
        (220, steps("streams")),
        (260, steps("tails")),
        (30, steps("unsent")),
        (140, steps("fills")),
        (25, lists.pass_time),
        (10, lose),
        (2, empty),
        (13, redeploy),
        (30, lists.another_stream),
        (30, another_tail),
        (40, lists.another_fill),
    ),
    go_on,
    World.check,
    60,
    400,
)
