"""An explanation's segments hold exactly the events that its value counts, wherever these stand."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

import slicewise as sw
from slicewise import codec
from slicewise.client.answers import ExplainedView, ExplainedWindow, Segment
from slicewise.clock import ManualClock
from slicewise.codec import pack_total
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import SliceUnit
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.explained import bounded
from slicewise.serving.answering.requests import checked
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.connection import SyncConnection
from slicewise.stores.online import keys
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.archive_versions import CountArchiveVersions
from slicewise.stores.online.operations.publish_total import (
    AnnounceTotal,
    LifetimeEntry,
    MarkTotal,
    PublishTotal,
)
from slicewise.stores.online.sharded.routing import node_of
from slicewise.windows.durations import DAY_US, HOUR_US
from tests.support.stores.in_memory import Readers
from tests.support.stores.served import (
    TOPIC,
    Event,
    Served,
    accumulated,
    rows_of,
    tags_of,
)

NOW = 1_700_000_000_000_000
USERS = ("ann", "bob", "cyd", "dan")
DAYS = 17
"""Days of events: longer than two five-day totals, and some more before a lifetime's total ends."""
WINDOWS = ("1h", "3d", "16d")


def deployed(*, spread: bool, lifetime: bool) -> Deployment:
    source = sw.KafkaSource(
        "plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t", max_lateness="20d"
    )
    ever = ["lifetime"] if lifetime else []
    count = [sw.Feature("n", sw.count(), windows=[*WINDOWS, *ever])]
    view = sw.FeatureView("v", source=source, entity=["user"], features=count, spread=spread)
    visits = [sw.Feature("n", sw.count(), windows=[sw.exact_range("12h"), sw.rows(3)])]
    listed = sw.FeatureView("visits", source=source, entity=["user"], features=visits)
    return plan(Project.of("p", [view, listed]))


@dataclass
class World:
    """A store of one node or several, with events of many days: some compacted, some late, some
    pending."""

    seed: int
    count: int = 1
    spread: bool = False
    lifetime: bool = False
    versions: dict[int, OffsetVector] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        clock = ManualClock(NOW)
        servers = [MemoryServer(clock, name=f"n{number}") for number in range(self.count)]
        self.deployed = deployed(spread=self.spread, lifetime=self.lifetime)
        self.served = Served(open_memory(*servers), self.deployed)
        self.served.deploy()
        self.ends = {0: 0, 1: 0}
        readers = Readers(servers)
        self.service = FeatureService(clock)
        self.connection = SyncConnection(
            lambda: readers if self.count > 1 else open_memory(servers[0])
        )
        self._fill()

    def _fill(self) -> None:
        since = NOW - (DAYS + 8 * self.lifetime) * DAY_US
        self._apply([self.chance.randrange(since, NOW - HOUR_US) for _ in range(150)])
        hours = sorted({event.time_us // HOUR_US for event in self.served.log})
        self.hours = taken = [hour for hour in hours if self.chance.random() < 0.9]
        end = self._end()
        for hour in taken:
            self.served.compact(hour, end)
            self.versions[self.served.archive_versions] = end
        for day in sorted({hour // 24 for hour in taken}):
            if (day + 1) * DAY_US <= NOW - DAY_US:
                self.served.total(day)
        if self.lifetime:
            self._publish_totals(end)
        # late for hours that are compacted, and some that are not
        self._apply([self.chance.randrange(since, NOW) for _ in range(25)])
        self.served.begin_realtime()
        self.pending = self._events([NOW - self.chance.randrange(HOUR_US) for _ in range(6)])
        for event in self.pending:
            self.served.write_pending([event])

    def _events(self, times: Sequence[int]) -> list[Event]:
        events = []
        for at in times:
            partition = self.chance.randrange(2)
            columns = {"user": self.chance.choice(USERS[:-1]), "t": at}
            events.append(Event(partition, self.ends[partition], at, columns))
            self.ends[partition] += 1
        return events

    def _apply(self, times: Sequence[int]) -> None:
        self.served.apply(self._events(times))

    def _end(self) -> OffsetVector:
        return OffsetVector({(TOPIC, p): end for p, end in self.ends.items()})

    def _publish_totals(self, end: OffsetVector) -> None:
        store, version = self.served.store, self.served.archive_versions
        for unit in self.deployed.sliced:
            until = (NOW // DAY_US - DAYS - 1) * 24
            old = [e for e in self.served.log if e.time_us // HOUR_US < until]
            store.run(AnnounceTotal(unit, until, version, end))
            announced = store.run(CountArchiveVersions("plays"))
            days = sorted({e.time_us // DAY_US for e in old})
            entries = _entries(unit, old, version)
            published = store.run(PublishTotal(unit, until, version, end, entries, days))
            assert not published.left_over
            assert store.run(MarkTotal(unit, until, version, announced, whole=True))

    def refs(self) -> list[str]:
        return [f"{unit.view}:{f.column}" for unit in self.deployed.units for f in unit.features]

    def views(self, refs: Sequence[str], user: str) -> tuple[ExplainedView, ...]:
        """Views of an explanation, whose answer is that of a read."""
        request = checked(list(refs), None, [{"user": user}])
        explained = self.connection.run(self.service.explain(request))
        answer = self.connection.run(self.service.read(request))
        assert explained.answer.results[0].values == answer.results[0].values
        assert explained.answer.results[0].token == answer.results[0].token
        values = {f.feature: f.value for view in explained.views for f in view.features}
        assert values == answer.values()
        return explained.views

    def events_in(self, segment: Segment, window: ExplainedWindow, user: str) -> int:
        """Events of the log that a segment says it has, by its span, place and archive version."""
        start_us = segment.start_us
        if segment.where in ("events", "pending"):
            assert segment.events is not None
            return segment.events
        inside = [
            e
            for e in self.served.log
            if e.columns["user"] == user
            and (start_us is None or start_us <= e.time_us)
            and e.time_us < segment.end_us
            and segment.partition in (None, e.partition)
        ]
        assert segment.end_us <= window.end_us
        compacted = {self.versions[version] for version in segment.archive_versions}
        if segment.where == "live":
            return sum(not any(_has(end, e) for end in compacted) for e in inside)
        assert len(compacted) <= 1
        # of a day or of five the compacted hours alone
        passed = segment.where == "lifetime_total"
        return sum(
            (passed or e.time_us // HOUR_US in self.hours)
            and any(_has(end, e) for end in compacted)
            for e in inside
        )


def _has(end: OffsetVector, event: Event) -> bool:
    return end.contains(event.topic_partition, event.offset)


def _entries(unit: SliceUnit, events: Sequence[Event], version: int) -> list[LifetimeEntry]:
    entries = []
    for partition in sorted({e.partition for e in events}) if unit.per_partition else [None]:
        own = [e for e in events if partition in (None, e.partition)]
        by_tag: dict[bytes, list[Event]] = {}
        for tag, event in zip(tags_of(unit, own, partition), own, strict=True):
            by_tag.setdefault(tag, []).append(event)
        for tag, some in by_tag.items():
            whole = accumulated(unit, rows_of(unit, some), np.zeros(len(some), np.int64), 1)
            total = pack_total(version, unit.layout.encode_rows(whole)[0])
            entries.append(LifetimeEntry(tag, bytes(codec.unpack_total(total).row)))
    return entries


KINDS: Mapping[str, Mapping[str, int]] = {
    "one node": {},
    "several nodes": {"count": 2},
    "per partition": {"spread": True},
    "lifetime": {"lifetime": True},
    "lifetime on several nodes": {"lifetime": True, "count": 2},
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_segments_that_count_hold_exactly_the_events_of_the_value(kind: str, seed: int) -> None:
    world = World(seed, **KINDS[kind])  # type: ignore[arg-type]
    for user in USERS:
        for ref in world.refs():
            (view,) = world.views([ref], user)
            (window,), (feature,) = view.windows, view.features
            counted = [s for s in window.segments if s.state == "counted"]
            events = sum(world.events_in(segment, window, user) for segment in counted)
            assert events == (feature.value or 0), (kind, seed, user, ref, counted)


def test_a_long_window_is_read_by_five_days_and_a_lifetime_by_its_total() -> None:
    world = World(1, lifetime=True)
    wheres = {
        ref: {
            s.where for s in world.views([ref], "ann")[0].windows[0].segments if s.state != "empty"
        }
        for ref in world.refs()
    }
    assert "lifetime_total" in wheres["v:n_lifetime"]
    plain = World(1)
    long = plain.views(["v:n_16d"], "ann")[0].windows[0].segments
    assert {"five_day_total", "day_total"} <= {s.where for s in long}


def test_views_of_slices_and_of_events_are_explained_in_one_answer_in_any_order() -> None:
    world = World(2)
    listed, last = [ref for ref in world.refs() if ref.startswith("visits:")]
    views = world.views(["v:n_3d", listed, "v:n_1h", last], "bob")
    assert [view.stored for view in views] == ["slices", "events"]
    assert [tokens.decode(view.token).unit for view in views] == [view.unit for view in views]
    assert [f.feature for f in views[0].features] == ["v:n_3d", "v:n_1h"]
    assert [f.feature for f in views[1].features] == [listed, last]


def test_offsets_are_those_of_the_node_that_has_the_entity() -> None:
    world = World(3, count=2)
    node = {user: node_of(keys.entity_tags([("user", "string")], [[user]])[0], 2) for user in USERS}
    assert set(node.values()) == {0, 1}, "the users are on both nodes"
    for user in USERS:
        (view,) = world.views(["v:n_3d"], user)
        applied = [e for e in world.served.log if e.columns["user"] == user]
        ends = {
            partition: max(e.offset for e in applied if e.partition == partition) + 1
            for partition in sorted({e.partition for e in applied})
        }
        assert view.applied == ({TOPIC: ends} if ends else {})
        assert view.contained == tokens.decode(view.token).base.nested()


def test_a_window_with_too_many_parts_shows_those_that_are_sought_and_counts_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(4)
    refs = ["v:n_1h", "v:n_16d"]
    (whole,) = world.views(refs, "cyd")
    monkeypatch.setattr(bounded, "MOST_SEGMENTS", 24)
    monkeypatch.setattr(bounded, "MOST_VERSIONS", 3)
    (view,) = world.views(refs, "cyd")
    short, long = view.windows
    assert short == whole.windows[0]
    every = whole.windows[1].segments
    late = [s for s in every if s.late or s.where == "pending"]
    assert late
    assert len(long.segments) == 12 < len(every)
    assert [s for s in every if s in long.segments] == list(long.segments)
    assert all(segment in long.segments for segment in late)
    assert sum(long.left_out.values()) == len(every) - 12
    # what is left out is empty before it is old
    assert set(long.left_out) == {"empty"} or all(s.state != "empty" for s in long.segments)
    named = {v for window in view.windows for s in window.segments for v in s.archive_versions}
    assert list(view.archive_versions) == sorted(named)[-3:]
    assert view.archive_versions_left == len(named) - 3


@pytest.mark.parametrize(("song", "had"), [("s1", True), ("s2", False)])
def test_whether_an_entity_has_had_a_value_is_explained_as_any_value_is(
    song: str, had: bool
) -> None:
    schema = {"user": "string", "song": "string", "t": "timestamp_us"}
    source = sw.KafkaSource("plays", schema=schema, timestamp="t")
    songs = [sw.Feature("songs", sw.bloom("song", capacity=100), windows=["1h"])]
    view = sw.FeatureView("v", source=source, entity=["user"], features=songs)
    server = MemoryServer(ManualClock(NOW))
    served = Served(open_memory(server), plan(Project.of("p", [view])))
    served.deploy()
    at_us = NOW - 60_000_000
    event = Event(0, 0, at_us, {"user": "ann", "song": "s1"})
    served.apply([event])
    connection = SyncConnection(lambda: open_memory(server))
    request = checked(["v:songs_1h"], None, [{"user": "ann", "song": song}])
    explained = connection.run(FeatureService(ManualClock(NOW)).explain(request))
    (one,) = explained.views
    assert [(f.feature, f.value) for f in one.features] == [("v:songs_1h", had)]
    counted = [s for s in one.windows[0].segments if s.state == "counted"]
    assert any(s.start_us <= at_us < s.end_us for s in counted if s.start_us is not None)
