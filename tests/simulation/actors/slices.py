"""Actors against the store: each is the real procedure, and may stop for ever anywhere."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from slicewise.errors import DataLoss, DeploymentSuperseded, GapRefused, ServerRunChanged
from slicewise.lifecycle.compaction import Compacted, UnitHours
from slicewise.lifecycle.sweep import rules_of, verdict
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.archive_versions import (
    CountArchiveVersions,
    PutArchiveVersion,
    TrimArchiveVersions,
)
from slicewise.stores.online.operations.committed import AdvanceCommitted, BeginBatch
from slicewise.stores.online.operations.connecting import HoldBuilds, Initialise, ReadMetadata
from slicewise.stores.online.operations.day_totals import WriteDayTotals
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.publish_days import (
    DayEntry,
    MarkHour,
    PublishDays,
    ReadHours,
)
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead
from slicewise.stores.online.port import NodesContext
from slicewise.stores.online.steps import Change, KeyChange, Whole
from slicewise.stores.online.store import Store
from tests.simulation.worlds.world import (
    DAY,
    DAY_FIELDS,
    ENTITIES,
    FIRST_HOUR,
    HOURS,
    Actor,
    World,
    Wrong,
    entity_keys,
)
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.stored import (
    TOPIC,
    Event,
    StoreUnit,
    day_entry,
    hour_entry,
    offset_vector,
    tag,
    topic_partition,
)


def same_server_run(world: World, store: Store, other: Store) -> None:
    """A task's connection must be of its batch's server run and store id."""
    if store.store_id != other.store_id or (
        store.server_run != other.server_run and not world.reconnects
    ):
        raise ServerRunChanged("a task's connection is of another server run")


def builds_of(metadata: StoreMetadata) -> dict[str, int]:
    """The builds that a job holds, from the metadata that it was planned by."""
    return {unit: metadata.builds.get(unit, 0) for unit in metadata.starts}


def stream(world: World, start: tuple[int, ...] | None) -> Actor:
    """Batches from `start` (a checkpoint; None: from the committed offsets) on, as one process with
    tasks."""
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    committed = [metadata.committed.get(topic_partition(p)) for p in range(len(world.log))]
    position = list(start or committed)
    position = world.begins(position + committed[len(position) :], metadata)
    units, deployment_version = world.deployed_units(metadata), metadata.deployment_version
    digest = metadata.units
    if units is None:
        return  # not deployed yet
    world.note(f"begins at {position}", f"committed {committed}, units {[u.view for u in units]}")
    while True:
        if any(offset < first for offset, first in zip(position, world.log_start, strict=False)):
            raise DataLoss("the log no longer has what the store needs")
        begun = yield from world.on(
            store, store.steps(BeginBatch(offset_vector(*position), deployment_version, digest))
        )
        end = [
            min(len(world.log[p]), at + world.rng.randint(0, 4)) for p, at in enumerate(position)
        ]
        tasks = [(unit, p) for unit in units for p in range(len(position)) if end[p] > position[p]]
        tasks += [task for task in tasks if world.rng.random() < 0.1]  # a task may repeat
        world.rng.shuffle(tasks)
        yield from world.early(store, position, end, metadata)
        for unit, p in tasks:
            task = store
            where = world.rng.random()
            if where < 0.3:
                task = world.connect()
            elif where < 0.6:
                task = executor(world)
            same_server_run(world, task, store)
            yield from world.on(task, task.steps(HoldBuilds(builds_of(metadata))))
            events = world.chosen(unit, world.events(p, position[p], end[p]))
            if not events:
                continue
            batch = replace(
                world.batch(unit, events), realtime=unit.source in begun.realtime_starts
            )
            outcome = yield from world.on(task, task.steps(ApplyBatch(batch)))
            world.note(
                f"apply {unit.view} p{p} {position[p]}..{end[p] - 1}", f"{outcome.applied} applied"
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


def executor(world: World) -> Store:
    """The worker's connection; a dead one is replaced."""
    kept = world.executor
    metadata = world.metadata()
    if (
        kept is None
        or isinstance(kept.context, NodesContext)  # of several nodes a task's connection is its own
        or kept.context.bound_to is None  # opened while there were no metadata
        or metadata is None
        or kept.store_id != metadata.store_id
        or kept.server_run != world.server_run
    ):
        kept = world.executor = world.connect()
    return kept


def compaction(world: World) -> Actor:
    while True:
        yield from compaction_run(world)
        if world.rng.random() < 0.5:
            yield from trim(world)
        yield


def compaction_run(world: World, most: int = 3) -> Actor:
    """Some hours that are over, to the newest offset vector of the archive or to one begun
    earlier."""
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    yield from world.on(store, store.steps(HoldBuilds(builds_of(metadata))))
    archive_version, offsets = (
        world.archived() if world.rng.random() < 0.35 or not world.archive else newest(world)
    )
    deployed_units = [unit for unit in world.units if unit.storage_fingerprint in metadata.starts]
    jobs = [(unit, FIRST_HOUR + h) for unit in deployed_units for h in range(min(world.now, HOURS))]
    world.rng.shuffle(jobs)
    chosen = jobs[: world.rng.randint(1, most)]
    if archive_version % 2:
        for unit, hour in chosen:
            yield from compact(world, store, unit, hour, archive_version, offsets)
        return
    for unit in deployed_units:
        if hours := sorted(hour for of, hour in chosen if of is unit):
            yield from compact_together(world, store, unit, hours, archive_version, offsets)


def newest(world: World) -> tuple[int, tuple[int, ...]]:
    archive_version = max(world.archive)
    return archive_version, world.archive[archive_version]


def compact(
    world: World,
    store: Store,
    unit: StoreUnit,
    hour: int,
    archive_version: int,
    offsets: tuple[int, ...],
) -> Actor:
    content = world.below(offsets, hour, unit)
    where = (unit.storage_fingerprint, hour)
    world.committed[where] = max(archive_version, world.committed.get(where, archive_version))
    yield
    yield from world.on(
        store, store.steps(PutArchiveVersion("plays", archive_version, offset_vector(*offsets)))
    )
    entries = [
        hour_entry(unit, entity, archive_version, events) for entity, events in content.items()
    ]
    try:
        outcome = yield from world.on(
            store,
            store.steps(PublishHour(unit, hour, archive_version, offset_vector(*offsets), entries)),
        )
    except GapRefused:
        return  # the archive must reach the start offsets first
    world.note(
        f"publish {unit.view} hour {hour - FIRST_HOUR} archive version {archive_version}", outcome
    )
    if not outcome.left_over:
        yield from world.on(store, store.steps(MarkHour(unit, hour, archive_version)))


def compact_together(
    world: World,
    store: Store,
    unit: StoreUnit,
    hours: list[int],
    archive_version: int,
    offsets: tuple[int, ...],
) -> Actor:
    """Some hours of the day, an entity's in one change."""
    for hour in hours:
        where = (unit.storage_fingerprint, hour)
        world.committed[where] = max(archive_version, world.committed.get(where, archive_version))
    yield
    yield from world.on(
        store, store.steps(PutArchiveVersion("plays", archive_version, offset_vector(*offsets)))
    )
    entries = day_entries(world, unit, hours, archive_version, offsets)
    try:
        outcome = yield from world.on(
            store,
            store.steps(PublishDays(unit, archive_version, offset_vector(*offsets), entries)),
        )
    except GapRefused:
        return  # the archive must reach the start offsets first
    world.note(
        f"publish {unit.view} hours {[hour - FIRST_HOUR for hour in hours]} "
        f"archive version {archive_version}",
        outcome,
    )
    for hour in hours:
        if hour not in outcome.hours or not outcome.hours[hour].left_over:
            yield from world.on(store, store.steps(MarkHour(unit, hour, archive_version)))


def day_entries(
    world: World,
    unit: StoreUnit,
    hours: list[int],
    archive_version: int,
    offsets: tuple[int, ...],
) -> list[DayEntry]:
    """The entries of these hours of the day, of every entity that has events in one."""
    by_entity: dict[int, dict[int, list[Event]]] = {}
    for hour in hours:
        for entity, events in world.below(offsets, hour, unit).items():
            by_entity.setdefault(entity, {})[hour] = events
    return [
        day_entry(unit, entity, archive_version, of_hours) for entity, of_hours in by_entity.items()
    ]


def trim(world: World) -> Actor:
    """Trims as a run of compaction ends: from hours that it reads after the count."""
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    count = yield from world.on(store, store.steps(CountArchiveVersions("plays")))
    live = []
    for unit in world.all_units:
        name = unit.storage_fingerprint
        if name in metadata.starts:
            compacted = {
                h: Compacted(archive_version, archive_version)
                for (of, h), archive_version in world.committed.items()
                if of == name
            }
            yield
            done = yield from world.on(store, store.steps(ReadHours(unit)))
            live += UnitHours({}, compacted, done).named()
    dropped = yield from world.on(
        store, store.steps(TrimArchiveVersions("plays", count, metadata.deployment_version, live))
    )
    world.note("offset vectors trimmed", f"{dropped}, live {live}")


def backfill(world: World, unit: StoreUnit) -> Actor:
    """Everything below the start offsets, hour by hour, then ready."""
    store = world.connect()
    name = unit.storage_fingerprint
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    if name not in metadata.starts or name in metadata.ready:
        return
    yield from world.on(store, store.steps(HoldBuilds(builds_of(metadata))))
    start = metadata.starts[name]
    offsets = tuple(start.get(topic_partition(p)) for p in range(len(world.log)))
    while not offset_vector(*(newest(world)[1] if world.archive else ())).dominates(start):
        world.archived()
        yield
    if metadata.deployment_version % 2:
        yield from backfill_together(world, store, unit, start, offsets)
    for hour in world.build_hours(unit):
        entries = [
            hour_entry(unit, e, 0, events) for e, events in world.below(offsets, hour, unit).items()
        ]
        done = yield from published(world, store, unit)
        if entries and hour not in done:
            world.committed.setdefault((name, hour), 0)
            outcome = yield from world.on(
                store, store.steps(PublishHour(unit, hour, 0, start, entries))
            )
            world.note(f"backfill {unit.view} hour {hour - FIRST_HOUR}", outcome)
            if outcome.left_over:
                raise Wrong(f"a running partial of {unit.view} straddles its start offsets")
            yield from world.on(store, store.steps(MarkHour(unit, hour, 0, start)))
            world.ready_elsewhere.add((name, hour))
    yield from world.on(store, store.steps(MarkReady(unit, start, {unit.view: [name]})))
    world.note(f"ready {unit.view}")


def backfill_together(
    world: World, store: Store, unit: StoreUnit, start: OffsetVector, offsets: tuple[int, ...]
) -> Actor:
    """The hours that are not published yet, an entity's in one change."""
    name = unit.storage_fingerprint
    done = yield from published(world, store, unit)
    hours = [hour for hour in world.build_hours(unit) if hour not in done]
    entries = day_entries(world, unit, hours, 0, offsets)
    if not entries:
        return
    full = sorted({values.hour for entry in entries for values in entry.hours})
    for hour in full:
        world.committed.setdefault((name, hour), 0)
    outcome = yield from world.on(store, store.steps(PublishDays(unit, 0, start, entries)))
    world.note(f"backfill {unit.view} hours {[hour - FIRST_HOUR for hour in full]}", outcome)
    if any(of_hour.left_over for of_hour in outcome.hours.values()):
        raise Wrong(f"a running partial of {unit.view} straddles its start offsets")
    for hour in full:
        yield from world.on(store, store.steps(MarkHour(unit, hour, 0, start)))
        world.ready_elsewhere.add((name, hour))


def published(world: World, store: Store, unit: StoreUnit) -> Generator[None, None, set[int]]:
    """Hours whose publish the store itself claims. (A claim kept elsewhere does not fall back.)"""
    return set((yield from world.on(store, store.steps(ReadHours(unit)))))


def totals(world: World) -> Actor:
    while True:
        store, unit = world.connect(), world.rng.choice(world.units)
        tags = [tag(entity) for entity in range(ENTITIES)]
        written = yield from world.on(store, store.steps(WriteDayTotals(unit, tags, DAY)))
        world.note(f"day totals {unit.view}", written)
        yield


def reader(world: World) -> Actor:
    """Reads while everything else goes on: the answer must be true for the metadata that it came
    with."""
    while True:
        store = world.connect()
        for _ in range(world.rng.randint(1, 4)):
            reads, requested = [], []
            planned = yield from world.plans(store)
            for unit in world.units:
                for entity in range(ENTITIES):
                    hot, day = entity_keys(planned[world.node(entity)], unit, entity)
                    reads.append(EntityRead((UnitRead(hot, ((day, DAY_FIELDS),)),)))
                    requested.append((unit, entity))
            reply = yield from world.on(store, store.steps(Read(reads)))
            for i, ((unit, entity), (unit_reply,)) in enumerate(
                zip(requested, reply.entities, strict=True)
            ):
                _, metadata, server_run = reply.node_replies[reply.nodes[i] if reply.nodes else 0]
                if metadata.deployment_version != planned[world.node(entity)].deployment_version:
                    continue  # planned under another deployment
                if unit.storage_fingerprint in metadata.ready:
                    world.judge(unit, entity, metadata, unit_reply, server_run)
        yield


def sweep(world: World) -> Actor:
    """Deletes what the sweep's own decision says is of no use; bound to one server run."""
    server, store = world.to_sweep()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    rules = rules_of(metadata, world.manifest(metadata))
    seen: set[bytes] = set()
    while todo := sorted(server.hashes.keys() - seen):
        key = world.rng.choice(todo)
        seen.add(key)
        yield
        if world.sweep_reconnects:
            store.node.server_run = server.server_run  # type: ignore[misc]
        if verdict(key, 1, 0, rules).delete:
            (flat,) = store.node.run([Whole(key)])
            store.node.run([Change((KeyChange(key, ((b"-", b""),), (), flat[::2]),))])
            world.note(f"swept {key.decode()}")


def operator(world: World) -> Actor:
    """Brings the store to the wanted deployment, from whatever it fell back to."""
    store = world.connect()
    yield from world.on(store, store.steps(Initialise()))
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    steps = store.steps(
        Deploy(world.deployment(), metadata.deployment_version, {"plays": TOPIC}, world.earliest())
    )
    try:
        metadata = yield from world.on(store, steps)
    except DeploymentSuperseded:
        return
    starts = [list(c.offsets.values()) for c in metadata.starts.values()]
    world.note(
        f"deployed {metadata.units}",
        f"deployment version {metadata.deployment_version}, starts {starts}",
    )
