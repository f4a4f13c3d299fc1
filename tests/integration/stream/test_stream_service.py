"""At most one stream driver runs per state folder, whoever asks; and stopping it leaves nothing of
it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from slicewise.lifecycle.supervision import Patience
from slicewise.local.servers import process, stream, supervisor
from slicewise.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    loaded = Settings.load(
        {"SLICEWISE_STATE": str(tmp_path / "state"), "SLICEWISE_REALTIME": "off"}
    )
    yield supervisor.up(loaded, print, only=["redis", "kafka"])
    supervisor.down(loaded, print)
    assert process.marked(tmp_path / "state") == []


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_many_that_ensure_at_once_start_one_driver_and_a_killed_one_is_started_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(lambda _: stream.ensure_stream(settings), range(4)))
    [pid] = {status.pid for status in result}
    assert pid is not None
    _until(lambda: stream.stream_status(settings).well, 90)
    assert stream.ensure_stream(settings).pid == pid

    parts = [birth for birth in process.marked(settings.state_dir, stream.NAME) if birth.pid != pid]
    assert "java" in {psutil.Process(birth.pid).name() for birth in parts}
    driver = process.root_of(settings.state_dir, stream.NAME)
    assert driver is not None
    driver.signal(signal.SIGKILL)
    assert process.wait_gone([driver], 10) == []
    assert not stream.stream_status(settings).running

    again = stream.ensure_stream(settings)
    assert again.pid not in (None, pid)
    assert again.pid is not None
    assert again.heartbeat_age_s is None, "the last driver's sign of life is not the new one's"
    assert not any(birth.alive() for birth in parts), (
        "the killed driver's JVM is gone before the next one starts"
    )

    # one that hangs is alive, and silent
    _until(lambda: stream.stream_status(settings).well, 90)
    hung = process.root_of(settings.state_dir, stream.NAME)
    assert hung is not None
    hung.signal(signal.SIGSTOP)
    monkeypatch.setattr(stream, "PATIENCE", Patience(silent_us=2_000_000, start_us=1_000_000))
    _until(lambda: (stream.stream_status(settings).heartbeat_age_s or 0) > 2.0, 30)
    assert stream.ensure_stream(settings).pid not in (None, again.pid)
    assert not hung.alive()

    # so is one that hangs before its first sign of life
    # marks itself when it runs
    _until(lambda: process.root_of(settings.state_dir, stream.NAME) is not None, 10)
    silent = process.root_of(settings.state_dir, stream.NAME)
    assert silent is not None
    silent.signal(signal.SIGSTOP)
    assert stream.stream_status(settings).heartbeat_age_s is None
    time.sleep(1.1)
    assert stream.ensure_stream(settings).pid not in (None, silent.pid)
    assert not silent.alive()
    monkeypatch.undo()
    assert stream.stop_stream(settings)
    assert process.marked(settings.state_dir, stream.NAME) == []
    assert not stream.stop_stream(settings)
