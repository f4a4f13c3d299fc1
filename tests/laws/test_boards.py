"""Boards and corrections are functions of the log: in any batches, each is a count of the events below its cover."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import pytest

import slicewise as sw
from slicewise.clock import ManualClock
from slicewise.codec.leaderboards import StoredLeaderboard
from slicewise.emission.leaderboards import LeaderboardSink
from slicewise.emission.ticks import EmittedView, Tick, emitted_views
from slicewise.emission.view import QUIET_US, Progress, ViewEmission
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.keys import entity_tags
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operation import Operation
from slicewise.stores.online.operations.connecting import Initialise
from slicewise.stores.online.operations.leaderboards import PublishLeaderboard
from slicewise.stores.online.port import OnlineStore
from tests.laws.test_emission import BEGIN, TOPIC, Event, S, events_of, records

K = 2
EVERYTHING = {0: 1 << 60, 1: 1 << 60}
Rows = list[tuple[Any, Any]]


def deployment_of() -> tuple[Deployment, EmittedView]:
    source = sw.KafkaSource(
        "plays", schema={"user": "string", "x": "double", "t": "timestamp_us"}, timestamp="t", max_ahead="2s"
    )
    view = sw.FeatureView(
        "v",
        source=source,
        entity=["user"],
        features=[sw.Feature("n", sw.count(), ["10s"]), sw.Feature("s", sw.sum("x"), [sw.tumbling("10s")])],
    )
    boards = [
        sw.Leaderboard("counts", view=view, by="n_10s", k=K, late="correct", correct_within="1h"),
        sw.Leaderboard("sums", view=view, by="s_tumbling_10s", k=K, every="10s"),
    ]
    deployment = plan(Project.of("p", [view, *boards]))
    [emitted] = emitted_views(deployment, "plays")
    return deployment, emitted


class Topic:
    """Receiver of corrections."""

    def __init__(self) -> None:
        self.records: list[tuple[str, bytes, bytes]] = []

    def append(self, topic: str, key: bytes, value: bytes) -> None:
        self.records.append((topic, key, value))

    def flush(self) -> None:
        pass


R = TypeVar("R")


class Seen:
    """A store's boards, each as it was first shown."""

    def __init__(self, store: OnlineStore, boards: dict[tuple[str, int], StoredLeaderboard]) -> None:
        self._store, self._boards = store, boards

    def run(self, operation: Operation[R]) -> R:
        if isinstance(operation, PublishLeaderboard):
            self._boards.setdefault((operation.name, operation.board.end_us), operation.board)
        return self._store.run(operation)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def run(
    events: Sequence[Event], rng: random.Random, behind: bool = False
) -> tuple[dict[tuple[str, int], StoredLeaderboard], list[Any], int]:
    """The first board of every name and window end, all corrections, and how many boards were skipped; in batches of
    random size. behind: at times the emission catches up."""
    deployment, emitted = deployment_of()
    server = MemoryServer(ManualClock(BEGIN))
    open_memory(server).run(Initialise())
    topic = Topic()
    boards: dict[tuple[str, int], StoredLeaderboard] = {}
    clock = ManualClock(BEGIN)
    sink = LeaderboardSink(deployment, 1, lambda: cast(OnlineStore, Seen(open_memory(server), boards)), clock, topic)
    emission = ViewEmission(emitted, TOPIC, {0: 0, 1: 0}, Progress(BEGIN, BEGIN, OffsetVector({})))
    left = {p: sorted((e for e in events if e.partition == p), key=lambda e: e.offset) for p in (0, 1)}
    ends = {p: rest[-1].offset + 1 if rest else 0 for p, rest in left.items()}
    until = max(e.kafka_time for e in events) + 30 * S
    while any(left.values()):
        partition = rng.choice([p for p in left if left[p]])
        n = rng.randint(1, 30)
        batch, left[partition] = left[partition][:n], left[partition][n:]
        emission.take(records(batch, partition, emitted.units, batch[-1].offset + 1))
        if not any(left.values()):
            for p, end in ends.items():
                emission.read_to(p, end, until + QUIET_US)
        for _, found in emission.advance():
            for each in found:
                if isinstance(each, Tick):
                    if behind:
                        clock.set(max(clock.now_us(), each.end_us + rng.choice((0, 0, 30)) * S))
                    sink.publish(each)
                else:
                    sink.correct(each)
            if rng.random() < 0.3:
                sink.flush()
    sink.flush()
    return boards, topic.records, sum(sink.skipped.values())


def counted(events: Sequence[Event], below: dict[int, int], end_us: int) -> Rows:
    """By brute force."""
    counts: dict[str, int] = {}
    for e in events:
        if e.offset < below.get(e.partition, 0) and end_us - 10 * S <= e.time < end_us:
            counts[e.user] = counts.get(e.user, 0) + 1
    return sorted(counts.items(), key=lambda each: (-each[1], entity_tags((("user", "string"),), [[each[0]]])[0]))[:K]


@pytest.mark.parametrize("seed", range(6))
def test_boards_and_corrections_are_counts_of_the_log_in_any_batches(seed: int) -> None:
    events = events_of(seed)
    boards, corrections, skipped = run(events, random.Random(seed))
    assert (boards, corrections, 0) == run(events, random.Random(seed + 100))  # as bytes, whatever the batches
    assert skipped == 0
    compared(events, boards, corrections)


def test_what_is_shown_and_corrected_while_it_catches_up_are_counts_of_the_log_too() -> None:
    left_out = 0
    for seed in range(6, 12):
        events = events_of(seed)
        boards, corrections, skipped = run(events, random.Random(seed), behind=True)
        compared(events, boards, corrections)
        left_out += skipped
    assert left_out > 20


def compared(events: Sequence[Event], boards: dict[tuple[str, int], StoredLeaderboard], corrections: list[Any]) -> None:
    """Boards as they were first shown, then each correction, against a count of the log below its cover."""
    newest: dict[int, Rows] = {}
    for (name, end_us), board in boards.items():
        below = {p: offset for (_, p), offset in board.cover.offsets.items()}
        if name == "counts":
            newest[end_us] = [(row.key[0], row.value) for row in board.rows]
            assert newest[end_us] == counted(events, below, end_us)
    assert {name for name, _ in boards} == {"counts", "sums"}
    said = 0
    for _, _, value in corrections:
        record = json.loads(value)
        below = {int(p): offset for p, offset in record["cover"][TOPIC].items()}
        rows = [(row["entity"]["user"], row["value"]) for row in record["new"]]
        assert rows == counted(events, below, record["end_us"])
        assert newest[record["end_us"]] == [(row["entity"]["user"], row["value"]) for row in record["old"]]
        newest[record["end_us"]] = rows
        said += 1
    assert newest == {end_us: counted(events, EVERYTHING, end_us) for end_us in newest}
    assert said > 0
