"""After every write, a list that both lanes both add to holds its token's events, once, in order.

The world of lists, beside whose streams real-time lanes run: zombies, replays, broken connections
whose commands still arrive.
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
from tests.support.stores.stored import (
    Event,
    StoreUnit,
    offset_vector,
    pending_batch,
    tag,
    topic_partition,
)

SOURCE = "plays"


class RealtimeListServer(ListServer):
    """A store that tells of what the real-time lane adds to lists."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.applied_offsets = True
        """False: a removed rule, the applied offset of a list is not looked at."""

    def written(self, command: Command) -> Any:
        if isinstance(command, PendingListChange) and not self.applied_offsets:
            return super().written(command._replace(applied_field=b"-"))
        return super().written(command)


class RealtimeListWorld(ListWorld):
    """A world of lists with the real-time lane."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.server: RealtimeListServer = RealtimeListServer(self)
        self.backwards = self.forgets = self.late_start = False
        """Removed rules."""
        self.bases: dict[tuple[Any, ...], dict[bytes, int]] = {}

    def judge_list(self, unit: StoreUnit, entity: int, metadata: StoreMetadata) -> list[int]:
        base = super().judge_list(unit, entity, metadata)
        name = metadata.name(unit.storage_fingerprint)
        flat = self.server.execute(Whole(keys.list_key(metadata.store_id, tag(entity), name)))
        now = {
            field: int(value)
            for field, value in zip(flat[::2], flat[1::2], strict=True)
            if field[:2] == b"l:"
        }
        identity = (self.server.server_run, metadata.store_id, name, entity)
        before = self.bases.get(identity, {})
        if any(now.get(field, last) < last for field, last in before.items()):
            raise Wrong(
                f"{unit.view} entity {entity}: applied offsets went back from {before} to {now}"
            )
        self.bases[identity] = now
        return base


# ------------------------------------------------------------ actors
def realtime(world: RealtimeListWorld, start: tuple[int, ...] | None) -> Actor:
    """Adds all events from `start` (None: the committed offsets) on, each partition's in offset
    order."""
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    position = list(
        start or [metadata.committed.get(topic_partition(p)) for p in range(len(world.log))]
    )
    if world.late_start:
        position = [
            min(at + world.rng.randint(0, 2), end)
            for at, end in zip(position, world.ends(), strict=True)
        ]
    units, deployment_version, digest = world.units, metadata.deployment_version, metadata.units
    if digest != world.deployment().digest:
        return
    if not world.late_start:
        yield from world.on(
            store,
            store.steps(
                BeginRealtime(SOURCE, offset_vector(*position), deployment_version, digest)
            ),
        )
    yield from world.on(store, store.steps(HoldBuilds(actors.builds_of(metadata))))
    world.note(f"begins at {position}")
    while True:
        p = world.rng.randrange(len(position))
        end = min(len(world.log[p]), position[p] + world.rng.randint(0, 5))
        for unit in units if end > position[p] else ():
            events = world.events(p, position[p], end)
            # the connection breaks, and what was sent may arrive whenever
            if world.rng.random() < 0.1:
                world.groups["unsent"].append(sent(world, store, unit, events))
                again = world.connect()
                actors.same_server_run(world, again, store)
                store = again
                yield from world.on(store, store.steps(HoldBuilds(actors.builds_of(metadata))))
                if world.forgets:
                    continue
            if world.backwards and len(events) > 1:
                yield from sent(world, store, unit, events[1:])
            yield from sent(world, store, unit, events)
        position[p] = end
        yield


def sent(world: RealtimeListWorld, store: Store, unit: StoreUnit, events: list[Event]) -> Actor:
    outcome = yield from world.on(store, store.steps(WritePending(pending_batch(unit, events), 1)))
    world.note(
        f"pending {unit.view} p{events[0].partition} {events[0].offset}..{events[-1].offset}",
        outcome,
    )


def begin(world: RealtimeListWorld) -> None:
    lists.begin(world)
    begin_realtime(world)


def begin_realtime(world: RealtimeListWorld) -> None:
    world.groups["realtime"].append(realtime(world, None))


def another_realtime(world: RealtimeListWorld) -> None:
    start = lists.nearby(world) if world.rng.random() < 0.6 else None
    joins(world, "realtime", realtime(world, start), keeping=world.rng.randint(0, 2))


def redeploy(world: RealtimeListWorld) -> None:
    lists.redeploy(world)
    joins(world, "realtime", realtime(world, None), keeping=1)


def go_on(world: RealtimeListWorld) -> None:
    lists.go_on(world)
    if not world.groups["realtime"] and world.rng.random() < 0.3:
        begin_realtime(world)


PLAY = Play(
    "realtime-lists",
    RealtimeListWorld,
    begin,
    (
        (200, RealtimeListWorld.produce),
        (220, steps("streams")),
        (260, steps("realtime")),
        (30, steps("unsent")),
        (140, steps("fills")),
        (25, lists.pass_time),
        (10, lose),
        (2, empty),
        (13, redeploy),
        (30, lists.another_stream),
        (30, another_realtime),
        (40, lists.another_fill),
    ),
    go_on,
    World.check,
    60,
    400,
)
