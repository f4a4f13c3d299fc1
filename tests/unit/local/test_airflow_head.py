"""Airflow's parts live and end together."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slicewise.local.airflow import head as airflow_head


def _program(folder: Path, scheduler: str) -> Path:
    """Takes Airflow's place: notes each part, which then does nothing for long."""
    program = folder / "airflow"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/called\n'
        f"[ $1 = db ] && exit 0\n[ $1 = scheduler ] && {scheduler}\nexec sleep 60\n"
    )
    program.chmod(0o755)
    return program


def _start(program: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "slicewise.local.airflow.head", str(program)])


def _until_called(folder: Path, times: int) -> list[str]:
    deadline = time.monotonic() + 30
    while True:
        called = (
            (folder / "called").read_text().splitlines() if (folder / "called").exists() else []
        )
        if len(called) >= times:
            return called
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_end_of_one_part_ends_the_whole_with_an_error(tmp_path: Path) -> None:
    with _start(_program(tmp_path, "exit 3")) as head:
        assert head.wait(40) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_stops_every_part(tmp_path: Path, number: signal.Signals) -> None:
    with _start(_program(tmp_path, "exec sleep 60")) as head:
        called = _until_called(tmp_path, 1 + len(airflow_head.PARTS))
        assert called[0] == "db migrate"
        assert sorted(called[1:]) == sorted(" ".join(part) for part in airflow_head.PARTS)
        head.send_signal(number)
        assert head.wait(40) == 0


def test_no_part_starts_on_a_database_that_cannot_be_migrated(tmp_path: Path) -> None:
    program = _program(tmp_path, "exit 0")
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/called\nexit 7\n')
    with _start(program) as head:
        assert head.wait(40) == 7
    assert (tmp_path / "called").read_text() == "db migrate\n"
