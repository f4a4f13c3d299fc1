"""A read of a tail is training by token and the oracle, as bytes, for every aggregate and kind of window.

An entity's events are dealt out between compacted hours, a lifetime's total, running partials and the tail, with parts
of the tail that must not count: folded or compacted already, waiting behind a skipped offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from slicewise import codec
from slicewise.aggregates import REGISTRY, Aggregate, Event, Failed, Finished, Rows, count, span
from slicewise.aggregates.scalar import Scalars
from slicewise.codec import Layout, Room
from slicewise.features.plan.unit import PlannedFeature
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.reading import pending as merge_tail
from slicewise.reading import scalar as merge_few
from slicewise.reading.answer import BatchedPlan, Merged, NodeClaims, Stored, merge
from slicewise.reading.plan import ReadPlan, plan_read
from slicewise.training.answering.entities import Entities
from slicewise.training.answering.knowledge import Covers
from slicewise.training.answering.local import answer
from slicewise.training.answering.question import Question, UnitEvents
from slicewise.training.answering.tree import SortedRows
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from slicewise.windows.hopping import hopping
from slicewise.windows.kinds import as_window
from slicewise.windows.lifetime import lifetime
from slicewise.windows.session import session
from slicewise.windows.sliding import sliding
from slicewise.windows.tumbling import tumbling
from slicewise.windows.window import Window
from tests.laws.events import edges_of
from tests.laws.laws import same
from tests.laws.oracles import aggregates as oracle
from tests.laws.oracles.values import Error
from tests.support.oracles import answers as windows_oracle
from tests.support.stores.stored import tail_fields
from tests.support.stores.units import StoreUnit

TOPIC = "00112233445566778899aabbccddeeff"
SLICE_US = MINUTE_US
NOW = 15_706 * DAY_US + 13 * HOUR_US + 20 * MINUTE_US + 7
HORIZON = (15_706 - 3) * 24
WINDOWS: dict[str, Window] = {
    "sliding": as_window("90m"),
    "day": as_window("1d"),
    "offset": sliding("1h", offset="45m"),
    "tumbling": tumbling("1h"),
    "open": tumbling("1h", open=True),
    "hopping": hopping("2h", every="20m"),
    "session": session("10m", max_length="6h"),
    "lifetime": lifetime(),
}
EXAMPLES = [example for registration in REGISTRY.values() for example in registration.bound_examples()]


def unit_of(*aggregates: Aggregate) -> StoreUnit:
    layout = Layout.of([*aggregates, count().bind({}), span().bind({})])
    return StoreUnit("00" * 8, slice_us=SLICE_US, layout=layout, pentads=False)


def place_of(event: Event) -> TopicPartition:
    return f"{event.topic_hi:016x}{event.topic_lo:016x}", event.partition


@dataclass
class Dealt:
    """One entity's stored fields, and what the node claims."""

    unit: StoreUnit
    ledger: dict[TopicPartition, int] = field(default_factory=dict)
    covers: dict[int, OffsetVector] = field(default_factory=dict)
    hot: dict[bytes, bytes] = field(default_factory=dict)
    days: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    counted: list[Event] = field(default_factory=list)
    """Of the tail, those that must be in every answer whose window holds them."""

    def row(self, groups: Sequence[Sequence[Event]]) -> bytes:
        flat = [event for events in groups for event in events]
        owners = np.repeat(np.arange(len(groups)), [len(events) for events in groups])
        rows = Rows.from_events(flat, self.unit.types)
        partials = self.unit.layout.partials
        return self.unit.layout.encode_block([p.accumulate_columns(rows, owners, len(groups)) for p in partials])

    def compact(self, hour: int, seq: int, events: Sequence[Event]) -> None:
        day = self.days.setdefault(hour // 24, {})
        numbers = sorted({event.time // SLICE_US for event in events})
        block = self.row([[e for e in events if e.time // SLICE_US == n] for n in numbers])
        day[b"h:%d" % hour] = codec.pack_total(seq, self.row([events]))
        day[b"s:%d" % hour] = codec.pack_slices(seq, numbers, block)
        day[b"c"] = codec.pack_hours(codec.unpack_hours(day.get(b"c")) | {hour: seq})
        day.pop(b"d", None)

    def total(self, day: int, events: Sequence[Event]) -> None:
        fields = self.days[day]
        fields[b"d"] = codec.pack_day(codec.day_digest(fields[b"c"]), self.row([events]))

    def fold(self, place: TopicPartition, events: Sequence[Event], last: int) -> None:
        at = b"%s:%d" % (place[0].encode(), place[1])
        self.hot[b"l:" + at] = b"%d" % last
        for number in {event.time // SLICE_US for event in events}:
            mine = [event for event in events if event.time // SLICE_US == number]
            offsets = [event.offset for event in mine]
            self.hot[b"r:%d:" % number + at] = codec.pack_running(min(offsets), max(offsets), self.row([mine]))

    def write(self, events: Sequence[Event]) -> None:
        members = self.unit.members.encode(Rows.from_events(events, self.unit.types))
        tail_fields(self.hot, [(place_of(e), m) for e, m in zip(events, members, strict=True)], Room(3, 4096))

    def read(self, plan: ReadPlan) -> Stored:
        hot = [part for pair in self.hot.items() for part in pair]
        return Stored(0, None, hot, [[self.days.get(d.day, {}).get(name) for name in d.names] for d in plan.days])


def events_of(aggregate: Aggregate, random: Random) -> list[Event]:
    """Some of every age, ties among them, in three places of one topic."""
    pools = {column: [*edges_of(aggregate.type_of(column)), None] for column in aggregate.inputs}
    ages = (90 * MINUTE_US, 90 * MINUTE_US, 20 * MINUTE_US, 5 * HOUR_US, DAY_US, 6 * DAY_US)
    times = [NOW - random.randrange(random.choice(ages)) for _ in range(24)]
    made, next_offset = [], [0, 0, 0]
    for _ in range(40):
        partition = random.randrange(3)
        values = {column: random.choice(pool) for column, pool in pools.items()}
        halves = int(TOPIC[:16], 16), int(TOPIC[16:], 16)
        made.append(Event(random.choice(times), *halves, partition, next_offset[partition], values))
        next_offset[partition] += random.randint(1, 3)
    return made


def dealt(unit: StoreUnit, events: Sequence[Event], random: Random) -> Dealt:
    store = Dealt(unit)
    places = {place: [e for e in events if place_of(e) == place] for place in {place_of(e) for e in events}}
    folded = {place: random.choice(mine[:-1]).offset for place, mine in places.items()}
    store.ledger = {place: random.randint(0, last + 1) for place, last in folded.items()}
    store.covers = {
        1: OffsetVector({place: random.randint(0, store.ledger[place]) for place in places}),
        2: OffsetVector(
            {place: random.randint(store.ledger[place], mine[-1].offset + 1) for place, mine in places.items()}
        ),
    }
    seqs = {hour: random.choice([None, 1, 2]) for hour in {e.time // HOUR_US for e in events}}
    seqs = {hour: 1 if hour < HORIZON else seq for hour, seq in seqs.items()}  # those before the horizon are in a total

    def compacted(e: Event) -> bool:
        seq = seqs[e.time // HOUR_US]
        return seq is not None and store.covers[seq].contains(place_of(e), e.offset)

    old = [e for e in events if compacted(e) and e.time // HOUR_US < HORIZON]
    store.hot[b"t"] = codec.pack_lifetime(HORIZON, 1, store.row([old]))
    for hour, seq in seqs.items():
        mine = [e for e in events if compacted(e) and e.time // HOUR_US == hour]
        if seq is not None and hour >= HORIZON and mine:
            store.compact(hour, seq, mine)
    for day, fields in store.days.items():
        if b"c" in fields:
            store.total(
                day, [e for e in events if compacted(e) and e.time >= HORIZON * HOUR_US and e.time // DAY_US == day]
            )
    for place, mine in places.items():
        last = folded[place]
        store.fold(place, [e for e in mine if e.offset <= last and not compacted(e)], last)
        beyond = [e for e in mine if e.offset > last and not compacted(e)]
        come = random.randint(min(1, len(beyond)), len(beyond))
        reached = max([last, *(e.offset for e in beyond[:come])])
        behind = [e for e in mine if e.offset <= reached and e not in beyond and random.random() < 0.3]
        first = random.choice(beyond[:come]).offset if place[1] == 2 and come else 1 << 50
        if first < 1 << 50:
            at = b"x:%s:%d" % (place[0].encode(), place[1])
            store.hot[at] = b"%d:%d" % (first, beyond[come - 1].offset)
        store.counted += [e for e in beyond[:come] if e.offset < first]
        store.write([*(e for e in beyond[:come] if e.offset < first or random.random() < 0.5), *behind])
    return store


def read(unit: StoreUnit, store: Dealt, features: Sequence[PlannedFeature]) -> Iterator[Merged]:
    """By few rows, by whole columns, and with the tail's events at once and one by one."""
    horizon = HORIZON if any(f.window.unbounded for f in features) else None
    plan = plan_read(cast(Any, unit), cast(Any, features), "live", NOW, frozenset(), horizon)
    base = NodeClaims(OffsetVector(store.ledger), OffsetVector(), store.covers, tail=True)
    for few_rows in (2_000, -1):
        yield merge(BatchedPlan((plan,)), [[store.read(plan)]], 1, [base], few_rows)


def value(merged: Merged, feature: int) -> Finished:
    found, where = merged.column(0, feature)
    at = where.start
    kind = merged.joint.plans[0].features[feature].aggregate.output_type
    errors = {0: found.errors[at]} if at in found.errors else {}
    if isinstance(found, Scalars):
        return Finished(pa.array([found.values[at]], kind), errors)
    return Finished(found.values.slice(at, 1), errors)


def trained(
    unit: StoreUnit, events: Sequence[Event], features: Sequence[PlannedFeature], token: str
) -> dict[str, Finished]:
    """The result of training by token over all events of the log."""
    ordered = sorted(events, key=lambda e: e.identity())
    places = sorted({place_of(e) for e in ordered})
    number = np.array([places.index(place_of(e)) for e in ordered], np.int64)
    source = SortedRows(np.zeros(len(ordered), np.int64), Rows.from_events(ordered, unit.types))
    held = UnitEvents(cast(Any, unit), cast(Entities, None), source, number, tuple(places), {})
    known = tokens.decode(token)
    asked = {c: (np.array([start], np.int64), np.array([end], np.int64)) for c, (start, end) in known.bounds.items()}
    question = Question(np.zeros(1, np.int64), asked, Covers.of([known], places))
    return answer(held, cast(Any, features), question)


def inside(events: Sequence[Event], token: tokens.Token, feature: PlannedFeature) -> list[Event]:
    """By hand: those that the token's cover names, within the window at NOW."""
    known = [e for e in events if token.contains(e.time // HOUR_US, place_of(e), e.offset)]
    start, end = feature.window.bounds("live", NOW, SLICE_US)
    if not feature.window.session_gap_us:
        return [e for e in known if start <= e.time < end]
    raw = [windows_oracle.OracleEvent(e.time, TOPIC, e.partition, e.offset, {"event": e}) for e in known]
    return [each.columns["event"] for each in windows_oracle.session(raw, start, end, feature.window.session_gap_us)]


def name_of(aggregate: Aggregate) -> str:
    return "-".join([aggregate.kind, *map(str, aggregate.types or ())])


@pytest.mark.parametrize("aggregate", EXAMPLES, ids=name_of)
def test_what_is_read_of_a_tail_is_training_by_token_and_the_oracle_as_bytes(
    aggregate: Aggregate, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = unit_of(aggregate)
    features = [
        unit.feature(name, window, aggregate)
        for name, window in WINDOWS.items()
        if window.unbounded or aggregate.answers(window.length_us) is None
    ]
    assert features
    # sessions are read as whole columns alone: what has none also by few rows
    answers: list[Merged]
    for seed, asked in enumerate((features, [f for f in features if not f.window.session_gap_us])):
        events = events_of(aggregate, Random(f"{name_of(aggregate)} {seed}"))
        store = dealt(unit, events, Random(seed))
        print(f"seed {seed}, {len(store.hot)} hot fields")
        answers = []
        for most in (1_000, -1):  # the tail's events one by one, and at once
            monkeypatch.setattr(merge_tail, "FEW_EVENTS", most)
            monkeypatch.setattr(merge_few, "FEW_EVENTS", most)
            monkeypatch.setattr(merge_tail, "ROW_EVENTS", most)
            answers += read(unit, store, asked)
        (text,) = {merged.token(0, 0) for merged in answers}
        ((seen,),) = {merged.tail for merged in answers}
        token, by_token = tokens.decode(text), trained(unit, events, asked, text)
        assert seen.events or not store.counted
        assert all(token.contains(e.time // HOUR_US, place_of(e), e.offset) for e in store.counted)
        for i, feature in enumerate(asked):
            mine = inside(events, token, feature)
            wanted = oracle.expected(aggregate, mine, feature.window.bounds("live", NOW, SLICE_US)[1])
            expected = [Failed(str(wanted)) if isinstance(wanted, Error) else wanted]
            for found in (by_token[feature.column], *(value(merged, i) for merged in answers)):
                assert same(found, expected, aggregate.output_type), (feature.column, seed)


def test_the_histories_hold_what_the_law_is_about() -> None:
    unit = unit_of()
    stores = [dealt(unit, events_of(count().bind({}), Random(f"{seed}")), Random(seed)) for seed in range(2)]
    assert all(store.counted for store in stores)
    names = [{name[:1] for name in store.hot} for store in stores]
    assert any(b"x" in each for each in names)
    assert all(each >= {b"q", b"l", b"m", b"o", b"r", b"t"} for each in names)
