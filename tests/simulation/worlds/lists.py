"""After every write, a ready unit's list holds its token's events, down to its low-water mark, once
each.

The same log, store and operator as the world of slices; units are event lists, time passes so that
they are trimmed and expire, and what they must keep grows and shrinks with deployments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slicewise import codec
from slicewise.errors import DataLoss
from slicewise.features.declare.event_list import EventList
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.committed import AdvanceCommitted, BeginBatch
from slicewise.stores.online.operations.connecting import HoldBuilds, ReadMetadata
from slicewise.stores.online.operations.event_lists import AddToList
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.steps import Command, ListChange, Members, Whole
from slicewise.windows.durations import HOUR_US
from tests.simulation.actors import slices as actors
from tests.simulation.histories.choices import Choices
from tests.simulation.histories.play import Play, finish, joins, steps
from tests.simulation.worlds.history import behind, empty, lose
from tests.simulation.worlds.world import ENTITIES, FIRST_HOUR, Actor, Logged, Server, World, Wrong
from tests.support.stores.stored import (
    EVER,
    NO_COLUMNS,
    Event,
    StoreUnit,
    list_batch,
    list_unit,
    offset_vector,
    tag,
    topic_partition,
)

LATE_US = HOUR_US // 2
RANGES, ROWS, SMALL = "00000000000000e0", "00000000000000e1", "00000000000000e2"
SHORT, LONG = EventList(HOUR_US, 0, LATE_US, 1_000), EventList(3 * HOUR_US, 0, LATE_US, 1_000)
ROOM = 4
LISTS = (
    list_unit(SHORT, RANGES, "ranges"),
    list_unit(EventList(0, 2, LATE_US, 1_000), ROWS, "rows"),
    list_unit(EventList(3 * HOUR_US, 0, LATE_US, ROOM), SMALL, "small"),
)
LONGER = (list_unit(LONG, RANGES, "ranges"), *LISTS[1:])
DEPLOYMENTS = (LISTS, LONGER, LISTS[1:])
Identity = tuple[int, int, int]
"""(time, partition, offset): the total order."""


class ListServer(Server):
    """A store that tells of writes to lists, and with a rule removed lacks their checks."""

    lax_lists = False

    def written(self, command: Command) -> Any:
        lax = self.lax_lists and isinstance(command, ListChange)
        return super().written(
            command._replace(checks=()) if lax and isinstance(command, ListChange) else command
        )


class ListWorld(World):
    """A world whose units are event lists."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.units = LISTS
        self.server: ListServer = ListServer(self)

    def produce(self) -> None:
        """An event of lately, or of some hours ago; many at the same instant."""
        partition = self.rng.randrange(len(self.log))
        now = self.server.time.now_us()
        at = now - self.rng.choice((0, 1, 3, 6, 11, 20)) * HOUR_US // 4
        at -= at % (HOUR_US // 8)
        self.log[partition].append(Logged(self.rng.randrange(ENTITIES), at // HOUR_US, at))
        self.note(
            f"event p{partition} o{len(self.log[partition]) - 1}", f"at {at - FIRST_HOUR * HOUR_US}"
        )

    def check(self) -> None:
        metadata = self.metadata()
        if metadata is None:
            return
        for unit in self.units:
            if (
                unit.storage_fingerprint in metadata.ready
                and unit.storage_fingerprint in metadata.starts
            ):
                for entity in self.here:
                    base = self.judge_list(unit, entity, metadata)
                    self.check_served(unit, entity, metadata, base)

    def judge_list(self, unit: StoreUnit, entity: int, metadata: StoreMetadata) -> list[int]:
        """Compares a list with the log; its base. Raises Wrong."""
        kept_as = metadata.keeps[unit.storage_fingerprint]
        name = metadata.name(unit.storage_fingerprint)
        flat = self.server.execute(Whole(keys.list_key(metadata.store_id, tag(entity), name)))
        members = self.server.execute(
            Members(keys.members_key(metadata.store_id, tag(entity), name), -EVER, EVER)
        )
        self.checked += 1
        # as the service has it
        contained = metadata.committed.join(metadata.starts[unit.storage_fingerprint])
        base = [contained.get(topic_partition(p)) for p in range(len(self.log))]
        low: Identity | None = None
        for field, value in zip(flat[::2], flat[1::2], strict=True):
            if field == keys.LOW:
                low = _order(value)
            elif field.startswith(b"l:"):
                p = int(field.split(b":")[2])
                base[p] = max(base[p], int(value) + 1)
        rows = NO_COLUMNS.decode(members)
        expected_events = sorted(
            zip(rows.time.tolist(), rows.partition.tolist(), rows.offset.tolist(), strict=True)
        )
        identities = sorted(
            (event.time_us, p, offset)
            for p, log in enumerate(self.log)
            for offset, event in enumerate(log[: base[p]])
            if event.entity == entity
        )
        now = self.server.time.now_us()
        # what a read may still ask for: of time, what is young enough; of rows, all above the mark
        oldest = now - kept_as.range_us if kept_as.expires else -EVER
        want = [
            member for member in identities if (low is None or member > low) and member[0] >= oldest
        ]
        got = [expected_event for expected_event in expected_events if expected_event[0] >= oldest]
        where = f"{unit.view} entity {entity}, base {base}, low {low}"
        if got != want:
            missing, many = sorted(set(want) - set(got)), sorted(set(got) - set(want))
            raise Wrong(f"{where}: missing {missing}, too many {many}")
        if len(expected_events) > kept_as.most:
            raise Wrong(f"{where}: {len(expected_events)} events where {kept_as.most} have room")
        if kept_as.most > ROOM:
            self.judge_policy(kept_as, identities, low, now, where)
        return base

    def judge_policy(
        self,
        keeps: EventList,
        identities: Sequence[Identity],
        low: Identity | None,
        now: int,
        where: str,
    ) -> None:
        """A list that has room refuses nothing that it must answer."""
        if low is None:
            return
        if keeps.range_us and low[0] >= now - keeps.range_us:
            raise Wrong(f"{where}: a window of {keeps.range_us} us is refused")
        if keeps.rows:
            last = [member for member in identities if member[0] <= now - keeps.late_us][
                -keeps.rows :
            ]
            if len(last) < keeps.rows or last[0] <= low:
                raise Wrong(f"{where}: the last {keeps.rows} rows at the earliest `at` are refused")


def _order(identity: bytes) -> Identity:
    return (
        codec.identity_time(identity),
        int.from_bytes(identity[24:28], "big"),
        int.from_bytes(identity[28:36], "big"),
    )


# ------------------------------------------------------------ actors
def stream(world: ListWorld, start: tuple[int, ...] | None) -> Actor:
    """Batches from `start` (None: the committed offsets) on."""
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    committed = [metadata.committed.get(topic_partition(p)) for p in range(len(world.log))]
    position = list(start or committed)
    units, deployment_version, digest = world.units, metadata.deployment_version, metadata.units
    if digest != world.deployment().digest:
        return
    world.note(f"begins at {position}", f"committed {committed}")
    while True:
        if any(offset < first for offset, first in zip(position, world.log_start, strict=True)):
            raise DataLoss("the log no longer has what the store needs")
        yield from world.on(
            store, store.steps(BeginBatch(offset_vector(*position), deployment_version, digest))
        )
        end = [
            min(len(world.log[p]), at + world.rng.randint(0, 4)) for p, at in enumerate(position)
        ]
        tasks = [(unit, p) for unit in units for p in range(len(position)) if end[p] > position[p]]
        world.rng.shuffle(tasks)
        for unit, p in tasks:
            task = store if world.rng.random() < 0.4 else actors.executor(world)
            actors.same_server_run(world, task, store)
            yield from world.on(task, task.steps(HoldBuilds(actors.builds_of(metadata))))
            outcome = yield from world.on(
                task, task.steps(AddToList(list_batch(unit, world.events(p, position[p], end[p]))))
            )
            world.note(
                f"add {unit.view} p{p} {position[p]}..{end[p] - 1}", f"{outcome.applied} applied"
            )
        after = yield from world.on(
            store,
            store.steps(
                AdvanceCommitted(
                    offset_vector(*position), offset_vector(*end), deployment_version, digest
                )
            ),
        )
        world.note("committed", [after.get(topic_partition(p)) for p in range(len(end))])
        position = end
        yield


def backfill(world: ListWorld, name: str) -> Actor:
    """Everything below the start offsets, then ready. The archive is the log.

    What the list of this fingerprint keeps is what the deployment says that the metadata names.
    """
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    if (
        name not in metadata.starts
        or name in metadata.ready
        or metadata.units != world.deployment().digest
    ):
        return
    unit = next(
        storage_unit for storage_unit in world.units if storage_unit.storage_fingerprint == name
    )
    yield from world.on(store, store.steps(HoldBuilds(actors.builds_of(metadata))))
    start = metadata.starts[name]
    below: list[Event] = [
        e for p in range(len(world.log)) for e in world.events(p, 0, start.get(topic_partition(p)))
    ]
    world.rng.shuffle(below)
    for at in range(0, len(below), 5):
        some = below[at : at + 5]
        yield from world.on(store, store.steps(AddToList(list_batch(unit, some, fill=start))))
    world.note(f"filled {unit.view} with {len(below)}")
    yield from world.on(store, store.steps(MarkReady(unit, start, {unit.view: [name]})))
    world.note(f"ready {unit.view}")


def pass_time(world: ListWorld) -> None:
    hours = world.rng.choice((1, 2, 5, 16)) * HOUR_US // 4
    world.pass_time(hours)
    world.note(f"{hours / HOUR_US} hours pass")
    world.check()


def begin(world: ListWorld) -> None:
    finish(world, actors.operator(world))
    begin_stream(world)


def begin_stream(world: ListWorld) -> None:
    world.groups["streams"].append(stream(world, None))


def another_stream(world: ListWorld, most: int = 2) -> None:
    start = nearby(world) if world.rng.random() < 0.6 else None
    joins(world, "streams", stream(world, start), keeping=world.rng.randint(0, most))


def another_fill(world: ListWorld) -> None:
    joins(
        world,
        "fills",
        backfill(world, world.rng.choice(world.units).storage_fingerprint),
        keeping=1,
    )


def redeploy(world: ListWorld) -> None:
    world.want(world.rng.choice([units for units in DEPLOYMENTS if units != world.units]))
    finish(world, actors.operator(world))


def lose_some(world: ListWorld) -> None:
    lose(world)
    if world.rng.random() < 0.5:
        del world.groups["streams"][1:]


def go_on(world: ListWorld) -> None:
    if not world.groups["streams"]:
        begin_stream(world)


def heal(world: ListWorld) -> None:
    """Left alone, every list comes to be ready."""
    wanted = {unit.storage_fingerprint for unit in world.units}
    for _ in range(6):  # nodes of which each lost something else are built one after another
        finish(world, actors.operator(world))
        if behind(world):
            world.recover()
        for unit in world.units:
            finish(world, backfill(world, unit.storage_fingerprint))
        metadata = world.metadata()
        if metadata is not None and metadata.ready.issuperset(wanted):
            break
    metadata = world.metadata()
    if metadata is None or not metadata.ready.issuperset(wanted):
        raise Wrong("not every list became ready")
    world.check()


def nearby(world: ListWorld) -> tuple[int, ...]:
    """Some offsets at or below the committed offsets."""
    metadata = world.metadata()
    if metadata is None:
        return tuple(world.log_start)
    return tuple(
        max(first, metadata.committed.get(topic_partition(p)) - world.rng.randint(0, 8))
        for p, first in enumerate(world.log_start)
    )


PLAY = Play(
    "lists",
    ListWorld,
    begin,
    (
        (200, ListWorld.produce),
        (420, steps("streams")),
        (230, steps("fills")),
        (30, pass_time),
        (10, lose_some),
        (2, empty),
        (13, redeploy),
        (45, another_stream),
        (50, another_fill),
    ),
    go_on,
    heal,
    60,
    500,
)
