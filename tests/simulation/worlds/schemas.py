"""Every judge of a record, at any time, judges it by the schema whose place its offset lies at.

A log whose source changes its schema again and again, a store in memory with its marks, and folds, tails and archives,
any number of each, that stop anywhere and go on, or never do. What they judge is compared record by record; the keys
of entities are the other worlds' affair.
"""

from __future__ import annotations

from functools import lru_cache

import slicewise as sw
from slicewise.errors import EpochSuperseded
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.projects import joined
from slicewise.features.plan.schema_change import judged_by
from slicewise.features.plan.unit import Source
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.committed import AdvanceCommitted, BeginBatch
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, ReadManifest, Renewal
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.store import Store
from slicewise.stores.recovery.schema_places import LEASE_S
from tests.simulation.histories.choices import Choices
from tests.simulation.histories.play import Play, finish, joins, steps
from tests.simulation.mutants.rules import Mutant, flag, patched
from tests.simulation.worlds.world import Actor, World, Wrong
from tests.support.stores.stored import TOPIC, cover, place

TRUST_S = 2.0
"""As a writer of the tail has it (RealtimeSender.java)."""
SECOND_US = 1_000_000
KINDS = 4
"""Schemas that come and go."""


@lru_cache(maxsize=KINDS)
def planned(kind: int) -> Deployment:
    schema = {"user": "string", "at_us": "timestamp_us", **{f"c{n}": "string" for n in range(kind)}}
    source = sw.KafkaSource("plays", schema=schema, timestamp="at_us", max_lateness="1h")
    features = [sw.Feature("n", sw.count(), windows=["10m"])]
    return plan(Project.of("p", [sw.FeatureView("v", source=source, entity=["user"], features=features)]))


@lru_cache(maxsize=256)
def parsed(text: str) -> Deployment:
    return Deployment.from_json(text)


class SchemasWorld(World):
    """A world of one source. What is removed of its rules are flags."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.all_units = self.units = ()
        self.verdicts: dict[tuple[int, int], tuple[str, str]] = {}
        """(partition, offset) -> who judged it first, and by which schema."""
        self.archive_end = [0, 0]
        self.archive_asks = self.tail_asks = self.waits = True
        self.lease_s = LEASE_S
        self.place_is_ledger = self.knows_one = False

    def produce(self) -> None:
        partition = self.rng.randrange(len(self.log))
        self.log[partition] += [None] * self.rng.randint(1, 3)  # type: ignore[list-item]
        self.say(f"records p{partition}", f"end {self.ends()}")

    def time_passes(self) -> None:
        self.server.time.advance(int(self.rng.random() * 3 * SECOND_US))

    def now_s(self) -> float:
        return self.server.time.now_us() / SECOND_US

    def deployed(self, store: Store, found: StoreMetadata) -> Deployment:
        return parsed(store.run(ReadManifest(found.units)) or "")

    def judge_all(self, who: str, source: Source, start: list[int], end: tuple[int, ...]) -> None:
        """Judges these records. Raises Wrong where another judged one by another schema."""
        versions = judged_by(source, TOPIC)[-1:] if self.knows_one else judged_by(source, TOPIC)
        for partition, (first, beyond) in enumerate(zip(start, end, strict=True)):
            for offset in range(first, beyond):
                ends = enumerate(ends.get(partition, 0) for _, ends in versions[:-1])
                number = next((n for n, until in ends if offset < until), len(versions) - 1)
                by = f"{number}: {versions[number][0].schema_fingerprint}"
                before = self.verdicts.setdefault((partition, offset), (who, by))
                self.checked += 1
                if before[1] != by:
                    raise Wrong(f"p{partition} o{offset} is judged by {by} of {who}, by {before[1]} of {before[0]}")
        self.say(f"{who} {start}..{list(end)}", f"{len(versions)} schemas")


def _source(world: SchemasWorld, store: Store, found: StoreMetadata) -> Source | None:
    """The source that a process judges by; None: it has to wait."""
    source = world.deployed(store, found).source("plays")
    if source.is_opening:
        if world.waits:
            return None
        return source.earlier[-1].source if len(source.earlier) == 1 else None
    return source


def fold(world: SchemasWorld) -> Actor:
    store = world.connect()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    source = _source(world, store, found)
    if source is None:
        return
    position = [found.ledger.get(place(p)) for p in (0, 1)]
    while True:
        end = world.ends()
        yield
        yield from world.on(store, store.steps(BeginBatch(cover(*position), found.epoch, found.units)))
        yield
        world.judge_all("fold", source, position, end)
        yield from world.on(
            store, store.steps(AdvanceCommitted(cover(*position), cover(*end), found.epoch, found.units))
        )
        position = list(end)
        yield


def archive(world: SchemasWorld) -> Actor:
    store = world.connect()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    source = _source(world, store, found)
    if source is None:
        return
    yield
    goal = world.ends()
    yield
    if world.archive_asks:
        now = yield from world.on(store, store.steps(ReadMetadata()))
        if world.deployed(store, now).source("plays") != source:
            raise EpochSuperseded("another schema was deployed")
    yield
    start = list(world.archive_end)
    world.judge_all("archive", source, start, tuple(max(s, g) for s, g in zip(start, goal, strict=True)))
    world.archive_end = [max(s, g) for s, g in zip(start, goal, strict=True)]


def tail(world: SchemasWorld) -> Actor:
    """A writer: takes what is there, asks whether it still may where that is long ago, writes."""
    store = world.connect()
    told_s = world.now_s()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    source = _source(world, store, found)
    if source is None:
        return
    position = [found.ledger.get(place(p)) for p in (0, 1)]
    while True:
        end = world.ends()
        if world.tail_asks and world.now_s() - told_s >= TRUST_S:
            asked_s = world.now_s()
            now = yield from world.on(store, store.steps(ReadMetadata()))
            if now.epoch != found.epoch:
                raise EpochSuperseded("another deployment stands")
            told_s = asked_s
        yield
        world.judge_all("tail", source, position, end)
        position = list(end)
        yield


def apply(world: SchemasWorld) -> Actor:
    """An operator deploys another schema, if none is taking effect."""
    store = world.connect()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    standing = world.deployed(store, found)
    if not standing.opening:
        after = joined(planned(world.rng.randrange(KINDS)), standing)
        yield
        yield from world.on(store, store.steps(Deploy(after, found.epoch, {"plays": TOPIC}, cover(), Renewal())))
        world.say("deployed", f"opening {after.opening}")


def record(world: SchemasWorld) -> Actor:
    """Waits where a schema has no place, and records one."""
    store = world.connect()
    found = yield from world.on(store, store.steps(ReadMetadata()))
    standing = world.deployed(store, found)
    if not standing.opening:
        return
    since_s = world.now_s()
    while world.now_s() - since_s < world.lease_s:
        yield
    until = OffsetVector(found.ledger.offsets) if world.place_is_ledger else cover(*world.ends())
    yield
    deployment = standing.placed({"plays": until})
    yield from world.on(store, store.steps(Deploy(deployment, found.epoch, {"plays": TOPIC}, cover(), Renewal())))
    world.say("place recorded", list(until.offsets.values()))


PROCESSES = (fold, archive, tail)


def begin(world: SchemasWorld) -> None:
    store = world.connect()
    store.run(Initialise())
    store.run(Deploy(planned(0), 0, {"plays": TOPIC}, cover()))


def another_process(world: SchemasWorld) -> None:
    joins(world, "processes", world.rng.choice(PROCESSES)(world), keeping=4)


def another_sleeper(world: SchemasWorld) -> None:
    """One that is stopped for long, again and again."""
    joins(world, "sleepers", world.rng.choice(PROCESSES)(world), keeping=3)


def another_apply(world: SchemasWorld) -> None:
    joins(world, "operators", apply(world), keeping=1)


def go_on(world: SchemasWorld) -> None:
    if not world.groups["processes"]:
        another_process(world)
    if not world.groups["recorders"]:
        world.groups["recorders"].append(record(world))


def end(world: SchemasWorld) -> None:
    """Left alone, the last schema takes its place, and all records are folded and archived by what was recorded."""
    for _ in range(8):
        recorder = record(world)
        for _ in range(9):
            finish(world, recorder, most=1)
            world.server.time.advance(SECOND_US)
    finish(world, archive(world))
    finish(world, fold(world), most=20)
    if min(world.archive_end) < 0 or tuple(world.archive_end) != world.ends():
        raise Wrong(f"archived up to {world.archive_end}, the log ends at {world.ends()}")
    store = world.connect()
    source = world.deployed(store, store.run(ReadMetadata())).source("plays")
    world.judge_all("all that was recorded", source, [0, 0], world.ends())


PLAY = Play(
    "schemas",
    SchemasWorld,
    begin,
    (
        (100, SchemasWorld.produce),
        (60, SchemasWorld.time_passes),
        (300, steps("processes")),
        (60, steps("recorders")),
        (40, steps("operators")),
        (60, another_process),
        (15, steps("sleepers")),
        (8, another_sleeper),
        (12, another_apply),
    ),
    go_on,
    end,
    60,
    600,
)


def _unfenced(*_: object) -> None:
    """A batch goes on whatever was deployed."""


MUTANTS: dict[str, Mutant] = {
    "place-batch": Mutant(
        "schema", "a batch asks for the epoch after its end", patched(decisions, "check_batch", _unfenced)
    ),
    "place-archive": Mutant(
        "schema", "an archive asks for the schema after its end", world=flag("archive_asks", False)
    ),
    "place-tail": Mutant("schema", "a writer of the tail that slept asks first", world=flag("tail_asks", False)),
    "place-lease": Mutant("schema", "a place is recorded when writers ask anew", world=flag("lease_s", 0.0)),
    "place-end": Mutant("schema", "a place is the log's end, not the ledger", world=flag("place_is_ledger")),
    "place-waits": Mutant("schema", "nobody judges while there is no place", world=flag("waits", False)),
    "place-kept": Mutant("schema", "who starts anew knows the schemas before", world=flag("knows_one")),
}
