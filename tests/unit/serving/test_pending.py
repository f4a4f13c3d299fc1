"""Answers with pending events are training by token and `evaluate`, as bytes, before the
micro-batch lane has it and after."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import slicewise as sw
from slicewise.clock import ManualClock
from slicewise.errors import CodecError, Recovering
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.requests import checked
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.connection import SyncConnection
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.pending import EndRealtime
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.training.dataset import build_training_set
from slicewise.training.tables.instants import as_timestamps
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from tests.e2e.compare import as_bytes
from tests.support.stores.logged import given, served_archive
from tests.support.stores.served import TOPIC, Event, Served

NOW = 15_706 * DAY_US + 13 * HOUR_US + 20 * MINUTE_US + 7
USERS = ("ann", "bob", "zoë")
WINDOWS: list[sw.Window | str] = [
    "10m",
    "1d",
    sw.tumbling("1h", open=True),
    sw.hopping("2h", every="20m"),
    sw.sliding("1h", offset="5m"),
    sw.session("20m", max_length="5h"),
]
clicks = sw.KafkaSource(
    "clicks",
    schema={"user": "string", "shop": "string", "price": "double", "t": "timestamp_us"},
    timestamp="t",
    max_lateness="1d",
)


def features(windows: Sequence[sw.Window | str]) -> list[sw.Feature]:
    return [
        sw.Feature("n", sw.count(), windows=windows),
        sw.Feature("spent", sw.sum("price"), windows=windows),
        sw.Feature("dear", sw.max("price"), windows=windows),
        sw.Feature("latest", sw.last("price"), windows=windows),
    ]


VIEWS = (
    sw.FeatureView("few", source=clicks, entity=["user"], features=features(WINDOWS[:-1])),
    sw.FeatureView(
        "wide",
        source=clicks,
        entity=["user"],
        features=[
            *features(WINDOWS[-1:]),
            sw.Feature("shops", sw.top_k("shop", by="price", k=3), windows=WINDOWS),
            sw.Feature("often", sw.top_k_frequent("shop", k=2), windows=["1d"]),
        ],
    ),
    sw.FeatureView("ever", source=clicks, entity=["user"], features=features(["lifetime"])),
    sw.FeatureView("all", source=clicks, entity=[], features=features(["1h"])),
    sw.FeatureView(
        "exact",
        source=clicks,
        entity=["user"],
        features=features([sw.exact_range("3h"), sw.rows(4)]),
    ),
)
DEPLOYMENT = plan(Project("tails", VIEWS))
REFS = [f"{unit.view}:{feature.column}" for unit in DEPLOYMENT.units for feature in unit.features]
SLICED = [ref for ref in REFS if not ref.startswith("exact")]


def made(random_: random.Random, count: int) -> list[Event]:
    """Clicks of two partitions, some of them hours late, the newest of the last seconds."""
    offsets, events = [0, 0], []
    for i in range(count):
        partition = random_.randrange(2)
        ago = random_.choice([3 * SECOND_US, 8 * MINUTE_US, 3 * HOUR_US, 20 * HOUR_US])
        columns = {
            "user": random_.choice(USERS),
            "shop": random_.choice(["a", "b", "ü", None]),
            "price": random_.choice([None, 0.1, 1e16, -1e16, 7.25, float(i)]),
        }
        events.append(Event(partition, offsets[partition], NOW - random_.randrange(ago), columns))
        offsets[partition] += 1
    return events


class World:
    """A service over a store in memory: some events applied, some compacted, the rest among the
    pending events, or yet to come."""

    def __init__(self, seed: int = 3, bound: int = 1_000, *, to_come: bool = False) -> None:
        self.server = MemoryServer(ManualClock(NOW))
        self.events = made(random.Random(seed), 60)
        self.served = Served(open_memory(self.server), DEPLOYMENT)
        self.served.deploy()
        applied, self.rest = self.events[:40], self.events[40:]
        self.served.apply(applied)
        ends = {(TOPIC, p): 1 + max(e.offset for e in applied if e.partition == p) for p in (0, 1)}
        for hour in (NOW // HOUR_US - 1, NOW // HOUR_US - 2):
            self.served.compact(hour, OffsetVector(ends))
        self.served.begin_realtime()
        if not to_come:
            self.served.write_pending(self.rest, bound)
        self.service = FeatureService(ManualClock(NOW))
        self.connection = SyncConnection(lambda: open_memory(self.server))

    def read(
        self, refs: list[str] = REFS, users: Sequence[str] = USERS, min_token: str | None = None
    ) -> Answer:
        request = checked(refs, None, [{"user": user} for user in users], min_token=min_token)
        return self.connection.run(self.service.read(request))

    def read_view(self, view: str, users: Sequence[str] = USERS) -> Answer:
        refs = [ref for ref in REFS if ref.startswith(f"{view}:")]
        request = checked(refs, None, [{}] if view == "all" else [{"user": user} for user in users])
        return self.connection.run(self.service.read(request))

    def hot(self) -> list[dict[bytes, bytes]]:
        return [
            stored.fields for key, stored in self.server.hashes.items() if key.endswith(b":hot")
        ]


def bits(answer: Answer) -> list[list[bytes]]:
    return [list(map(as_bytes, result.values)) for result in answer.results]


def trained(events: Sequence[Event], answer: Answer) -> list[list[bytes]]:
    """The same rows by token, from all events of the log."""
    archive = served_archive(DEPLOYMENT.source("clicks"), events, NOW + DAY_US)
    at = as_timestamps(np.array([answer.t_us], np.int64))[0]
    spine = [{**result.entity, "at": at, "token": result.token} for result in answer.results]
    rows = build_training_set(
        DEPLOYMENT, archive, spine, list(answer.features), "token"
    ).table.to_pylist()
    return [[as_bytes(row[ref]) for ref in answer.features] for row in rows]


def evaluated(events: Sequence[Event], refs: Sequence[str]) -> list[list[bytes]]:
    rows: list[dict[str, Any]] = [{} for _ in USERS]
    for view in VIEWS:
        keyed = [{"user": user} if view.entity else {} for user in USERS]
        table = sw.evaluate(
            view, given(events, "t"), [{**key, "at": NOW, "mode": "live"} for key in keyed]
        )
        for row, line in zip(rows, table.to_pylist(), strict=True):
            row.update({f"{view.name}:{column}": value for column, value in line.items()})
    return [[as_bytes(row[ref]) for ref in refs] for row in rows]


@pytest.mark.parametrize("seed", [3, 4])
def test_an_answer_with_pending_events_is_training_by_token_and_evaluate_over_all_events(
    seed: int,
) -> None:
    world = World(seed)
    answer = world.read()
    assert bits(answer) == trained(world.events, answer) == evaluated(world.events, REFS)
    (source_freshness,) = answer.freshness
    assert source_freshness.pending_events > 0
    assert source_freshness.pending_newest_us == max(e.time_us for e in world.rest)
    wire = answer.to_wire(text=True)["freshness"]["clicks"]
    assert wire["tail"]["events"] == source_freshness.pending_events


def test_a_micro_batch_of_the_pending_events_changes_no_value_and_no_base_goes_back() -> None:
    world = World()
    before = world.read()
    of_ann = world.read(users=["ann"]).results[0].token
    assert of_ann == before.results[0].token
    world.read(users=["ann"], min_token=of_ann)
    world.served.apply(world.rest)
    world.read(users=["ann"], min_token=of_ann)
    assert not any(name[:2] == b"q:" for fields in world.hot() for name in fields)
    after = world.read()
    assert bits(after) == bits(before)
    assert after.freshness[0].pending_events == 0
    assert "tail" not in after.to_wire(text=True)["freshness"]["clicks"]
    for one, other in zip(before.results, after.results, strict=True):
        for was, now in zip(
            tokens.decode_all(one.token), tokens.decode_all(other.token), strict=True
        ):
            assert now.base.dominates(was.base)


def test_pending_events_of_another_server_run_is_left_out_until_the_next_one_begins() -> None:
    world = World()
    with_pending = world.read()
    world.server.restart()
    with pytest.raises(Recovering):
        world.read(SLICED)
    alone = world.read_view("few", ["nobody"])
    assert alone.freshness[0].pending_events == 0
    world.served.store = open_memory(world.server)
    world.served.begin_realtime()
    assert bits(world.read()) == bits(with_pending)


@pytest.mark.parametrize("view", ["few", "wide", "ever", "all"])
@pytest.mark.parametrize("remembers", [True, False])
@pytest.mark.parametrize("switched_off", [False, True])
def test_pending_events_that_were_answered_are_not_taken_back_by_a_restart(
    view: str, remembers: bool, switched_off: bool
) -> None:
    """A process that saw no answer before refuses by the fields that the store still holds. It does
    so also where no real-time lane begins any more and the driver has removed the entry of the
    last."""
    world = World()
    before = world.read_view(view)
    world.server.restart()
    if switched_off:
        assert open_memory(world.server).run(EndRealtime(DEPLOYMENT.sources[0].name))
    if not remembers:
        world.service = FeatureService(ManualClock(NOW))
    with pytest.raises(Recovering, match="began anew") as refused:
        world.read_view(view)
    assert refused.value.where == f"view {view!r}"
    world.served.store = open_memory(world.server)
    world.served.apply(world.rest)
    after = world.read_view(view)
    assert bits(after) == bits(before)
    bases_grow(before, after)


def test_a_global_view_is_answered_before_anything_of_its_topic_was_applied() -> None:
    world = World(to_come=True)
    empty = MemoryServer(ManualClock(NOW))
    Served(open_memory(empty), DEPLOYMENT).deploy()
    world.connection = SyncConnection(lambda: open_memory(empty))
    assert world.read_view("all").results[0].values[0] == 0


def bases_grow(before: Answer, after: Answer) -> None:
    for one, other in zip(before.results, after.results, strict=True):
        for was, now in zip(
            tokens.decode_all(one.token), tokens.decode_all(other.token), strict=True
        ):
            assert now.base.dominates(was.base)


@pytest.mark.parametrize("view", ["few", "ever", "all", "exact"])
@pytest.mark.parametrize("restarts", [1, 2])
def test_answered_events_that_a_crash_took_from_the_pending_events_are_missed_over_all_server_runs(
    view: str, restarts: int
) -> None:
    """Nothing of the newest events is left in the store, and a new real-time lane has begun: its
    entry counts what it has not brought again yet."""
    world = World(to_come=True)
    world.served.apply(world.rest[:10])
    world.server.restart()
    world.served.store = open_memory(world.server)
    world.served.begin_realtime()
    early = world.read_view(view)
    written = len(world.server._undo)
    world.served.write_pending(world.rest[10:])
    before = world.read_view(view)
    assert bits(early) != bits(before)
    world.server.restart(lost_writes=len(world.server._undo) - written)
    for _ in range(restarts - 1):
        if view != "all":
            world.read_view(view, ["nobody"])
        world.server.restart()
    world.served.store = open_memory(world.server)
    world.served.begin_realtime()
    if view != "all":
        assert world.read_view(view, ["nobody"]).flags == (), (
            "of whom nothing was answered that the committed offsets lack"
        )
    with pytest.raises(Recovering):
        world.read_view(view)
    world.served.write_pending(world.rest[10:])
    after = world.read_view(view)
    assert bits(after) == bits(before)
    bases_grow(before, after)


def test_what_a_global_view_answered_is_missed_also_once_another_partition_has_begun() -> None:
    """The view's entity has a tag of each partition of which something was applied: those become
    more."""
    world = World(to_come=True)
    world.server = MemoryServer(ManualClock(NOW))
    world.connection = SyncConnection(lambda: open_memory(world.server))
    columns = {"user": "ann", "shop": "a", "price": 1.0}
    first, second, third = (Event(1, offset, NOW - 5 * SECOND_US, columns) for offset in range(3))
    other = Event(0, 0, NOW - 5 * SECOND_US, columns)
    served = world.served = Served(open_memory(world.server), DEPLOYMENT)
    served.deploy()
    served.apply([first])
    served.begin_realtime()
    written = len(world.server._undo)
    served.write_pending([second, third])
    before = world.read_view("all")
    world.server.restart(lost_writes=len(world.server._undo) - written)
    with pytest.raises(Recovering):
        world.read_view("all")
    served.store = open_memory(world.server)
    served.apply([other])
    with pytest.raises(Recovering):
        world.read_view("all")
    served.apply([second, third])
    bases_grow(before, world.read_view("all"))


@pytest.mark.parametrize("view", ["few", "wide", "ever"])
@pytest.mark.parametrize("remembers", [True, False])
def test_pending_events_of_a_topic_that_is_gone_are_waited_for_by_nobody(
    view: str, remembers: bool
) -> None:
    """The topic was deleted and made again: what the log of before held beyond the committed
    offsets does not come again."""
    world = World()
    world.read_view(view)
    world.server.restart()
    with pytest.raises(Recovering):
        world.read_view(view)
    if not remembers:
        world.service = FeatureService(ManualClock(NOW))
    store = open_memory(world.server)
    metadata = store.run(
        Deploy(
            DEPLOYMENT,
            store.run(ReadMetadata()).deployment_version,
            topics={source.topic: "6" * 32 for source in DEPLOYMENT.sources},
        )
    )
    for unit in DEPLOYMENT.units:
        store.run(
            MarkReady(
                unit,
                metadata.starts[unit.storage_fingerprint],
                {unit.view: [unit.storage_fingerprint]},
            )
        )
    assert world.read_view(view).flags == ()


def test_events_behind_a_skipped_one_count_once_the_micro_batch_lane_has_it() -> None:
    world = World(bound=3)
    answer = world.read(SLICED)
    assert any(name[:2] == b"x:" for fields in world.hot() for name in fields)
    assert bits(answer) == trained(world.events, answer) != evaluated(world.events, SLICED)
    world.served.apply(world.rest)
    assert bits(world.read(SLICED)) == evaluated(world.events, SLICED)


def test_a_damaged_pending_field_is_told_with_what_to_do() -> None:
    world = World()
    for fields in world.hot():
        for name in [name for name in fields if name[:2] == b"q:"]:
            fields[name] = fields[name][:-1] + bytes([fields[name][-1] ^ 1])
    with pytest.raises(CodecError, match="a pending field is damaged") as caught:
        world.read(SLICED)
    assert "the micro-batch lane counts its events from the log" in str(caught.value.next_step)
    assert "slicewise rebuild" in str(caught.value.next_step)


def test_fields_of_the_format_before_are_passed_over() -> None:
    world = World()
    before = world.read()
    for fields in world.hot():
        fields |= {f"e:8:{TOPIC}:0:7".encode(): b"a member of then", b"n": b"1"}
    after = world.read()
    assert bits(after) == bits(before)
    assert after.freshness[0].pending_events == before.freshness[0].pending_events
