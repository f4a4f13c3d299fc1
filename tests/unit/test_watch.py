"""The watcher goes by pid files: a dead process is started, a file that is gone means that somebody stopped it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slicewise.clock import ManualClock
from slicewise.local import process, watch
from slicewise.local.process import Birth
from slicewise.local.state import StateFolder
from slicewise.local.watch import Watcher

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

    def watcher(self) -> Watcher:
        return Watcher(self.state, ("redis", "kafka"), self._start, self.clock)

    def lives(self, name: str) -> None:
        birth = Birth.of(os.getpid())
        assert birth is not None
        process.write_pid_file(self.state.pid_file(name), birth)

    def died(self, name: str) -> None:
        process.write_pid_file(self.state.pid_file(name), Birth(os.getpid(), "another-boot:1"))

    def _start(self, name: str) -> str:
        self.started.append(name)
        return self.error


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "state")


def test_what_lives_and_what_nobody_started_is_left_alone(world: World) -> None:
    world.lives("redis")
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


def test_a_start_that_fails_is_kept_with_its_reason(world: World) -> None:
    world.died("redis")
    world.error = "no memory"
    world.watcher().look()
    found = watch.read(world.state)["redis"]
    assert (found.in_a_row, found.error, found.next_us) == (1, "no memory", NOW + S)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"redis": {"at_us": []}}', "\x00"])
def test_a_torn_file_is_none(world: World, text: str) -> None:
    folder = world.state.path / watch.NAME
    folder.mkdir()
    (folder / "restarts.json").write_text(text)
    assert watch.read(world.state) == {}
    world.died("redis")
    world.watcher().look()
    assert world.started == ["redis"]
