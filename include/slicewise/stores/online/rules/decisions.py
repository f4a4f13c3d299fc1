"""Pure functions decide what may be written, for every store and for the simulator.

A rule stands in one function each. Adapters only read what a rule asks for, and write what it
answers under a check that all that was read still stands.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from slicewise.codec import IDENTITY_BYTES, unpack_skip
from slicewise.codec import pack_hours as pack_hours
from slicewise.codec import unpack_hours as unpack_hours
from slicewise.errors import (
    ClockOff,
    DeploymentSuperseded,
    GapRefused,
    ServerRunChanged,
    SettingsError,
    StoreUnavailable,
    UnknownArchive,
)
from slicewise.features.declare.event_list import EventList
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online.control_record import Build, RealtimeStart, ServerRun, StoreMetadata
from slicewise.windows.durations import HOUR_US

START_VERSION = 0
"""Stands for the start offsets of a unit, older than every archive version."""
LIST_SLACK_S = 60
"""Between the time that a read is told and the data that it then gets less than this passes."""
HOURS_PER_DAY = 24
ANNOUNCED = b"count"
"""Field of the offset vectors: announcements so far; the others are archive versions."""
MAX_OFFSET = 2**53
"""Offsets stay below, so that a Lua number holds them exactly."""


# ------------------------------------------------------------------ micro-batch lane
def hour_floor(
    topic_partition: TopicPartition,
    start: OffsetVector,
    hours: Mapping[int, int],
    offset_vectors: Mapping[int, OffsetVector],
    hour: int,
) -> int:
    """First offset of `topic_partition` that a micro-batch of `hour` may still bring in.

    What lies below the unit's start offsets belongs to its backfill, whether that has published its
    hours yet or not: a micro-batch may begin anywhere at or below the committed offsets, so it does
    see such events (after a loss, in a replay, from a zombie), and would count them beside the
    backfill.
    """
    archive_version = hours.get(hour)
    if archive_version is None or archive_version == START_VERSION:
        return start.get(topic_partition)
    return max(start.get(topic_partition), offset_vectors[archive_version].get(topic_partition))


def rows_to_keep(
    offsets: npt.NDArray[np.int64], last: npt.NDArray[np.int64], floors: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Per row: not applied yet (beyond the entity's last), nor in its compacted hour."""
    kept: npt.NDArray[np.bool_] = (offsets > last) & (offsets >= floors)
    return kept


def expiry_s(end_us: int, retention_us: int) -> int:
    """Second at which what ends at end_us can no longer be reached by a read."""
    return -((end_us + retention_us) // -1_000_000)


def kept_from_us(now_us: int, retention_us: int, step_us: int) -> int:
    """Earliest start of a window that a read at the store's time now_us may still ask for."""
    return -((now_us - retention_us) // -step_us) * step_us


def hour_of(number: int, slice_us: int) -> int:
    """The hour in which slice `number` lies."""
    return number * slice_us // HOUR_US


# ------------------------------------------------------------------ real-time lane
def check_realtime(
    committed: OffsetVector,
    current: tuple[int, str],
    start: OffsetVector,
    deployment_version: int,
    units: str,
) -> None:
    """Checks that a real-time lane may begin at `start`: what lies before it must be applied.
    DeploymentSuperseded, GapRefused."""
    check_batch(committed, current, start, deployment_version, units)


def below_start(offsets: npt.NDArray[np.int64], start: int) -> npt.NDArray[np.bool_]:
    """Per event: the backfill's, which the real-time lane leaves out."""
    below: npt.NDArray[np.bool_] = offsets < start
    return below


def skipped(mark: bytes | None, applied_offset: int, first: int, last: int) -> tuple[int, int]:
    """First and last offset of a skip mark, where these are skipped: those that stand are joined
    until the applied offset has passed them, since no reader knows which of the offsets between
    them stand."""
    if mark is None or (had := unpack_skip(mark))[1] <= applied_offset:
        return first, last
    return min(first, had[0]), max(last, had[1])


def is_skipped(mark: bytes | None, applied_offset: int, offset: int) -> bool:
    """Tells whether the real-time lane's skip mark tells of an offset, or may: it says from where
    to where."""
    if mark is None:
        return False
    first, last = unpack_skip(mark)
    return last > applied_offset and first <= offset <= last


# ------------------------------------------------------------------ event lists
def in_order(offsets: npt.NDArray[np.int64]) -> bool:
    """Tells whether the offsets of a batch ascend, and are such as a Lua number holds."""
    return not len(offsets) or not (
        int(offsets[-1]) >= MAX_OFFSET
        or int(offsets[0]) < 0
        or bool((offsets[1:] < offsets[:-1]).any())
    )


def above_low_water(members: Sequence[bytes], low: bytes | None) -> Sequence[bytes]:
    """The members that may be added: what lies at or below the mark was trimmed, or would have
    been. A late event that came back there would stand in a list that says it lacks its
    neighbours."""
    return (
        members if low is None else [member for member in members if member[:IDENTITY_BYTES] > low]
    )


def surplus(keeps: EventList, total: int, older: int, before: int) -> tuple[int, int]:
    """Counts the oldest members that go, and those of them that go for lack of room.

    total: members; older: those before the earliest start of a window of time; before: those at or
    before the earliest `at`. A member goes when neither the windows of time nor the rows windows
    need it.
    """
    drop = total
    if keeps.range_us:
        drop = min(drop, older)
    if keeps.rows:
        drop = min(drop, max(0, before - keeps.rows))
    cut = max(0, total - drop - keeps.most)
    return drop + cut, cut


def list_expiry_s(keeps: EventList, newest_us: int) -> int:
    """Second at which no read can reach a list whose newest event is this old; 0: the last rows are
    for ever.

    With it goes the mark that would refuse a read: a read that asked the time just before must
    still find both.
    """
    return expiry_s(newest_us + 1, keeps.range_us) + LIST_SLACK_S if keeps.expires else 0


def lists_to_rebuild(units: Mapping[str, EventList | None], metadata: StoreMetadata) -> set[str]:
    """Deployed event lists that are to hold more than they kept so far: what they lack has been
    trimmed, or has expired without a sign. They begin a new build, and are built again from the
    archive."""
    return {
        name
        for name, wanted in units.items()
        if wanted is not None
        and name in metadata.starts
        and name in metadata.keeps
        and wanted.needs_more(metadata.keeps[name])
    }


# ------------------------------------------------------------------ committed offsets
def check_batch(
    committed: OffsetVector,
    current: tuple[int, str],
    start: OffsetVector,
    deployment_version: int,
    units: str,
) -> None:
    """Checks that a batch that begins at `start` may be applied, or may advance the committed
    offsets.

    current: (deployment version, digest of the deployed units) in the metadata. A partition that
    has no committed offsets stands at 0: a log that begins later is brought in by a deployment,
    with the start offsets of its units. (Were it the batch that says so, a loss of the committed
    offsets would skip what the log no longer has.) Raises DeploymentSuperseded, GapRefused.
    """
    if current != (deployment_version, units):
        raise DeploymentSuperseded(
            (
                f"the batch was planned in deployment version {deployment_version}, the store is "
                f"in deployment version {current[0]}"
            ),
            next_step="read the deployment again and start at the committed offsets",
        )
    for topic_partition, offset in start.offsets.items():
        if offset > committed.get(topic_partition):
            raise GapRefused(
                (
                    f"a batch begins at {offset}, the store holds events up to "
                    f"{committed.get(topic_partition)} only"
                ),
                where=f"topic {topic_partition[0]} partition {topic_partition[1]}",
                expected="a batch that begins at or before the committed offsets",
                next_step="start at the committed offsets",
            )


def advanced(committed: OffsetVector, end: OffsetVector) -> dict[TopicPartition, int]:
    """Committed offsets that a batch moves, where it may: per partition to the larger."""
    return {
        topic_partition: offset
        for topic_partition, offset in end.offsets.items()
        if offset > committed.get(topic_partition)
    }


def still_lost(
    committed: OffsetVector, high_water: OffsetVector, topics: Iterable[str]
) -> OffsetVector:
    """The partitions of what is known to have been applied where the committed offsets stand before
    that. topics: ids of those that stand; the log of another does not come again."""
    current = frozenset(topics)
    return OffsetVector(
        {
            at: offset
            for at, offset in high_water.offsets.items()
            if at[0] in current and offset > committed.get(at)
        }
    )


def begun(
    topic_partitions: frozenset[TopicPartition], topics: Iterable[str], earliest: OffsetVector
) -> OffsetVector:
    """The first committed offsets of topics that no deployment has known: at the log's first
    offsets.

    topics: ids that are known already. A partition that is added to a known topic begins at 0.
    """
    begun_topics = {topic for topic, _ in topic_partitions} | set(topics)
    return OffsetVector(
        {
            topic_partition: offset
            for topic_partition, offset in earliest.offsets.items()
            if topic_partition[0] not in begun_topics
        }
    )


def resumed(committed: OffsetVector, wanted: OffsetVector, kept: Container[str]) -> OffsetVector:
    """The partitions at which committed offsets may go on beyond what was applied: what lies
    between is left to the backfill, by every unit.

    kept: ids of topics of which a unit stands on ("": of one that has no name yet); it would lack
    those events for ever. Raises GapRefused.
    """
    vector = OffsetVector(
        {
            topic_partition: offset
            for topic_partition, offset in wanted.offsets.items()
            if offset > committed.get(topic_partition)
        }
    )
    for topic_partition, offset in vector.offsets.items():
        if topic_partition[0] in kept or "" in kept:
            raise GapRefused(
                (
                    f"the committed offsets would go on at {offset}, they stand at "
                    f"{committed.get(topic_partition)}"
                ),
                where=f"topic {topic_partition[0]} partition {topic_partition[1]}",
                expected="all units of the topic to be built again",
                next_step=(
                    "start the stream again: slicewise up; it goes on where the committed offsets "
                    "stand"
                ),
            )
    return vector


# ------------------------------------------------------------------ publish
class PublishDecision(Enum):
    PUBLISH = "publish"
    LEAVE_OVER = "leave over"
    STALE = "stale"


@dataclass(frozen=True)
class Running:
    """Header of a running partial: what it holds of one slice and partition lies in [first,
    last]."""

    field: bytes
    topic_partition: TopicPartition
    first: int
    last: int


def publish_decision(
    archive_version: int,
    offset_vector: OffsetVector,
    current: int | None,
    running: Sequence[Running],
) -> tuple[PublishDecision, tuple[bytes, ...]]:
    """Decides whether an entity's compacted hour may replace what stands, and which fields go with
    it.

    current: the archive version that stands for this hour; running: the partials of this hour's
    slices. One that straddles the offset vector can be neither kept nor deleted: the entity is left
    over. An older archive version never replaces a newer.
    """
    if current is not None and archive_version < current:
        return PublishDecision.STALE, ()
    if not running:
        return PublishDecision.PUBLISH, ()
    if any(part.first < offset_vector.get(part.topic_partition) <= part.last for part in running):
        return PublishDecision.LEAVE_OVER, ()
    below = [part for part in running if part.last < offset_vector.get(part.topic_partition)]
    return PublishDecision.PUBLISH, tuple(part.field for part in below)


def is_whole_day(
    published: Collection[int], given: Collection[int], compacted: Collection[int]
) -> bool:
    """Tells whether the total of the hours that are given together is that of their day: all of
    them go in, and no other hour of it stands."""
    return set(given).union(compacted) == set(published)


def check_publish(archive_version: int, offset_vector: OffsetVector, start: OffsetVector) -> None:
    """A result of the archive holds the backfill's events too, or must wait.

    Below a unit's start offsets nothing is applied. An hour compacted to an offset vector that lies
    behind it would claim the hour, keep the backfill from it, and lack what lies between.
    """
    if archive_version == START_VERSION:
        check_start(offset_vector, start)
    elif not offset_vector.dominates(start):
        raise GapRefused(
            (
                f"the offset vector of archive version {archive_version} lies behind the unit's "
                "start offsets"
            ),
            next_step="archive up to the start offsets, then compact again",
        )


def check_start(made_for: OffsetVector | None, start: OffsetVector) -> None:
    """Checks that a backfill brought and marks is of the start offsets that it was made for.
    made_for: of no backfill None."""
    if made_for is not None and made_for != start:
        raise GapRefused(
            "a backfill was made for other start offsets", next_step="run the backfill again"
        )


# ------------------------------------------------------------------ lifetime
def check_total_until(total_until: int) -> None:
    """A day is in the totals whole, or not at all: else the total of what is left of it could not
    be told."""
    if total_until % HOURS_PER_DAY:
        raise GapRefused(
            f"a total-until hour at hour {total_until}",
            expected="the first hour of a day",
            next_step="move the total-until hour to the first hour of a day",
        )


def check_lifetime(
    archive_version: int, offset_vector: OffsetVector, start: OffsetVector, committed: OffsetVector
) -> None:
    """Totals never run ahead of the committed offsets: so no token must say which of all hours do,
    and a micro-batch that brings in what lies beyond an entity's last, which no expiry forgets,
    brings nothing that a total holds.

    The committed offsets only grow while this store lives, and fall back to a time after which
    totals did too.
    """
    check_publish(archive_version, offset_vector, start)
    if not committed.dominates(offset_vector):
        raise GapRefused(
            (
                f"the store holds less than archive version {archive_version}: a total of it "
                "would be ahead of every token"
            ),
            expected="the stream to reach what is archived",
            next_step="let the stream go on, then run it again",
        )


def lifetime_decision(
    total_until: int,
    archive_version: int,
    offset_vector: OffsetVector,
    since: int | None,
    current: tuple[int, int] | None,
    compacted: Iterable[int],
    running: Sequence[Running],
) -> tuple[PublishDecision, tuple[bytes, ...]]:
    """Decides whether a total may take the place of what stands, and which running partials go with
    it.

    since: the total is of hours from there on, and what stands is added to it. current: total-until
    hour and archive version of it. compacted: archive versions of the hours that would leave their
    days; running: partials of hours before the total-until hour. An hour that another run published
    from a newer archive holds more than this total.
    """
    if any(version > archive_version for version in compacted):
        return PublishDecision.LEAVE_OVER, ()
    if current is not None:
        if (
            current[0] >= total_until
            and current[1] >= archive_version
            and (since is not None or current != (total_until, archive_version))
        ):
            return (
                PublishDecision.STALE,
                (),
            )  # but a total that is written anew takes the place of its equal: it may mend it
        # what stands holds hours that are in this row too, or events that this one lacks
        if (
            current[0] > total_until
            or current[1] > archive_version
            or (since is not None and current[0] > since)
        ):
            return PublishDecision.LEAVE_OVER, ()
    return publish_decision(archive_version, offset_vector, None, running)


# ------------------------------------------------------------------ offset vectors of archive
# versions
def check_offset_vector(
    source: str,
    archive_version: int,
    offset_vector: OffsetVector,
    registered: Mapping[int, OffsetVector],
) -> None:
    """Checks that an archive known archive versions are one history, in which offset vectors only
    grow: also where what an archive version stood for was forgotten, no other archive can take its
    place. Raises GapRefused."""
    for other, archived in registered.items():
        grown = (
            offset_vector.dominates(archived)
            if other < archive_version
            else archived.dominates(offset_vector)
        )
        if not grown or (other == archive_version and archived != offset_vector):
            raise GapRefused(
                (
                    f"archive version {archive_version} of {source} stands for another offset "
                    "vector already"
                )
                if other == archive_version
                else (
                    f"the offset vector of archive version {archive_version} of {source} "
                    f"contradicts that of archive version {other}"
                ),
                expected=(
                    "the archive that this store belongs to: an archive version names one offset "
                    "vector for ever, and they grow"
                ),
                next_step="archive again, or see which archive this store belongs to",
            )


def versions_to_drop(registered: Iterable[int], live: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Archive versions that no hour can name. live: per hour that is kept the first and the last
    archive version that any entity's may stand at. The newest archive version is what the next
    hours will name."""
    ordered = sorted(registered)
    return tuple(
        archive_version
        for archive_version in ordered[:-1]
        if not any(first <= archive_version <= last for first, last in live)
    )


def unknown_version(archive_version: int, source: str) -> UnknownArchive:
    return UnknownArchive(
        f"nothing says what archive version {archive_version} of {source} stands for",
        next_step="compact the hours again that name it: compact_slices with from_raw",
    )


def check_forgotten(
    archive_version: int, source: str, hour: int, retention_us: int, now_us: int
) -> None:
    """An archive version that is not known may be that of an hour which has expired, and of no
    other. UnknownArchive."""
    if expiry_s((hour + 1) * HOUR_US, retention_us) * 1_000_000 > now_us:
        raise unknown_version(archive_version, source)


# ------------------------------------------------------------------ deployment and store
def start_offsets(committed: OffsetVector, topic_ids: Container[str] | None) -> OffsetVector:
    """The start of a new unit: at the committed offsets of its source's topic and history, and of
    no other, since no archive of its source will ever contain another's events. topic_ids: None
    where no topic has a name yet."""
    if topic_ids is None:
        return committed
    return OffsetVector(
        {
            topic_partition: offset
            for topic_partition, offset in committed.offsets.items()
            if topic_partition[0] in topic_ids
        }
    )


def refuse_history_of_kept(begun: OffsetVector, histories: Mapping[str, str]) -> None:
    """A history begins for units that are built with it, and for no other: one that goes on would
    claim events that it lacks.

    begun: committed offsets that begin; histories: unit that goes on -> topic id of its source's
    history. Raises GapRefused.
    """
    for unit, topic_id in histories.items():
        if any(topic == topic_id for topic, _ in begun):
            raise GapRefused(
                f"unit {unit} would claim a history that it was not built with",
                where=f"topic {topic_id}",
                expected="all units of the source to be built again",
                next_step="take the history in by slicewise import-history",
            )


def build_of(metadata: StoreMetadata, unit: str) -> Build:
    """The build that stands of a unit (a fingerprint). DeploymentSuperseded where it is not
    deployed."""
    if unit not in metadata.starts:
        raise DeploymentSuperseded(
            f"unit {unit} is not deployed on this store", next_step="read the deployment again"
        )
    return Build(metadata.name(unit), metadata.builds.get(unit, 0), metadata.starts[unit])


def new_build(metadata: StoreMetadata, deployment_version: int) -> int:
    """The build of a unit that the deployment of this deployment version brings. Once a unit was
    left out, no name without a number is given any more: it may be that unit's, whose keys may
    still be written."""
    return deployment_version if metadata.retired else 0


def check_unchanged(actual: Sequence[bytes | None], store_id: int, deployment_version: int) -> None:
    """Checks that data that was read after the metadata was read under them. found: store id and
    deployment version after it. Else what the metadata claims may be gone: the store was emptied,
    or units were left out and their keys swept."""
    if actual[0] != b"%d" % store_id:
        raise ServerRunChanged(
            "the store was emptied while it was read",
            next_step="open a new connection, and read the metadata again",
        )
    if actual[1] != b"%d" % deployment_version:
        raise StoreUnavailable("a deployment came while the store was read", next_step="read again")


def aliases_to_set(
    views: Mapping[str, Sequence[str]], current: Mapping[str, tuple[str, ...]], ready: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """view -> unit fingerprints of the views whose name may point to the deployed units: those
    that have no alias yet, and those whose units are all ready."""
    done = set(ready)
    return {
        view: tuple(units)
        for view, units in views.items()
        if view not in current or done.issuperset(units)
    }


def realtime_counts(
    begun: RealtimeStart | None, server_run: ServerRun, committed: OffsetVector
) -> bool:
    """Tells whether the real-time lane of a source counts, for a reader of this server run: in
    another server run some of what the real-time lane wrote may be lost, and a real-time lane that
    began beyond the committed offsets lacks what lies between."""
    return begun is not None and begun.server_run == server_run and committed.dominates(begun.start)


def realtime_over(begun: RealtimeStart, server_run: ServerRun) -> bool:
    """Tells whether the entry of a real-time lane may go: its fields count in no answer of this
    server run, and its writers, bound to theirs, write no more."""
    return begun.server_run != server_run


def pending_left(begun: RealtimeStart | None, server_run: ServerRun) -> bool:
    """Tells whether fields of pending events that stand in the store are of a server run before
    this one. The real-time lane of this server run has its entry for as long as the server run
    lasts; without any, the entry of another server run went before its fields did."""
    return begun is None or realtime_over(begun, server_run)


def check_node(metadata: StoreMetadata, node: str) -> None:
    """Checks that a connection to this node found its metadata (`StoreMetadata.node`; "" if it is
    alone). SettingsError."""
    if metadata.node != node:
        name = f"node {metadata.node}" if metadata.node else "the only node of a store"
        raise SettingsError(
            (
                f"the store's node says that it is {name}, it is named as "
                f"{f'node {node}' if node else 'the only one'}"
            ),
            where="SLICEWISE_REDIS_URL",
            expected="the addresses of all nodes, in the order in which the store was first deployed to",
            next_step="set the addresses right; another number of nodes is another, empty store",
        )


def check_server(version: str, policy: str, role: str) -> None:
    """Raises StoreUnavailable for a server on which the promises do not hold."""
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < (7, 0):
        raise StoreUnavailable(
            f"the store is version {version}",
            expected="7.0 or newer",
            next_step="run a newer Redis or Valkey",
        )
    if policy != "noeviction":
        raise StoreUnavailable(
            f"the store evicts keys ({policy}): answers would miss events without a sign",
            expected="maxmemory-policy noeviction",
            next_step="set it in the store's configuration and restart",
        )
    if role != "master":
        raise StoreUnavailable(
            f"the store's node is a {role}",
            expected="a primary",
            next_step="name the primary in SLICEWISE_REDIS_URL",
        )


CLOCK_OFF_US = 30_000_000
"""By how much a clock that dates snapshots, or says for when an answer is, may differ from the
store's. Iceberg takes none that is more than a minute older than the one before it: after one
commit of a clock far ahead, all others would be refused until then."""


def check_clock(before_us: int, store_us: int, after_us: int) -> None:
    """Raises ClockOff where a process may not date a snapshot. It asked the store for its time, and
    had these two times before and after."""
    off_us = max(before_us - store_us, store_us - after_us)
    if off_us > CLOCK_OFF_US:
        way = "ahead of" if before_us > store_us else "behind"
        raise ClockOff(
            (
                f"the clock of this process is {off_us // 1_000_000} s {way} the store's: nothing "
                "was written"
            ),
            expected=f"at most {CLOCK_OFF_US // 1_000_000} s between them: what is committed is dated",
            next_step="set the clock of this machine, or of the store's, right, and run it again",
        )
