"""Claims about a node live on the node, are written after its data, and fall with it.

Every change of the metadata is one compare-and-set under the store id that this connection is
bound to: a store that was emptied, deployed to or advanced in between refuses it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from slicewise.codec.store_fields import METADATA_BY_LETTER, Field
from slicewise.codec.store_fields import metadata as m
from slicewise.errors import DeploymentSuperseded, GapRefused, ServerRunChanged
from slicewise.features.declare.event_list import EventList
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online import keys
from slicewise.stores.online.attempts import Missed, change_while
from slicewise.stores.online.control_record import (
    Build,
    RealtimeStart,
    ServerRun,
    StoreMetadata,
    TotalUntil,
)
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import (
    ABSENT,
    MISSED,
    Change,
    Command,
    Fields,
    KeyChange,
    Steps,
    Time,
    Whole,
    exact,
)
from slicewise.stores.online.stored_unit import StoredUnit

Checks = list[tuple[bytes, bytes]]
Sets = list[tuple[bytes, bytes, int]]
TOPIC_PARTITIONS = m.PARTITIONS.form
R = TypeVar("R")
Attempt = Generator[Sequence[Command], list[Any], R | Missed[None]]
"""One read, decision and change; Missed where another writer came between."""
AGAIN = Missed(None)


def committed_field(topic_partition: TopicPartition) -> bytes:
    return m.COMMITTED.form % (topic_partition[0].encode(), topic_partition[1])


def parse(flat: Sequence[bytes]) -> StoreMetadata | None:
    """The metadata in a reply to HGETALL; None where they are missing."""
    raw = dict(zip(flat[::2], flat[1::2], strict=True))
    if m.STORE_ID.form not in raw:
        return None
    parsed: dict[Field, dict[str, Any]] = {entry: {} for entry in METADATA_BY_LETTER.values()}
    into = {
        letter: (parsed[entry], entry.value.parse) for letter, entry in METADATA_BY_LETTER.items()
    }
    for field, value in raw.items():
        letter, _, name = field.decode().partition(":")
        if name and letter in into:
            values, parse_value = into[letter]
            values[name] = parse_value(value)

    def single(entry: Field, absent: bytes) -> Any:
        return entry.value.parse(raw.get(entry.form, absent))

    committed, lost = _offsets(parsed[m.COMMITTED]), _offsets(parsed[m.LOST])
    return StoreMetadata(
        store_id=int(raw[m.STORE_ID.form]),
        deployment_version=int(raw[m.DEPLOYMENT_VERSION.form]),
        units=raw[m.DEPLOYMENT.form].decode(),
        topic_partitions=frozenset(committed),
        committed=OffsetVector(committed),
        starts=parsed[m.START],
        ready=frozenset(parsed[m.READY]),
        building=parsed[m.BUILDING],
        aliases=parsed[m.ALIAS],
        topics=parsed[m.TOPIC],
        builds=parsed[m.BUILD],
        retired=single(m.RETIRED, b"0"),
        keeps={unit: EventList.parse(text) for unit, text in parsed[m.KEPT].items()},
        totals_until={unit: TotalUntil(*until) for unit, until in parsed[m.TOTAL_UNTIL].items()},
        realtime_starts={
            source: _start(*parts) for source, parts in parsed[m.REALTIME_START].items()
        },
        lost_offsets=OffsetVector(lost),
        node=single(m.NODE, b""),
        set_id=single(m.NODE_SET, b"0"),
    )


def _offsets(by_name: Mapping[str, int]) -> dict[TopicPartition, int]:
    """Offsets by topic partition, of a field's names without their letter."""
    split = ((name.rpartition(":"), offset) for name, offset in by_name.items())
    return {(topic, int(partition)): offset for (topic, _, partition), offset in split}


def _start(run_id: str, replication_id: str, start: OffsetVector) -> RealtimeStart:
    return RealtimeStart(ServerRun(run_id, replication_id), start)


def bound(metadata: StoreMetadata | None, store_id: int) -> StoreMetadata:
    """The metadata, if they are of this store id; ServerRunChanged otherwise."""
    if metadata is None or metadata.store_id != store_id:
        actual = "no metadata" if metadata is None else f"store id {metadata.store_id}"
        raise ServerRunChanged(
            f"the store was emptied: it has {actual}, this connection is of {store_id}",
            next_step="open a new connection, initialise, deploy, and start at the committed offsets",
        )
    return metadata


def read(store_id: int) -> Steps[StoreMetadata]:
    (flat,) = yield [Whole(keys.METADATA)]
    return bound(parse(flat), store_id)


def change(
    store_id: int,
    checks: Iterable[tuple[bytes, bytes]],
    sets: Sets,
    deletes: Sequence[bytes] = (),
    *others: KeyChange,
) -> Change:
    """A change of the metadata (and of keys in their slot) within one store id."""
    same_store = (m.STORE_ID.form, exact(b"%d" % store_id))
    return Change((KeyChange(keys.METADATA, [same_store, *checks], sets, deletes), *others))


def initialise(
    node: str = "", set_id: int = 0, after: int = 0, same: int = 0
) -> Steps[StoreMetadata]:
    """A store without metadata gets the store's own time as its store id: it never repeats.

    node, set_id: of a store of several nodes, as in `StoreMetadata` (set_id 0: this store id names
    a new set). after: the store id is later than this one; same: it is this one, which a node of
    the same new set got.
    """

    def attempt(_: None) -> Attempt[StoreMetadata]:
        flat, now = yield [Whole(keys.METADATA), Time()]
        metadata = parse(flat)
        if metadata is not None:
            return metadata
        store_id = same or max(now, after + 1)
        first = [
            (m.STORE_ID.form, b"%d" % store_id, 0),
            (m.DEPLOYMENT_VERSION.form, b"0", 0),
            (m.DEPLOYMENT.form, b"", 0),
            (TOPIC_PARTITIONS, b"0", 0),
        ]
        if node:
            first += [
                (m.NODE.form, node.encode(), 0),
                (m.NODE_SET.form, b"%d" % (set_id or store_id), 0),
            ]
        yield [Change((KeyChange(keys.METADATA, [(m.STORE_ID.form, ABSENT)], first),))]
        return AGAIN  # who wrote them, and which, the next attempt reads

    return (yield from change_while(attempt, None, "metadata"))


def advance_committed(
    store_id: int, start: OffsetVector, end: OffsetVector, deployment_version: int, units: str
) -> Steps[OffsetVector]:
    """The committed offsets after a batch from `start` to `end`: no gap, the newest deployment
    version, its units."""

    def attempt(_: None) -> Attempt[OffsetVector]:
        metadata = yield from read(store_id)
        decisions.check_batch(
            metadata.committed,
            (metadata.deployment_version, metadata.units),
            start,
            deployment_version,
            units,
        )
        advanced = decisions.advanced(metadata.committed, end)
        if not advanced:
            return metadata.committed
        sets: Sets = [(committed_field(p), b"%d" % o, 0) for p, o in advanced.items()]
        new = set(advanced) - metadata.topic_partitions
        if new:
            sets.append((TOPIC_PARTITIONS, b"%d" % (len(metadata.topic_partitions) + len(new)), 0))
        checks = [
            (m.DEPLOYMENT_VERSION.form, exact(b"%d" % deployment_version)),
            (m.DEPLOYMENT.form, exact(units.encode())),
            *unmoved_checks(metadata, {*advanced, *start, *end}),
            *topic_partitions(metadata),
        ]
        (reply,) = yield [change(store_id, checks, sets)]
        return AGAIN if reply == MISSED else metadata.committed.join(OffsetVector(advanced))

    return (yield from change_while(attempt, None, "committed offsets"))


def unmoved_checks(metadata: StoreMetadata, topic_partitions: Iterable[TopicPartition]) -> Checks:
    return [
        (
            committed_field(topic_partition),
            exact(b"%d" % metadata.committed.get(topic_partition))
            if topic_partition in metadata.topic_partitions
            else ABSENT,
        )
        for topic_partition in sorted(topic_partitions)
    ]


def topic_partitions(metadata: StoreMetadata) -> Checks:
    """No partition was added: start offsets would lack it."""
    return [(TOPIC_PARTITIONS, exact(b"%d" % len(metadata.topic_partitions)))]


def realtime_field(source: str) -> bytes:
    return m.REALTIME_START.name(source)


def pack_realtime_start(begun: RealtimeStart) -> bytes:
    """The value of an entry that the real-time lane began."""
    return m.REALTIME_START.value.pack(
        begun.server_run.run_id, begun.server_run.replication_id, begun.start
    )


def begin_realtime(
    store_id: int, source: str, begun: RealtimeStart, deployment_version: int, units: str
) -> Steps[StoreMetadata]:
    """Marks a real-time lane that began at or before the committed offsets.

    These only grow in the server run that the lane is bound to.
    """

    def attempt(_: None) -> Attempt[StoreMetadata]:
        metadata = yield from read(store_id)
        decisions.check_realtime(
            metadata.committed,
            (metadata.deployment_version, metadata.units),
            begun.start,
            deployment_version,
            units,
        )
        checks = [
            (m.DEPLOYMENT_VERSION.form, exact(b"%d" % deployment_version)),
            (m.DEPLOYMENT.form, exact(units.encode())),
        ]
        (reply,) = yield [
            change(store_id, checks, [(realtime_field(source), pack_realtime_start(begun), 0)])
        ]
        return AGAIN if reply == MISSED else (yield from read(store_id))

    return (yield from change_while(attempt, None, "real-time lane start"))


def end_realtime(store_id: int, source: str, server_run: ServerRun) -> Steps[bool]:
    """Removes an entry that names a server run before this one. That of this server run stands,
    whatever is applied: a zombie may write on, and what was served of it would be taken back
    (docs/adr/0054)."""
    metadata = yield from read(store_id)
    begun = metadata.realtime_starts.get(source)
    if begun is None or not decisions.realtime_over(begun, server_run):
        return False
    checks = [(realtime_field(source), exact(pack_realtime_start(begun)))]
    (reply,) = yield [change(store_id, checks, [], [realtime_field(source)])]
    if reply == MISSED:
        yield from read(store_id)  # says whether the store was emptied
    return bool(reply != MISSED)


def _build(unit: StoredUnit, build: Build) -> Checks:
    """Checks by which a claim about a build is made only while the build stands."""
    name = unit.storage_fingerprint
    number = exact(b"%d" % build.number) if build.number else ABSENT
    return [(m.START.name(name), exact(build.start.pack())), (m.BUILD.name(name), number)]


def _check_build(metadata: StoreMetadata, unit: StoredUnit, build: Build) -> None:
    """Says why a check of the build did not hold; DeploymentSuperseded."""
    if decisions.build_of(metadata, unit.storage_fingerprint) != build:
        raise DeploymentSuperseded(
            f"build {build.number} of unit {unit.storage_fingerprint} is over",
            next_step="read the deployment again",
        )


def mark_ready(
    store_id: int,
    unit: StoredUnit,
    build: Build,
    start: OffsetVector,
    views: Mapping[str, Sequence[str]],
) -> Steps[None]:
    """All that lies below the unit's start offsets stands; names take their aliases."""
    name = unit.storage_fingerprint

    def attempt(_: None) -> Attempt[None]:
        metadata = yield from read(store_id)
        _check_build(metadata, unit, build)
        if build.start != start:
            raise GapRefused(
                f"unit {name} has other start offsets than the backfill that was made",
                next_step="run the backfill again",
            )
        aliases = decisions.aliases_to_set(views, metadata.aliases, metadata.ready | {name})
        sets: Sets = [
            (m.READY.name(name), m.READY.value.pack(), 0),
            *[(m.ALIAS.name(v), m.ALIAS.value.pack(f), 0) for v, f in aliases.items()],
        ]
        checks = [
            (m.DEPLOYMENT_VERSION.form, exact(b"%d" % metadata.deployment_version)),
            *_build(unit, build),
        ]
        (reply,) = yield [change(store_id, checks, sets, [m.BUILDING.name(name)])]
        return AGAIN if reply == MISSED else None

    yield from change_while(attempt, None, "ready entry")


def mark_building(
    store_id: int, unit: StoredUnit, build: Build, done: int, total: int
) -> Steps[None]:
    state = (m.BUILDING.name(unit.storage_fingerprint), m.BUILDING.value.pack(done, total), 0)
    (reply,) = yield [change(store_id, _build(unit, build), [state])]
    if reply == MISSED:
        _check_build((yield from read(store_id)), unit, build)


def mark_published(
    store_id: int, unit: StoredUnit, build: Build, hour: int, archive_version: int
) -> Steps[bool]:
    """False where a newer archive version stands."""
    key, field = keys.published_key(store_id, build.name), b"%d" % hour

    def attempt(_: None) -> Attempt[bool]:
        ((stored,),) = yield [Fields(key, [field])]
        if stored is not None and int(stored) > archive_version:
            return False
        other = KeyChange(key, [(field, exact(stored))], [(field, b"%d" % archive_version, 0)])
        (reply,) = yield [change(store_id, _build(unit, build), [], (), other)]
        if reply != MISSED:
            return True
        _check_build((yield from read(store_id)), unit, build)
        return AGAIN

    return (yield from change_while(attempt, None, "published entry"))


def published(store_id: int, build: Build) -> Steps[dict[int, int]]:
    (flat,) = yield [Whole(keys.published_key(store_id, build.name))]
    return keys.published_hours(zip(flat[::2], flat[1::2], strict=True))


def announce_lifetime(
    store_id: int, unit: StoredUnit, build: Build, total_until: int, archive_version: int
) -> Steps[None]:
    """An archive version that totals will name."""
    other = KeyChange(
        keys.published_key(store_id, build.name),
        [(b"-", ABSENT)],
        [(keys.TOTALS + b"%d" % archive_version, b"%d" % total_until, 0)],
    )
    (reply,) = yield [change(store_id, _build(unit, build), [], (), other)]
    if reply == MISSED:
        _check_build((yield from read(store_id)), unit, build)


def lifetime_versions(store_id: int, build: Build) -> Steps[tuple[int, ...]]:
    """Archive versions that totals may name."""
    (flat,) = yield [Whole(keys.published_key(store_id, build.name))]
    return tuple(
        sorted(
            int(field[len(keys.TOTALS) :]) for field in flat[::2] if field.startswith(keys.TOTALS)
        )
    )


def mark_total_until(
    store_id: int,
    unit: StoredUnit,
    build: Build,
    total_until: TotalUntil,
    announced: tuple[bytes, int],
    whole: bool,
) -> Steps[bool]:
    """All totals of the unit reach the total-until hour. announced: key of the source's offset
    vectors, and the announcements there when the hours were read that the totals were made of: one
    that came later may have brought an entity an hour that this claim would hide. False then, and
    where a newer total-until hour stands."""
    field = m.TOTAL_UNTIL.name(unit.storage_fingerprint)
    metadata = yield from read(store_id)
    _check_build(metadata, unit, build)
    current = metadata.totals_until.get(unit.storage_fingerprint)
    if current is not None and (
        current.hour > total_until.hour or current.archive_version > total_until.archive_version
    ):
        return False
    key, count = announced
    expected = exact(b"%d" % count) if count else ABSENT
    others = [KeyChange(key, [(decisions.ANNOUNCED, expected)])]
    if whole:
        older = [
            archive_version
            for archive_version in (yield from lifetime_versions(store_id, build))
            if archive_version < total_until.archive_version
        ]
        fields = [keys.TOTALS + b"%d" % archive_version for archive_version in older]
        others.append(
            KeyChange(keys.published_key(store_id, build.name), [(b"-", ABSENT)], (), fields)
        )
    checks = [
        (field, exact(None if current is None else total_until_text(current))),
        *_build(unit, build),
    ]
    (reply,) = yield [
        change(store_id, checks, [(field, total_until_text(total_until), 0)], (), *others)
    ]
    return bool(reply != MISSED)


def total_until_text(total_until: TotalUntil) -> bytes:
    return m.TOTAL_UNTIL.value.pack(*total_until)
