"""Only the process that was meant is ever signalled, and what was started is found again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slicewise.local.servers import process
from slicewise.local.servers.process import Birth


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Birth]:
    birth = _spawn(tmp_path, "exec sleep 60")
    yield birth
    birth.signal(signal.SIGKILL)
    process.wait_gone([birth], 10)


def _spawn(state: Path, script: str, service: str = "tried") -> Birth:
    env = {"PATH": os.defpath, process.STATE: str(state), process.SERVICE: service}
    return process.spawn(["/bin/sh", "-c", script], env, Path("/"), state / "log")


def _until(condition: object, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    assert callable(condition)
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_recycled_pid_is_not_signalled(sleeper: Birth) -> None:
    Birth(sleeper.pid, "another-boot:7").signal(signal.SIGKILL)
    assert not process.wait_gone([Birth(sleeper.pid, "another-boot:7")], 0)
    assert sleeper.alive()


def test_an_ended_process_is_dead_even_before_it_is_reaped(sleeper: Birth) -> None:
    os.kill(sleeper.pid, signal.SIGKILL)
    _until(lambda: not sleeper.alive())
    assert Birth.of(sleeper.pid) is None


def test_a_pid_file_gives_back_the_living_process_only(sleeper: Birth, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    assert process.read_pid_file(file) is None
    process.write_pid_file(file, sleeper)
    assert process.read_pid_file(file) == sleeper
    sleeper.signal(signal.SIGKILL)
    assert process.wait_gone([sleeper], 10) == []
    assert process.read_pid_file(file) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1}'])
def test_a_damaged_pid_file_names_nothing(content: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    assert process.read_pid_file(file) is None


def test_a_process_is_found_by_its_state_folder_and_service(sleeper: Birth, tmp_path: Path) -> None:
    assert process.marked(tmp_path) == [sleeper]
    assert process.marked(tmp_path, "tried") == [sleeper]
    assert process.marked(tmp_path, "other") == []
    assert process.marked(tmp_path / "other") == []


def test_a_process_that_only_shares_the_state_variable_is_foreign(tmp_path: Path) -> None:
    """A person's shell that exports SLICEWISE_STATE is not a service."""
    env = {"PATH": os.defpath, process.STATE: str(tmp_path)}
    shell = process.spawn(["/bin/sh", "-c", "exec sleep 60"], env, Path("/"), tmp_path / "log")
    assert process.marked(tmp_path) == []
    shell.signal(signal.SIGKILL)
    assert process.wait_gone([shell], 10) == []


def test_the_root_is_told_from_what_it_started(tmp_path: Path) -> None:
    root = _spawn(tmp_path, "sleep 60 & wait")
    _until(lambda: len(process.marked(tmp_path)) == 2)
    assert process.root_of(tmp_path, "tried") == root
    root.signal(signal.SIGKILL)
    assert process.wait_gone([root], 10) == []
    assert process.root_of(tmp_path, "tried") is None
    [orphan] = process.marked(tmp_path)
    orphan.signal(signal.SIGKILL)
    assert process.wait_gone([orphan], 10) == []


def test_a_started_process_hears_an_interrupt_whatever_its_starter_ignores(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        birth = _spawn(tmp_path, "exec sleep 60")
    finally:
        signal.signal(signal.SIGINT, before)
    birth.signal(signal.SIGINT)
    assert process.wait_gone([birth], 10) == []


def test_output_goes_to_the_log_and_is_appended(tmp_path: Path) -> None:
    for word in ("one", "two"):
        birth = _spawn(tmp_path, f"echo {word}; echo {word} >&2")
        assert process.wait_gone([birth], 10) == []
    assert (tmp_path / "log").read_text().split() == ["one", "one", "two", "two"]
