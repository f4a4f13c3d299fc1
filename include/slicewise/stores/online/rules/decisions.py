"""Pure functions decide what may be written, for every store and for the simulator.

A rule stands in one function each. Adapters only read what a rule asks for, and write what it
answers under a check that all that was read still stands.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from slicewise.codec import IDENTITY_BYTES, day_digest, unpack_skip
from slicewise.codec import pack_hours as pack_hours
from slicewise.codec import unpack_hours as unpack_hours
from slicewise.errors import (
    ClockOff,
    EpochSuperseded,
    GapRefused,
    IncarnationChanged,
    SettingsError,
    StoreUnavailable,
    UnknownArchive,
)
from slicewise.features.declare.event_list import EventList
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online.control_record import RealtimeStart, ServerRun, StoreMetadata, Term
from slicewise.windows.durations import HOUR_US

hours_digest = day_digest
"""The eight bytes by which a day total `d` names the `c` that it is the total of."""
START_SEQ = 0
"""Stands for the start cover of a unit, older than every archive seq."""
LIST_SLACK_S = 60
"""Between the time that a read is told and the data that it then gets less than this passes."""
HOURS_PER_DAY = 24
ANNOUNCED = b"count"
"""Field of the covers: announcements so far; the others are seqs."""
MAX_OFFSET = 2**53
"""Offsets stay below, so that a Lua number holds them exactly."""


# ------------------------------------------------------------------ fold
def hour_floor(
    place: TopicPartition, start: OffsetVector, hours: Mapping[int, int], covers: Mapping[int, OffsetVector], hour: int
) -> int:
    """First offset of `place` that a fold of `hour` may still bring in.

    What lies below the unit's start cover belongs to its backfill, whether that has swapped its
    hours yet or not: a fold may begin anywhere at or below the ledger, so it does see such events
    (after a loss, in a replay, from a zombie), and would count them beside the backfill.
    """
    seq = hours.get(hour)
    if seq is None or seq == START_SEQ:
        return start.get(place)
    return max(start.get(place), covers[seq].get(place))


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


# ------------------------------------------------------------------ tail
def check_tail(ledger: OffsetVector, current: tuple[int, str], start: OffsetVector, epoch: int, units: str) -> None:
    """Checks that a tail may begin at `start`: what lies before it must be folded. EpochSuperseded, GapRefused."""
    check_batch(ledger, current, start, epoch, units)


def below_start(offsets: npt.NDArray[np.int64], start: int) -> npt.NDArray[np.bool_]:
    """Per event: the backfill's, which a tail leaves out."""
    below: npt.NDArray[np.bool_] = offsets < start
    return below


def skipped(stands: bytes | None, guard: int, first: int, last: int) -> tuple[int, int]:
    """First and last offset of a skip mark, where these are skipped: those that stand are joined until the guard has
    passed them, since no reader knows which of the offsets between them stand."""
    if stands is None or (had := unpack_skip(stands))[1] <= guard:
        return first, last
    return min(first, had[0]), max(last, had[1])


def is_skipped(stands: bytes | None, guard: int, offset: int) -> bool:
    """Tells whether a tail's skip mark tells of an offset, or may: it says from where to where."""
    if stands is None:
        return False
    first, last = unpack_skip(stands)
    return last > guard and first <= offset <= last


# ------------------------------------------------------------------ event lists
def in_order(offsets: npt.NDArray[np.int64]) -> bool:
    """Tells whether the offsets of a batch ascend, and are such as a Lua number holds."""
    return not len(offsets) or not (
        int(offsets[-1]) >= MAX_OFFSET or int(offsets[0]) < 0 or bool((offsets[1:] < offsets[:-1]).any())
    )


def above_low_water(members: Sequence[bytes], low: bytes | None) -> Sequence[bytes]:
    """The members that may be added: what lies at or below the mark was trimmed, or would have been. A late event
    that came back there would stand in a list that says it lacks its neighbours."""
    return members if low is None else [each for each in members if each[:IDENTITY_BYTES] > low]


def surplus(keeps: EventList, total: int, older: int, before: int) -> tuple[int, int]:
    """Counts the oldest members that go, and those of them that go for lack of room.

    total: members; older: those before the earliest start of a window of time; before: those at or before the
    earliest `at`. A member goes when neither the windows of time nor the rows windows need it.
    """
    drop = total
    if keeps.range_us:
        drop = min(drop, older)
    if keeps.rows:
        drop = min(drop, max(0, before - keeps.rows))
    cut = max(0, total - drop - keeps.most)
    return drop + cut, cut


def list_expiry_s(keeps: EventList, newest_us: int) -> int:
    """Second at which no read can reach a list whose newest event is this old; 0: the last rows are for ever.

    With it goes the mark that would refuse a read: a read that asked the time just before must still find both.
    """
    return expiry_s(newest_us + 1, keeps.range_us) + LIST_SLACK_S if keeps.expires else 0


def lists_to_rebuild(units: Mapping[str, EventList | None], marks: StoreMetadata) -> set[str]:
    """Deployed event lists that are to hold more than they kept so far: what they lack has been trimmed, or has
    expired without a sign. They begin a new term, and are built again from the archive."""
    return {
        name
        for name, wanted in units.items()
        if wanted is not None and name in marks.starts and name in marks.keeps and wanted.needs_more(marks.keeps[name])
    }


# ------------------------------------------------------------------ ledger
def check_batch(ledger: OffsetVector, current: tuple[int, str], start: OffsetVector, epoch: int, units: str) -> None:
    """Checks that a batch that begins at `start` may be folded, or may advance the ledger.

    current: (epoch, digest of the deployed units) in the marks. A place that has no ledger stands
    at 0: a log that begins later is brought in by a deployment, with the start covers of its units.
    (Were it the batch that says so, a loss of the ledger would skip what the log no longer has.)
    Raises EpochSuperseded, GapRefused.
    """
    if current != (epoch, units):
        raise EpochSuperseded(
            f"the batch was planned in epoch {epoch}, the store is in epoch {current[0]}",
            next_step="read the deployment again and start at the ledger",
        )
    for place, offset in start.offsets.items():
        if offset > ledger.get(place):
            raise GapRefused(
                f"a batch begins at {offset}, the store holds events up to {ledger.get(place)} only",
                where=f"topic {place[0]} partition {place[1]}",
                expected="a batch that begins at or before the ledger",
                next_step="start at the ledger",
            )


def advanced(ledger: OffsetVector, end: OffsetVector) -> dict[TopicPartition, int]:
    """The ledger's moves after a batch that may advance it: per place to the larger."""
    return {place: offset for place, offset in end.offsets.items() if offset > ledger.get(place)}


def still_lost(ledger: OffsetVector, known: OffsetVector, topics: Iterable[str]) -> OffsetVector:
    """The places of what is known to have been applied where the ledger stands before that. topics: ids of those that
    stand; the log of another does not come again."""
    stand = frozenset(topics)
    return OffsetVector(
        {at: offset for at, offset in known.offsets.items() if at[0] in stand and offset > ledger.get(at)}
    )


def begun(places: frozenset[TopicPartition], topics: Iterable[str], earliest: OffsetVector) -> OffsetVector:
    """The first ledger of topics that no deployment has known: at the log's first offsets.

    topics: ids that are known already. A partition that is added to a known topic begins at 0.
    """
    known = {topic for topic, _ in places} | set(topics)
    return OffsetVector({place: offset for place, offset in earliest.offsets.items() if place[0] not in known})


def ahead(ledger: OffsetVector, wanted: OffsetVector, kept: Container[str]) -> OffsetVector:
    """The places at which a ledger may go on beyond what was applied: what lies between is left to the backfill, by every unit.

    kept: ids of topics of which a unit stands on ("": of one that has no name yet); it would lack those events for
    ever. Raises GapRefused.
    """
    found = OffsetVector({place: offset for place, offset in wanted.offsets.items() if offset > ledger.get(place)})
    for place, offset in found.offsets.items():
        if place[0] in kept or "" in kept:
            raise GapRefused(
                f"the ledger would go on at {offset}, it stands at {ledger.get(place)}",
                where=f"topic {place[0]} partition {place[1]}",
                expected="all units of the topic to be built again",
                next_step="start the stream again: slicewise up; it goes on where the ledger stands",
            )
    return found


# ------------------------------------------------------------------ swap
class PublishDecision(Enum):
    SWAP = "swap"
    LEAVE_OVER = "leave over"
    STALE = "stale"


@dataclass(frozen=True)
class Running:
    """Header of a running partial: what it holds of one slice and place lies in [first, last]."""

    field: bytes
    place: TopicPartition
    first: int
    last: int


def swap_decision(
    seq: int,
    cover: OffsetVector,
    current: int | None,
    running: Sequence[Running],
) -> tuple[PublishDecision, tuple[bytes, ...]]:
    """Decides whether an entity's compacted hour may replace what stands, and which fields go with it.

    current: the seq that stands for this hour; running: the partials of this hour's slices. One that straddles the
    cover can be neither kept nor deleted: the entity is left over. An older seq never replaces a newer.
    """
    if current is not None and seq < current:
        return PublishDecision.STALE, ()
    if any(part.first < cover.get(part.place) <= part.last for part in running):
        return PublishDecision.LEAVE_OVER, ()
    below = [part for part in running if part.last < cover.get(part.place)]
    return PublishDecision.SWAP, tuple(part.field for part in below)


def check_swap(seq: int, cover: OffsetVector, start: OffsetVector) -> None:
    """A result of the archive holds the backfill's events too, or must wait.

    Below a unit's start cover nothing is folded. An hour compacted to a cover that lies behind it
    would claim the hour, keep the backfill from it, and lack what lies between.
    """
    if seq == START_SEQ:
        check_start(cover, start)
    elif not cover.dominates(start):
        raise GapRefused(
            f"the cover of archive seq {seq} lies behind the unit's start cover",
            next_step="archive up to the start cover, then compact again",
        )


def check_start(made_for: OffsetVector | None, start: OffsetVector) -> None:
    """Checks that a backfill brought and marks is of the start cover that it was made for. made_for: of no backfill None."""
    if made_for is not None and made_for != start:
        raise GapRefused("a backfill was made for another start cover", next_step="run the backfill again")


# ------------------------------------------------------------------ lifetime
def check_horizon(horizon: int) -> None:
    """A day is in the totals whole, or not at all: else the total of what is left of it could not be told."""
    if horizon % HOURS_PER_DAY:
        raise GapRefused(
            f"a horizon at hour {horizon}",
            expected="the first hour of a day",
            next_step="move the horizon to the first hour of a day",
        )


def check_lifetime(seq: int, cover: OffsetVector, start: OffsetVector, ledger: OffsetVector) -> None:
    """Totals never run ahead of the ledger: so no token must say which of all hours do, and a fold that brings in
    what lies beyond an entity's last, which no expiry forgets, brings nothing that a total holds.

    The ledger only grows while this store lives, and falls back to a time after which totals did too.
    """
    check_swap(seq, cover, start)
    if not ledger.dominates(cover):
        raise GapRefused(
            f"the store holds less than archive seq {seq}: a total of it would be ahead of every token",
            expected="the stream to reach what is archived",
            next_step="let the stream go on, then run it again",
        )


def lifetime_decision(
    horizon: int,
    seq: int,
    cover: OffsetVector,
    since: int | None,
    stands: tuple[int, int] | None,
    compacted: Iterable[int],
    running: Sequence[Running],
) -> tuple[PublishDecision, tuple[bytes, ...]]:
    """Decides whether a total may take the place of what stands, and which running partials go with it.

    since: the total is of hours from there on, and what stands is added to it. stands: horizon and seq of it.
    compacted: seqs of the hours that would leave their days; running: partials of hours before the horizon.
    An hour that another run swapped from a newer archive holds more than this total.
    """
    if any(each > seq for each in compacted):
        return PublishDecision.LEAVE_OVER, ()
    if stands is not None:
        if stands[0] >= horizon and stands[1] >= seq and (since is not None or stands != (horizon, seq)):
            return (
                PublishDecision.STALE,
                (),
            )  # but a total that is written anew takes the place of its equal: it may mend it
        # what stands holds hours that are in this row too, or events that this one lacks
        if stands[0] > horizon or stands[1] > seq or (since is not None and stands[0] > since):
            return PublishDecision.LEAVE_OVER, ()
    return swap_decision(seq, cover, None, running)


# ------------------------------------------------------------------ covers of archive seqs
def check_cover(source: str, seq: int, cover: OffsetVector, known: Mapping[int, OffsetVector]) -> None:
    """Checks that an archive's known seqs are one history, in which covers only grow: also where
    what a seq stood for was forgotten, no other archive can take its place. Raises GapRefused."""
    for other, stands in known.items():
        grown = cover.dominates(stands) if other < seq else stands.dominates(cover)
        if not grown or (other == seq and stands != cover):
            raise GapRefused(
                f"archive seq {seq} of {source} stands for another cover already"
                if other == seq
                else f"the cover of archive seq {seq} of {source} contradicts that of seq {other}",
                expected="the archive that this store belongs to: a seq names one cover for ever, and covers grow",
                next_step="archive again, or see which archive this store belongs to",
            )


def covers_to_drop(known: Iterable[int], live: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Seqs that no hour can name. live: per hour that is kept the first and the last seq that any
    entity's may stand at. The newest seq is what the next hours will name."""
    ordered = sorted(known)
    return tuple(seq for seq in ordered[:-1] if not any(first <= seq <= last for first, last in live))


def unknown_seq(seq: int, source: str) -> UnknownArchive:
    return UnknownArchive(
        f"nothing says what archive seq {seq} of {source} stands for",
        next_step="compact the hours again that name it: compact_slices with from_raw",
    )


def check_forgotten(seq: int, source: str, hour: int, retention_us: int, now_us: int) -> None:
    """A seq that is not known may be that of an hour which has expired, and of no other. UnknownArchive."""
    if expiry_s((hour + 1) * HOUR_US, retention_us) * 1_000_000 > now_us:
        raise unknown_seq(seq, source)


# ------------------------------------------------------------------ deployment and store
def start_cover(ledger: OffsetVector, topic_id: str | None) -> OffsetVector:
    """The start of a new unit: at the ledger of its source's topic, and of no other, since no
    archive of its source will ever contain another's events. topic_id: None where no topic has a
    name yet."""
    if topic_id is None:
        return ledger
    return OffsetVector({place: offset for place, offset in ledger.offsets.items() if place[0] == topic_id})


def term_of(marks: StoreMetadata, unit: str) -> Term:
    """The term that stands of a unit (a fingerprint). EpochSuperseded where it is not deployed."""
    if unit not in marks.starts:
        raise EpochSuperseded(f"unit {unit} is not deployed on this store", next_step="read the deployment again")
    return Term(marks.name(unit), marks.terms.get(unit, 0), marks.starts[unit])


def new_term(marks: StoreMetadata, epoch: int) -> int:
    """The term of a unit that the deployment of this epoch brings. Once a unit was left out, no name
    without a number is given any more: it may be that unit's, whose keys may still be written."""
    return epoch if marks.retired else 0


def check_standing(found: Sequence[bytes | None], generation: int, epoch: int) -> None:
    """Checks that data that was read after the marks was read under them. found: generation and epoch
    after it. Else what the marks claim may be gone: the store was emptied, or units were left out
    and their keys swept."""
    if found[0] != b"%d" % generation:
        raise IncarnationChanged(
            "the store was emptied while it was read",
            next_step="open a new connection, and read the marks again",
        )
    if found[1] != b"%d" % epoch:
        raise StoreUnavailable("a deployment came while the store was read", next_step="read again")


def aliases_to_set(
    views: Mapping[str, Sequence[str]], current: Mapping[str, tuple[str, ...]], ready: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """view -> unit fingerprints of the views whose name may point to the deployed units: those
    that have no alias yet, and those whose units are all ready."""
    done = set(ready)
    return {view: tuple(units) for view, units in views.items() if view not in current or done.issuperset(units)}


def tail_counts(tail: RealtimeStart | None, incarnation: ServerRun, ledger: OffsetVector) -> bool:
    """Tells whether the tail of a source counts, for a reader of this incarnation: in another life some of what the
    tail wrote may be lost, and a tail that began beyond the ledger lacks what lies between."""
    return tail is not None and tail.incarnation == incarnation and ledger.dominates(tail.start)


def tail_over(tail: RealtimeStart, incarnation: ServerRun) -> bool:
    """Tells whether the mark of a tail may go: its fields count in no answer of this life, and its writers, bound to theirs,
    write no more."""
    return tail.incarnation != incarnation


def tail_left(tail: RealtimeStart | None, incarnation: ServerRun) -> bool:
    """Tells whether fields of a tail that stand in the store are of a life before this one. The tail of this life has its mark
    for as long as the life lasts; without any, the mark of another life went before its fields did."""
    return tail is None or tail_over(tail, incarnation)


def check_node(found: StoreMetadata, node: str) -> None:
    """Checks that a connection to this node found its metadata (`StoreMetadata.node`; "" if it is alone). SettingsError."""
    if found.node != node:
        says = f"node {found.node}" if found.node else "the only node of a store"
        raise SettingsError(
            f"the store's node says that it is {says}, it is named as {f'node {node}' if node else 'the only one'}",
            where="SLICEWISE_REDIS_URL",
            expected="the addresses of all nodes, in the order in which the store was first deployed to",
            next_step="set the addresses right; another number of nodes is another, empty store",
        )


def check_server(version: str, policy: str, role: str) -> None:
    """Raises StoreUnavailable for a server on which the promises do not hold."""
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < (7, 0):
        raise StoreUnavailable(
            f"the store is version {version}", expected="7.0 or newer", next_step="run a newer Redis or Valkey"
        )
    if policy != "noeviction":
        raise StoreUnavailable(
            f"the store evicts keys ({policy}): answers would miss events without a sign",
            expected="maxmemory-policy noeviction",
            next_step="set it in the store's configuration and restart",
        )
    if role != "master":
        raise StoreUnavailable(
            f"the store's node is a {role}", expected="a primary", next_step="name the primary in SLICEWISE_REDIS_URL"
        )


CLOCK_OFF_US = 30_000_000
"""By how much a clock that dates snapshots, or says for when an answer is, may differ from the store's. Iceberg takes
none that is more than a minute older than the one before it: after one commit of a clock far ahead, all others would be
refused until then."""


def check_clock(before_us: int, store_us: int, after_us: int) -> None:
    """Raises ClockOff where a process may not date a snapshot. It asked the store for its time, and had these two times
    before and after."""
    off_us = max(before_us - store_us, store_us - after_us)
    if off_us > CLOCK_OFF_US:
        way = "ahead of" if before_us > store_us else "behind"
        raise ClockOff(
            f"the clock of this process is {off_us // 1_000_000} s {way} the store's: nothing was written",
            expected=f"at most {CLOCK_OFF_US // 1_000_000} s between them: what is committed is dated",
            next_step="set the clock of this machine, or of the store's, right, and run it again",
        )
