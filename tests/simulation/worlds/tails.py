"""After every write, an answer with its tail holds exactly its token's events, and no token goes back.

The same log, store, stream, compaction and operator as the world of slices; beside them tails, which write events
beyond what is folded: also zombies, replays, broken connections whose commands still arrive, skips at a bound, one that
takes over from another, and a tail that is switched off and on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewise import codec
from slicewise.codec import Room
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.reading import pending as merge_tail
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.operations.connecting import HoldBuilds, ReadMetadata
from slicewise.stores.online.operations.pending import BeginRealtime, EndRealtime, WritePending
from slicewise.stores.online.operations.reading import UnitReply
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import Command
from slicewise.stores.online.store import Store
from slicewise.windows.durations import HOUR_US
from tests.simulation.actors import slices as actors
from tests.simulation.histories.choices import Choices
from tests.simulation.histories.play import Play, finish, joins, step, steps
from tests.simulation.worlds.history import (
    add_partition,
    another,
    another_other,
    another_reader,
    empty,
    heal,
    hour_passes,
    lose,
    nearby,
    others_go_on,
)
from tests.simulation.worlds.world import Actor, Seen, Server, World, Wrong
from tests.support.stores.stored import NO_COLUMNS, Event, StoreUnit, cover, place, tail_batch

SOURCE = "plays"
BOUNDS = (1, 2, 4, 100)
PACES = ("even", "fold behind", "tail behind")
ROOMS = (Room(1, 4096), Room(2, 4096), Room(3, 120), Room(64, 4096))


class TailServer(Server):
    """A store that with a rule removed is asked for something else."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.instead: Callable[[Command], Command] = lambda command: command

    def written(self, command: Command) -> Any:
        return super().written(self.instead(command))


@dataclass
class Run:
    """A tail that writes: over which connection, by which marks, and how far all is acknowledged."""

    store: Store
    found: StoreMetadata
    units: Sequence[StoreUnit]
    position: list[int]


class Tailing(World):
    """A world in which tails run."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.bound = self.rng.choice(BOUNDS)
        self.on_tail = True
        self.pace = self.rng.choice(PACES)
        self.room = ROOMS[(2 * BOUNDS.index(self.bound) + PACES.index(self.pace)) % len(ROOMS)]
        self.late_start = False
        """Removed rule: a tail begins at the ledger or before."""
        self.other_lives = False
        """Removed rule: a tail's connections are of the life that its mark names."""
        self.backwards = False
        """Removed rule: an entity's events are written in offset order."""
        self.forgets_terms = False
        """Removed rule: a tail writes under the names that it was planned for, over all its connections."""
        self.ends_folded = False
        """Whoever removes a mark waits until all is folded that there was when the tail was switched off."""
        self.forgets = False
        """Removed rule: after a broken connection it goes on from the first that was not acknowledged."""
        self.relieves_early = False
        """Removed rule: a tail takes over where the one before it has acknowledged all."""
        self.run: Run | None = None
        """The one that began last."""
        self.bases: dict[tuple[Any, ...], list[int]] = {}

    def tailed(self, found: StoreMetadata, incarnation: ServerRun) -> bool:
        return decisions.tail_counts(found.tails.get(SOURCE), incarnation, found.ledger)

    def judged(self, unit: StoreUnit, entity: int, found: StoreMetadata, reply: UnitReply, base: list[int]) -> None:
        """Checks that no guard passes a tail's event that stays, `m` counts them, and no base goes back."""
        fields = dict(zip(reply.hot[::2], reply.hot[1::2], strict=True))
        where, count = f"{unit.view} entity {entity}", 0
        for at, offset, _ in in_tail(fields):
            guard, count = fields.get(keys.guard_field(at)), count + 1
            if guard is not None and offset <= int(guard):
                raise Wrong(f"{where}: an event of the tail at p{at[1]} o{offset}, guard {int(guard)}")
        if int(fields.get(keys.TAIL_COUNT, b"0")) != count:
            raise Wrong(f"{where}: {count} events in the tail, counted as {fields.get(keys.TAIL_COUNT)!r}")
        life = (self.server.incarnation, found.generation, found.name(unit.storage_fingerprint), entity)
        before = self.bases.get(life, [])
        if any(now < then for now, then in zip(base, before, strict=False)):
            raise Wrong(f"{where}: the base went back from {before} to {base}")
        self.bases[life] = base


class TailWorld(Tailing):
    """A world of slices with a tail."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.server: TailServer = TailServer(self)

    def merged(self) -> bool:
        return self.checked % 4 == 0  # the rule of what stands is `merge`'s own in all of them

    def with_tail(
        self,
        unit: StoreUnit,
        found: StoreMetadata,
        reply: UnitReply,
        got: list[Seen],
        base: list[int],
        covers: dict[int, OffsetVector],
    ) -> tuple[list[Seen], list[int]]:
        base, got = list(base), list(got)
        fields = dict(zip(reply.hot[::2], reply.hot[1::2], strict=True))
        start = found.starts[unit.storage_fingerprint]
        for at, offset, event in in_tail(fields):
            first, end = merge_tail.standing(fields, at)
            if first <= offset < end:
                base[at[1]] = max(base[at[1]], offset + 1)
                if offset >= floor(start.get(at), covers.get(event // HOUR_US, start).get(at)):
                    got.append((at[1], offset))
        return sorted(got), base


def in_tail(fields: Mapping[bytes, bytes]) -> list[tuple[TopicPartition, int, int]]:
    """(place, offset, event time) of the events in the tail fields of a hash, of each place in offset order."""
    found: list[tuple[TopicPartition, int, int]] = []
    left = {name for name in fields if name.startswith(keys.TAIL_FIELDS)}
    for name, head in fields.items():
        if not name.startswith(b"o:"):
            continue
        oldest, newest = codec.unpack_tail_head(head)
        named = [keys.tail_field(name[2:], number) for number in range(oldest, newest + 1)]
        if not left.issuperset(named):
            raise Wrong(f"{name!r} names {oldest} to {newest}, of {left}")
        left.difference_update(named)
        opened = [codec.unpack_tail(fields[each]) for each in named]
        rows = NO_COLUMNS.decode([member for _, members in opened for member in members])
        offsets = rows.offset.tolist()
        if offsets != sorted(set(offsets)) or not {last for last, _ in opened}.issubset(offsets):
            raise Wrong(f"{name!r} has the offsets {offsets}, its fields end at {[last for last, _ in opened]}")
        found += zip(map(place, rows.partition.tolist()), offsets, rows.time.tolist(), strict=True)
    if left:
        raise Wrong(f"tail fields that no head names: {left}")
    return found


def floor(start: int, cover: int) -> int:
    """First offset of a place that neither the backfill nor the compacted hour holds."""
    return max(start, cover)


# ------------------------------------------------------------ actors
def tail(world: Tailing, start: tuple[int, ...] | None) -> Actor:
    """Writes all events from `start` (None: the ledger) on, as one process; each place in offset order."""
    store = world.connect()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    position = list(start or [found.ledger.get(place(p)) for p in range(len(world.log))])
    if world.late_start:
        position = [min(at + world.rng.randint(0, 2), end) for at, end in zip(position, world.ends(), strict=False)]
    units, epoch, digest = world.units, found.epoch, found.units
    if digest != world.deployment().digest or not world.on_tail:
        return
    yield from world.on(store, store.steps(BeginRealtime(SOURCE, cover(*position), epoch, digest)))
    yield from world.on(store, store.steps(HoldBuilds(actors.terms_of(found))))
    world.say(f"begins at {position}")
    yield from bring(world, Run(store, found, units, position))


def relief(world: Tailing) -> Actor:
    """Takes over from the tail that began last, bound to the same life: that one may go on beside it, or end."""
    before = world.run
    if before is None:
        return
    store, position = world.connect(), list(before.position)
    if world.relieves_early:
        position = [min(at + world.rng.randint(0, 2), end) for at, end in zip(position, world.ends(), strict=False)]
    actors.same_life(world, store, before.store)
    yield from world.on(store, store.steps(HoldBuilds(actors.terms_of(before.found))))
    world.say(f"takes over at {position}")
    yield from bring(world, Run(store, before.found, before.units, position))


def bring(world: Tailing, run: Run) -> Actor:
    """Writes all events from its position on."""
    world.run, position = run, run.position
    while True:
        position += [0] * (len(world.log) - len(position))
        p = world.rng.randrange(len(position))
        end = min(len(world.log[p]), position[p] + world.rng.randint(0, 5))
        for unit in run.units if end > position[p] else ():
            run.store = yield from written(world, run.store, actors.terms_of(run.found), unit, p, position[p], end)
        position[p] = end
        yield


def written(
    world: Tailing, store: Store, terms: Mapping[str, int], unit: StoreUnit, p: int, begin: int, end: int
) -> Generator[None, None, Store]:
    """One flush, acknowledged; the connection that it came over."""
    while world.rng.random() < 0.15:  # the connection breaks, and what was sent may arrive whenever
        lost = sent(world, store, unit, world.events(p, begin, end))
        for _ in range(world.rng.randint(0, 4)):
            if next(lost, lost) is lost:
                break
            yield
        world.groups["unsent"].append(lost)
        again = world.connect()
        if not world.other_lives:
            actors.same_life(world, again, store)
        store = again
        if not world.forgets_terms:
            yield from world.on(store, store.steps(HoldBuilds(terms)))
        if world.forgets:
            return store
    if world.other_lives:
        store.node.incarnation = world.server.incarnation  # type: ignore[misc]
    events = world.events(p, begin, end)
    if world.backwards and end - begin > 1:
        yield from world.on(store, store.steps(WritePending(tail_batch(unit, events[1:]), world.bound, world.room)))
    outcome = yield from world.on(store, store.steps(WritePending(tail_batch(unit, events), world.bound, world.room)))
    world.say(f"tail {unit.view} p{p} {begin}..{end - 1}", outcome)
    return store


def sent(world: Tailing, store: Store, unit: StoreUnit, events: Sequence[Event]) -> Actor:
    """Sends what nobody waits for."""
    yield from world.on(store, store.steps(WritePending(tail_batch(unit, events), world.bound, world.room)))


def ending(world: Tailing) -> Actor:
    """Ends as the stream's driver does without a tail: it looks again and again whether the mark may go."""
    ends = cover(*world.ends())
    while True:
        store = world.connect()
        found = yield from world.on(store, store.steps(ReadMetadata()))
        may = found.ledger.dominates(ends) or not world.ends_folded
        if may and (yield from world.on(store, store.steps(EndRealtime(SOURCE)))):
            world.say("the tail's mark is gone")
        yield


# ------------------------------------------------------------ what happens
def begin(world: Tailing) -> None:
    finish(world, actors.operator(world))
    world.groups["streams"].append(actors.stream(world, None))
    begin_tail(world)
    world.groups["others"] += [actors.compaction(world), actors.totals(world)]
    world.groups["readers"].append(actors.reader(world))


def begin_tail(world: Tailing) -> None:
    world.groups["tails"].append(tail(world, None))


def fold_on(world: Tailing) -> None:
    if world.pace != "fold behind" or world.rng.random() < 0.4:
        step(world, world.groups["streams"])


def tail_on(world: Tailing) -> None:
    if world.pace != "tail behind" or world.rng.random() < 0.4:
        step(world, world.groups["tails"])


def lose_some(world: Tailing) -> None:
    lose(world)
    if world.rng.random() < 0.5:
        world.groups["tails"].clear()


def redeploy(world: Tailing) -> None:
    if sum(world.ends()) > 6:
        before = world.units
        world.want(another(world))
        finish(world, actors.operator(world))
        if world.rng.random() < 0.3:  # a unit is left out and back at once: tails span both its terms
            world.want(before)
            finish(world, actors.operator(world))


def another_stream(world: Tailing) -> None:
    start = nearby(world) if world.rng.random() < 0.5 else None
    joins(world, "streams", actors.stream(world, start), keeping=1)


def another_tail(world: Tailing) -> None:
    start = nearby(world) if world.rng.random() < 0.5 else None
    joins(world, "tails", tail(world, start), keeping=world.rng.randint(0, 2))


def another_relief(world: Tailing) -> None:
    joins(world, "tails", relief(world), keeping=world.rng.randint(0, 2))


def another_fill(world: Tailing) -> None:
    joins(world, "fills", actors.backfill(world, world.rng.choice(world.units)), keeping=1)


def switch(world: Tailing) -> None:
    """Off: no tail begins any more, and the stream's driver goes on without one; zombies write as long as they can.
    On: it ends before they begin."""
    world.on_tail = not world.on_tail
    world.say(f"the tail is switched {'on' if world.on_tail else 'off'}")
    del world.groups["tails"][world.rng.randint(0, 1) :]
    world.groups["enders"] = [] if world.on_tail else [ending(world)]


def go_on(world: Tailing) -> None:
    rng, groups = world.rng, world.groups
    found = world.marks()
    if found is not None and found.epoch > world.epoch and rng.random() < 0.9:
        joins(world, "streams", actors.stream(world, nearby(world)), keeping=1)
        joins(world, "tails", tail(world, None), keeping=1)
        groups["fills"] = [actors.backfill(world, unit) for unit in world.units]
    world.epoch = 0 if found is None else found.epoch
    if not world.on_tail and not groups["enders"]:
        groups["enders"].append(ending(world))
    if rng.random() < 0.1:
        step(world, groups["enders"])
    if not groups["streams"]:
        groups["streams"].append(actors.stream(world, None))
    if not groups["tails"] and rng.random() < 0.3:
        begin_tail(world)
    others_go_on(world, 2)
    if not groups["readers"]:
        another_reader(world)


def end(world: TailWorld) -> None:
    """Lets commands that were lost on the way arrive, or not, and heals."""
    if world.rng.random() < 0.5:
        world.groups["unsent"].clear()
    for late in world.groups["unsent"]:
        finish(world, late)
    heal(world)


PLAY = Play(
    "tails",
    TailWorld,
    begin,
    (
        (150, TailWorld.produce),
        (10, hour_passes),
        (240, fold_on),
        (240, tail_on),
        (30, steps("unsent")),
        (140, steps("others")),
        (60, steps("fills")),
        (50, steps("readers")),
        (10, lose_some),
        (1, empty),
        (7, redeploy),
        (3, add_partition),
        (14, another_stream),
        (13, another_tail),
        (7, another_relief),
        (5, switch),
        (5, another_fill),
        (7, another_other),
        (8, another_reader),
    ),
    go_on,
    end,
    60,
    500,
)
