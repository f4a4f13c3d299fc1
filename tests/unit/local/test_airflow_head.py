"""Airflow's parts live and end together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from slicewise.local.airflow import head as airflow_head

_MAIN = """
import os, sys, time
imported_by = os.getpid()
def main():
    with open({called!r}, "a") as file:
        file.write(" ".join(sys.argv[1:]) + "\\n")
    with open({called!r} + ".imported", "a") as file:
        file.write(f"{{imported_by}}\\n")
    if sys.argv[1] == "db":
        {migration}
    elif sys.argv[1] == "scheduler":
        {scheduler}
    time.sleep(0 if sys.argv[1] in ("db", "pools") else 60)
"""


def _airflow(folder: Path, scheduler: str = "pass", migration: str = "pass") -> Path:
    """Takes Airflow's place: notes each part, which then does nothing for long."""
    for module in airflow_head._SHARED:
        file = folder.joinpath(*module.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    (folder / "setproctitle.py").write_text("def setproctitle(title): pass\n")
    (folder / "airflow" / "__main__.py").write_text(
        _MAIN.format(called=str(folder / "called"), scheduler=scheduler, migration=migration)
    )
    return folder / "bin" / "airflow"


def _start(program: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "slicewise.local.airflow.head", str(program), "jobs", "3"],
        env={**os.environ, "PYTHONPATH": str(program.parent.parent)},
    )


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
    with _start(_airflow(tmp_path, scheduler="sys.exit(3)")) as head:
        assert head.wait(40) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_stops_every_part(tmp_path: Path, number: signal.Signals) -> None:
    with _start(_airflow(tmp_path)) as head:
        called = _until_called(tmp_path, 2 + len(airflow_head.PARTS))
        assert called[0] == "db migrate"
        assert called[1].startswith("pools set jobs 3 ")
        assert sorted(called[2:]) == sorted(" ".join(part) for part in airflow_head.PARTS)
        parts = psutil.Process(head.pid).children()
        assert len(parts) == len(airflow_head.PARTS)
        head.send_signal(number)
        assert head.wait(40) == 0
        assert not any(part.is_running() for part in parts)


def test_a_part_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "from slicewise.local.airflow import head; head.PATIENCE_S = 0.2; "
    script += "import sys; sys.exit(head.main(*sys.argv[1:]))"
    ignoring = "__import__('signal').signal(15, __import__('signal').SIG_IGN)"
    program = _airflow(tmp_path, scheduler=ignoring)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", script, str(program), "jobs", "3"]) as head:
        _until_called(tmp_path, 2 + len(airflow_head.PARTS))
        head.send_signal(signal.SIGTERM)
        assert head.wait(40) == 0


def test_what_parts_share_is_imported_once(tmp_path: Path) -> None:
    with _start(_airflow(tmp_path)) as head:
        _until_called(tmp_path, 2 + len(airflow_head.PARTS))
        head.send_signal(signal.SIGTERM)
        head.wait(40)
    assert set((tmp_path / "called.imported").read_text().split()) == {str(head.pid)}


def test_no_part_starts_on_a_database_that_cannot_be_migrated(tmp_path: Path) -> None:
    with _start(_airflow(tmp_path, migration="sys.exit(7)")) as head:
        assert head.wait(40) == 7
    assert (tmp_path / "called").read_text() == "db migrate\n"


@pytest.mark.parametrize("during_migration", [True, False])
def test_stopped_before_a_part_runs_it_begins_none(tmp_path: Path, during_migration: bool) -> None:
    kill = "__import__('os').kill({}, 15)\n"
    program = _airflow(
        tmp_path, migration=kill.format("os.getppid()") if during_migration else "pass"
    )
    if not during_migration:  # as when it comes while it imports
        (tmp_path / "airflow" / "api_fastapi" / "app.py").write_text(
            kill.format("__import__('os').getpid()")
        )
    with _start(program) as head:
        assert head.wait(40) == 0
    called = tmp_path / "called"
    assert (called.read_text() if called.exists() else "") == "db migrate\n" * during_migration
