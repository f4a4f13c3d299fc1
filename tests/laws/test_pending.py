"""A read of pending events are training by token and the oracle, as bytes, for all aggregates and
windows.

An entity's events are dealt out between compacted hours, a lifetime's total, running partials and
the pending events, with parts of the pending events that must not count: applied or compacted
already, waiting behind a skipped offset.
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
from slicewise.reading import earlier_hours
from slicewise.reading import pending as reading_pending
from slicewise.reading import scalar as scalar_reading
from slicewise.reading.answer import BatchedPlan, Merged, NodeClaims, Stored, merge
from slicewise.reading.cache import PartialCache
from slicewise.reading.plan import ReadPlan, plan_read
from slicewise.training.answering.knowledge import TokenOffsets
from slicewise.training.answering.local import answer
from slicewise.training.answering.question import Question
from slicewise.training.events.entities import Entities
from slicewise.training.events.unit_events import SortedRows, UnitEvents
from slicewise.training.tables.tokens import alike_tokens
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
from tests.support.stores.stored import add_pending
from tests.support.stores.units import StoreUnit

TOPIC = "00112233445566778899aabbccddeeff"
SLICE_US = MINUTE_US
NOW = 15_706 * DAY_US + 13 * HOUR_US + 20 * MINUTE_US + 7
TOTAL_UNTIL = (15_706 - 3) * 24
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
EXAMPLES = [
    example for registration in REGISTRY.values() for example in registration.bound_examples()
]


def unit_of(*aggregates: Aggregate) -> StoreUnit:
    layout = Layout.of([*aggregates, count().bind({}), span().bind({})])
    return StoreUnit("00" * 8, slice_us=SLICE_US, layout=layout, five_day_totals=False)


def topic_partition_of(event: Event) -> TopicPartition:
    return f"{event.topic_hi:016x}{event.topic_lo:016x}", event.partition


@dataclass
class Dealt:
    """One entity's stored fields, and what the node claims."""

    unit: StoreUnit
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    offset_vectors: dict[int, OffsetVector] = field(default_factory=dict)
    hot: dict[bytes, bytes] = field(default_factory=dict)
    days: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    counted: list[Event] = field(default_factory=list)
    """Events of the pending events, those that must be in every answer whose window holds them."""

    def row(self, groups: Sequence[Sequence[Event]]) -> bytes:
        flat = [event for events in groups for event in events]
        owners = np.repeat(np.arange(len(groups)), [len(events) for events in groups])
        rows = Rows.from_events(flat, self.unit.types)
        partials = self.unit.layout.partials
        return self.unit.layout.encode_block(
            [p.accumulate_columns(rows, owners, len(groups)) for p in partials]
        )

    def compact(self, hour: int, archive_version: int, events: Sequence[Event]) -> None:
        day = self.days.setdefault(hour // 24, {})
        numbers = sorted({event.time // SLICE_US for event in events})
        block = self.row([[e for e in events if e.time // SLICE_US == n] for n in numbers])
        day[b"h:%d" % hour] = codec.pack_total(archive_version, self.row([events]))
        day[b"s:%d" % hour] = codec.pack_slices(archive_version, numbers, block)
        day[b"c"] = codec.pack_hours(codec.unpack_hours(day.get(b"c")) | {hour: archive_version})
        day.pop(b"d", None)

    def total(self, day: int, events: Sequence[Event]) -> None:
        fields = self.days[day]
        fields[b"d"] = codec.pack_day(codec.day_digest(fields[b"c"]), self.row([events]))

    def apply(self, topic_partition: TopicPartition, events: Sequence[Event], last: int) -> None:
        at = b"%s:%d" % (topic_partition[0].encode(), topic_partition[1])
        self.hot[b"l:" + at] = b"%d" % last
        for number in {event.time // SLICE_US for event in events}:
            own = [event for event in events if event.time // SLICE_US == number]
            offsets = [event.offset for event in own]
            self.hot[b"r:%d:" % number + at] = codec.pack_running(
                min(offsets), max(offsets), self.row([own])
            )

    def write(self, events: Sequence[Event]) -> None:
        members = self.unit.members.encode(Rows.from_events(events, self.unit.types))
        add_pending(
            self.hot,
            [(topic_partition_of(e), m) for e, m in zip(events, members, strict=True)],
            Room(3, 4096),
        )

    def read(self, plan: ReadPlan) -> Stored:
        hot = [part for pair in self.hot.items() for part in pair]
        return Stored(
            0,
            None,
            hot,
            [[self.days.get(d.day, {}).get(name) for name in d.names] for d in plan.days],
        )


def events_of(aggregate: Aggregate, random: Random) -> list[Event]:
    """Some of every age, ties among them, in three partitions of one topic."""
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
    topic_partitions = {
        topic_partition: [e for e in events if topic_partition_of(e) == topic_partition]
        for topic_partition in {topic_partition_of(e) for e in events}
    }
    applied = {
        topic_partition: random.choice(own[:-1]).offset
        for topic_partition, own in topic_partitions.items()
    }
    store.committed = {
        topic_partition: random.randint(0, last + 1) for topic_partition, last in applied.items()
    }
    store.offset_vectors = {
        1: OffsetVector(
            {
                topic_partition: random.randint(0, store.committed[topic_partition])
                for topic_partition in topic_partitions
            }
        ),
        2: OffsetVector(
            {
                topic_partition: random.randint(
                    store.committed[topic_partition], own[-1].offset + 1
                )
                for topic_partition, own in topic_partitions.items()
            }
        ),
    }
    archive_versions = {
        hour: random.choice([None, 1, 2]) for hour in {e.time // HOUR_US for e in events}
    }
    # those before the total-until hour are in a total
    archive_versions = {
        hour: 1 if hour < TOTAL_UNTIL else archive_version
        for hour, archive_version in archive_versions.items()
    }

    def compacted(e: Event) -> bool:
        archive_version = archive_versions[e.time // HOUR_US]
        return archive_version is not None and store.offset_vectors[archive_version].contains(
            topic_partition_of(e), e.offset
        )

    old = [e for e in events if compacted(e) and e.time // HOUR_US < TOTAL_UNTIL]
    store.hot[b"t"] = codec.pack_lifetime(TOTAL_UNTIL, 1, store.row([old]))
    for hour, archive_version in archive_versions.items():
        own = [e for e in events if compacted(e) and e.time // HOUR_US == hour]
        if archive_version is not None and hour >= TOTAL_UNTIL and own:
            store.compact(hour, archive_version, own)
    for day, fields in store.days.items():
        if b"c" in fields:
            store.total(
                day,
                [
                    e
                    for e in events
                    if compacted(e) and e.time >= TOTAL_UNTIL * HOUR_US and e.time // DAY_US == day
                ],
            )
    for topic_partition, own in topic_partitions.items():
        last = applied[topic_partition]
        store.apply(
            topic_partition, [e for e in own if e.offset <= last and not compacted(e)], last
        )
        beyond = [e for e in own if e.offset > last and not compacted(e)]
        come = random.randint(min(1, len(beyond)), len(beyond))
        newest = max([last, *(e.offset for e in beyond[:come])])
        behind = [
            e for e in own if e.offset <= newest and e not in beyond and random.random() < 0.3
        ]
        first = random.choice(beyond[:come]).offset if topic_partition[1] == 2 and come else 1 << 50
        if first < 1 << 50:
            at = b"x:%s:%d" % (topic_partition[0].encode(), topic_partition[1])
            store.hot[at] = b"%d:%d" % (first, beyond[come - 1].offset)
        store.counted += [e for e in beyond[:come] if e.offset < first]
        store.write(
            [*(e for e in beyond[:come] if e.offset < first or random.random() < 0.5), *behind]
        )
    return store


def read(unit: StoreUnit, store: Dealt, features: Sequence[PlannedFeature]) -> Iterator[Merged]:
    """By few rows, by whole columns, by what is cached of few rows, and by whole hours that are
    cached."""
    total_until = TOTAL_UNTIL if any(f.window.unbounded for f in features) else None
    plan = plan_read(cast(Any, unit), cast(Any, features), "live", NOW, frozenset(), total_until)
    claims = NodeClaims(
        OffsetVector(store.committed), OffsetVector(), store.offset_vectors, pending=True
    )
    for scalar_rows in (2_000, -1):
        yield merge(BatchedPlan((plan,)), [[store.read(plan)]], 1, [claims], scalar_rows)
    batched, cache = BatchedPlan((plan,)), PartialCache()
    for _ in range(2):  # seen, then kept
        merge(batched, [[store.read(plan)]], 1, [claims], cache=cache)
    yield merge(batched, [[store.read(plan)]], 1, [claims], cache=cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(earlier_hours, "LEAST_FIELDS", 1)
        whole_hours = PartialCache()
        for scalar_rows in (2_000, 2_000, -1):  # seen, combined and kept, cached
            yield merge(batched, [[store.read(plan)]], 1, [claims], scalar_rows, cache=whole_hours)


def value(merged: Merged, feature: int) -> Finished:
    result, where = merged.column(0, feature)
    at = where.start
    kind = merged.batched.plans[0].features[feature].aggregate.output_type
    errors = {0: result.errors[at]} if at in result.errors else {}
    if isinstance(result, Scalars):
        return Finished(pa.array([result.values[at]], kind), errors)
    return Finished(result.values.slice(at, 1), errors)


def trained(
    unit: StoreUnit, events: Sequence[Event], features: Sequence[PlannedFeature], token: str
) -> dict[str, Finished]:
    """The result of training by token over all events of the log."""
    ordered = sorted(events, key=lambda e: e.identity())
    topic_partitions = sorted({topic_partition_of(e) for e in ordered})
    number = np.array([topic_partitions.index(topic_partition_of(e)) for e in ordered], np.int64)
    source = SortedRows(np.zeros(len(ordered), np.int64), Rows.from_events(ordered, unit.types))
    of_unit = UnitEvents(
        cast(Any, unit), cast(Entities, None), source, number, tuple(topic_partitions), {}
    )
    decoded = tokens.decode(token)
    bounds = {
        c: (np.array([start], np.int64), np.array([end], np.int64))
        for c, (start, end) in decoded.bounds.items()
    }
    question = Question(
        np.zeros(1, np.int64),
        bounds,
        TokenOffsets.of(alike_tokens([(0, decoded)]), 1, topic_partitions),
    )
    return answer(of_unit, cast(Any, features), question)


def inside(events: Sequence[Event], token: tokens.Token, feature: PlannedFeature) -> list[Event]:
    """By hand: those that the token's offset vector names, within the window at NOW."""
    contained = [
        e for e in events if token.contains(e.time // HOUR_US, topic_partition_of(e), e.offset)
    ]
    start, end = feature.window.bounds("live", NOW, SLICE_US)
    if not feature.window.session_gap_us:
        return [e for e in contained if start <= e.time < end]
    raw = [
        windows_oracle.OracleEvent(e.time, TOPIC, e.partition, e.offset, {"event": e})
        for e in contained
    ]
    return [
        stored.columns["event"]
        for stored in windows_oracle.session(raw, start, end, feature.window.session_gap_us)
    ]


def name_of(aggregate: Aggregate) -> str:
    return "-".join([aggregate.kind, *map(str, aggregate.types or ())])


@pytest.mark.parametrize(
    "scalar",
    [True, pytest.param(False, marks=pytest.mark.long)],
    ids=["few rows", "whole columns"],
)
@pytest.mark.parametrize("aggregate", EXAMPLES, ids=name_of)
def test_what_is_read_of_pending_events_is_training_by_token_and_the_oracle_as_bytes(
    aggregate: Aggregate, scalar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit, seed = unit_of(aggregate), int(scalar)
    features = [
        unit.feature(name, window, aggregate)
        for name, window in WINDOWS.items()
        if window.unbounded or aggregate.answers(window.length_us) is None
    ]
    # sessions are read as whole columns alone: what has none also by few rows
    chosen = [f for f in features if not (scalar and f.window.session_gap_us)]
    assert chosen
    events = events_of(aggregate, Random(f"{name_of(aggregate)} {seed}"))
    store = dealt(unit, events, Random(seed))
    print(f"seed {seed}, {len(store.hot)} hot fields")
    answers: list[Merged] = []
    for most in (1_000, -1):  # the pending events one by one, and at once
        monkeypatch.setattr(reading_pending, "SCALAR_EVENTS", most)
        monkeypatch.setattr(scalar_reading, "SCALAR_EVENTS", most)
        monkeypatch.setattr(reading_pending, "ROW_EVENTS", most)
        answers += read(unit, store, chosen)
    (text,) = {merged.token(0, 0) for merged in answers}
    ((seen,),) = {merged.pending for merged in answers}
    token, by_token = tokens.decode(text), trained(unit, events, chosen, text)
    assert seen.events or not store.counted
    assert all(
        token.contains(e.time // HOUR_US, topic_partition_of(e), e.offset) for e in store.counted
    )
    for i, feature in enumerate(chosen):
        own = inside(events, token, feature)
        wanted = oracle.expected(aggregate, own, feature.window.bounds("live", NOW, SLICE_US)[1])
        expected = [Failed(str(wanted)) if isinstance(wanted, Error) else wanted]
        for result in (by_token[feature.column], *(value(merged, i) for merged in answers)):
            assert same(result, expected, aggregate.output_type), (feature.column, seed)


def test_the_histories_hold_what_the_law_is_about() -> None:
    unit = unit_of()
    stores = [
        dealt(unit, events_of(count().bind({}), Random(f"{seed}")), Random(seed))
        for seed in range(2)
    ]
    assert all(store.counted for store in stores)
    names = [{name[:1] for name in store.hot} for store in stores]
    assert any(b"x" in name for name in names)
    assert all(name >= {b"q", b"l", b"m", b"o", b"r", b"t"} for name in names)
