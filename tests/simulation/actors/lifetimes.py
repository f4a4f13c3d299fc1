"""Actors against a store of lifetimes: as spark's runs compact, move the horizon and backfill."""

from __future__ import annotations

from typing import Any

import numpy as np

from slicewise.errors import BeyondRetention, DataLoss, GapRefused, StoreUnavailable
from slicewise.lifecycle import lifetime as moves
from slicewise.lifecycle.compaction import UnitHours
from slicewise.lifecycle.lifetime import Move, Reached
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.archive_versions import (
    CountArchiveVersions,
    PutArchiveVersion,
    TrimArchiveVersions,
)
from slicewise.stores.online.operations.connecting import HoldBuilds, ReadMetadata
from slicewise.stores.online.operations.day_totals import WriteDayTotals
from slicewise.stores.online.operations.publish_hour import MarkHour, PublishHour, ReadHours
from slicewise.stores.online.operations.publish_total import (
    AnnounceTotal,
    LifetimeEntry,
    MarkTotal,
    PublishTotal,
    ReadTotalVersions,
)
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead
from slicewise.stores.online.rules.decisions import START_SEQ
from slicewise.stores.online.store import Store
from tests.simulation.actors import slices as actors
from tests.simulation.worlds.lifetime import DAYS, HOURS, UNITS, LifetimeWorld, Offsets, keys_of
from tests.simulation.worlds.world import ENTITIES, FIRST_HOUR, Actor
from tests.support.stores.stored import Event, StoreUnit, cover, hour_entry, place, rows_of, tag


def compaction(world: LifetimeWorld) -> Actor:
    while True:
        yield from compaction_run(world)
        if world.rng.random() < 0.5:
            yield from trim(world)
        if world.rng.random() < 0.5:
            yield from totals(world)
        yield


def compaction_run(world: LifetimeWorld, everything: bool = False) -> Actor:
    """Hours that are over, then the horizon."""
    store = world.connect()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    yield from world.on(store, store.steps(HoldBuilds(actors.terms_of(found))))
    fresh = everything or world.rng.random() < 0.2 or not world.archive
    seq, offsets = world.archived() if fresh else actors.newest(world)
    for unit in [u for u in world.units if u.storage_fingerprint in found.starts]:
        hours = [h for h in HOURS if h < FIRST_HOUR + 24 * world.day]
        if not everything and world.rng.random() < 0.5:
            hours = world.rng.sample(hours, world.rng.randint(0, len(hours)))
        kept = world.kept_from(unit, found)
        for hour in hours:
            yield from compact(world, store, unit, hour, seq, offsets, swap=hour >= kept)
        if everything or world.rng.random() < 0.9:
            yield from move(world, store, unit, seq, offsets)


def compact(
    world: LifetimeWorld, store: Store, unit: StoreUnit, hour: int, seq: int, offsets: Offsets, swap: bool = True
) -> Any:
    """Compacts an hour; tells whether entities were left over."""
    where = (unit.storage_fingerprint, hour)
    stands = world.table.get(where)
    if stands is not None and not cover(*offsets).dominates(cover(*stands[1])):
        return True  # a header's cover never decreases
    content = world.below(offsets, hour)
    world.table[where] = (seq, offsets)
    yield
    if seq != START_SEQ:
        yield from world.on(store, store.steps(PutArchiveVersion("plays", seq, cover(*offsets))))
    start = cover(*offsets) if seq == START_SEQ else None
    if not swap:
        yield from world.on(store, store.steps(MarkHour(unit, hour, seq, start)))
        return False
    entries = [hour_entry(unit, entity, seq, events) for entity, events in content.items()]
    try:
        outcome = yield from world.on(store, store.steps(PublishHour(unit, hour, seq, cover(*offsets), entries)))
    except GapRefused:
        return True
    world.say(f"swap {unit.view} hour {hour - FIRST_HOUR} seq {seq}", outcome)
    if not outcome.left_over:
        yield from world.on(store, store.steps(MarkHour(unit, hour, seq, start)))
    return bool(outcome.left_over)


def totals_of(
    unit: StoreUnit, world: LifetimeWorld, table: dict[tuple[str, int], tuple[int, Offsets]], move: Move
) -> list[LifetimeEntry]:
    """Totals of the rows of a move's hours, by entity."""
    events: dict[int, list[Event]] = {}
    for (name, hour), (_, offsets) in sorted(table.items()):
        if name == unit.storage_fingerprint and hour < move.horizon and (move.since is None or hour >= move.since):
            for entity, some in world.below(offsets, hour).items():
                events.setdefault(entity, []).extend(some)
    entries = []
    for entity, some in events.items():
        rows = rows_of(some)
        parts = [a.accumulate_columns(rows, np.zeros(len(some), np.int64), 1) for a in unit.layout.partials]
        entries.append(LifetimeEntry(tag(entity), unit.layout.encode_rows(parts)[0], move.since))
    return entries


def move(world: LifetimeWorld, store: Store, unit: StoreUnit, seq: int, offsets: Offsets) -> Actor:
    """Moves a horizon that stands, as `spark.totals` does."""
    found = yield from world.on(store, store.steps(ReadMetadata()))
    reached = world.reached(unit, found)
    if reached is not None:
        yield from moved(world, store, unit, found, reached, seq, offsets)


def moved(
    world: LifetimeWorld,
    store: Store,
    unit: StoreUnit,
    found: StoreMetadata,
    reached: Reached | None,
    seq: int,
    offsets: Offsets,
) -> Any:
    """Moves a horizon; tells whether one was marked."""
    anew, start = False, cover(*offsets) if seq == START_SEQ else None
    for _ in range(2):
        wanted = wanted_move(world, unit, found, reached, seq)
        if wanted is None:
            return False
        yield from world.on(store, store.steps(AnnounceTotal(unit, wanted.horizon, seq, cover(*offsets))))
        announced = yield from world.on(store, store.steps(CountArchiveVersions("plays")))
        yield
        table = dict(world.table)
        if wanted_move(world, unit, found, reached, seq) != wanted:
            return False
        wanted = Move(wanted.horizon, None) if anew else wanted
        entries = totals_of(unit, world, table, wanted)
        yield
        days = moves.days_of(wanted, reached)
        outcome = yield from world.on(
            store, store.steps(PublishTotal(unit, wanted.horizon, seq, cover(*offsets), entries, days))
        )
        world.say(f"bring {unit.view} before {wanted.horizon - FIRST_HOUR} since {wanted.since} seq {seq}", outcome)
        if not outcome.left_over:
            whole = wanted.since is None
            steps = store.steps(MarkTotal(unit, wanted.horizon, seq, announced, whole, start))
            done = yield from world.on(store, steps)
            world.say(f"horizon {unit.view} {wanted.horizon - FIRST_HOUR} seq {seq}", done)
            world.moved += done
            return done
        if wanted.since is None:
            return False
        anew = True
    return False


def wanted_move(
    world: LifetimeWorld, unit: StoreUnit, found: StoreMetadata, reached: Reached | None, seq: int
) -> Move | None:
    if seq == START_SEQ:
        return Move(world.target, None)
    return moves.next_move(world.hours(unit, found), reached, world.target, seq)


def totals(world: LifetimeWorld) -> Actor:
    """Totals of days, as a run writes them."""
    store = world.connect()
    for unit in world.units:
        tags = [tag(entity) for entity in range(ENTITIES)]
        for day in range(DAYS):
            yield from world.on(store, store.steps(WriteDayTotals(unit, tags, FIRST_HOUR // 24 + day)))


def trim(world: LifetimeWorld) -> Actor:
    """Trims as a run of compaction ends: from hours and names that it reads after the count."""
    store = world.connect()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    count = yield from world.on(store, store.steps(CountArchiveVersions("plays")))
    live = []
    for unit in UNITS:
        if unit.storage_fingerprint in found.starts:
            known = world.hours(unit, found)
            yield
            done = yield from world.on(store, store.steps(ReadHours(unit)))
            names = yield from world.on(store, store.steps(ReadTotalVersions(unit)))
            kept = world.kept_from(unit, found)
            live += UnitHours({}, known.compacted, done, kept, names).named()
    dropped = yield from world.on(store, store.steps(TrimArchiveVersions("plays", count, found.epoch, live)))
    world.say("covers trimmed", f"{dropped}, live {live}")


def backfill(world: LifetimeWorld, unit: StoreUnit) -> Actor:
    """Everything below the start cover: what is older than the horizon into totals, the rest by hours, then ready."""
    store = world.connect()
    name = unit.storage_fingerprint
    found = yield from world.on(store, store.steps(ReadMetadata()))
    if name not in found.starts or name in found.ready:
        return
    yield from world.on(store, store.steps(HoldBuilds(actors.terms_of(found))))
    start = found.starts[name]
    offsets = tuple(start.get(place(p)) for p in range(len(world.log)))
    if not world.archive or not cover(*actors.newest(world)[1]).dominates(start):
        world.archived()
    newest, ends = actors.newest(world)
    left, kept = False, world.kept_from(unit, found)
    for hour in HOURS:
        stands = world.table.get((name, hour))
        if stands is None:
            seq, held = START_SEQ, offsets
        elif cover(*stands[1]).dominates(start) and (stands[0] or cover(*stands[1]) == start):
            seq, held = stands
        else:
            seq, held = newest, ends
        left |= yield from compact(world, store, unit, hour, seq, held, swap=hour >= kept)
    older = {h: world.table[name, h] for h in HOURS if h < world.target}
    seq, held = START_SEQ, offsets
    if any(s != START_SEQ or cover(*o) != start for s, o in older.values()):
        seq, held = newest, ends
        for hour, each in world.hours(unit, found).compacted.items():
            if hour < world.target and each.holds < newest:
                yield from compact(world, store, unit, hour, newest, ends, swap=False)
    done = yield from moved(world, store, unit, found, None, seq, held)
    if done and not left:
        yield from world.on(store, store.steps(MarkReady(unit, start, {unit.view: [name]})))
        world.say(f"ready {unit.view}")


def reader(world: LifetimeWorld) -> Actor:
    """Reads while everything else goes on, by the marks of a moment before."""
    while True:
        store = world.connect()
        for _ in range(world.rng.randint(1, 4)):
            planned = yield from world.plans(store)
            asked, reads = [], []
            for unit in UNITS:
                if any(unit.storage_fingerprint in each.ready for each in planned.values()):
                    plan = world.plan(unit, [*planned.values()])
                    for entity in range(ENTITIES):
                        hot, days = keys_of(planned[world.node(entity)], unit, entity, plan)
                        reads.append(EntityRead((UnitRead(hot, tuple(days)),)))
                        asked.append((unit, entity, plan))
            reply = yield from world.on(store, store.steps(Read(reads)))
            if any(
                (m.epoch, m.horizons) != (planned[n].epoch, planned[n].horizons) for n, (_, m, _) in reply.said.items()
            ):
                continue
            for i, ((unit, entity, plan), (got,)) in enumerate(zip(asked, reply.entities, strict=True)):
                _, marks, incarnation = reply.said[reply.nodes[i] if reply.nodes else 0]
                if unit.storage_fingerprint in marks.ready:
                    try:
                        world.judge_lifetime(unit, entity, marks, plan, got, incarnation)
                    except (StoreUnavailable, DataLoss, BeyondRetention) as error:
                        world.say("read again", error.what)
        yield
