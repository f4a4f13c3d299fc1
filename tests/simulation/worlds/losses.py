"""A store that loses anything gets it back with no hand, and is right, and flagged while it lacks
events.

The stream's driver looks at it (`healer`, with the copy of the metadata that it keeps), units are
built again by hand while all else runs, and backfills take compacted rows as far as these hold what
lies below start offsets. What is lost: the last writes, all, everything since a dump; and meanwhile
the log forgets what the archive has.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from typing import cast

from slicewise.errors import DeploymentSuperseded, GapRefused, NotReady
from slicewise.lifecycle.compaction import NOTHING, Fill, Filling
from slicewise.offsets.vector import OffsetVector
from slicewise.stores import metadata_backup
from slicewise.stores.metadata_backup import MetadataBackup
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.committed import MarkLostOffsets
from slicewise.stores.online.operations.connecting import HoldBuilds, Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, Renewal
from slicewise.stores.online.operations.publish_days import MarkHour, ReadHours
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.rules.decisions import START_VERSION, still_lost
from tests.simulation.actors import slices as actors
from tests.simulation.histories.choices import Choices, Tape
from tests.simulation.histories.play import History, finish, step
from tests.simulation.worlds.history import bounded, forget_log, nearby, whole
from tests.simulation.worlds.world import FIRST_HOUR, HOURS, PARTITIONS, UNITS, Actor, World, Wrong
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.stored import (
    TOPIC,
    StoreDeployment,
    StoreUnit,
    hour_entry,
    offset_vector,
    topic_partition,
)

HOURS_OF = range(FIRST_HOUR, FIRST_HOUR + HOURS)


class Seeded(random.Random):
    """Draws that are not recorded: this play has a loop of its own, whose histories do not shrink
    yet."""

    move = 0

    def pauses(self) -> bool:
        return self.random() < 0.6


class Losing(World):
    """A world whose compacted rows have offset vectors, and whose driver keeps a copy of the
    metadata."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.rows: dict[tuple[str, int], tuple[int, tuple[int, ...]]] = {}
        """(unit, hour) -> header: archive version, and the offset vector as offsets."""
        self.copy: MetadataBackup | None = None
        self.looked = OffsetVector()
        """All that any look of the driver found."""
        self.marked: tuple[object, int] | None = None
        """Server run and store id of which the driver has told what is lost."""
        self.manifests: dict[str, StoreDeployment] = {}
        self.dump = copy.deepcopy((self.server.hashes, self.server.lists, self.server.texts))

    def deployment(self) -> StoreDeployment:
        made = super().deployment()
        self.manifests[made.digest] = made
        return made

    def check(self) -> None:
        super().check()
        metadata = self.metadata()
        if (
            metadata is None
            or not metadata.units
            or self.marked != (self.server.server_run, metadata.store_id)
        ):
            return
        lost = still_lost(metadata.committed, self.looked, metadata.topics.values())
        silent = [
            at for at, offset in lost.offsets.items() if metadata.lost_offsets.get(at) < offset
        ]
        if silent:
            raise Wrong(
                f"nothing says that {silent} lack what was seen: {metadata.lost_offsets} of {lost}"
            )

    def offsets(self, of: OffsetVector) -> tuple[int, ...]:
        return tuple(of.get(topic_partition(p)) for p in range(len(self.log)))

    def filling(self, start: OffsetVector) -> Filling:
        """The facts that decide about a backfill."""
        offset_vectors = {
            archive_version: offset_vector(*offsets)
            for archive_version, offsets in self.archive.items()
        }
        newest = {
            hour: min(
                archive_version
                for archive_version in self.archive
                if self.below(self.archive[archive_version], hour) == below
            )
            for hour in HOURS_OF
            if self.archive and (below := self.below(actors.newest(self)[1], hour))
        }
        return Filling(
            start,
            newest,
            lambda c: max(
                (n for n, archived in offset_vectors.items() if c.dominates(archived)), default=0
            ),
        )


# ------------------------------------------------------------------ who acts
def healer(world: Losing) -> Actor:
    """One look of the stream's driver."""
    store, backup = world.connect(), world.copy
    try:
        metadata = yield from world.on(store, store.steps(ReadMetadata()))
    except NotReady:
        if backup is None:
            raise
        metadata = yield from world.on(store, store.steps(Initialise()))
    if backup is not None:
        lost = backup.lost(metadata)
        if lost or metadata.lost_offsets:
            metadata = yield from world.on(store, store.steps(MarkLostOffsets(lost)))
        if store.server_run == world.server.server_run:
            world.marked = (store.server_run, metadata.store_id)
        if backup.to_be_deployed(metadata):
            first = offset_vector(*world.log_start)
            if not metadata.units and world.archive:
                first = first.join(offset_vector(*actors.newest(world)[1]))
            again = world.manifests[backup.units]
            world.note(f"deploying {again.digest} again, from {first}")
            metadata = yield from world.on(
                store,
                store.steps(Deploy(again, metadata.deployment_version, {"plays": TOPIC}, first)),
            )
    world.looked = world.looked.join(metadata.committed)
    world.copy = metadata_backup.of(metadata) if backup is None else backup.after(metadata)
    first = offset_vector(*world.log_start)
    if metadata.units and not metadata.committed.dominates(first) and world.archive:
        archived = offset_vector(*actors.newest(world)[1])
        if archived.dominates(first):
            again = world.manifests[metadata.units]
            renewal = Renewal(frozenset(unit.storage_fingerprint for unit in again.units), archived)
            world.note(f"the committed offsets go on at {archived}")
            yield from world.on(
                store,
                store.steps(
                    Deploy(
                        again,
                        metadata.deployment_version,
                        {"plays": TOPIC},
                        OffsetVector(),
                        renewal,
                    )
                ),
            )


def rebuild(world: Losing, resume_at: bool) -> Actor:
    """Some units are built again by hand, beside all else; resume_at: somebody asks for more than
    may be."""
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    again = world.manifests.get(metadata.units)
    if again is None:
        return
    some = frozenset(
        world.rng.sample(sorted(metadata.starts), world.rng.randint(1, len(metadata.starts)))
    )
    beyond = (
        offset_vector(*actors.newest(world)[1]) if resume_at and world.archive else OffsetVector()
    )
    renewal = Renewal(some, beyond)
    try:
        yield from world.on(
            store,
            store.steps(
                Deploy(
                    again, metadata.deployment_version, {"plays": TOPIC}, OffsetVector(), renewal
                )
            ),
        )
    except (DeploymentSuperseded, GapRefused):
        return
    world.note(f"{sorted(some)} are built again, ahead {beyond}")


def fill(world: Losing, unit: StoreUnit) -> Actor:
    """A backfill, as the job does it: what is missing is committed, what stands is published, and
    marked hour by hour."""
    store = world.connect()
    name = unit.storage_fingerprint
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    if name not in metadata.starts or name in metadata.ready:
        return
    yield from world.on(store, store.steps(HoldBuilds(actors.builds_of(metadata))))
    start = metadata.starts[name]
    while not offset_vector(*(actors.newest(world)[1] if world.archive else ())).dominates(start):
        world.archived()
        yield
    archive_version, archived = actors.newest(world)
    yield from world.on(
        store, store.steps(PutArchiveVersion("plays", archive_version, offset_vector(*archived)))
    )
    left = False
    for hour in reversed(HOURS_OF):
        filling, written = world.filling(start), world.rows.get((name, hour))
        todo = (
            filling.of(hour, written[0], offset_vector(*written[1]))
            if written
            else filling.of(hour, 0, None)
        )
        if todo in (Fill.COMPUTE, Fill.EXTEND, Fill.RECOMPACT):
            yield  # a commit that is refused where another came first
            if world.rows.get((name, hour)) != written:
                return
            written = (
                (archive_version, archived)
                if todo is Fill.RECOMPACT
                else (START_VERSION, world.offsets(start))
            )
            world.rows[name, hour] = written
            world.committed[name, hour] = written[0]
            world.note(
                f"{todo.value} {unit.view} hour {hour - FIRST_HOUR} archive version {written[0]}"
            )
            yield
        assert written is not None
        done = yield from world.on(store, store.steps(ReadHours(unit)))
        if done.get(hour, NOTHING) >= written[0]:
            continue
        exact = todo is not Fill.PUBLISH and todo is not Fill.RECOMPACT
        under = (START_VERSION, start) if exact else (written[0], offset_vector(*written[1]))
        if under[0]:
            yield from world.on(store, store.steps(PutArchiveVersion("plays", *under)))
        entries = [
            hour_entry(unit, e, under[0], events)
            for e, events in world.below(written[1], hour).items()
        ]
        outcome = yield from world.on(store, store.steps(PublishHour(unit, hour, *under, entries)))
        world.note(
            f"fill {unit.view} hour {hour - FIRST_HOUR} {todo.value} of archive version "
            f"{written[0]}: {outcome}"
        )
        if outcome.left_over and exact:
            raise Wrong(f"a running partial of {unit.view} straddles its start offsets")
        if outcome.left_over:
            left = True
            continue
        yield from world.on(
            store, store.steps(MarkHour(unit, hour, written[0], start if exact else None))
        )
    if not left:
        yield from world.on(store, store.steps(MarkReady(unit, start, {unit.view: [name]})))
        world.note(f"ready {unit.view}")


def compaction(world: Losing) -> Actor:
    """Some hours that are over, to the newest offset vector of the archive."""
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    yield from world.on(store, store.steps(HoldBuilds(actors.builds_of(metadata))))
    archive_version, offsets = (
        world.archived() if world.rng.random() < 0.5 or not world.archive else actors.newest(world)
    )
    jobs = [(unit, h) for unit in world.units for h in HOURS_OF[: min(world.now, HOURS)]]
    world.rng.shuffle(jobs)
    for unit, hour in jobs[: world.rng.randint(1, 3)]:
        name = unit.storage_fingerprint
        written = world.rows.get((name, hour))
        yield
        if world.rows.get((name, hour)) != written or (
            written and not offset_vector(*offsets).dominates(offset_vector(*written[1]))
        ):
            return  # another committed first
        if name not in metadata.starts or not offset_vector(*offsets).dominates(
            metadata.starts[name]
        ):
            continue
        world.rows[name, hour] = (archive_version, offsets)
        yield from actors.compact(world, store, unit, hour, archive_version, offsets)


def compactions(world: Losing) -> Actor:
    while True:
        yield from compaction(world)
        yield


# ------------------------------------------------------------------ what happens
def losses(seed: int, rules: Iterable[object] = ()) -> History:
    """Plays one seed; rules: mutants that are applied to the world."""
    world = Losing(cast(Choices, Seeded(seed)))
    for rule in rules:
        if callable(rule):
            rule(world)
    try:
        run(world)
        heal(world)
    except Wrong as wrong:
        return History(seed, str(wrong), world.checked, world.story, Tape((), ()))
    return History(seed, None, world.checked, world.story, Tape((), ()))


def run(world: Losing) -> None:
    rng = world.rng
    world.want(UNITS)
    finish(world, actors.operator(world))
    finish(world, healer(world))
    streams: list[Actor] = [actors.stream(world, None)]
    fills: list[Actor] = []
    others = [compactions(world), actors.totals(world)]
    readers = [actors.reader(world)]
    lookers: list[Actor] = []
    hands: list[Actor] = []
    for _ in range(rng.randint(100, 900)):
        a = rng.random()
        if a < 0.12:
            world.produce()
        elif a < 0.13:
            world.now = min(world.now + 1, HOURS)
        elif a < 0.45:
            step(world, streams)
        elif a < 0.62:
            step(world, others)
        elif a < 0.80:
            step(world, fills)
        elif a < 0.85:
            step(world, readers)
        elif a < 0.92:
            step(world, lookers)
        elif a < 0.95:
            step(world, hands)
        elif a < 0.955:
            lost(world, rng.choice(("suffix", "suffix", "all", "dump")))
            if rng.random() < 0.5:
                streams = streams[:1]
        elif a < 0.96:
            world.dump = copy.deepcopy(
                (world.server.hashes, world.server.lists, world.server.texts)
            )
        elif a < 0.965:
            forget_log(world)
        elif a < 0.97:
            hands = [rebuild(world, resume_at=rng.random() < 0.3)]
        elif a < 0.972:
            world.want(rng.choice([UNITS, UNITS[:1]]))
            hands = [actors.operator(world)]
        elif a < 0.974 and len(world.log) < PARTITIONS:
            world.log.append([])
            world.log_start.append(0)
        elif a < 0.985:
            fills = [fill(world, rng.choice(UNITS)), *fills[:1]]
        elif a < 0.99:
            others[rng.randrange(len(others))] = rng.choice([compactions, actors.totals])(world)
        else:
            begins = None if rng.random() < 0.7 else nearby(world)
            streams = [actors.stream(world, begins), *streams[: rng.randint(0, 2)]]
        if not lookers:
            lookers.append(healer(world))
        if not fills:
            fills.append(fill(world, rng.choice(UNITS)))
        if not streams:
            streams.append(actors.stream(world, None))
        if not readers:
            readers.append(actors.reader(world))
        while len(others) < 2:
            others.append(rng.choice([compactions, actors.totals])(world))


def lost(world: Losing, what: str) -> None:
    if what == "suffix":
        n = world.server.restart(world.rng.randint(1, 64))
        world.note(f"the store restarted without its last {n} writes")
    elif what == "all":
        world.server.flush()
        if world.rng.random() < 0.5:
            world.server.restart()
        world.note("the store lost all")
    else:
        world.server.restart()
        server = world.server
        server.hashes, server.lists, server.texts = copy.deepcopy(world.dump)
        world.note("an older dump was restored")
    world.check()


def heal(world: Losing) -> None:
    """Left alone, the platform comes to hold everything again: nobody empties, deploys or decides
    anything."""
    if world.metadata() is None and world.copy is None:
        return  # all was lost before the driver had ever looked
    for _ in range(12):
        world.archived()
        finish(world, healer(world))
        metadata = world.metadata()
        if metadata is None or not metadata.units:
            continue
        world.units = tuple(world.manifests[metadata.units].units)
        world.deployments = int(metadata.units.rpartition("#")[2] or 0)
        bounded(world, actors.stream(world, None))
        for unit in UNITS:
            finish(world, fill(world, unit))
        archive_version, offsets = world.archived()
        store = world.connect()
        for unit in world.units:
            for hour in HOURS_OF:
                world.rows[unit.storage_fingerprint, hour] = (archive_version, offsets)
                finish(world, actors.compact(world, store, unit, hour, archive_version, offsets))
        finish(world, healer(world))
        metadata = world.metadata()
        if metadata is not None and whole(world) and not metadata.lost_offsets:
            break
    metadata = world.metadata()
    if metadata is None or not metadata.units or not whole(world) or metadata.lost_offsets:
        raise Wrong(f"not healed: {metadata}, log {world.ends()} from {world.log_start}")
    world.check()
