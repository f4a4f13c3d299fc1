"""The real-time lane's driver has a slot for each partition or says what is missing; and a store
that is away ends no real-time lane."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slicewise.clock import ManualClock
from slicewise.errors import GapRefused, ServerError, ServerRunChanged, StoreUnavailable, TopicGone
from slicewise.lifecycle.realtime import SPARE_SLOTS
from slicewise.local.servers.stream import realtime_summary
from slicewise.settings import Settings
from slicewise.spark import driver as driver_module
from slicewise.spark.realtime import driver as realtime_driver
from slicewise.spark.realtime.driver import RealtimeDriver


@dataclass
class Session:
    """A session of a cluster that gives at most so many slots."""

    slots: int
    given: int
    stopped: bool = False
    sparkContext: Any = field(default_factory=lambda: SimpleNamespace(master="spark://here"))  # noqa: N815

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def driver(tmp_path: Path) -> RealtimeDriver:
    return RealtimeDriver(Settings.load({"SLICEWISE_STATE": str(tmp_path)}), ManualClock(0))


def away(_: str) -> Any:
    raise StoreUnavailable("away")


def sessions(monkeypatch: pytest.MonkeyPatch, given: int) -> list[Session]:
    made: list[Session] = []

    def session(_: Settings, slots: int) -> Session:
        made.append(Session(slots, given))
        return made[-1]

    monkeypatch.setattr(realtime_driver, "realtime_session", session)
    monkeypatch.setattr(
        realtime_driver, "task_slots", lambda session: min(session.slots, session.given)
    )
    monkeypatch.setattr(realtime_driver, "_EXECUTORS_S", 0.0)
    return made


def test_partitions_that_fit_need_no_other_session(
    driver: RealtimeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sessions(monkeypatch, given=1_000)
    driver._have({"plays": 2})
    driver._have({"plays": 2, "orders": SPARE_SLOTS // 2 - 2})
    assert len(made) == 1
    driver._have({"plays": 2, "orders": SPARE_SLOTS // 2 - 1})
    assert [session.stopped for session in made] == [True, False]
    assert made[-1].slots == SPARE_SLOTS + 2


@pytest.mark.parametrize(("given", "relieves"), [(4, True), (3, False)])
def test_batches_change_without_a_pause_where_a_second_query_has_slots_too(
    driver: RealtimeDriver, monkeypatch: pytest.MonkeyPatch, given: int, relieves: bool
) -> None:
    sessions(monkeypatch, given)
    driver._have({"plays": 2})
    assert driver._relieves is relieves


def test_fewer_slots_than_partitions_are_told_with_what_to_do(
    driver: RealtimeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions(monkeypatch, given=3)
    with pytest.raises(ServerError, match="3 slots for 5 partitions") as raised:
        driver._have({"plays": 2, "orders": 3})
    assert raised.value.where == "spark://here, plays: 2, orders: 3"
    assert "5 cores" in str(raised.value.expected)
    assert "SLICEWISE_REALTIME=off" in str(raised.value.next_step)


class Query:
    active = True
    drained = False

    def lag(self) -> dict[int, int]:
        return {}

    def error(self) -> None:
        return None

    def begin_drain(self) -> None:
        pass

    def drain(self) -> None:
        self.drained = True


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (StoreUnavailable("away"), False),
        (TopicGone("no topic of this name"), True),
        (ServerRunChanged("another server run"), True),
        (GapRefused("a gap"), True),
    ],
)
def test_a_store_that_is_away_ends_no_real_time_lane(
    driver: RealtimeDriver, error: Any, ends: bool
) -> None:
    query = Query()
    driver._queries["plays"] = query
    driver._bound = ("as planned",)
    driver._interrupt(error)
    assert query.drained == ends
    assert (driver._bound is None) == ends


def test_a_source_whose_slots_are_missing_says_so_to_whoever_asks(
    driver: RealtimeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions(monkeypatch, given=1)
    (driver.settings.state_dir / driver.part).mkdir(parents=True)
    plan = SimpleNamespace(
        source=SimpleNamespace(name="plays", is_opening=False), start={0: 0, 1: 0}
    )
    monkeypatch.setattr(realtime_driver, "KafkaLog", lambda _: nullcontext())
    monkeypatch.setattr(realtime_driver, "plan_stream", lambda *_: plan)
    monkeypatch.setattr(realtime_driver, "realtime_units", lambda *_: ["a unit"])
    monkeypatch.setattr(driver_module, "open_store", away)
    with pytest.raises(ServerError, match="1 slots for 2 partitions"):
        driver._start(cast(Any, SimpleNamespace(sources=[plan.source])), "", cast(Any, None))
    beat = json.loads((driver.settings.state_dir / driver.part / "heartbeat.json").read_text())
    assert realtime_summary(beat).startswith("plays waits: 1 slots for 2 partitions")
