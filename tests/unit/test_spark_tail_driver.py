"""The tail's driver has a slot for each partition or says what is missing; and a store that is away ends no tail."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slicewise.clock import ManualClock
from slicewise.errors import GapRefused, IncarnationChanged, ServerError, StoreUnavailable
from slicewise.lifecycle.tail import SPARE_SLOTS
from slicewise.settings import Settings
from slicewise.spark import tail_driver
from slicewise.spark.tail_driver import TailDriver


@dataclass
class Session:
    """A session of a cluster that gives at most so many slots."""

    asked: int
    given: int
    stopped: bool = False
    sparkContext: Any = field(init=False)  # noqa: N815 - Spark names it

    def __post_init__(self) -> None:
        self.sparkContext = SimpleNamespace(defaultParallelism=min(self.asked, self.given), master="spark://here")

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def driver(tmp_path: Path) -> TailDriver:
    return TailDriver(Settings.load({"SLICEWISE_STATE": str(tmp_path)}), ManualClock(0))


def sessions(monkeypatch: pytest.MonkeyPatch, given: int) -> list[Session]:
    made: list[Session] = []

    def session(_: Settings, slots: int) -> Session:
        made.append(Session(slots, given))
        return made[-1]

    monkeypatch.setattr(tail_driver, "tail_session", session)
    monkeypatch.setattr(tail_driver, "_EXECUTORS_S", 0.0)
    return made


def test_partitions_that_fit_need_no_other_session(driver: TailDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sessions(monkeypatch, given=1_000)
    driver._have({"plays": 2})
    driver._have({"plays": 2, "orders": SPARE_SLOTS - 2})
    assert len(made) == 1
    driver._have({"plays": 2, "orders": SPARE_SLOTS - 1})
    assert [each.stopped for each in made] == [True, False]
    assert made[-1].asked == SPARE_SLOTS + 1


def test_fewer_slots_than_partitions_are_told_with_what_to_do(
    driver: TailDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions(monkeypatch, given=3)
    with pytest.raises(ServerError, match="3 slots for 5 partitions") as raised:
        driver._have({"plays": 2, "orders": 3})
    assert raised.value.where == "spark://here, plays: 2, orders: 3"
    assert "5 cores" in str(raised.value.expected)
    assert "SLICEWISE_TAIL=off" in str(raised.value.next_step)


class Query:
    active = True
    drained = False

    def lag(self) -> dict[int, int]:
        return {}

    def error(self) -> None:
        return None

    def drain(self) -> None:
        self.drained = True


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (StoreUnavailable("away"), False),
        (IncarnationChanged("another life"), True),
        (GapRefused("a gap"), True),
    ],
)
def test_a_store_that_is_away_ends_no_tail(driver: TailDriver, error: Any, ends: bool) -> None:
    query = Query()
    driver._queries["plays"] = query
    driver._bound = ("as planned",)
    driver._interrupt(error)
    assert query.drained == ends
    assert (driver._bound is None) == ends
