"""Claims about a node live on the node, are written after its data, and fall with it.

Every change of the marks is one compare-and-set under the generation that this connection is
bound to: a store that was emptied, deployed to or advanced in between refuses it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from slicewise.codec.store_fields import METADATA_BY_LETTER, Field
from slicewise.codec.store_fields import metadata as m
from slicewise.errors import EpochSuperseded, GapRefused, IncarnationChanged
from slicewise.features.declare.event_list import EventList
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online import keys
from slicewise.stores.online.attempts import Missed, change_while
from slicewise.stores.online.control_record import RealtimeStart, ServerRun, StoreMetadata, Term, TotalUntil
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
PLACES = m.PARTITIONS.form
R = TypeVar("R")
Attempt = Generator[Sequence[Command], list[Any], R | Missed[None]]
"""One read, decision and change; Missed where another writer came between."""
AGAIN = Missed(None)


def ledger_field(place: TopicPartition) -> bytes:
    return m.COMMITTED.form % (place[0].encode(), place[1])


def parse(flat: Sequence[bytes]) -> StoreMetadata | None:
    """The marks in a reply to HGETALL; None where they are missing."""
    raw = dict(zip(flat[::2], flat[1::2], strict=True))
    if m.STORE_ID.form not in raw:
        return None
    parsed: dict[Field, dict[str, Any]] = {entry: {} for entry in METADATA_BY_LETTER.values()}
    into = {letter: (parsed[entry], entry.value.parse) for letter, entry in METADATA_BY_LETTER.items()}
    for field, value in raw.items():
        letter, _, name = field.decode().partition(":")
        if name and letter in into:
            values, parse_value = into[letter]
            values[name] = parse_value(value)

    def single(entry: Field, absent: bytes) -> Any:
        return entry.value.parse(raw.get(entry.form, absent))

    committed, lost = _offsets(parsed[m.COMMITTED]), _offsets(parsed[m.LOST])
    return StoreMetadata(
        generation=int(raw[m.STORE_ID.form]),
        epoch=int(raw[m.DEPLOYMENT_VERSION.form]),
        units=raw[m.DEPLOYMENT.form].decode(),
        places=frozenset(committed),
        ledger=OffsetVector(committed),
        starts=parsed[m.START],
        ready=frozenset(parsed[m.READY]),
        building=parsed[m.BUILDING],
        aliases=parsed[m.ALIAS],
        topics=parsed[m.TOPIC],
        terms=parsed[m.BUILD],
        retired=single(m.RETIRED, b"0"),
        keeps={unit: EventList.parse(text) for unit, text in parsed[m.KEPT].items()},
        horizons={unit: TotalUntil(*until) for unit, until in parsed[m.TOTAL_UNTIL].items()},
        tails={source: _start(*parts) for source, parts in parsed[m.REALTIME_START].items()},
        known=OffsetVector(lost),
        node=single(m.NODE, b""),
        set_id=single(m.NODE_SET, b"0"),
    )


def _offsets(by_name: Mapping[str, int]) -> dict[TopicPartition, int]:
    """Offsets by topic partition, of a field's names without their letter."""
    split = ((name.rpartition(":"), offset) for name, offset in by_name.items())
    return {(topic, int(partition)): offset for (topic, _, partition), offset in split}


def _start(run_id: str, replication_id: str, start: OffsetVector) -> RealtimeStart:
    return RealtimeStart(ServerRun(run_id, replication_id), start)


def bound(marks: StoreMetadata | None, generation: int) -> StoreMetadata:
    """The marks, if they are of this generation; IncarnationChanged otherwise."""
    if marks is None or marks.generation != generation:
        found = "no marks" if marks is None else f"generation {marks.generation}"
        raise IncarnationChanged(
            f"the store was emptied: it has {found}, this connection is of {generation}",
            next_step="open a new connection, initialise, deploy, and start at the ledger",
        )
    return marks


def read(generation: int) -> Steps[StoreMetadata]:
    (flat,) = yield [Whole(keys.MARKS)]
    return bound(parse(flat), generation)


def change(
    generation: int,
    checks: Iterable[tuple[bytes, bytes]],
    sets: Sets,
    deletes: Sequence[bytes] = (),
    *others: KeyChange,
) -> Change:
    """A change of the marks (and of keys in their slot) within one generation."""
    stands = (m.STORE_ID.form, exact(b"%d" % generation))
    return Change((KeyChange(keys.MARKS, [stands, *checks], sets, deletes), *others))


def initialise(node: str = "", set_id: int = 0, after: int = 0, same: int = 0) -> Steps[StoreMetadata]:
    """A store without marks gets the store's own time as its generation: it never repeats.

    node, set_id: of a store of several nodes, as in `StoreMetadata` (set_id 0: this generation names a new set).
    after: the generation is later than this one; same: it is this one, which a node of the same new set got.
    """

    def attempt(_: None) -> Attempt[StoreMetadata]:
        flat, now = yield [Whole(keys.MARKS), Time()]
        marks = parse(flat)
        if marks is not None:
            return marks
        generation = same or max(now, after + 1)
        first = [
            (m.STORE_ID.form, b"%d" % generation, 0),
            (m.DEPLOYMENT_VERSION.form, b"0", 0),
            (m.DEPLOYMENT.form, b"", 0),
            (PLACES, b"0", 0),
        ]
        if node:
            first += [(m.NODE.form, node.encode(), 0), (m.NODE_SET.form, b"%d" % (set_id or generation), 0)]
        yield [Change((KeyChange(keys.MARKS, [(m.STORE_ID.form, ABSENT)], first),))]
        return AGAIN  # who wrote them, and which, the next attempt reads

    return (yield from change_while(attempt, None, "marks"))


def advance_ledger(
    generation: int, start: OffsetVector, end: OffsetVector, epoch: int, units: str
) -> Steps[OffsetVector]:
    """The ledger after a batch from `start` to `end`: no gap, the newest epoch, its units."""

    def attempt(_: None) -> Attempt[OffsetVector]:
        marks = yield from read(generation)
        decisions.check_batch(marks.ledger, (marks.epoch, marks.units), start, epoch, units)
        reached = decisions.advanced(marks.ledger, end)
        if not reached:
            return marks.ledger
        sets: Sets = [(ledger_field(p), b"%d" % o, 0) for p, o in reached.items()]
        new = set(reached) - marks.places
        if new:
            sets.append((PLACES, b"%d" % (len(marks.places) + len(new)), 0))
        checks = [
            (m.DEPLOYMENT_VERSION.form, exact(b"%d" % epoch)),
            (m.DEPLOYMENT.form, exact(units.encode())),
            *standing(marks, {*reached, *start, *end}),
            *places(marks),
        ]
        (reply,) = yield [change(generation, checks, sets)]
        return AGAIN if reply == MISSED else marks.ledger.join(OffsetVector(reached))

    return (yield from change_while(attempt, None, "ledger"))


def standing(marks: StoreMetadata, places: Iterable[TopicPartition]) -> Checks:
    return [
        (
            ledger_field(place),
            exact(b"%d" % marks.ledger.get(place)) if place in marks.places else ABSENT,
        )
        for place in sorted(places)
    ]


def places(marks: StoreMetadata) -> Checks:
    """No place was added: a start cover would lack it."""
    return [(PLACES, exact(b"%d" % len(marks.places)))]


def tail_field(source: str) -> bytes:
    return m.REALTIME_START.name(source)


def pack_tail(tail: RealtimeStart) -> bytes:
    """The value of a mark that a tail began."""
    return m.REALTIME_START.value.pack(tail.incarnation.run_id, tail.incarnation.replication_id, tail.start)


def unpack_tail(raw: bytes) -> RealtimeStart:
    return _start(*m.REALTIME_START.value.parse(raw))


def begin_tail(generation: int, source: str, tail: RealtimeStart, epoch: int, units: str) -> Steps[StoreMetadata]:
    """Marks a tail that began at or before the ledger, which only grows in the tail's life."""

    def attempt(_: None) -> Attempt[StoreMetadata]:
        marks = yield from read(generation)
        decisions.check_tail(marks.ledger, (marks.epoch, marks.units), tail.start, epoch, units)
        checks = [(m.DEPLOYMENT_VERSION.form, exact(b"%d" % epoch)), (m.DEPLOYMENT.form, exact(units.encode()))]
        (reply,) = yield [change(generation, checks, [(tail_field(source), pack_tail(tail), 0)])]
        return AGAIN if reply == MISSED else (yield from read(generation))

    return (yield from change_while(attempt, None, "tail start"))


def end_tail(generation: int, source: str, incarnation: ServerRun) -> Steps[bool]:
    """Removes a mark that names a life of the store before this one. That of this life stands, whatever is folded: a
    zombie may write on, and what was served of it would be taken back (docs/adr/0054)."""
    found = yield from read(generation)
    stands = found.tails.get(source)
    if stands is None or not decisions.tail_over(stands, incarnation):
        return False
    checks = [(tail_field(source), exact(pack_tail(stands)))]
    (reply,) = yield [change(generation, checks, [], [tail_field(source)])]
    if reply == MISSED:
        yield from read(generation)  # says whether the store was emptied
    return bool(reply != MISSED)


def _term(unit: StoredUnit, term: Term) -> Checks:
    """Checks by which a claim about a term is made only while the term stands."""
    name = unit.storage_fingerprint
    number = exact(b"%d" % term.number) if term.number else ABSENT
    return [(m.START.name(name), exact(term.start.pack())), (m.BUILD.name(name), number)]


def _check_term(marks: StoreMetadata, unit: StoredUnit, term: Term) -> None:
    """Says why a check of the term did not hold; EpochSuperseded."""
    if decisions.term_of(marks, unit.storage_fingerprint) != term:
        raise EpochSuperseded(
            f"term {term.number} of unit {unit.storage_fingerprint} is over",
            next_step="read the deployment again",
        )


def mark_ready(
    generation: int, unit: StoredUnit, term: Term, start: OffsetVector, views: Mapping[str, Sequence[str]]
) -> Steps[None]:
    """All that lies below the unit's start cover stands; names take their aliases."""
    name = unit.storage_fingerprint

    def attempt(_: None) -> Attempt[None]:
        marks = yield from read(generation)
        _check_term(marks, unit, term)
        if term.start != start:
            raise GapRefused(
                f"unit {name} has another start cover than the backfill that was made",
                next_step="run the backfill again",
            )
        aliases = decisions.aliases_to_set(views, marks.aliases, marks.ready | {name})
        sets: Sets = [
            (m.READY.name(name), m.READY.value.pack(), 0),
            *[(m.ALIAS.name(v), m.ALIAS.value.pack(f), 0) for v, f in aliases.items()],
        ]
        checks = [(m.DEPLOYMENT_VERSION.form, exact(b"%d" % marks.epoch)), *_term(unit, term)]
        (reply,) = yield [change(generation, checks, sets, [m.BUILDING.name(name)])]
        return AGAIN if reply == MISSED else None

    yield from change_while(attempt, None, "ready mark")


def mark_building(generation: int, unit: StoredUnit, term: Term, done: int, total: int) -> Steps[None]:
    state = (m.BUILDING.name(unit.storage_fingerprint), m.BUILDING.value.pack(done, total), 0)
    (reply,) = yield [change(generation, _term(unit, term), [state])]
    if reply == MISSED:
        _check_term((yield from read(generation)), unit, term)


def mark_swapped(generation: int, unit: StoredUnit, term: Term, hour: int, seq: int) -> Steps[bool]:
    """False where a newer seq stands."""
    key, field = keys.swapped_key(generation, term.name), b"%d" % hour

    def attempt(_: None) -> Attempt[bool]:
        ((found,),) = yield [Fields(key, [field])]
        if found is not None and int(found) > seq:
            return False
        other = KeyChange(key, [(field, exact(found))], [(field, b"%d" % seq, 0)])
        (reply,) = yield [change(generation, _term(unit, term), [], (), other)]
        if reply != MISSED:
            return True
        _check_term((yield from read(generation)), unit, term)
        return AGAIN

    return (yield from change_while(attempt, None, "swapped mark"))


def swapped(generation: int, term: Term) -> Steps[dict[int, int]]:
    (flat,) = yield [Whole(keys.swapped_key(generation, term.name))]
    return keys.swapped_hours(zip(flat[::2], flat[1::2], strict=True))


def announce_lifetime(generation: int, unit: StoredUnit, term: Term, horizon: int, seq: int) -> Steps[None]:
    """A seq that totals will name."""
    other = KeyChange(
        keys.swapped_key(generation, term.name), [(b"-", ABSENT)], [(keys.TOTALS + b"%d" % seq, b"%d" % horizon, 0)]
    )
    (reply,) = yield [change(generation, _term(unit, term), [], (), other)]
    if reply == MISSED:
        _check_term((yield from read(generation)), unit, term)


def lifetime_seqs(generation: int, term: Term) -> Steps[tuple[int, ...]]:
    """Seqs that totals may name."""
    (flat,) = yield [Whole(keys.swapped_key(generation, term.name))]
    return tuple(sorted(int(field[len(keys.TOTALS) :]) for field in flat[::2] if field.startswith(keys.TOTALS)))


def mark_horizon(
    generation: int, unit: StoredUnit, term: Term, horizon: TotalUntil, announced: tuple[bytes, int], whole: bool
) -> Steps[bool]:
    """All totals of the unit reach the horizon. announced: key of the source's covers, and the announcements there
    when the hours were read that the totals were made of: one that came later may have brought an entity an hour
    that this claim would hide. False then, and where a newer horizon stands."""
    field = m.TOTAL_UNTIL.name(unit.storage_fingerprint)
    marks = yield from read(generation)
    _check_term(marks, unit, term)
    stands = marks.horizons.get(unit.storage_fingerprint)
    if stands is not None and (stands.hour > horizon.hour or stands.seq > horizon.seq):
        return False
    key, count = announced
    known = exact(b"%d" % count) if count else ABSENT
    others = [KeyChange(key, [(decisions.ANNOUNCED, known)])]
    if whole:
        older = [seq for seq in (yield from lifetime_seqs(generation, term)) if seq < horizon.seq]
        fields = [keys.TOTALS + b"%d" % seq for seq in older]
        others.append(KeyChange(keys.swapped_key(generation, term.name), [(b"-", ABSENT)], (), fields))
    checks = [(field, exact(None if stands is None else horizon_text(stands))), *_term(unit, term)]
    (reply,) = yield [change(generation, checks, [(field, horizon_text(horizon), 0)], (), *others)]
    return bool(reply != MISSED)


def horizon_text(horizon: TotalUntil) -> bytes:
    return m.TOTAL_UNTIL.value.pack(*horizon)
