"""A store that loses anything gets it back with no hand, and is right, and flagged while it lacks events.

The stream's driver looks at it (`healer`, with the copy of the marks that it keeps), units are built again by hand
while all else runs, and backfills take compacted rows as far as these hold what lies below a start cover. What is lost:
the last writes, all, everything since a dump; and meanwhile the log forgets what the archive has.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from typing import cast

from slicewise.errors import EpochSuperseded, GapRefused, NotReady
from slicewise.lifecycle.compaction import NOTHING, Fill, Filling
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.model import metadata_backup as witness
from slicewise.stores.online.model.metadata_backup import MetadataBackup
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.committed import MarkLostOffsets
from slicewise.stores.online.operations.connecting import HoldBuilds, Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, Renewal
from slicewise.stores.online.operations.publish_hour import MarkHour, PublishHour, ReadHours
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.rules.decisions import START_SEQ, still_lost
from tests.simulation.actors import slices as actors
from tests.simulation.histories.choices import Choices, Tape
from tests.simulation.histories.play import Told, finish, step
from tests.simulation.worlds.history import bounded, forget_log, nearby, whole
from tests.simulation.worlds.world import FIRST_HOUR, HOURS, PARTITIONS, UNITS, Actor, World, Wrong
from tests.support.stores.stored import TOPIC, StoreDeployment, StoreUnit, cover, hour_entry, place

HOURS_OF = range(FIRST_HOUR, FIRST_HOUR + HOURS)


class Seeded(random.Random):
    """Draws that are not recorded: this play has a loop of its own, whose histories do not shrink yet."""

    move = 0

    def pauses(self) -> bool:
        return self.random() < 0.6


class Losing(World):
    """A world whose compacted rows have covers, and whose driver keeps a copy of the marks."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.rows: dict[tuple[str, int], tuple[int, tuple[int, ...]]] = {}
        """(unit, hour) -> header: seq, and the cover as offsets."""
        self.copy: MetadataBackup | None = None
        self.looked = OffsetVector()
        """All that any look of the driver found."""
        self.told: tuple[object, int] | None = None
        """Life and generation of which the driver has told what is lost."""
        self.manifests: dict[str, StoreDeployment] = {}
        self.dump = copy.deepcopy((self.server.hashes, self.server.lists, self.server.texts))

    def deployment(self) -> StoreDeployment:
        made = super().deployment()
        self.manifests[made.digest] = made
        return made

    def check(self) -> None:
        super().check()
        found = self.marks()
        if found is None or not found.units or self.told != (self.server.incarnation, found.generation):
            return
        lost = still_lost(found.ledger, self.looked, found.topics.values())
        silent = [at for at, offset in lost.offsets.items() if found.known.get(at) < offset]
        if silent:
            raise Wrong(f"nothing says that {silent} lack what was seen: {found.known} of {lost}")

    def offsets(self, of: OffsetVector) -> tuple[int, ...]:
        return tuple(of.get(place(p)) for p in range(len(self.log)))

    def filling(self, start: OffsetVector) -> Filling:
        """The facts that decide about a backfill."""
        covers = {seq: cover(*offsets) for seq, offsets in self.archive.items()}
        newest = {
            hour: min(seq for seq in self.archive if self.below(self.archive[seq], hour) == held)
            for hour in HOURS_OF
            if self.archive and (held := self.below(actors.newest(self)[1], hour))
        }
        return Filling(start, newest, lambda c: max((n for n, each in covers.items() if c.dominates(each)), default=0))


# ------------------------------------------------------------------ who acts
def healer(world: Losing) -> Actor:
    """One look of the stream's driver."""
    store, known = world.connect(), world.copy
    try:
        found = yield from world.on(store, store.steps(ReadMetadata()))
    except NotReady:
        if known is None:
            raise
        found = yield from world.on(store, store.steps(Initialise()))
    if known is not None:
        lost = known.lost(found)
        if lost or found.known:
            found = yield from world.on(store, store.steps(MarkLostOffsets(lost)))
        if store.incarnation == world.server.incarnation:
            world.told = (store.incarnation, found.generation)
        if known.to_be_deployed(found):
            first = cover(*world.log_start)
            if not found.units and world.archive:
                first = first.join(cover(*actors.newest(world)[1]))
            again = world.manifests[known.units]
            world.say(f"deploying {again.digest} again, from {first}")
            found = yield from world.on(store, store.steps(Deploy(again, found.epoch, {"plays": TOPIC}, first)))
    world.looked = world.looked.join(found.ledger)
    world.copy = witness.of(found) if known is None else known.after(found)
    first = cover(*world.log_start)
    if found.units and not found.ledger.dominates(first) and world.archive:
        held = cover(*actors.newest(world)[1])
        if held.dominates(first):
            again = world.manifests[found.units]
            renewal = Renewal(frozenset(unit.storage_fingerprint for unit in again.units), held)
            world.say(f"the ledger goes on at {held}")
            yield from world.on(
                store, store.steps(Deploy(again, found.epoch, {"plays": TOPIC}, OffsetVector(), renewal))
            )


def rebuild(world: Losing, ahead: bool) -> Actor:
    """Some units are built again by hand, beside all else; ahead: somebody asks for more than may be."""
    store = world.connect()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    again = world.manifests.get(found.units)
    if again is None:
        return
    some = frozenset(world.rng.sample(sorted(found.starts), world.rng.randint(1, len(found.starts))))
    beyond = cover(*actors.newest(world)[1]) if ahead and world.archive else OffsetVector()
    renewal = Renewal(some, beyond)
    try:
        yield from world.on(store, store.steps(Deploy(again, found.epoch, {"plays": TOPIC}, OffsetVector(), renewal)))
    except (EpochSuperseded, GapRefused):
        return
    world.say(f"{sorted(some)} are built again, ahead {beyond}")


def fill(world: Losing, unit: StoreUnit) -> Actor:
    """A backfill, as the job does it: what is missing is committed, what stands is swapped, and marked hour by hour."""
    store = world.connect()
    name = unit.storage_fingerprint
    found = yield from world.on(store, store.steps(ReadMetadata()))
    if name not in found.starts or name in found.ready:
        return
    yield from world.on(store, store.steps(HoldBuilds(actors.terms_of(found))))
    start = found.starts[name]
    while not cover(*(actors.newest(world)[1] if world.archive else ())).dominates(start):
        world.archived()
        yield
    seq, archived = actors.newest(world)
    yield from world.on(store, store.steps(PutArchiveVersion("plays", seq, cover(*archived))))
    left = False
    for hour in reversed(HOURS_OF):
        filling, stands = world.filling(start), world.rows.get((name, hour))
        todo = filling.of(hour, stands[0], cover(*stands[1])) if stands else filling.of(hour, 0, None)
        if todo in (Fill.COMPUTE, Fill.EXTEND, Fill.RECOMPACT):
            yield  # a commit that is refused where another came first
            if world.rows.get((name, hour)) != stands:
                return
            stands = (seq, archived) if todo is Fill.RECOMPACT else (START_SEQ, world.offsets(start))
            world.rows[name, hour] = stands
            world.committed[name, hour] = stands[0]
            world.say(f"{todo.value} {unit.view} hour {hour - FIRST_HOUR} seq {stands[0]}")
            yield
        assert stands is not None
        done = yield from world.on(store, store.steps(ReadHours(unit)))
        if done.get(hour, NOTHING) >= stands[0]:
            continue
        exact = todo is not Fill.SWAP and todo is not Fill.RECOMPACT
        under = (START_SEQ, start) if exact else (stands[0], cover(*stands[1]))
        if under[0]:
            yield from world.on(store, store.steps(PutArchiveVersion("plays", *under)))
        entries = [hour_entry(unit, e, under[0], events) for e, events in world.below(stands[1], hour).items()]
        outcome = yield from world.on(store, store.steps(PublishHour(unit, hour, *under, entries)))
        world.say(f"fill {unit.view} hour {hour - FIRST_HOUR} {todo.value} of seq {stands[0]}: {outcome}")
        if outcome.left_over and exact:
            raise Wrong(f"a running partial of {unit.view} straddles its start cover")
        if outcome.left_over:
            left = True
            continue
        yield from world.on(store, store.steps(MarkHour(unit, hour, stands[0], start if exact else None)))
    if not left:
        yield from world.on(store, store.steps(MarkReady(unit, start, {unit.view: [name]})))
        world.say(f"ready {unit.view}")


def compaction(world: Losing) -> Actor:
    """Some hours that are over, to the newest cover of the archive."""
    store = world.connect()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    yield from world.on(store, store.steps(HoldBuilds(actors.terms_of(found))))
    seq, offsets = world.archived() if world.rng.random() < 0.5 or not world.archive else actors.newest(world)
    jobs = [(unit, h) for unit in world.units for h in HOURS_OF[: min(world.now, HOURS)]]
    world.rng.shuffle(jobs)
    for unit, hour in jobs[: world.rng.randint(1, 3)]:
        name = unit.storage_fingerprint
        stands = world.rows.get((name, hour))
        yield
        if world.rows.get((name, hour)) != stands or (stands and not cover(*offsets).dominates(cover(*stands[1]))):
            return  # another committed first
        if name not in found.starts or not cover(*offsets).dominates(found.starts[name]):
            continue
        world.rows[name, hour] = (seq, offsets)
        yield from actors.compact(world, store, unit, hour, seq, offsets)


def compactions(world: Losing) -> Actor:
    while True:
        yield from compaction(world)
        yield


# ------------------------------------------------------------------ what happens
def losses(seed: int, rules: Iterable[object] = ()) -> Told:
    """Plays one seed; rules: mutants that are applied to the world."""
    world = Losing(cast(Choices, Seeded(seed)))
    for rule in rules:
        if callable(rule):
            rule(world)
    try:
        run(world)
        heal(world)
    except Wrong as wrong:
        return Told(seed, str(wrong), world.checked, world.story, Tape((), ()))
    return Told(seed, None, world.checked, world.story, Tape((), ()))


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
            world.dump = copy.deepcopy((world.server.hashes, world.server.lists, world.server.texts))
        elif a < 0.965:
            forget_log(world)
        elif a < 0.97:
            hands = [rebuild(world, ahead=rng.random() < 0.3)]
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
        world.say(f"the store restarted without its last {n} writes")
    elif what == "all":
        world.server.flush()
        if world.rng.random() < 0.5:
            world.server.restart()
        world.say("the store lost all")
    else:
        world.server.restart()
        server = world.server
        server.hashes, server.lists, server.texts = copy.deepcopy(world.dump)
        world.say("an older dump was restored")
    world.check()


def heal(world: Losing) -> None:
    """Left alone, the platform comes to hold everything again: nobody empties, deploys or decides anything."""
    if world.marks() is None and world.copy is None:
        return  # all was lost before the driver had ever looked
    for _ in range(12):
        world.archived()
        finish(world, healer(world))
        found = world.marks()
        if found is None or not found.units:
            continue
        world.units = tuple(world.manifests[found.units].units)
        world.deployments = int(found.units.rpartition("#")[2] or 0)
        bounded(world, actors.stream(world, None))
        for unit in UNITS:
            finish(world, fill(world, unit))
        seq, offsets = world.archived()
        store = world.connect()
        for unit in world.units:
            for hour in HOURS_OF:
                world.rows[unit.storage_fingerprint, hour] = (seq, offsets)
                finish(world, actors.compact(world, store, unit, hour, seq, offsets))
        finish(world, healer(world))
        found = world.marks()
        if found is not None and whole(world) and not found.known:
            break
    found = world.marks()
    if found is None or not found.units or not whole(world) or found.known:
        raise Wrong(f"not healed: {found}, log {world.ends()} from {world.log_start}")
    world.check()
