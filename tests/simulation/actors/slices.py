"""Actors against the store: each is the real procedure, and may stop for ever anywhere."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from slicewise.errors import DataLoss, EpochSuperseded, GapRefused, IncarnationChanged
from slicewise.lifecycle.compaction import Compacted, UnitHours
from slicewise.lifecycle.sweep import rules_of, verdict
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operation import NodesContext
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
from slicewise.stores.online.operations.publish_hour import MarkHour, PublishHour, ReadHours
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead
from slicewise.stores.online.steps import Change, KeyChange, Whole
from slicewise.stores.online.store import Store
from tests.simulation.worlds.world import DAY, DAY_FIELDS, ENTITIES, FIRST_HOUR, HOURS, Actor, World, Wrong, entity_keys
from tests.support.stores.stored import TOPIC, StoreUnit, cover, hour_entry, place, tag


def same_life(world: World, store: Store, other: Store) -> None:
    """A task's connection must be of its batch's incarnation and generation."""
    if store.generation != other.generation or (store.incarnation != other.incarnation and not world.reconnects):
        raise IncarnationChanged("a task's connection is of another life")


def terms_of(found: StoreMetadata) -> dict[str, int]:
    """The terms that a job holds, from the marks that it was planned by."""
    return {unit: found.terms.get(unit, 0) for unit in found.starts}


def stream(world: World, start: tuple[int, ...] | None) -> Actor:
    """Batches from `start` (a checkpoint; None: from the ledger) on, as one process with tasks."""
    store = world.connect()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    ledger = [found.ledger.get(place(p)) for p in range(len(world.log))]
    position = list(start or ledger)
    position = world.begins(position + ledger[len(position) :], found)
    units, epoch, digest = world.units, found.epoch, found.units
    if digest != world.deployment().digest:
        return  # not deployed yet
    world.say(f"begins at {position}", f"ledger {ledger}, units {[u.view for u in units]}")
    while True:
        if any(offset < first for offset, first in zip(position, world.log_start, strict=False)):
            raise DataLoss("the log no longer has what the store needs")
        begun = yield from world.on(store, store.steps(BeginBatch(cover(*position), epoch, digest)))
        end = [min(len(world.log[p]), at + world.rng.randint(0, 4)) for p, at in enumerate(position)]
        tasks = [(unit, p) for unit in units for p in range(len(position)) if end[p] > position[p]]
        tasks += [task for task in tasks if world.rng.random() < 0.1]  # a task may repeat
        world.rng.shuffle(tasks)
        yield from world.early(store, position, end, found)
        for unit, p in tasks:
            task = store
            where = world.rng.random()
            if where < 0.3:
                task = world.connect()
            elif where < 0.6:
                task = executor(world)
            same_life(world, task, store)
            yield from world.on(task, task.steps(HoldBuilds(terms_of(found))))
            events = world.events(p, position[p], end[p])
            batch = replace(world.batch(unit, events), tail=unit.source in begun.tails)
            outcome = yield from world.on(task, task.steps(ApplyBatch(batch)))
            world.say(f"fold {unit.view} p{p} {position[p]}..{end[p] - 1}", f"{outcome.applied} applied")
        after = yield from world.on(store, store.steps(AdvanceCommitted(cover(*position), cover(*end), epoch, digest)))
        world.say("ledger", [after.get(place(p)) for p in range(len(end))])
        position = end
        yield


def executor(world: World) -> Store:
    """The worker's connection; a dead one is replaced."""
    kept = world.executor
    marks = world.marks()
    if (
        kept is None
        or isinstance(kept.context, NodesContext)  # of several nodes a task's connection is its own
        or kept.context.bound_to is None  # opened while there were no marks
        or marks is None
        or kept.generation != marks.generation
        or kept.incarnation != world.life
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
    """Some hours that are over, to the newest cover of the archive or to one begun earlier."""
    store = world.connect()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    yield from world.on(store, store.steps(HoldBuilds(terms_of(found))))
    seq, offsets = world.archived() if world.rng.random() < 0.35 or not world.archive else newest(world)
    held = [unit for unit in world.units if unit.storage_fingerprint in found.starts]
    jobs = [(unit, FIRST_HOUR + h) for unit in held for h in range(min(world.now, HOURS))]
    world.rng.shuffle(jobs)
    for unit, hour in jobs[: world.rng.randint(1, most)]:
        yield from compact(world, store, unit, hour, seq, offsets)


def newest(world: World) -> tuple[int, tuple[int, ...]]:
    seq = max(world.archive)
    return seq, world.archive[seq]


def compact(world: World, store: Store, unit: StoreUnit, hour: int, seq: int, offsets: tuple[int, ...]) -> Actor:
    content = world.below(offsets, hour)
    where = (unit.storage_fingerprint, hour)
    world.committed[where] = max(seq, world.committed.get(where, seq))
    yield
    yield from world.on(store, store.steps(PutArchiveVersion("plays", seq, cover(*offsets))))
    entries = [hour_entry(unit, entity, seq, events) for entity, events in content.items()]
    try:
        outcome = yield from world.on(store, store.steps(PublishHour(unit, hour, seq, cover(*offsets), entries)))
    except GapRefused:
        return  # the archive must reach the start cover first
    world.say(f"swap {unit.view} hour {hour - FIRST_HOUR} seq {seq}", outcome)
    if not outcome.left_over:
        yield from world.on(store, store.steps(MarkHour(unit, hour, seq)))


def trim(world: World) -> Actor:
    """Trims as a run of compaction ends: from hours that it reads after the count."""
    store = world.connect()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    count = yield from world.on(store, store.steps(CountArchiveVersions("plays")))
    live = []
    for unit in world.all_units:
        name = unit.storage_fingerprint
        if name in found.starts:
            compacted = {h: Compacted(seq, seq) for (of, h), seq in world.committed.items() if of == name}
            yield
            done = yield from world.on(store, store.steps(ReadHours(unit)))
            live += UnitHours({}, compacted, done).named()
    dropped = yield from world.on(store, store.steps(TrimArchiveVersions("plays", count, found.epoch, live)))
    world.say("covers trimmed", f"{dropped}, live {live}")


def backfill(world: World, unit: StoreUnit) -> Actor:
    """Everything below the start cover, hour by hour, then ready."""
    store = world.connect()
    name = unit.storage_fingerprint
    found = yield from world.on(store, store.steps(ReadMetadata()))
    if name not in found.starts or name in found.ready:
        return
    yield from world.on(store, store.steps(HoldBuilds(terms_of(found))))
    start = found.starts[name]
    offsets = tuple(start.get(place(p)) for p in range(len(world.log)))
    while not cover(*(newest(world)[1] if world.archive else ())).dominates(start):
        world.archived()
        yield
    for hour in range(FIRST_HOUR, FIRST_HOUR + HOURS):
        entries = [hour_entry(unit, e, 0, events) for e, events in world.below(offsets, hour).items()]
        done = yield from swapped(world, store, unit)
        if entries and hour not in done:
            world.committed.setdefault((name, hour), 0)
            outcome = yield from world.on(store, store.steps(PublishHour(unit, hour, 0, start, entries)))
            world.say(f"backfill {unit.view} hour {hour - FIRST_HOUR}", outcome)
            if outcome.left_over:
                raise Wrong(f"a running partial of {unit.view} straddles its start cover")
            yield from world.on(store, store.steps(MarkHour(unit, hour, 0, start)))
            world.ready_elsewhere.add((name, hour))
    yield from world.on(store, store.steps(MarkReady(unit, start, {unit.view: [name]})))
    world.say(f"ready {unit.view}")


def swapped(world: World, store: Store, unit: StoreUnit) -> Generator[None, None, set[int]]:
    """Hours whose swap the store itself claims. (A claim kept elsewhere does not fall back.)"""
    return set((yield from world.on(store, store.steps(ReadHours(unit)))))


def totals(world: World) -> Actor:
    while True:
        store, unit = world.connect(), world.rng.choice(world.units)
        tags = [tag(entity) for entity in range(ENTITIES)]
        written = yield from world.on(store, store.steps(WriteDayTotals(unit, tags, DAY)))
        world.say(f"day totals {unit.view}", written)
        yield


def reader(world: World) -> Actor:
    """Reads while everything else goes on: the answer must be true for the marks that it came with."""
    while True:
        store = world.connect()
        for _ in range(world.rng.randint(1, 4)):
            reads, asked = [], []
            planned = yield from world.plans(store)
            for unit in world.units:
                for entity in range(ENTITIES):
                    hot, day = entity_keys(planned[world.node(entity)], unit, entity)
                    reads.append(EntityRead((UnitRead(hot, ((day, DAY_FIELDS),)),)))
                    asked.append((unit, entity))
            reply = yield from world.on(store, store.steps(Read(reads)))
            for i, ((unit, entity), (found,)) in enumerate(zip(asked, reply.entities, strict=True)):
                _, marks, incarnation = reply.said[reply.nodes[i] if reply.nodes else 0]
                if marks.epoch != planned[world.node(entity)].epoch:
                    continue  # planned under another deployment
                if unit.storage_fingerprint in marks.ready:
                    world.judge(unit, entity, marks, found, incarnation)
        yield


def sweep(world: World) -> Actor:
    """Deletes what the sweep's own decision says is of no use; bound to one life of the store."""
    server, store = world.to_sweep()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    unit = {"source": "plays", "slice_us": 1, "retention_us": 1}
    manifest = {"units": [{**unit, "storage_fingerprint": name} for name in found.starts]}
    rules = rules_of(found, manifest)
    seen: set[bytes] = set()
    while todo := sorted(server.hashes.keys() - seen):
        key = world.rng.choice(todo)
        seen.add(key)
        yield
        if world.sweep_reconnects:
            store.node.incarnation = server.incarnation  # type: ignore[misc]
        if verdict(key, 1, 0, rules).delete:
            (flat,) = store.node.run([Whole(key)])
            store.node.run([Change((KeyChange(key, ((b"-", b""),), (), flat[::2]),))])
            world.say(f"swept {key.decode()}")


def operator(world: World) -> Actor:
    """Brings the store to the wanted deployment, from whatever it fell back to."""
    store = world.connect()
    yield from world.on(store, store.steps(Initialise()))
    found = yield from world.on(store, store.steps(ReadMetadata()))
    steps = store.steps(Deploy(world.deployment(), found.epoch, {"plays": TOPIC}, world.earliest()))
    try:
        found = yield from world.on(store, steps)
    except EpochSuperseded:
        return
    starts = [list(c.offsets.values()) for c in found.starts.values()]
    world.say(f"deployed {found.units}", f"epoch {found.epoch}, starts {starts}")
