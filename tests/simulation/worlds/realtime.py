"""After every write, an answer with its real-time lane holds exactly its token's events, and no
token goes back.

The same log, store, stream, compaction and operator as the world of slices; beside them real-time
lanes, which write events beyond what is applied: also zombies, replays, broken connections whose
commands still arrive, skips at a bound, one that takes over from another, and a real-time lane that
is switched off and on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewise import codec
from slicewise.codec import Room
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.reading import pending as reading_pending
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
from tests.support.stores.stored import (
    NO_COLUMNS,
    Event,
    StoreUnit,
    offset_vector,
    pending_batch,
    topic_partition,
)

SOURCE = "plays"
BOUNDS = (1, 2, 4, 100)
PACES = ("even", "micro-batch lane behind", "real-time lane behind")
ROOMS = (Room(1, 4096), Room(2, 4096), Room(3, 120), Room(64, 4096))


class RealtimeServer(Server):
    """A store that with a rule removed is asked for something else."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.instead: Callable[[Command], Command] = lambda command: command

    def written(self, command: Command) -> Any:
        return super().written(self.instead(command))


@dataclass
class Run:
    """A real-time lane that writes: over which connection, by which metadata, and how far all is
    acknowledged."""

    store: Store
    metadata: StoreMetadata
    units: Sequence[StoreUnit]
    position: list[int]


class RealtimeBase(World):
    """A world in which real-time lanes run."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.bound = self.rng.choice(BOUNDS)
        self.realtime_on = True
        self.pace = self.rng.choice(PACES)
        self.room = ROOMS[(2 * BOUNDS.index(self.bound) + PACES.index(self.pace)) % len(ROOMS)]
        self.late_start = False
        """Removed rule: the real-time lane begins at the committed offsets or before."""
        self.other_server_runs = False
        """Removed rule: the real-time lane's connections are of the server run that its entry
        names."""
        self.backwards = False
        """Removed rule: an entity's events are written in offset order."""
        self.forgets_builds = False
        """Removed rule: the real-time lane writes under the names that it was planned for, over all
        its connections."""
        self.ends_applied = False
        """True where whoever removes an entry waits until all is applied that there was when the
        real-time lane was switched off."""
        self.forgets = False
        """Removed rule: after a broken connection it goes on from the first that was not
        acknowledged."""
        self.relieves_early = False
        """Removed rule: the real-time lane takes over where the one before it has acknowledged
        all."""
        self.run: Run | None = None
        """The one that began last."""
        self.bases: dict[tuple[Any, ...], list[int]] = {}

    def has_realtime(self, metadata: StoreMetadata, server_run: ServerRun) -> bool:
        return decisions.realtime_counts(
            metadata.realtime_starts.get(SOURCE), server_run, metadata.committed
        )

    def judged(
        self,
        unit: StoreUnit,
        entity: int,
        metadata: StoreMetadata,
        reply: UnitReply,
        base: list[int],
    ) -> None:
        """Checks that no applied offset passes the real-time lane's event that stays, `m` counts
        them, and no base goes back."""
        fields = dict(zip(reply.hot[::2], reply.hot[1::2], strict=True))
        where, count = f"{unit.view} entity {entity}", 0
        for at, offset, _ in pending_in(fields):
            applied_offset, count = fields.get(keys.applied_field(at)), count + 1
            if applied_offset is not None and offset <= int(applied_offset):
                raise Wrong(
                    f"{where}: a pending event at p{at[1]} o{offset}, applied offset "
                    f"{int(applied_offset)}"
                )
        if int(fields.get(keys.PENDING_COUNT, b"0")) != count:
            raise Wrong(
                f"{where}: {count} events among the pending events, counted as "
                f"{fields.get(keys.PENDING_COUNT)!r}"
            )
        identity = (
            self.server.server_run,
            metadata.store_id,
            metadata.name(unit.storage_fingerprint),
            entity,
        )
        before = self.bases.get(identity, [])
        if any(now < then for now, then in zip(base, before, strict=False)):
            raise Wrong(f"{where}: the base went back from {before} to {base}")
        self.bases[identity] = base


class RealtimeWorld(RealtimeBase):
    """A world of slices with the real-time lane."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.server: RealtimeServer = RealtimeServer(self)

    def merged(self) -> bool:
        return self.checked % 4 == 0  # the rule of what stands is `merge`'s own in all of them

    def with_pending(
        self,
        unit: StoreUnit,
        metadata: StoreMetadata,
        reply: UnitReply,
        got: list[Seen],
        base: list[int],
        offset_vectors: dict[int, OffsetVector],
    ) -> tuple[list[Seen], list[int]]:
        base, got = list(base), list(got)
        fields = dict(zip(reply.hot[::2], reply.hot[1::2], strict=True))
        start = metadata.starts[unit.storage_fingerprint]
        for at, offset, event in pending_in(fields):
            first, end = reading_pending.pending_range(fields, at)
            if first <= offset < end:
                base[at[1]] = max(base[at[1]], offset + 1)
                if offset >= floor(
                    start.get(at), offset_vectors.get(event // HOUR_US, start).get(at)
                ):
                    got.append((at[1], offset))
        return sorted(got), base


def pending_in(fields: Mapping[bytes, bytes]) -> list[tuple[TopicPartition, int, int]]:
    """(partition, offset, event time) of the events in the pending fields of a hash, of each
    partition in offset order."""
    pending: list[tuple[TopicPartition, int, int]] = []
    left = {name for name in fields if name.startswith(keys.PENDING_FIELDS)}
    for name, head in fields.items():
        if not name.startswith(b"o:"):
            continue
        oldest, newest = codec.unpack_pending_numbers(head)
        named = [keys.pending_field(name[2:], number) for number in range(oldest, newest + 1)]
        if not left.issuperset(named):
            raise Wrong(f"{name!r} names {oldest} to {newest}, of {left}")
        left.difference_update(named)
        opened = [codec.unpack_pending(fields[field]) for field in named]
        rows = NO_COLUMNS.decode([member for _, members in opened for member in members])
        offsets = rows.offset.tolist()
        if offsets != sorted(set(offsets)) or not {last for last, _ in opened}.issubset(offsets):
            raise Wrong(
                f"{name!r} has the offsets {offsets}, its fields end at "
                f"{[last for last, _ in opened]}"
            )
        pending += zip(
            map(topic_partition, rows.partition.tolist()), offsets, rows.time.tolist(), strict=True
        )
    if left:
        raise Wrong(f"pending fields that no head names: {left}")
    return pending


def floor(start: int, offset_vector: int) -> int:
    """First offset of a partition that neither the backfill nor the compacted hour holds."""
    return max(start, offset_vector)


# ------------------------------------------------------------ actors
def realtime(world: RealtimeBase, start: tuple[int, ...] | None) -> Actor:
    """Writes all events from `start` (None: the committed offsets) on, as one process; each
    partition in offset order."""
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    position = list(
        start or [metadata.committed.get(topic_partition(p)) for p in range(len(world.log))]
    )
    if world.late_start:
        position = [
            min(at + world.rng.randint(0, 2), end)
            for at, end in zip(position, world.ends(), strict=False)
        ]
    units, deployment_version, digest = world.units, metadata.deployment_version, metadata.units
    if digest != world.deployment().digest or not world.realtime_on:
        return
    yield from world.on(
        store,
        store.steps(BeginRealtime(SOURCE, offset_vector(*position), deployment_version, digest)),
    )
    yield from world.on(store, store.steps(HoldBuilds(actors.builds_of(metadata))))
    world.note(f"begins at {position}")
    yield from write(world, Run(store, metadata, units, position))


def relief(world: RealtimeBase) -> Actor:
    """Takes over from the real-time lane that began last, bound to the same server run: that one
    may go on beside it, or end."""
    before = world.run
    if before is None:
        return
    store, position = world.connect(), list(before.position)
    if world.relieves_early:
        position = [
            min(at + world.rng.randint(0, 2), end)
            for at, end in zip(position, world.ends(), strict=False)
        ]
    actors.same_server_run(world, store, before.store)
    yield from world.on(store, store.steps(HoldBuilds(actors.builds_of(before.metadata))))
    world.note(f"takes over at {position}")
    yield from write(world, Run(store, before.metadata, before.units, position))


def write(world: RealtimeBase, run: Run) -> Actor:
    """Writes all events from its position on."""
    world.run, position = run, run.position
    while True:
        position += [0] * (len(world.log) - len(position))
        p = world.rng.randrange(len(position))
        end = min(len(world.log[p]), position[p] + world.rng.randint(0, 5))
        for unit in run.units if end > position[p] else ():
            run.store = yield from written(
                world, run.store, actors.builds_of(run.metadata), unit, p, position[p], end
            )
        position[p] = end
        yield


def written(
    world: RealtimeBase,
    store: Store,
    builds: Mapping[str, int],
    unit: StoreUnit,
    p: int,
    begin: int,
    end: int,
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
        if not world.other_server_runs:
            actors.same_server_run(world, again, store)
        store = again
        if not world.forgets_builds:
            yield from world.on(store, store.steps(HoldBuilds(builds)))
        if world.forgets:
            return store
    if world.other_server_runs:
        store.node.server_run = world.server.server_run  # type: ignore[misc]
    events = world.events(p, begin, end)
    if world.backwards and end - begin > 1:
        yield from world.on(
            store,
            store.steps(WritePending(pending_batch(unit, events[1:]), world.bound, world.room)),
        )
    outcome = yield from world.on(
        store, store.steps(WritePending(pending_batch(unit, events), world.bound, world.room))
    )
    world.note(f"pending {unit.view} p{p} {begin}..{end - 1}", outcome)
    return store


def sent(world: RealtimeBase, store: Store, unit: StoreUnit, events: Sequence[Event]) -> Actor:
    """Sends what nobody waits for."""
    yield from world.on(
        store, store.steps(WritePending(pending_batch(unit, events), world.bound, world.room))
    )


def ending(world: RealtimeBase) -> Actor:
    """Ends as the stream's driver does without the real-time lane: it looks again and again whether
    the entry may go."""
    ends = offset_vector(*world.ends())
    while True:
        store = world.connect()
        metadata = yield from world.on(store, store.steps(ReadMetadata()))
        may = metadata.committed.dominates(ends) or not world.ends_applied
        if may and (yield from world.on(store, store.steps(EndRealtime(SOURCE)))):
            world.note("the real-time lane's entry is gone")
        yield


# ------------------------------------------------------------ what happens
def begin(world: RealtimeBase) -> None:
    finish(world, actors.operator(world))
    world.groups["streams"].append(actors.stream(world, None))
    begin_realtime(world)
    world.groups["others"] += [actors.compaction(world), actors.totals(world)]
    world.groups["readers"].append(actors.reader(world))


def begin_realtime(world: RealtimeBase) -> None:
    world.groups["realtime"].append(realtime(world, None))


def microbatch_on(world: RealtimeBase) -> None:
    if world.pace != "micro-batch lane behind" or world.rng.random() < 0.4:
        step(world, world.groups["streams"])


def switch_realtime(world: RealtimeBase) -> None:
    if world.pace != "real-time lane behind" or world.rng.random() < 0.4:
        step(world, world.groups["realtime"])


def lose_some(world: RealtimeBase) -> None:
    lose(world)
    if world.rng.random() < 0.5:
        world.groups["realtime"].clear()


def redeploy(world: RealtimeBase) -> None:
    if sum(world.ends()) > 6:
        before = world.units
        world.want(another(world))
        finish(world, actors.operator(world))
        # a unit is left out and back at once: real-time lanes span both its builds
        if world.rng.random() < 0.3:
            world.want(before)
            finish(world, actors.operator(world))


def another_stream(world: RealtimeBase) -> None:
    start = nearby(world) if world.rng.random() < 0.5 else None
    joins(world, "streams", actors.stream(world, start), keeping=1)


def another_realtime(world: RealtimeBase) -> None:
    start = nearby(world) if world.rng.random() < 0.5 else None
    joins(world, "realtime", realtime(world, start), keeping=world.rng.randint(0, 2))


def another_relief(world: RealtimeBase) -> None:
    joins(world, "realtime", relief(world), keeping=world.rng.randint(0, 2))


def another_fill(world: RealtimeBase) -> None:
    joins(world, "fills", actors.backfill(world, world.rng.choice(world.units)), keeping=1)


def switch(world: RealtimeBase) -> None:
    """Off: no real-time lane begins any more, and the stream's driver goes on without one; zombies
    write as long as they can. On: it ends before they begin."""
    world.realtime_on = not world.realtime_on
    world.note(f"the real-time lane is switched {'on' if world.realtime_on else 'off'}")
    del world.groups["realtime"][world.rng.randint(0, 1) :]
    world.groups["enders"] = [] if world.realtime_on else [ending(world)]


def go_on(world: RealtimeBase) -> None:
    rng, groups = world.rng, world.groups
    metadata = world.metadata()
    if (
        metadata is not None
        and metadata.deployment_version > world.deployment_version
        and rng.random() < 0.9
    ):
        joins(world, "streams", actors.stream(world, nearby(world)), keeping=1)
        joins(world, "realtime", realtime(world, None), keeping=1)
        groups["fills"] = [actors.backfill(world, unit) for unit in world.units]
    world.deployment_version = 0 if metadata is None else metadata.deployment_version
    if not world.realtime_on and not groups["enders"]:
        groups["enders"].append(ending(world))
    if rng.random() < 0.1:
        step(world, groups["enders"])
    if not groups["streams"]:
        groups["streams"].append(actors.stream(world, None))
    if not groups["realtime"] and rng.random() < 0.3:
        begin_realtime(world)
    others_go_on(world, 2)
    if not groups["readers"]:
        another_reader(world)


def end(world: RealtimeWorld) -> None:
    """Lets commands that were lost on the way arrive, or not, and heals."""
    if world.rng.random() < 0.5:
        world.groups["unsent"].clear()
    for late in world.groups["unsent"]:
        finish(world, late)
    heal(world)


PLAY = Play(
    "realtime",
    RealtimeWorld,
    begin,
    (
        (150, RealtimeWorld.produce),
        (10, hour_passes),
        (240, microbatch_on),
        (240, switch_realtime),
        (30, steps("unsent")),
        (140, steps("others")),
        (60, steps("fills")),
        (50, steps("readers")),
        (10, lose_some),
        (1, empty),
        (7, redeploy),
        (3, add_partition),
        (14, another_stream),
        (13, another_realtime),
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
