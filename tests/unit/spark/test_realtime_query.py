"""The real-time lane's query is relieved where all is acknowledged, ends once the next caught up,
and falls with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slicewise.clock import ManualClock
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.microbatch.figures import SourceFigures
from slicewise.spark.realtime import query as realtime
from slicewise.spark.realtime.figures import WriterFigures
from slicewise.spark.realtime.query import RealtimeQuery
from slicewise.spark.realtime.run import RealtimeRun
from slicewise.spark.realtime.spec import status_part
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.status import PutStatus

TOPIC = "ab" * 16
SECOND = 1_000_000
BATCH_S = 300


class Run(RealtimeRun):
    """Without Spark."""

    failed: str | None = None
    stopped = False

    @property
    def active(self) -> bool:
        return self.failed is None and not self.stopped

    def error(self) -> BaseException | None:
        return None if self.failed is None else RuntimeError(self.failed)

    def stop(self) -> None:
        self.stopped = True


class World:
    """The log, the committed offsets and what writers say; a tick of the driver looks at them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, relieves: bool = True) -> None:
        self.ends, self.committed, self.statuses = {0: 0, 1: 0}, {0: 0, 1: 0}, dict[int, str]()
        self.runs: list[Run] = []
        self.clock = ManualClock(0)
        self.store = open_memory(MemoryServer(self.clock))
        log = SimpleNamespace(
            check_topic=lambda *_: None, latest=lambda _: self.offset_vector(self.ends)
        )
        monkeypatch.setattr(realtime, "KafkaLog", lambda _: log)
        monkeypatch.setattr(
            RealtimeQuery, "_begin", lambda query, _: query._runs.append(self.run({0: 0, 1: 0}))
        )
        monkeypatch.setattr(RealtimeQuery, "_run", lambda _, *given: self.run(given[0]))
        source = SimpleNamespace(name="plays", topic="plays")
        plan = SimpleNamespace(source=source, topic_id=TOPIC, start={0: 0, 1: 0})
        figures = WriterFigures(SourceFigures("plays", self.clock))
        settings = Settings.load({"SLICEWISE_REALTIME_BATCH_S": str(BATCH_S)})
        self.query = RealtimeQuery(
            cast(Any, None), settings, cast(Any, plan), [], figures, relieves=relieves
        )

    def run(self, start: Mapping[int, int]) -> Run:
        name = str(len(self.runs))
        self.runs.append(Run(cast(Any, None), name, dict(start), self.clock.now_us(), None, Path()))
        return self.runs[-1]

    def offset_vector(self, offsets: Mapping[int, int]) -> OffsetVector:
        return OffsetVector({(TOPIC, p): offset for p, offset in offsets.items()})

    def report(self, run: Run, partition: int, acked: int) -> None:
        status = {"run": run.name, "partition": partition, "acked": acked, "rows": acked + 1}
        self.statuses[partition] = json.dumps(status | {"ms": {"bounds": [1.0], "counts": [0, 0]}})

    def tick(self, seconds: float = 0.5) -> None:
        self.clock.advance(int(seconds * SECOND))
        for partition, text in self.statuses.items():
            self.store.run(PutStatus(status_part("plays", partition), text))
        self.query.look(
            self.store, cast(Any, SimpleNamespace(committed=self.offset_vector(self.committed)))
        )


def begun(monkeypatch: pytest.MonkeyPatch, *, relieves: bool = True) -> World:
    """After a batch's time, with 100 and 50 events acknowledged, of which 90 and 60 are applied."""
    world = World(monkeypatch, relieves=relieves)
    world.tick()
    world.ends, world.committed = {0: 110, 1: 60}, {0: 90, 1: 60}
    world.report(world.runs[0], 0, 99)
    world.report(world.runs[0], 1, 49)
    world.tick(BATCH_S - 1)
    assert len(world.runs) == 1
    world.tick(1)
    return world


def test_the_next_query_begins_where_all_is_acknowledged_or_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = begun(monkeypatch)
    assert [run.start for run in world.runs] == [{0: 0, 1: 0}, {0: 100, 1: 60}]
    assert not world.runs[0].stopped


def test_a_query_ends_once_the_next_has_what_the_log_had_when_it_first_spoke(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = begun(monkeypatch)
    second = world.runs[1]
    world.ends = {0: 500, 1: 60}
    world.tick()
    world.report(second, 0, 300)  # it speaks: 500 is what it has to reach
    world.tick()
    world.ends = {0: 900, 1: 60}
    world.report(second, 0, 498)
    world.tick()
    assert [run.stopped for run in world.runs] == [False, False]
    world.report(second, 0, 499)
    world.tick()
    assert [run.stopped for run in world.runs] == [True, False]
    assert world.query.active
    assert world.query.lag() == {0: 400, 1: 0}


def test_on_a_quiet_log_nothing_waits_for_a_query_that_took_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # the micro-batch lane is behind what was acknowledged, and nothing comes that the next query
    # could acknowledge
    world = begun(monkeypatch)
    world.ends = {0: 100, 1: 60}
    world.tick()
    assert world.query.lag() == {0: 0, 1: 0}
    world.tick(11)
    assert [run.stopped for run in world.runs] == [True, False]
    assert world.query.lag() == {0: 0, 1: 0}


def test_where_either_of_two_fails_both_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (0, 1):
        world = begun(monkeypatch)
        world.runs[number].failed = "another server run"
        assert not world.query.active
        assert str(world.query.error()) == "another server run"
        world.query.drain()
        assert all(run.stopped for run in world.runs)


def test_without_slots_for_two_no_other_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(begun(monkeypatch, relieves=False).runs) == 1


def test_what_the_real_time_lane_brought_is_counted_once_while_both_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = begun(monkeypatch)
    assert world.query.figures.totals["rows"] == 150
    world.report(world.runs[1], 0, 9)
    world.tick()
    world.report(world.runs[0], 0, 120)  # of before: where both are in one JVM it speaks no more
    world.tick()
    assert world.query.figures.totals["rows"] == 160
