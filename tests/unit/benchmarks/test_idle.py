"""Nothing that a platform used is lost or counted twice, though its processes come and go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.idle import STARTED_BY_THE_HOUR, THEIR_WORK_S, clear_in_s, figures
from benchmarks.idle_processes import Look, Memory, Use, looks, memory, role_of, used
from slicewise.local.servers import process

SCHEDULER, TASKS = "Airflow: scheduler", "Airflow: executor and tasks"


def look(role: str, cpu_s: float, parent: int = 1, born: str = "1", wakeups: int = 0) -> Look:
    return Look(parent, born, role, cpu_s, {1: wakeups})


def test_a_process_that_stays_used_the_difference() -> None:
    before, after = {7: look("API", 1.0, wakeups=5)}, {7: look("API", 3.5, wakeups=9)}
    assert used(before, after) == {"API": Use(2.5, 4)}


def test_threads_come_and_go() -> None:
    before = {7: Look(1, "1", "API", 0.0, {1: 5, 2: 90})}
    after = {7: Look(1, "1", "API", 0.0, {1: 7, 3: 4})}
    assert used(before, after)["API"].wakeups == 6


def test_a_task_that_began_and_ended_meanwhile_is_its_parents() -> None:
    # its two seconds are among those of the scheduler's ended children
    assert used({7: look(SCHEDULER, 1.0)}, {7: look(SCHEDULER, 3.0)}) == {SCHEDULER: Use(2.0, 0)}


def test_what_ended_is_counted_from_the_first_look_on() -> None:
    before = {7: look(SCHEDULER, 1.0), 8: look(TASKS, 4.0, parent=7), 9: look(TASKS, 2.0, parent=8)}
    # 8 ended with five seconds of its own and three of 9's: the scheduler has all of it now
    after = {7: look(SCHEDULER, 1.0 + 5.0 + 3.0)}
    assert used(before, after) == {SCHEDULER: Use(2.0, 0)}


def test_another_process_under_an_old_pid_is_no_continuation() -> None:
    before = {7: look("Kafka", 9.0, born="1", wakeups=90)}
    after = {7: look("API", 0.5, born="2", wakeups=3)}
    assert used(before, after) == {"API": Use(0.5, 3)}


@pytest.mark.parametrize(
    ("service", "command", "role"),
    [
        ("kafka", "java kafka.Kafka", "Kafka"),
        ("stream", "java -cp x org.apache.spark.deploy.SparkSubmit y", "micro-batch lane: JVM"),
        ("stream", "python -m slicewise.spark.runtime.daemon", "micro-batch lane: workers"),
        ("tail", "python spark_jobs/tail.py", "real-time lane: driver"),
        ("emit", "java -cp x io.slicewise.log.LogReader", "emission: JVM"),
        ("airflow", "airflow worker -- LocalExecutor: <idle>", TASKS),
        ("airflow", "airflow api_server -- host:127.0.0.1", "Airflow: API server"),
        ("airflow", "python bin/airflow scheduler --skip-serve-logs", SCHEDULER),
        ("airflow", "python -m another", "Airflow: tasks"),
    ],
)
def test_a_process_has_a_readable_name(service: str, command: str, role: str) -> None:
    assert role_of(service, command) == role


def test_own_processes_are_seen_by_their_state_folder(tmp_path: Path) -> None:
    env = {**os.environ, process.STATE: str(tmp_path), process.SERVICE: "serving"}
    argv = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        seen = looks(tmp_path)
        assert [pid for pid, one in seen.items() if one.role == "API"] == [started.pid]
        size = memory(seen)["API"]
        assert 0 < size.pss <= size.rss
        assert looks(tmp_path / "another") == {}
        started.communicate(b"\n")


@pytest.mark.parametrize("now_s", range(0, 3_600, 97))
@pytest.mark.parametrize("window_s", [60.0, 600.0, 1_500.0])
def test_a_window_has_no_hourly_run_in_it(now_s: float, window_s: float) -> None:
    start = now_s + clear_in_s(now_s, window_s)
    for hour in (-3_600, 0, 3_600):
        for minute in STARTED_BY_THE_HOUR:
            begun = hour + minute * 60
            works = begun < start + window_s and start < begun + THEIR_WORK_S
            assert not works or begun + THEIR_WORK_S <= start


def test_a_window_that_no_hour_has_room_for_is_refused() -> None:
    with pytest.raises(SystemExit, match="minutes"):
        clear_in_s(0.0, 2_700.0)


def test_the_whole_stands_first_with_its_bound() -> None:
    before = {7: look("Kafka", 1.0), 8: look("API", 1.0)}
    after = {7: look("Kafka", 3.0), 8: look("API", 1.001)}
    sizes = {"Kafka": Memory(2 << 20, 3 << 20, 1), "API": Memory(1 << 20, 1 << 20, 1)}
    rows, details = figures(before, after, 10.0, sizes)
    assert [row.name.strip() for row in rows][1:3] == ["Kafka", "the others"]
    assert rows[1].ours == pytest.approx(200.0)
    named = {row.name.strip(): row for row in rows}
    assert named["all, cores"].ours == pytest.approx(0.2)
    assert named["all, cores"].met
    assert named["the others"].ours == pytest.approx(0.1)
    assert named["all, PSS"].ours == pytest.approx(3.0)
    assert named["all, PSS"].others == {"RSS": 4.0}
    assert details["processes"] == {"Kafka": 1, "API": 1}
