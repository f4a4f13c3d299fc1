"""Leaderboards and corrections are functions of the log: in any batches, each is a count of the
events below its offset vector."""

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
from slicewise.stores.online.operations.connecting import Initialise
from slicewise.stores.online.operations.leaderboards import PublishLeaderboard
from slicewise.stores.online.port import OnlineStore, Operation
from tests.laws.test_emission import BEGIN, TOPIC, Event, S, events_of, records
from tests.support.inputs.seeds import seeds

K = 2
EVERYTHING = {0: 1 << 60, 1: 1 << 60}
Rows = list[tuple[Any, Any]]


def deployment_of() -> tuple[Deployment, EmittedView]:
    source = sw.KafkaSource(
        "plays",
        schema={"user": "string", "x": "double", "t": "timestamp_us"},
        timestamp="t",
        max_ahead="2s",
    )
    view = sw.FeatureView(
        "v",
        source=source,
        entity=["user"],
        features=[
            sw.Feature("n", sw.count(), ["10s"]),
            sw.Feature("s", sw.sum("x"), [sw.tumbling("10s")]),
        ],
    )
    leaderboards = [
        sw.Leaderboard("counts", view=view, by="n_10s", k=K, late="correct", correct_within="1h"),
        sw.Leaderboard("sums", view=view, by="s_tumbling_10s", k=K, every="10s"),
    ]
    deployment = plan(Project.of("p", [view, *leaderboards]))
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
    """A store's leaderboards, each as it was first shown."""

    def __init__(
        self, store: OnlineStore, leaderboards: dict[tuple[str, int], StoredLeaderboard]
    ) -> None:
        self._store, self._leaderboards = store, leaderboards

    def run(self, operation: Operation[R]) -> R:
        if isinstance(operation, PublishLeaderboard):
            self._leaderboards.setdefault(
                (operation.name, operation.leaderboard.end_us), operation.leaderboard
            )
        return self._store.run(operation)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def run(
    events: Sequence[Event], rng: random.Random, behind: bool = False
) -> tuple[dict[tuple[str, int], StoredLeaderboard], list[Any], int]:
    """The first leaderboard of every name and window end, all corrections, and how many
    leaderboards were skipped; in batches of random size. behind: at times the emission catches
    up."""
    deployment, emitted = deployment_of()
    server = MemoryServer(ManualClock(BEGIN))
    open_memory(server).run(Initialise())
    topic = Topic()
    leaderboards: dict[tuple[str, int], StoredLeaderboard] = {}
    clock = ManualClock(BEGIN)
    sink = LeaderboardSink(
        deployment,
        1,
        lambda: cast(OnlineStore, Seen(open_memory(server), leaderboards)),
        clock,
        topic,
    )
    emission = ViewEmission(emitted, TOPIC, {0: 0, 1: 0}, Progress(BEGIN, BEGIN, OffsetVector({})))
    left = {
        p: sorted((e for e in events if e.partition == p), key=lambda e: e.offset) for p in (0, 1)
    }
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
        for _, outputs in emission.advance():
            for output in outputs:
                if isinstance(output, Tick):
                    if behind:
                        clock.set(max(clock.now_us(), output.end_us + rng.choice((0, 0, 30)) * S))
                    sink.publish(output)
                else:
                    sink.correct(output)
            if rng.random() < 0.3:
                sink.flush()
    sink.flush()
    return leaderboards, topic.records, sum(sink.skipped.values())


def counted(events: Sequence[Event], below: dict[int, int], end_us: int) -> Rows:
    """By brute force."""
    counts: dict[str, int] = {}
    for e in events:
        if e.offset < below.get(e.partition, 0) and end_us - 10 * S <= e.time < end_us:
            counts[e.user] = counts.get(e.user, 0) + 1
    return sorted(
        counts.items(),
        key=lambda item: (-item[1], entity_tags((("user", "string"),), [[item[0]]])[0]),
    )[:K]


@pytest.mark.parametrize("seed", seeds(range(6), quick=2))
def test_leaderboards_and_corrections_are_counts_of_the_log_in_any_batches(seed: int) -> None:
    events = events_of(seed)
    leaderboards, corrections, skipped = run(events, random.Random(seed))
    # as bytes, whatever the batches
    assert (leaderboards, corrections, 0) == run(events, random.Random(seed + 100))
    assert skipped == 0
    compared(events, leaderboards, corrections)


def test_what_is_shown_and_corrected_while_it_catches_up_are_counts_of_the_log_too() -> None:
    left_out = 0
    for seed in range(6, 12):
        events = events_of(seed)
        leaderboards, corrections, skipped = run(events, random.Random(seed), behind=True)
        compared(events, leaderboards, corrections)
        left_out += skipped
    assert left_out > 20


def compared(
    events: Sequence[Event],
    leaderboards: dict[tuple[str, int], StoredLeaderboard],
    corrections: list[Any],
) -> None:
    """Leaderboards as they were first shown, then each correction, against a count of the log below
    its offset vector."""
    newest: dict[int, Rows] = {}
    for (name, end_us), leaderboard in leaderboards.items():
        below = {p: offset for (_, p), offset in leaderboard.offset_vector.offsets.items()}
        if name == "counts":
            newest[end_us] = [(row.key[0], row.value) for row in leaderboard.rows]
            assert newest[end_us] == counted(events, below, end_us)
    assert {name for name, _ in leaderboards} == {"counts", "sums"}
    n_corrections = 0
    for _, _, value in corrections:
        record = json.loads(value)
        below = {int(p): offset for p, offset in record["cover"][TOPIC].items()}
        rows = [(row["entity"]["user"], row["value"]) for row in record["new"]]
        assert rows == counted(events, below, record["end_us"])
        assert newest[record["end_us"]] == [
            (row["entity"]["user"], row["value"]) for row in record["old"]
        ]
        newest[record["end_us"]] = rows
        n_corrections += 1
    assert newest == {end_us: counted(events, EVERYTHING, end_us) for end_us in newest}
    assert n_corrections > 0
