"""Leaderboards are made of ticks, and late changes of them are said once, the same by whoever says
it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.clock import ManualClock
from slicewise.codec.leaderboards import StoredLeaderboard
from slicewise.emission.leaderboards import LeaderboardSink
from slicewise.emission.ticks import Correction, Tick
from slicewise.errors import StoreUnavailable
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.connecting import Initialise
from slicewise.stores.online.operations.leaderboards import (
    ReadLeaderboard,
    ReadRememberedLeaderboard,
)
from slicewise.stores.online.port import OnlineStore
from tests.support.stores.stored import TOPIC, offset_vector

SECOND_US = 1_000_000
NOW = 1_700_000_000 * SECOND_US
PLAYS = sw.KafkaSource(
    "plays", schema={"song_id": "string", "at_": "timestamp_us"}, timestamp="at_"
)
SONGS = sw.FeatureView(
    "songs",
    source=PLAYS,
    entity=["song_id"],
    features=[sw.Feature("plays", sw.count(), windows=["10s"])],
)
LEADERBOARDS = (
    sw.Leaderboard(
        "top_songs", view=SONGS, by="plays_10s", k=2, late="correct", correct_within="1m"
    ),
    sw.Leaderboard("top_two", view=SONGS, by="plays_10s", k=1, every="2s"),
)
DEPLOYMENT = plan(Project.of("songs", [SONGS, *LEADERBOARDS]))
WINDOW = DEPLOYMENT.resolve("songs:plays_10s")[1].window


@dataclass
class FakeTopic:
    """Receiver of corrections in these tests; contents are as a topic would keep them."""

    records: list[tuple[str, bytes, bytes]] = field(default_factory=list)
    flushed: int = 0
    broken: bool = False

    def append(self, topic: str, key: bytes, value: bytes) -> None:
        self.records.append((topic, key, value))

    def flush(self) -> None:
        if self.broken:
            raise StoreUnavailable("the broker does not answer")
        self.flushed = len(self.records)


@dataclass
class Stage:
    """A store in memory, and sinks over it."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    topic: FakeTopic = field(default_factory=FakeTopic)

    def __post_init__(self) -> None:
        self.server = MemoryServer(self.clock)
        self.store = open_memory(self.server)
        self.store.run(Initialise())

    def open(self) -> OnlineStore:
        return open_memory(self.server)

    def sink(self) -> LeaderboardSink:
        return LeaderboardSink(DEPLOYMENT, 1, self.open, self.clock, self.topic)

    def leaderboard(self, name: str) -> StoredLeaderboard | None:
        raw = open_memory(self.server).run(ReadLeaderboard(name)).leaderboard
        return None if raw is None else StoredLeaderboard.unpack(raw)


def tick(counts: dict[str, int], end_us: int, offset: int) -> Tick:
    entities, values = (
        pa.table({"song_id": list(counts)}),
        pa.table({"plays_10s": list(counts.values())}),
    )
    start = end_us - 10 * SECOND_US
    return Tick(
        "songs",
        WINDOW,
        start,
        end_us,
        entities,
        values,
        np.ones(len(counts), np.bool_),
        offset_vector(offset),
    )


def late(changes: list[tuple[int, str, int, int]], offset: int) -> Correction:
    """changes: (window end, song, value before, value now)."""
    ends, songs, old, new = (list(column) for column in zip(*changes, strict=True))
    causes = [(TOPIC, 0, offset - 1 - i) for i in range(len(changes))]
    tables = (
        pa.table({"song_id": songs}),
        pa.table({"plays_10s": old}),
        pa.table({"plays_10s": new}),
    )
    return Correction(
        "songs", WINDOW, np.array(ends, np.int64), *tables, causes, offset_vector(offset)
    )


def shown(leaderboard: StoredLeaderboard | None) -> list[tuple[Any, Any]]:
    assert leaderboard is not None
    return [(row.key[0], row.value) for row in leaderboard.rows]


def test_each_leaderboard_is_made_of_the_ticks_of_its_period() -> None:
    stage = Stage()
    sink = stage.sink()
    sink.publish(tick({"a": 3, "b": 5, "c": 5, "gone": 0}, NOW, 100))
    assert shown(stage.leaderboard("top_songs")) == [("b", 5), ("c", 5)]
    assert shown(stage.leaderboard("top_two")) == [("b", 5)]
    sink.publish(tick({"a": 9}, NOW + SECOND_US, 120))
    leaderboard = stage.leaderboard("top_songs")
    assert shown(leaderboard) == [("a", 9)]
    assert leaderboard is not None
    assert (leaderboard.start_us, leaderboard.end_us, leaderboard.offset_vector) == (
        NOW - 9 * SECOND_US,
        NOW + SECOND_US,
        offset_vector(120),
    )
    assert shown(stage.leaderboard("top_two")) == [("b", 5)]  # every other second


def test_two_sinks_give_the_same_bytes_and_the_newest_stays() -> None:
    stage = Stage()
    first, second = stage.sink(), stage.sink()
    ticks = [tick({"a": i + 1, "b": 2}, NOW + i * SECOND_US, 100 + i) for i in range(4)]
    for emitted in ticks:
        first.publish(emitted)
    before = stage.leaderboard("top_songs")
    for emitted in ticks:
        second.publish(emitted)
    assert stage.leaderboard("top_songs") == before
    assert (first.written, second.written) == (6, 0)


def test_a_late_event_that_changes_a_leaderboard_is_said_with_old_and_new_rows_and_its_cause() -> (
    None
):
    stage = Stage()
    sink = stage.sink()
    sink.publish(tick({"a": 3, "b": 2, "c": 1}, NOW, 100))
    sink.publish(tick({"a": 3, "b": 2, "c": 1}, NOW + SECOND_US, 110))
    sink.correct(late([(NOW, "c", 1, 3), (NOW + SECOND_US, "c", 1, 2)], 120))
    (record,) = stage.topic.records  # at the later end c has 2 as b has, and comes after it
    topic, key, value = record
    assert topic == "top_songs.corrections"
    assert json.loads(key) == {"leaderboard": "top_songs", "end_us": NOW}
    document = json.loads(value)
    assert [(row["rank"], row["entity"], row["value"]) for row in document["old"]] == [
        (1, {"song_id": "a"}, 3), (2, {"song_id": "b"}, 2),
    ]  # fmt: skip
    assert [row["entity"]["song_id"] for row in document["new"]] == ["a", "c"]
    assert document["cause"] == {"topic_id": TOPIC, "partition": 0, "offset": 119}
    assert (document["version"], document["start_us"]) == (
        offset_vector(120).get((TOPIC, 0)),
        NOW - 10 * SECOND_US,
    )
    assert shown(stage.leaderboard("top_songs")) == [("a", 3), ("b", 2)]


def test_the_leaderboard_that_stands_gets_the_newest_truth() -> None:
    stage = Stage()
    sink = stage.sink()
    sink.publish(tick({"a": 3, "b": 2, "c": 1}, NOW, 100))
    sink.correct(late([(NOW, "c", 1, 4)], 120))
    leaderboard = stage.leaderboard("top_songs")
    assert shown(leaderboard) == [("c", 4), ("a", 3)]
    assert leaderboard is not None
    assert leaderboard.offset_vector == offset_vector(120)
    sink.publish(tick({"a": 3, "b": 2, "c": 1}, NOW, 100))  # an older one, by another emitter
    assert stage.leaderboard("top_songs") == leaderboard


def test_what_was_said_is_not_said_again_and_what_may_be_lost_is_said_the_same() -> None:
    stage = Stage()
    first = stage.sink()
    ticks = tick({"a": 3, "b": 2, "c": 1}, NOW, 100)
    first.publish(ticks)
    first.correct(late([(NOW, "c", 1, 4)], 120))
    stage.topic.broken = True
    with pytest.raises(StoreUnavailable):
        first.flush()
    remembered = stage.store.run(ReadRememberedLeaderboard("top_songs", NOW))
    assert remembered is not None
    # as it was shown: no correction is remembered before it stands
    assert remembered.offset_vector == offset_vector(100)
    stage.topic.broken = False
    second = stage.sink()  # starts again from its own offset vector
    second.publish(ticks)
    second.correct(late([(NOW, "c", 1, 4)], 120))
    second.flush()
    assert stage.topic.records[0] == stage.topic.records[1]
    third = stage.sink()
    third.correct(late([(NOW, "c", 1, 4)], 120))
    assert len(stage.topic.records) == 2


def test_corrections_go_on_after_a_restart_from_what_is_remembered() -> None:
    stage = Stage()
    before = stage.sink()
    before.publish(tick({"a": 3, "b": 2, "c": 1}, NOW, 100))
    before.flush()
    after = stage.sink()
    after.correct(late([(NOW, "c", 1, 2)], 120))
    after.correct(late([(NOW, "b", 2, 1)], 130))
    assert [json.loads(value)["version"] for *_, value in stage.topic.records] == [130]
    assert [row["entity"]["song_id"] for row in json.loads(stage.topic.records[0][2])["new"]] == [
        "a",
        "c",
    ]


def test_a_leaderboard_older_than_what_is_remembered_is_counted_as_not_corrected() -> None:
    stage = Stage()
    sink = stage.sink()
    sink.publish(tick({"a": 3}, NOW, 100))
    sink.flush()
    stage.clock.advance(61 * SECOND_US)
    sink.correct(late([(NOW, "a", 3, 4)], 120))
    assert (sink.uncorrected, stage.topic.records) == (1, [])


def test_a_store_that_went_away_costs_a_leaderboard_and_no_more() -> None:
    stage = Stage()
    sink = stage.sink()
    sink.publish(tick({"a": 3}, NOW, 100))
    stage.server.restart()
    sink.publish(tick({"a": 4}, NOW + SECOND_US, 110))
    assert sink.failures == 1
    sink.publish(tick({"a": 5}, NOW + 2 * SECOND_US, 120))
    assert shown(stage.leaderboard("top_songs")) == [("a", 5)]


def test_leaderboards_that_are_stale_before_they_are_written_are_left_to_the_newest() -> None:
    stage = Stage()
    sink = stage.sink()
    stage.clock.advance(60 * SECOND_US)
    for i in range(6):
        sink.publish(tick({"a": i + 1}, NOW + i * SECOND_US, 100 + i))
    assert stage.leaderboard("top_songs") is None
    sink.flush()
    assert shown(stage.leaderboard("top_songs")) == [("a", 6)]
    assert shown(stage.leaderboard("top_two")) == [("a", 5)]
    assert sink.written == 2
    assert sink.take_skipped() == {"top_songs": 5, "top_two": 2}
    assert sink.take_skipped() == {}
    # it stands until the next round, though nobody makes it anew for more than two periods
    stage.clock.advance(10 * SECOND_US)
    assert shown(stage.leaderboard("top_songs")) == [("a", 6)]
    stage.clock.advance(30 * SECOND_US)
    assert stage.leaderboard("top_songs") is None
    # what is in time again takes the place of what waits
    sink.publish(tick({"a": 7}, NOW + 90 * SECOND_US, 200))
    sink.publish(tick({"a": 8}, NOW + 99 * SECOND_US, 201))
    assert shown(stage.leaderboard("top_songs")) == [("a", 8)]
    assert sink.take_skipped() == {"top_songs": 1}


def test_a_skipped_leaderboard_has_no_correction_and_the_one_that_was_shown_has() -> None:
    stage = Stage()
    sink = stage.sink()
    stage.clock.advance(30 * SECOND_US)
    sink.publish(tick({"a": 3, "b": 2}, NOW, 100))
    sink.publish(tick({"a": 3, "b": 2}, NOW + SECOND_US, 101))
    sink.correct(late([(NOW, "b", 2, 4), (NOW + SECOND_US, "b", 2, 4)], 120))
    sink.flush()
    (record,) = stage.topic.records
    correction = json.loads(record[2])
    assert correction["end_us"] == NOW + SECOND_US
    assert [row["value"] for row in correction["old"]] == [3, 2]
    assert shown(stage.leaderboard("top_songs")) == [("b", 4), ("a", 3)]
    # of one that is no longer the newest only the record speaks
    sink.publish(tick({"a": 3, "b": 4}, NOW + 29 * SECOND_US, 130))
    sink.correct(late([(NOW + SECOND_US, "a", 3, 9)], 140))
    assert len(stage.topic.records) == 2
    assert shown(stage.leaderboard("top_songs")) == [("b", 4), ("a", 3)]


def test_a_leaderboard_that_was_seen_is_corrected_also_by_a_restart_that_skips_it() -> None:
    stage = Stage()
    stage.sink().publish(tick({"a": 3, "b": 2}, NOW, 100))  # and dies before its progress is saved
    stage.clock.advance(10 * SECOND_US)
    again = stage.sink()
    for i in range(2):
        again.publish(tick({"a": 3, "b": 2}, NOW + i * SECOND_US, 100 + i))
    assert again.take_skipped()["top_songs"] == 1
    again.correct(late([(NOW, "b", 2, 4)], 120))
    (record,) = stage.topic.records
    assert json.loads(record[2])["end_us"] == NOW
    again.flush()
    # the newer one, which the event is not in
    assert shown(stage.leaderboard("top_songs")) == [("a", 3), ("b", 2)]
