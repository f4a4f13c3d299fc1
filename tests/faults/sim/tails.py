"""After every write, an answer with its tail holds exactly the events that its token says, and no token goes back.

The same log, store, stream, compaction and operator as the world of slices; beside them tails, which write events
beyond what is folded: also zombies, replays, broken connections whose commands still arrive, skips at a bound, and a
tail that is switched off and on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slicewise.cover import Cover
from slicewise.slices import HOUR_US
from slicewise.stores import decisions, keys
from slicewise.stores.ports import Incarnation, Marks, UnitReply
from slicewise.stores.store import Store
from tests.faults.sim import actors
from tests.faults.sim.history import Told, another, empty, finish, heal, lose, nearby, step
from tests.faults.sim.world import (
    HOURS,
    PARTITIONS,
    Actor,
    Seen,
    World,
    Wrong,
)
from tests.support.stored import NO_COLUMNS, StoreUnit, cover, place, tail_batch

SOURCE = "plays"
BOUNDS = (1, 2, 4, 100)


class TailWorld(World):
    """A world with a tail."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.bound = self.rng.choice(BOUNDS)
        self.on_tail = True
        self.sessions = None  # read by `merge`, which this world does not ask
        self.late_start = False
        """Removed rule: a tail begins at its plan's ledger or before."""
        self.acknowledged_at_once = False
        """Removed rule: after a broken connection it goes on from the first that was not acknowledged."""
        self._bases: dict[tuple[Any, ...], list[int]] = {}

    def tailed(self, found: Marks, incarnation: Incarnation) -> bool:
        return decisions.tail_counts(found.tails.get(SOURCE), incarnation, found.ledger)

    def with_tail(
        self,
        unit: StoreUnit,
        found: Marks,
        reply: UnitReply,
        got: list[Seen],
        base: list[int],
        covers: dict[int, Cover],
    ) -> tuple[list[Seen], list[int]]:
        base, got = list(base), list(got)
        fields = dict(zip(reply.hot[::2], reply.hot[1::2], strict=True))
        start = found.starts[unit.storage_fingerprint]
        for name, value in fields.items():
            if not name.startswith(b"e:"):
                continue
            (event,) = NO_COLUMNS.decode([value]).time.tolist()
            _, number, _, partition, offset = name.split(b":")
            where, at = place(int(partition)), int(offset)
            if event // unit.slice_us != int(number):
                raise Wrong(f"{name!r} holds another event")
            guard = int(fields.get(keys.guard_field(where), b"-1"))
            if stands(at, guard, fields.get(keys.skip_field(where))):
                base[where[1]] = max(base[where[1]], at + 1)
                if at >= max(start.get(where), covers.get(event // HOUR_US, start).get(where)):
                    got.append((where[1], at))
        return sorted(got), base

    def judged(self, unit: StoreUnit, entity: int, found: Marks, reply: UnitReply, base: list[int]) -> None:
        """No guard passes a tail field that stays, `n` is their number, and no base goes back in a life."""
        fields = dict(zip(reply.hot[::2], reply.hot[1::2], strict=True))
        tail = [name.split(b":") for name in fields if name.startswith(b"e:")]
        where = f"{unit.view} entity {entity}"
        for _, _, topic, partition, offset in tail:
            guard = fields.get(keys.guard_field(keys.parse_place(topic, partition)))
            if guard is not None and int(offset) <= int(guard):
                raise Wrong(f"{where}: a tail field at p{int(partition)} o{int(offset)}, guard {int(guard)}")
        if int(fields.get(keys.TAIL_COUNT, b"0")) != len(tail):
            raise Wrong(f"{where}: {len(tail)} tail fields, counted as {fields.get(keys.TAIL_COUNT)!r}")
        life = (self.server.incarnation, found.generation, found.name(unit.storage_fingerprint), entity)
        before = self._bases.get(life, [])
        if any(now < then for now, then in zip(base, before, strict=False)):
            raise Wrong(f"{where}: the base went back from {before} to {base}")
        self._bases[life] = base


def stands(offset: int, guard: int, skip: bytes | None) -> bool:
    """Whether a reader knows of all events before a tail field, where its tail counts."""
    if offset <= guard or skip is None:
        return offset > guard
    first, last = decisions.parse_skip(skip)
    return guard >= last or offset < first


# ------------------------------------------------------------ actors
def tail(world: TailWorld, start: tuple[int, ...] | None) -> Actor:
    """Writes all events from `start` (None: the ledger) on, as one process; each place in offset order."""
    store = world.connect()
    found = yield from world.on(store, store.steps.marks())
    position = list(start or [found.ledger.get(place(p)) for p in range(len(world.log))])
    if world.late_start:
        position = [min(at + world.rng.randint(0, 2), end) for at, end in zip(position, world.ends(), strict=False)]
    units, epoch, digest = world.units, found.epoch, found.units
    if digest != world.deployment().digest or not world.on_tail:
        return
    yield from world.on(store, store.steps.begin_tail(SOURCE, cover(*position), epoch, digest))
    yield from world.on(store, store.steps.hold(actors.terms_of(found)))
    world.say(f"tail from {position}")
    while True:
        position += [0] * (len(world.log) - len(position))
        p = world.rng.randrange(len(position))
        end = min(len(world.log[p]), position[p] + world.rng.randint(0, 5))
        for unit in units if end > position[p] else ():
            store = yield from written(world, store, unit, p, position[p], end)
        position[p] = end
        yield


def written(
    world: TailWorld, store: Store, unit: StoreUnit, p: int, begin: int, end: int
) -> Actor:  # type: ignore[misc]
    """One flush, acknowledged; the connection that it came over."""
    while world.rng.random() < 0.15:  # the connection breaks, and what was sent may arrive whenever
        lost = world.on(store, store.steps.tail(tail_batch(unit, world.events(p, begin, end)), world.bound))
        for _ in range(world.rng.randint(0, 4)):
            if next(lost, lost) is lost:
                break
            yield
        world.unsent.append(lost)
        again = world.connect()
        actors.same_life(world, again, store)
        store = again
    outcome = yield from world.on(store, store.steps.tail(tail_batch(unit, world.events(p, begin, end)), world.bound))
    world.say(f"tail {unit.view} p{p} {begin}..{end - 1}: {outcome}")
    return store
