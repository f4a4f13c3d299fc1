"""Every judge of a record, at any time, judges it by the schema whose offset its offset lies at.

A log whose source changes its schema again and again, a store in memory with its metadata, and
applies, real-time lanes and archives, any number of each, that stop anywhere and go on, or never
do. What they judge is compared record by record; the keys of entities are the other worlds' affair.
"""

from __future__ import annotations

from functools import lru_cache

import slicewise as sw
from slicewise.errors import DeploymentSuperseded
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.projects import joined
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import Source
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.committed import AdvanceCommitted, BeginBatch
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, ReadManifest, Renewal
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.store import Store
from slicewise.stores.recovery.schema_offsets import LEASE_S
from tests.simulation.histories.choices import Choices
from tests.simulation.histories.play import Play, finish, joins, steps
from tests.simulation.mutants.rules import Mutant, flag, patched
from tests.simulation.worlds.world import Actor, World, Wrong
from tests.support.stores.stored import TOPIC, offset_vector, topic_partition

TRUST_S = 2.0
"""Seconds as a writer of the real-time lane has them (RealtimeSender.java)."""
SECOND_US = 1_000_000
KINDS = 4
"""Schemas that come and go."""


@lru_cache(maxsize=KINDS)
def planned(kind: int) -> Deployment:
    schema = {"user": "string", "at_us": "timestamp_us", **{f"c{n}": "string" for n in range(kind)}}
    source = sw.KafkaSource("plays", schema=schema, timestamp="at_us", max_lateness="1h")
    features = [sw.Feature("n", sw.count(), windows=["10m"])]
    return plan(
        Project.of("p", [sw.FeatureView("v", source=source, entity=["user"], features=features)])
    )


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
        self.archive_requests = self.realtime_requests = self.waits = True
        self.lease_s = LEASE_S
        self.schema_from_committed = self.knows_one = False

    def produce(self) -> None:
        partition = self.rng.randrange(len(self.log))
        self.log[partition] += [None] * self.rng.randint(1, 3)  # type: ignore[list-item]
        self.note(f"records p{partition}", f"end {self.ends()}")

    def time_passes(self) -> None:
        self.server.time.advance(int(self.rng.random() * 3 * SECOND_US))

    def now_s(self) -> float:
        return self.server.time.now_us() / SECOND_US

    def deployed(self, store: Store, metadata: StoreMetadata) -> Deployment:
        return parsed(store.run(ReadManifest(metadata.units)) or "")

    def judge_all(self, who: str, source: Source, start: list[int], end: tuple[int, ...]) -> None:
        """Judges these records. Raises Wrong where another judged one by another schema."""
        versions = source.judged_by(TOPIC)[-1:] if self.knows_one else source.judged_by(TOPIC)
        for partition, (first, beyond) in enumerate(zip(start, end, strict=True)):
            for offset in range(first, beyond):
                ends = enumerate(ends.get(partition, 0) for _, ends in versions[:-1])
                number = next((n for n, until in ends if offset < until), len(versions) - 1)
                by = f"{number}: {versions[number][0].schema_fingerprint}"
                before = self.verdicts.setdefault((partition, offset), (who, by))
                self.checked += 1
                if before[1] != by:
                    raise Wrong(
                        f"p{partition} o{offset} is judged by {by} of {who}, by {before[1]} "
                        f"of {before[0]}"
                    )
        self.note(f"{who} {start}..{list(end)}", f"{len(versions)} schemas")


def _source(world: SchemasWorld, store: Store, metadata: StoreMetadata) -> Source | None:
    """The source that a process judges by; None: it has to wait."""
    source = world.deployed(store, metadata).source("plays")
    if source.is_opening:
        if world.waits:
            return None
        return source.earlier[-1].source if len(source.earlier) == 1 else None
    return source


def microbatch(world: SchemasWorld) -> Actor:
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    source = _source(world, store, metadata)
    if source is None:
        return
    position = [metadata.committed.get(topic_partition(p)) for p in (0, 1)]
    while True:
        end = world.ends()
        yield
        yield from world.on(
            store,
            store.steps(
                BeginBatch(offset_vector(*position), metadata.deployment_version, metadata.units)
            ),
        )
        yield
        world.judge_all("micro-batch", source, position, end)
        yield from world.on(
            store,
            store.steps(
                AdvanceCommitted(
                    offset_vector(*position),
                    offset_vector(*end),
                    metadata.deployment_version,
                    metadata.units,
                )
            ),
        )
        position = list(end)
        yield


def archive(world: SchemasWorld) -> Actor:
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    source = _source(world, store, metadata)
    if source is None:
        return
    yield
    goal = world.ends()
    yield
    if world.archive_requests:
        now = yield from world.on(store, store.steps(ReadMetadata()))
        if world.deployed(store, now).source("plays") != source:
            raise DeploymentSuperseded("another schema was deployed")
    yield
    start = list(world.archive_end)
    world.judge_all(
        "archive", source, start, tuple(max(s, g) for s, g in zip(start, goal, strict=True))
    )
    world.archive_end = [max(s, g) for s, g in zip(start, goal, strict=True)]


def realtime(world: SchemasWorld) -> Actor:
    """A writer: takes what is there, asks whether it still may where that is long ago, writes."""
    store = world.connect()
    checked_s = world.now_s()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    source = _source(world, store, metadata)
    if source is None:
        return
    position = [metadata.committed.get(topic_partition(p)) for p in (0, 1)]
    while True:
        end = world.ends()
        if world.realtime_requests and world.now_s() - checked_s >= TRUST_S:
            requested_s = world.now_s()
            now = yield from world.on(store, store.steps(ReadMetadata()))
            if now.deployment_version != metadata.deployment_version:
                raise DeploymentSuperseded("another deployment stands")
            checked_s = requested_s
        yield
        world.judge_all("tail", source, position, end)
        position = list(end)
        yield


def apply(world: SchemasWorld) -> Actor:
    """An operator deploys another schema, if none is taking effect."""
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    current = world.deployed(store, metadata)
    if not current.opening:
        after = joined(planned(world.rng.randrange(KINDS)), current)
        yield
        yield from world.on(
            store,
            store.steps(
                Deploy(
                    after, metadata.deployment_version, {"plays": TOPIC}, offset_vector(), Renewal()
                )
            ),
        )
        world.note("deployed", f"opening {after.opening}")


def record(world: SchemasWorld) -> Actor:
    """Waits where a schema has no offset, and records one."""
    store = world.connect()
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    current = world.deployed(store, metadata)
    if not current.opening:
        return
    since_s = world.now_s()
    while world.now_s() - since_s < world.lease_s:
        yield
    until = (
        OffsetVector(metadata.committed.offsets)
        if world.schema_from_committed
        else offset_vector(*world.ends())
    )
    yield
    deployment = current.with_until({"plays": until})
    yield from world.on(
        store,
        store.steps(
            Deploy(
                deployment,
                metadata.deployment_version,
                {"plays": TOPIC},
                offset_vector(),
                Renewal(),
            )
        ),
    )
    world.note("offset recorded", list(until.offsets.values()))


PROCESSES = (microbatch, archive, realtime)


def begin(world: SchemasWorld) -> None:
    store = world.connect()
    store.run(Initialise())
    store.run(Deploy(planned(0), 0, {"plays": TOPIC}, offset_vector()))


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
    """Left alone, the last schema takes its place, and all records are applied and archived by what
    was recorded."""
    for _ in range(8):
        recorder = record(world)
        for _ in range(9):
            finish(world, recorder, most=1)
            world.server.time.advance(SECOND_US)
    finish(world, archive(world))
    finish(world, microbatch(world), most=20)
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
    "offsets-batch": Mutant(
        "schema",
        "a batch asks for the deployment version after its end",
        patched(decisions, "check_batch", _unfenced),
    ),
    "offsets-archive": Mutant(
        "schema",
        "an archive asks for the schema after its end",
        world=flag("archive_requests", False),
    ),
    "offsets-realtime": Mutant(
        "schema",
        "a writer of the real-time lane that slept asks first",
        world=flag("realtime_requests", False),
    ),
    "offsets-lease": Mutant(
        "schema", "offsets are recorded when writers ask anew", world=flag("lease_s", 0.0)
    ),
    "offsets-end": Mutant(
        "schema",
        "offsets are the log's end, not the committed offsets",
        world=flag("schema_from_committed"),
    ),
    "offsets-waits": Mutant(
        "schema", "nobody judges while there are no offsets", world=flag("waits", False)
    ),
    "offsets-kept": Mutant(
        "schema", "who starts anew knows the schemas before", world=flag("knows_one")
    ),
}
