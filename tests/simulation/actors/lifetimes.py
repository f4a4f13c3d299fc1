"""Actors against a store of lifetimes: as spark's runs compact, move the total-until hour and
backfill."""

from __future__ import annotations

from typing import Any

import numpy as np

from slicewise.errors import BeyondRetention, DataLoss, GapRefused, StoreUnavailable
from slicewise.lifecycle import lifetime as moves
from slicewise.lifecycle.compaction import UnitHours
from slicewise.lifecycle.lifetime import Move, TotalsClaim
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.archive_versions import (
    CountArchiveVersions,
    PutArchiveVersion,
    TrimArchiveVersions,
)
from slicewise.stores.online.operations.connecting import HoldBuilds, ReadMetadata
from slicewise.stores.online.operations.day_totals import WriteDayTotals
from slicewise.stores.online.operations.publish_days import MarkHour, ReadHours
from slicewise.stores.online.operations.publish_total import (
    AnnounceTotal,
    LifetimeEntry,
    MarkTotal,
    PublishTotal,
    ReadTotalVersions,
)
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead
from slicewise.stores.online.rules.decisions import START_VERSION
from slicewise.stores.online.store import Store
from tests.simulation.actors import slices as actors
from tests.simulation.worlds.lifetime import DAYS, HOURS, UNITS, LifetimeWorld, Offsets, keys_of
from tests.simulation.worlds.world import ENTITIES, FIRST_HOUR, Actor
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.stored import (
    Event,
    StoreUnit,
    hour_entry,
    offset_vector,
    rows_of,
    tag,
    topic_partition,
)


def compaction(world: LifetimeWorld) -> Actor:
    while True:
        yield from compaction_run(world)
        if world.rng.random() < 0.5:
            yield from trim(world)
        if world.rng.random() < 0.5:
            yield from totals(world)
        yield


def compaction_run(world: LifetimeWorld, everything: bool = False) -> Actor:
    """Hours that are over, then the total-until hour."""
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    yield from world.on(store, store.steps(HoldBuilds(actors.builds_of(metadata))))
    fresh = everything or world.rng.random() < 0.2 or not world.archive
    archive_version, offsets = world.archived() if fresh else actors.newest(world)
    for unit in [u for u in world.units if u.storage_fingerprint in metadata.starts]:
        hours = [h for h in HOURS if h < FIRST_HOUR + 24 * world.day]
        if not everything and world.rng.random() < 0.5:
            hours = world.rng.sample(hours, world.rng.randint(0, len(hours)))
        kept = world.kept_from(unit, metadata)
        for hour in hours:
            yield from compact(
                world, store, unit, hour, archive_version, offsets, publish=hour >= kept
            )
        if everything or world.rng.random() < 0.9:
            yield from move(world, store, unit, archive_version, offsets)


def compact(
    world: LifetimeWorld,
    store: Store,
    unit: StoreUnit,
    hour: int,
    archive_version: int,
    offsets: Offsets,
    publish: bool = True,
) -> Any:
    """Compacts an hour; tells whether entities were left over."""
    where = (unit.storage_fingerprint, hour)
    written = world.table.get(where)
    if written is not None and not offset_vector(*offsets).dominates(offset_vector(*written[1])):
        return True  # a header's offset vector never decreases
    content = world.below(offsets, hour)
    world.table[where] = (archive_version, offsets)
    yield
    if archive_version != START_VERSION:
        yield from world.on(
            store, store.steps(PutArchiveVersion("plays", archive_version, offset_vector(*offsets)))
        )
    start = offset_vector(*offsets) if archive_version == START_VERSION else None
    if not publish:
        yield from world.on(store, store.steps(MarkHour(unit, hour, archive_version, start)))
        return False
    entries = [
        hour_entry(unit, entity, archive_version, events) for entity, events in content.items()
    ]
    try:
        outcome = yield from world.on(
            store,
            store.steps(PublishHour(unit, hour, archive_version, offset_vector(*offsets), entries)),
        )
    except GapRefused:
        return True
    world.note(
        f"publish {unit.view} hour {hour - FIRST_HOUR} archive version {archive_version}", outcome
    )
    if not outcome.left_over:
        yield from world.on(store, store.steps(MarkHour(unit, hour, archive_version, start)))
    return bool(outcome.left_over)


def totals_of(
    unit: StoreUnit,
    world: LifetimeWorld,
    table: dict[tuple[str, int], tuple[int, Offsets]],
    move: Move,
) -> list[LifetimeEntry]:
    """Totals of the rows of a move's hours, by entity."""
    events: dict[int, list[Event]] = {}
    for (name, hour), (_, offsets) in sorted(table.items()):
        if (
            name == unit.storage_fingerprint
            and hour < move.total_until
            and (move.since is None or hour >= move.since)
        ):
            for entity, some in world.below(offsets, hour).items():
                events.setdefault(entity, []).extend(some)
    entries = []
    for entity, some in events.items():
        rows = rows_of(some)
        parts = [
            a.accumulate_columns(rows, np.zeros(len(some), np.int64), 1)
            for a in unit.layout.partials
        ]
        entries.append(LifetimeEntry(tag(entity), unit.layout.encode_rows(parts)[0], move.since))
    return entries


def move(
    world: LifetimeWorld, store: Store, unit: StoreUnit, archive_version: int, offsets: Offsets
) -> Actor:
    """Moves a total-until hour that stands, as `spark.totals` does."""
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    claim = world.totals_claim(unit, metadata)
    if claim is not None:
        yield from moved(world, store, unit, metadata, claim, archive_version, offsets)


def moved(
    world: LifetimeWorld,
    store: Store,
    unit: StoreUnit,
    metadata: StoreMetadata,
    claim: TotalsClaim | None,
    archive_version: int,
    offsets: Offsets,
) -> Any:
    """Moves a total-until hour; tells whether one was marked."""
    anew, start = False, offset_vector(*offsets) if archive_version == START_VERSION else None
    for _ in range(2):
        wanted = wanted_move(world, unit, metadata, claim, archive_version)
        if wanted is None:
            return False
        yield from world.on(
            store,
            store.steps(
                AnnounceTotal(unit, wanted.total_until, archive_version, offset_vector(*offsets))
            ),
        )
        announced = yield from world.on(store, store.steps(CountArchiveVersions("plays")))
        yield
        table = dict(world.table)
        if wanted_move(world, unit, metadata, claim, archive_version) != wanted:
            return False
        wanted = Move(wanted.total_until, None) if anew else wanted
        entries = totals_of(unit, world, table, wanted)
        yield
        days = moves.days_of(wanted, claim)
        outcome = yield from world.on(
            store,
            store.steps(
                PublishTotal(
                    unit,
                    wanted.total_until,
                    archive_version,
                    offset_vector(*offsets),
                    entries,
                    days,
                )
            ),
        )
        world.note(
            (
                f"bring {unit.view} before {wanted.total_until - FIRST_HOUR} since {wanted.since} "
                f"archive version {archive_version}"
            ),
            outcome,
        )
        if not outcome.left_over:
            whole = wanted.since is None
            steps = store.steps(
                MarkTotal(unit, wanted.total_until, archive_version, announced, whole, start)
            )
            done = yield from world.on(store, steps)
            world.note(
                (
                    f"total until {unit.view} {wanted.total_until - FIRST_HOUR} archive version "
                    f"{archive_version}"
                ),
                done,
            )
            world.moved += done
            return done
        if wanted.since is None:
            return False
        anew = True
    return False


def wanted_move(
    world: LifetimeWorld,
    unit: StoreUnit,
    metadata: StoreMetadata,
    claim: TotalsClaim | None,
    archive_version: int,
) -> Move | None:
    if archive_version == START_VERSION:
        return Move(world.target, None)
    return moves.next_move(world.hours(unit, metadata), claim, world.target, archive_version)


def totals(world: LifetimeWorld) -> Actor:
    """Totals of days, as a run writes them."""
    store = world.connect()
    for unit in world.units:
        tags = [tag(entity) for entity in range(ENTITIES)]
        for day in range(DAYS):
            yield from world.on(
                store, store.steps(WriteDayTotals(unit, tags, FIRST_HOUR // 24 + day))
            )


def trim(world: LifetimeWorld) -> Actor:
    """Trims as a run of compaction ends: from hours and names that it reads after the count."""
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    count = yield from world.on(store, store.steps(CountArchiveVersions("plays")))
    live = []
    for unit in UNITS:
        if unit.storage_fingerprint in metadata.starts:
            hours = world.hours(unit, metadata)
            yield
            done = yield from world.on(store, store.steps(ReadHours(unit)))
            names = yield from world.on(store, store.steps(ReadTotalVersions(unit)))
            kept = world.kept_from(unit, metadata)
            live += UnitHours({}, hours.compacted, done, kept, names).named()
    dropped = yield from world.on(
        store, store.steps(TrimArchiveVersions("plays", count, metadata.deployment_version, live))
    )
    world.note("offset vectors trimmed", f"{dropped}, live {live}")


def backfill(world: LifetimeWorld, unit: StoreUnit) -> Actor:
    """Everything below the start offsets: what is older than the total-until hour into totals, the
    rest by hours, then ready."""
    store = world.connect()
    name = unit.storage_fingerprint
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    if name not in metadata.starts or name in metadata.ready:
        return
    yield from world.on(store, store.steps(HoldBuilds(actors.builds_of(metadata))))
    start = metadata.starts[name]
    offsets = tuple(start.get(topic_partition(p)) for p in range(len(world.log)))
    if not world.archive or not offset_vector(*actors.newest(world)[1]).dominates(start):
        world.archived()
    newest, ends = actors.newest(world)
    left, kept = False, world.kept_from(unit, metadata)
    for hour in HOURS:
        written = world.table.get((name, hour))
        if written is None:
            archive_version, contained = START_VERSION, offsets
        elif offset_vector(*written[1]).dominates(start) and (
            written[0] or offset_vector(*written[1]) == start
        ):
            archive_version, contained = written
        else:
            archive_version, contained = newest, ends
        left |= yield from compact(
            world, store, unit, hour, archive_version, contained, publish=hour >= kept
        )
    older = {h: world.table[name, h] for h in HOURS if h < world.target}
    archive_version, contained = START_VERSION, offsets
    if any(s != START_VERSION or offset_vector(*o) != start for s, o in older.values()):
        archive_version, contained = newest, ends
        for hour, row in world.hours(unit, metadata).compacted.items():
            if hour < world.target and row.holds < newest:
                yield from compact(world, store, unit, hour, newest, ends, publish=False)
    done = yield from moved(world, store, unit, metadata, None, archive_version, contained)
    if done and not left:
        yield from world.on(store, store.steps(MarkReady(unit, start, {unit.view: [name]})))
        world.note(f"ready {unit.view}")


def reader(world: LifetimeWorld) -> Actor:
    """Reads while everything else goes on, by the metadata of a moment before."""
    while True:
        store = world.connect()
        for _ in range(world.rng.randint(1, 4)):
            planned = yield from world.plans(store)
            requested, reads = [], []
            for unit in UNITS:
                if any(
                    unit.storage_fingerprint in node_metadata.ready
                    for node_metadata in planned.values()
                ):
                    plan = world.plan(unit, [*planned.values()])
                    for entity in range(ENTITIES):
                        hot, days = keys_of(planned[world.node(entity)], unit, entity, plan)
                        reads.append(EntityRead((UnitRead(hot, tuple(days)),)))
                        requested.append((unit, entity, plan))
            reply = yield from world.on(store, store.steps(Read(reads)))
            if any(
                (m.deployment_version, m.totals_until)
                != (planned[n].deployment_version, planned[n].totals_until)
                for n, (_, m, _) in reply.node_replies.items()
            ):
                continue
            for i, ((unit, entity, plan), (got,)) in enumerate(
                zip(requested, reply.entities, strict=True)
            ):
                _, metadata, server_run = reply.node_replies[reply.nodes[i] if reply.nodes else 0]
                if unit.storage_fingerprint in metadata.ready:
                    try:
                        world.judge_lifetime(unit, entity, metadata, plan, got, server_run)
                    except (StoreUnavailable, DataLoss, BeyondRetention) as error:
                        world.note("read again", error.what)
        yield
