"""After every write, an answer of a ready unit holds exactly the events that its token says, once.

The world is a log, a store in memory that runs the project's own operations, and an archive; what
actors do in it is decided by what is drawn.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from slicewise import codec
from slicewise.aggregates import Span
from slicewise.aggregates.exact.counting import Count
from slicewise.clock import ManualClock
from slicewise.codec import Layout
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.model import metadata
from slicewise.stores.online.operations.apply_batch import MicroBatch
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.reading import UnitReply
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import Change, Command, Fields, Steps, Whole, Written
from slicewise.stores.online.store import Store
from slicewise.windows.durations import DAY_US, HOUR_US
from slicewise.windows.segments import FIVE_DAYS
from tests.simulation.histories.choices import Choices
from tests.simulation.histories.timeline import Line
from tests.simulation.readers.served import Serving
from tests.simulation.readers.sessions import Sessions
from tests.support.stores.stored import (
    Event,
    Identities,
    StoreDeployment,
    StoreUnit,
    micro_batch,
    offset_vector,
    seen_in,
    tag,
    topic_partition,
)

T = TypeVar("T")
Actor = Generator[None, None, None]
Seen = tuple[int, int]
"""(partition, offset)"""

DAY = 20_004
"""The last day of its five-day total, whose total stands beside its own."""
HOURS = 3
FIRST_HOUR = DAY * 24
ENTITIES = 2
PARTITIONS = 3
"""The last one is added to the topic at some point."""
LAYOUT = Layout.of([Identities().bind({}), Count().bind({}), Span().bind({})])
UNITS = (
    StoreUnit(
        storage_fingerprint="00000000000000a0", view="first", slice_us=HOUR_US // 2, layout=LAYOUT
    ),
    StoreUnit(
        storage_fingerprint="00000000000000a1", view="second", slice_us=HOUR_US, layout=LAYOUT
    ),
)


class Wrong(AssertionError):
    """A promise does not hold."""


class Logged(NamedTuple):
    """An event of the log; its offset is its place in it."""

    entity: int
    hour: int
    time_us: int


class Server(MemoryServer):
    """A store that tells of its writes, and with a rule removed lacks some of its checks."""

    def __init__(self, world: World, began_us: int = (FIRST_HOUR + HOURS) * HOUR_US) -> None:
        self.began_us = began_us
        self.time = ManualClock(self.began_us)
        super().__init__(self.time)
        self.world = world
        self.unchecked: Callable[[Change, bytes], bool] | None = None

    def execute(self, command: Command) -> Any:
        self.time.advance(1)
        reply = self.written(self._lax(command) if isinstance(command, Change) else command)
        if isinstance(command, Written):
            self.world.wrote(command, reply)
            self.world.check()
        return reply

    def written(self, command: Command) -> Any:
        """Writes a command as the store does."""
        return super().execute(command)

    def _lax(self, change: Change) -> Change:
        if self.unchecked is None:
            return change
        unchecked = self.unchecked
        return Change(
            tuple(
                key._replace(
                    checks=[check for check in key.checks if not unchecked(change, check[0])]
                )
                for key in change.keys
            )
        )


class World:
    """One history's state."""

    def __init__(self, choices: Choices) -> None:
        self.rng = choices
        self.story: list[Line] = []
        self.groups: defaultdict[str, list[Actor]] = defaultdict(list)
        """Actors by what they do: streams, fills, readers and so on."""
        self.acting = "world"
        self._names: dict[Actor, str] = {}
        self.log: list[list[Logged]] = [[], []]
        self.log_start = [0, 0]
        """First offsets that the log still has; the archive has all below."""
        self.now = 0
        self.archive: dict[int, tuple[int, ...]] = {}
        """archive version -> offset vector; what it contains follows from the log."""
        self.committed: dict[tuple[str, int], int] = {}
        """(unit, hour) -> archive version of its compacted rows, beside the store."""
        self.all_units: tuple[StoreUnit, ...] = UNITS
        self.units: tuple[StoreUnit, ...] = UNITS[:1]
        """Units to be deployed."""
        self.executor: Store | None = None
        """A worker's connection, which outlives the queries that it serves."""
        self.deployments = 0
        self.checkpoint: tuple[int, ...] = ()
        self.deployment_version = 1
        """Epoch that was seen after the last move."""
        self.ready_elsewhere: set[tuple[str, int]] = set()
        self.checked = 0
        self.reconnects = False
        """Removed rule: connections outlive their server run."""
        self.sweep_reconnects = False
        """Removed rule: so does the sweep's."""
        self.server = Server(self)
        self.here: Sequence[int] = range(ENTITIES)
        """Entities whose keys the server has that is looked at."""
        self.sessions = Sessions(FIRST_HOUR * HOUR_US, (FIRST_HOUR + HOURS) * HOUR_US)
        self.shared = False
        self.true: dict[tuple[Any, ...], list[int]] = {}
        """Answers that were found to be true, with their bases; worlds may share it."""
        self.serving = Serving()
        self._metadata: tuple[list[bytes], StoreMetadata | None] = ([], None)

    def close(self) -> None:
        """Ends what still runs."""

    # ------------------------------------------------------------ the story
    def note(self, what: str, effect: Any = "") -> None:
        self._add_line(what, str(effect))

    def wrote(self, command: Command, reply: Any) -> None:
        self._add_line(command, reply)

    def _add_line(self, what: Any, effect: Any) -> None:
        at_us = self.server.time.now_us() - self.server.began_us
        self.story.append(Line(self.rng.move, at_us, self.acting, what, effect))

    @contextmanager
    def as_actor(self, actor: Actor) -> Iterator[None]:
        """Tells what happens meanwhile as this actor's."""
        before, self.acting = self.acting, self._name(actor)
        try:
            yield
        finally:
            self.acting = before

    def _name(self, actor: Actor) -> str:
        if actor not in self._names:
            kind = getattr(actor, "__name__", "actor")
            number = 1 + sum(name.startswith(f"{kind} ") for name in self._names.values())
            self._names[actor] = f"{kind} {number}"
        return self._names[actor]

    # ------------------------------------------------------------ the log
    def produce(self) -> None:
        partition = self.rng.randrange(len(self.log))
        latest = min(self.now, HOURS - 1)
        hour = latest if self.rng.random() < 0.7 else self.rng.randrange(latest + 1)
        at = (FIRST_HOUR + hour) * HOUR_US + self.rng.randrange(4) * HOUR_US // 4
        entity = self.rng.randrange(ENTITIES)
        self.log[partition].append(Logged(entity, FIRST_HOUR + hour, at))
        self.note(
            f"event p{partition} o{len(self.log[partition]) - 1}", f"entity {entity} hour {hour}"
        )

    def ends(self) -> tuple[int, ...]:
        return tuple(map(len, self.log))

    def events(self, partition: int, begin: int, end: int) -> list[Event]:
        rows = self.log[partition][begin:end]
        return [Event(e.entity, e.time_us, partition, begin + i) for i, e in enumerate(rows)]

    def counts(self, partition: int, offset: int, unit: StoreUnit | None = None) -> bool:  # noqa: ARG002
        """Tells whether an event of the log is to be counted."""
        return True

    def chosen(self, unit: StoreUnit | None, events: list[Event]) -> list[Event]:  # noqa: ARG002
        """The events that the unit's row logic chooses, as whoever writes it has them."""
        return events

    def deployed_units(self, actual: StoreMetadata) -> tuple[StoreUnit, ...] | None:
        """The units of what is deployed; None where it is not what is wanted."""
        return self.units if actual.units == self.deployment().digest else None

    def manifest(self, actual: StoreMetadata) -> dict[str, Any]:
        """The deployment, as a sweep reads it."""
        unit = {"source": "plays", "slice_us": 1, "retention_us": 1}
        return {"units": [{**unit, "storage_fingerprint": name} for name in actual.starts]}

    def build_hours(self, unit: StoreUnit) -> Sequence[int]:  # noqa: ARG002
        """The hours that a backfill builds."""
        return range(FIRST_HOUR, FIRST_HOUR + HOURS)

    def batch(self, unit: StoreUnit, events: Sequence[Event]) -> MicroBatch:
        """These events of one partition, as a stream applies them."""
        return micro_batch(unit, events)

    def begins(self, position: list[int], actual: StoreMetadata) -> list[int]:  # noqa: ARG002
        """The offsets at which a stream begins that was to begin here."""
        return position

    def below(
        self, offsets: Sequence[int], hour: int, unit: StoreUnit | None = None
    ) -> dict[int, list[Event]]:
        """entity -> its events of the hour below an offset vector, as the archive has them."""
        below: dict[int, list[Event]] = {}
        for partition, end in enumerate(offsets):
            for event in self.chosen(unit, self.events(partition, 0, end)):
                if event.time_us // HOUR_US == hour and self.counts(partition, event.offset):
                    below.setdefault(event.entity, []).append(event)
        return below

    def archived(self) -> tuple[int, tuple[int, ...]]:
        """A commit of the archive: a new archive version up to now, or the one that stands if
        nothing is new."""
        newest = max(self.archive, default=0)
        if newest == 0 or self.archive[newest] != self.ends():
            newest += 1
            self.archive[newest] = self.ends()
            self.note(f"archive version {newest}", f"offset vector {self.ends()}")
        return newest, self.archive[newest]

    # ------------------------------------------------------------ the store
    def connect(self) -> Store:
        return open_memory(self.server)

    @property
    def server_run(self) -> ServerRun:
        """The server run, as a connection has it that opens now."""
        return self.server.server_run

    def pass_time(self, us: int) -> None:
        self.server.time.advance(us)

    def earliest(self) -> OffsetVector:
        """The beginning of the committed offsets of a store that knows nothing."""
        return offset_vector(*self.log_start)

    def to_sweep(self) -> tuple[Server, Store]:
        """A node, and a connection of a sweep to it."""
        return self.server, self.connect()

    def recover(self) -> None:
        """Somebody makes a store whole whose committed offsets the log no longer reaches back
        to."""
        from tests.simulation.worlds.history import empty  # which is of worlds

        empty(self)

    def node(self, entity: int) -> int:  # noqa: ARG002
        """The node that has an entity's keys."""
        return 0

    def plans(self, store: Store) -> Generator[None, None, Mapping[int, StoreMetadata]]:
        """The metadata of each node, that a read is planned by."""
        return {0: (yield from self.on(store, store.steps(ReadMetadata())))}

    def early(
        self,
        store: Store,  # noqa: ARG002
        start: Sequence[int],  # noqa: ARG002
        end: Sequence[int],  # noqa: ARG002
        actual: StoreMetadata,  # noqa: ARG002
    ) -> Actor:
        """Acts as a stream between the plan of a batch and its writes."""
        yield from ()

    def on(self, store: Store, steps: Steps[T]) -> Generator[None, None, T]:
        """An operation that anything may come between any two commands of."""
        try:
            commands = next(steps)
            while True:
                replies = []
                for command in commands:
                    if self.rng.pauses():
                        yield
                    if self.reconnects:
                        store.node.server_run = self.server.server_run  # type: ignore[misc]
                    replies.append(store.node.run([command])[0])
                commands = steps.send(replies)
        except StopIteration as done:
            value: T = done.value
            return value

    def deployment(self) -> StoreDeployment:
        return StoreDeployment(
            "+".join(u.view for u in self.units) + f"#{self.deployments}", self.units
        )

    def want(self, units: tuple[StoreUnit, ...]) -> None:
        """Sets what an operator is to deploy next."""
        self.units, self.deployments = units, self.deployments + 1
        self.note(f"wanted: {[unit.view for unit in units]}")

    def metadata(self) -> StoreMetadata | None:
        flat = self.server.execute(Whole(keys.METADATA))
        if flat != self._metadata[0]:
            self._metadata = (flat, metadata.parse(flat))
        return self._metadata[1]

    # ------------------------------------------------------------ the truth
    def check(self) -> None:
        """Checks what a reader would get now, for every ready unit and entity."""
        result = self.metadata()
        if result is None:
            return
        for unit in self.all_units:
            if unit.storage_fingerprint in result.ready:
                for entity in self.here:
                    hot, days = entity_keys(result, unit, entity)
                    reply = UnitReply(
                        self.server.execute(Whole(hot)),
                        [self.server.execute(Fields(days, DAY_FIELDS))],
                    )
                    base = self.judge(unit, entity, result, reply)
                    self.judged(unit, entity, result, reply, base)
                    self.check_served(unit, entity, result, base)
                    self.check_named(unit, reply.days[0][0], result.store_id)

    def check_served(
        self, unit: StoreUnit, entity: int, actual: StoreMetadata, base: list[int]
    ) -> None:
        """Checks a serving process that is asked now, and remembers all that it answered."""
        wrong = self.serving.read(
            self.node(entity), unit, entity, actual, self.server.server_run, base
        )
        if wrong is not None:
            raise Wrong(f"{unit.view} entity {entity}: {wrong}")

    def judged(
        self, unit: StoreUnit, entity: int, actual: StoreMetadata, reply: UnitReply, base: list[int]
    ) -> None:
        """Checks what else must hold of what the store holds now."""

    def earliest_us(self, unit: StoreUnit) -> int:  # noqa: ARG002
        """The earliest instant that a read of now may reach."""
        return 0

    def check_named(self, unit: StoreUnit, raw_hours: bytes | None, store_id: int) -> None:
        """An archive version that an hour names is one that the store knows."""
        registered = self.server.execute(Whole(keys.offset_vectors_key(store_id, "plays")))[::2]
        hours = codec.unpack_hours(raw_hours)
        earliest = self.earliest_us(unit) // HOUR_US
        named = {archive_version for hour, archive_version in hours.items() if hour >= earliest} - {
            decisions.START_VERSION
        }
        unknown = sorted(
            archive_version
            for archive_version in named
            if b"%d" % archive_version not in registered
        )
        if unknown:
            raise Wrong(f"nothing says what archive versions {unknown} stand for")

    def judge(
        self,
        unit: StoreUnit,
        entity: int,
        actual: StoreMetadata,
        reply: UnitReply,
        server_run: ServerRun | None = None,
    ) -> list[int]:
        """Compares an answer with the log; its base. server_run: the reader's, if it is another.
        Raises Wrong."""
        self.checked += 1
        if unit.storage_fingerprint not in actual.starts:
            raise Wrong(f"{unit.view} is ready and not deployed")
        has_realtime = self.has_realtime(actual, server_run or self.server.server_run)
        name = actual.name(unit.storage_fingerprint)
        start, earliest = actual.starts[unit.storage_fingerprint], self.earliest_us(unit)
        stored = tuple(reply.hot), tuple(reply.days[0])
        given = (
            self.offsets_by_version,
            name,
            start,
            earliest,
            entity,
            actual.committed,
            has_realtime,
            *stored,
        )
        if given in self.true:
            return self.true[given]  # the log only grows: what was true of these bytes is true
        got, base, offset_vectors = self.answer(unit, actual, reply)
        if has_realtime:
            got, base = self.with_pending(unit, actual, reply, got, base, offset_vectors)
        ends = {
            hour: [max(b, c.get(topic_partition(p))) for p, b in enumerate(base)]
            for hour, c in offset_vectors.items()
        }
        want = sorted(
            (partition, offset)
            for partition, rows in enumerate(self.log)
            for offset, event in enumerate(rows)
            if event.entity == entity
            and event.time_us >= earliest
            and offset < ends.get(event.hour, base)[partition]
            and self.counts(partition, offset, unit)
        )
        if earliest:  # what else stands has not expired yet
            got = [(p, offset) for p, offset in got if self.log[p][offset].time_us >= earliest]
        if got != want:
            raise Wrong(
                f"{unit.view} entity {entity}, base {base}, offset vectors "
                f"{ {h - FIRST_HOUR: list(c.offsets.values()) for h, c in offset_vectors.items()} }: "
                f"missing {sorted((Counter(want) - Counter(got)).elements())}, "
                f"too many {sorted((Counter(got) - Counter(want)).elements())}"
            )
        by_version = {
            archive_version: archive_offsets(offsets)
            for archive_version, offsets in self.archive.items()
        } | {decisions.START_VERSION: start}
        times = [self.log[partition][offset].time_us for partition, offset in want]
        if self.merged() and (
            wrong := self.sessions.wrong(
                unit, actual, reply, DAY_FIELDS, by_version, times, has_realtime, base
            )
        ):
            raise Wrong(f"{unit.view} entity {entity}: {wrong}")
        self.true[given] = base
        return base

    @property
    def offsets_by_version(self) -> tuple[Any, ...]:
        """Facts that an answer is also judged by, where worlds share what is true; in one world
        they only grow."""
        return (tuple(map(tuple, self.log)), tuple(self.archive.items())) if self.shared else ()

    def merged(self) -> bool:
        """Tells whether this answer is also read by `merge`."""
        return True

    def has_realtime(self, actual: StoreMetadata, server_run: ServerRun) -> bool:  # noqa: ARG002
        """Tells whether a reader of this server run counts pending fields."""
        return False

    def with_pending(
        self,
        unit: StoreUnit,  # noqa: ARG002
        actual: StoreMetadata,  # noqa: ARG002
        reply: UnitReply,  # noqa: ARG002
        got: list[Seen],
        base: list[int],
        offset_vectors: dict[int, OffsetVector],  # noqa: ARG002
    ) -> tuple[list[Seen], list[int]]:
        """Events and base with what stands of the real-time lane."""
        return got, base

    def answer(
        self, unit: StoreUnit, actual: StoreMetadata, reply: UnitReply
    ) -> tuple[list[Seen], list[int], dict[int, OffsetVector]]:
        """Events, base per partition and offset vector per compacted hour, of one entity."""
        raw_hours, raw_total, raw_five_days, *raw = reply.days[0]
        hours = codec.unpack_hours(raw_hours)
        compacted: list[Seen] = []
        for hour, archive_version in hours.items():
            total, slices = raw[2 * (hour - FIRST_HOUR)], raw[2 * (hour - FIRST_HOUR) + 1]
            if (
                total is None
                or slices is None
                or codec.unpack_total(total).archive_version != archive_version
            ):
                raise Wrong(
                    f"hour {hour - FIRST_HOUR} of {unit.view} counts as compacted and is not"
                )
            inside = total_rows(unit, total)
            if inside != slice_rows(unit, slices):
                raise Wrong(f"the slices of hour {hour - FIRST_HOUR} are not its total")
            compacted += inside
        if raw_total is not None and raw_hours is not None:
            total_of_day = codec.unpack_day(raw_total)
            if total_of_day.digest == codec.day_digest(raw_hours):
                compacted = list(day_rows(unit, raw_total))
        if raw_five_days is not None and raw_hours is not None:
            days = [*[None] * (FIVE_DAYS - 1), raw_hours]
            if codec.unpack_day(raw_five_days).digest == codec.five_day_digest(days):
                compacted = list(day_rows(unit, raw_five_days))
        got = list(compacted)
        base = [actual.committed.get(topic_partition(p)) for p in range(len(self.log))]
        for name, value in zip(reply.hot[::2], reply.hot[1::2], strict=True):
            kind, *rest = name.split(b":")
            if kind == b"r":
                got += running_rows(unit, value)
            elif kind == b"l":
                base[int(rest[1])] = max(base[int(rest[1])], int(value) + 1)
        start = actual.starts[unit.storage_fingerprint]
        offset_vectors = {
            h: start
            if archive_version == decisions.START_VERSION
            else archive_offsets(self.archive[archive_version])
            for h, archive_version in hours.items()
        }
        return sorted(got), base, offset_vectors


DAY_FIELDS = (
    keys.HOURS,
    keys.TOTAL,
    keys.FIVE_DAY_TOTAL,
    *(field for h in range(HOURS) for field in keys.hour_fields(FIRST_HOUR + h)[:2]),
)


@lru_cache(maxsize=1024)
def archive_offsets(offsets: tuple[int, ...]) -> OffsetVector:
    return offset_vector(*offsets)


def entity_keys(actual: StoreMetadata, unit: StoreUnit, entity: int) -> tuple[bytes, bytes]:
    """Hot and day, under the names of this metadata."""
    return _keys(actual.store_id, actual.name(unit.storage_fingerprint), entity)


def _keys(store_id: int, name: str, entity: int) -> tuple[bytes, bytes]:
    # not remembered: a mutant names keys otherwise, and the next history would read under them
    day = FIRST_HOUR * HOUR_US // DAY_US
    return keys.hot_key(store_id, tag(entity), name), keys.day_key(store_id, tag(entity), name, day)


@lru_cache(maxsize=65_536)
def running_rows(unit: StoreUnit, value: bytes) -> tuple[Seen, ...]:
    part = codec.unpack_running(value)
    inside = seen_in(unit, [part.row])
    if (part.first, part.last) != (min(o for _, o in inside), max(o for _, o in inside)):
        raise Wrong(f"a running partial says {part.first}..{part.last} and holds {inside}")
    return tuple(inside)


@lru_cache(maxsize=65_536)
def total_rows(unit: StoreUnit, value: bytes) -> tuple[Seen, ...]:
    return tuple(seen_in(unit, [codec.unpack_total(value).row]))


@lru_cache(maxsize=65_536)
def day_rows(unit: StoreUnit, value: bytes) -> tuple[Seen, ...]:
    return tuple(seen_in(unit, [codec.unpack_day(value).row]))


@lru_cache(maxsize=65_536)
def slice_rows(unit: StoreUnit, value: bytes) -> tuple[Seen, ...]:
    rows = codec.unpack_slices(value)
    parts = unit.layout.decode_blocks([rows.block], [len(rows.numbers)])
    return tuple(seen_in(unit, unit.layout.encode_rows(parts)))
