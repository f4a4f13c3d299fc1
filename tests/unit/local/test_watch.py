"""The watcher goes by pid files: a dead process is started, a file that is gone means that somebody
stopped it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slicewise.clock import ManualClock
from slicewise.lifecycle import restarts
from slicewise.local.servers import process, watch
from slicewise.local.servers.process import Birth
from slicewise.local.servers.state import StateFolder
from slicewise.local.servers.watch import Watcher

NOW = 1_700_000_000_000_000
S = 1_000_000


class World:
    """A state folder, and starts that are noted."""

    def __init__(self, folder: Path) -> None:
        self.state = StateFolder(folder)
        self.state.create()
        self.clock = ManualClock(NOW)
        self.started: list[str] = []
        self.error = ""
        self.meanwhile: Callable[[], None] | None = None
        """Act of somebody else before a start could be made."""

    def watcher(self) -> Watcher:
        return Watcher(self.state, ("redis", "kafka"), self._start, self.clock)

    def runs(self, name: str) -> None:
        birth = Birth.of(os.getpid())
        assert birth is not None
        process.write_pid_file(self.state.pid_file(name), birth)

    def died(self, name: str) -> None:
        process.write_pid_file(self.state.pid_file(name), Birth(os.getpid(), "another-boot:1"))

    def _start(self, name: str) -> str | None:
        self.started.append(name)
        if self.meanwhile is not None:
            self.meanwhile()
            return None
        return self.error


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "state")


def test_what_lives_and_what_nobody_started_is_left_alone(world: World) -> None:
    world.runs("redis")
    watcher = world.watcher()
    for _ in range(3):
        watcher.look()
    assert world.started == []
    assert not (world.state.path / watch.NAME).exists(), "an idle watcher writes nothing"


def test_what_died_is_started_in_order(world: World) -> None:
    world.died("kafka")
    world.died("redis")
    world.watcher().look()
    assert world.started == ["redis", "kafka"]


def test_what_was_stopped_while_it_waited_is_not_started(world: World) -> None:
    watcher = world.watcher()
    world.died("redis")
    watcher.look()
    watcher.look()  # it died again: a second to wait
    world.state.pid_file("redis").unlink()
    world.clock.advance(10 * S)
    watcher.look()
    assert world.started == ["redis"]


def test_another_watcher_goes_on_with_the_waits_of_the_one_before(world: World) -> None:
    world.died("redis")
    for _ in range(2):
        world.watcher().look()
    assert world.started == ["redis"]
    world.clock.advance(S)
    world.watcher().look()
    assert world.started == ["redis", "redis"]


def test_what_somebody_else_stopped_or_started_meanwhile_was_not_restarted(world: World) -> None:
    """`down` and `up` end a server, or find a dead one, before the file says so."""
    watcher = world.watcher()
    world.died("redis")
    world.meanwhile = lambda: world.state.pid_file("redis").unlink()
    watcher.look()
    watcher.look()
    result = watch.read(world.state)["redis"]
    assert (result.at_us, result.in_a_row, result.next_us) == ((), 0, None)
    world.died("redis")
    world.meanwhile = lambda: world.runs("redis")
    watcher.look()
    watcher.look()
    result = watch.read(world.state)["redis"]
    assert (result.at_us, result.in_a_row, result.next_us) == ((), 0, None)
    assert restarts.summary(result, NOW) == ""


def test_what_cannot_be_revived_is_tried_ever_later(world: World) -> None:
    """A pid file of a server that is not ours any more: its address was set to another's."""
    watcher = world.watcher()
    world.died("redis")
    world.meanwhile = lambda: None
    for _ in range(20):
        watcher.look()
        world.clock.advance(S // 2)
    assert len(world.started) == 4, "at once, and after 1, 2 and 4 s"
    assert watch.read(world.state)["redis"].at_us == ()


def test_what_cannot_be_kept_is_started_all_the_same(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk, here a file in the folder's place: what was done is known while this process
    lives."""
    world.died("redis")
    (world.state.path / watch.NAME).write_text("")
    watcher = world.watcher()
    watcher.look()
    world.died("kafka")
    watcher.look()
    assert world.started == ["redis", "kafka"]
    assert caplog.text.count("restarts_not_kept") == 1
    world.clock.advance(S)
    watcher.look()
    assert world.started == ["redis", "kafka", "redis"]
    (world.state.path / watch.NAME).unlink()
    for _ in range(2):
        world.clock.advance(2 * S)
        watcher.look()
    assert watch.read(world.state)["redis"].in_a_row == 3


def test_a_start_that_fails_is_kept_with_its_reason(world: World) -> None:
    world.died("redis")
    world.error = "no memory"
    world.watcher().look()
    result = watch.read(world.state)["redis"]
    assert (result.in_a_row, result.error, result.next_us) == (1, "no memory", NOW + S)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"redis": {"at_us": []}}', "\x00"])
def test_a_torn_file_is_none(world: World, text: str) -> None:
    folder = world.state.path / watch.NAME
    folder.mkdir()
    (folder / "restarts.json").write_text(text)
    assert watch.read(world.state) == {}
    world.died("redis")
    world.watcher().look()
    assert world.started == ["redis"]
