"""A driver ends where another of its part was started later, and for no loss of the store."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from slicewise.clock import ManualClock
from slicewise.errors import DriverSuperseded
from slicewise.settings import Settings
from slicewise.spark import driver as module
from slicewise.spark.driver import Driver
from slicewise.spark.fence import Fence
from slicewise.spark.microbatch.figures import BatchFigures
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.status import PutStatus, ReadStatus
from slicewise.stores.online.port import OnlineStore

NOW = 1_700_000_000_000_000


@pytest.fixture
def store() -> OnlineStore:
    return open_memory(MemoryServer(ManualClock(NOW)))


def test_the_driver_that_was_started_last_goes_on_whatever_its_clock_says(
    store: OnlineStore,
) -> None:
    first, second = Fence("stream", ManualClock(NOW)), Fence("stream", ManualClock(NOW - 3_600))
    first.check(store)
    first.check(store)
    second.check(store)
    with pytest.raises(DriverSuperseded, match="another driver of part 'stream' was started later"):
        first.check(store)
    second.check(store)


def test_drivers_of_other_parts_are_none_of_its_business(store: OnlineStore) -> None:
    stream, realtime = (Fence(part, ManualClock(NOW)) for part in ("stream", "tail"))
    for fence in (stream, realtime, stream, realtime):
        fence.check(store)


@pytest.mark.parametrize("text", [None, "{", '{"number": "x"}', "[]"])
def test_a_number_that_was_lost_or_torn_is_written_again(text: str | None) -> None:
    server = MemoryServer(ManualClock(NOW))
    fence = Fence("stream", ManualClock(NOW))
    fence.check(open_memory(server))
    store = open_memory(MemoryServer(ManualClock(NOW)))  # emptied
    if text is not None:
        store.run(PutStatus("driver:stream", text))
    fence.check(store)
    written = store.run(ReadStatus("driver:stream"))
    assert written is not None
    assert json.loads(written)["number"] == NOW


def test_an_older_copy_of_the_store_ends_nobody(store: OnlineStore) -> None:
    before, after = Fence("stream", ManualClock(NOW)), Fence("stream", ManualClock(NOW + 1))
    before.check(store)
    old = store.run(ReadStatus("driver:stream"))
    assert old is not None
    after.check(store)
    store.run(PutStatus("driver:stream", old))
    after.check(store)
    with pytest.raises(DriverSuperseded):
        before.check(store)


def test_a_driver_that_is_superseded_ends_with_a_status_of_its_own_and_leaves_the_stores_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = MemoryServer(ManualClock(NOW))
    settings = Settings.load({"SLICEWISE_STATE": str(tmp_path)})
    driver = Driver(settings, ManualClock(NOW))
    driver._lane("plays", BatchFigures)
    monkeypatch.setattr(driver, "_open", lambda: None)
    monkeypatch.setattr(driver, "_close", lambda: None)
    monkeypatch.setattr(driver, "_obey_signals", lambda: None)
    monkeypatch.setattr(driver._healer, "look", lambda _: SimpleNamespace())
    monkeypatch.setattr(module, "open_store", lambda _: open_memory(server))
    driver._fence.number = NOW
    Fence("stream", ManualClock(NOW + 1)).check(open_memory(server))
    assert driver.run() == 4
    assert open_memory(server).run(ReadStatus("stream:plays")) is None
    beat = json.loads((tmp_path / "stream" / "heartbeat.json").read_text())
    assert beat["sources"]["plays"]["state"] == "failed"
    assert "was started later" in beat["sources"]["plays"]["last_error"]
