"""The cost of a check hides nothing: all of its processes count, and only whole comparisons do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.check import Run, _of_line, _run_of
from benchmarks.whole.spent import Spent, spent

BURN = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
REPORT = {
    "outcome": "green",
    "notes": [],
    "features": 6,
    "entities": 50,
    "values": 600,
    "seconds": {"start": 1.0},
}


def test_what_a_command_leaves_running_counts_until_it_ends() -> None:
    leaves = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BURN!r}])"
    with spent() as took:
        subprocess.run([sys.executable, "-c", leaves], check=True)
    assert took.processor_s >= 0.4
    assert took.elapsed_s < took.processor_s, "the command itself was over before"


def test_a_child_of_before_is_not_waited_for() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as before:
        with spent() as took:
            subprocess.run([sys.executable, "-c", ""], check=True)
        assert before.poll() is None
        assert took.processor_s < 5
        before.communicate(b"\n")


def test_a_run_that_compared_all_counts() -> None:
    run = _run_of("narrow", 50, REPORT, Spent(10.0, 12.0), 0.5)
    assert (run.entities, run.values, run.whole_s) == (50, 600, 12.5)


@pytest.mark.parametrize(
    "fault",
    [
        {"outcome": "red"},
        {"notes": ["view narrow: not checked, no event of it lies in what is kept"]},
        {"features": 5},
        {"values": 599},
        {"entities": 44, "values": 528},
    ],
    ids=lambda fault: next(iter(fault)),
)
def test_a_run_that_lacks_a_value_ends_the_measurement(fault: dict[str, object]) -> None:
    with pytest.raises(AssertionError, match="not every value"):
        _run_of("narrow", 50, REPORT | fault, Spent(10.0, 12.0), 0.5)


def test_the_cost_of_a_value_is_the_slope_of_a_line_and_the_start_where_it_begins() -> None:
    runs = [Run(n, 12 * n, 5.0 + n / 50, 8.0 + 0.004 * n, 0.002 * n, {}) for n in (50, 400, 1_600)]
    figures, cost = _of_line(6, runs)
    assert cost == pytest.approx(500)
    by_name = {figure.name: figure for figure in figures}
    assert by_name["the start: processor"].ours == pytest.approx(8.0)
    assert by_name["the start: elapsed"].ours == pytest.approx(5.0)
    rate = by_name["compared beyond the start"]
    assert (rate.ours, rate.met) == (2_000, True)


def test_a_line_that_falls_gives_no_rate() -> None:
    runs = [Run(50, 600, 10.0, 9.0, 0.0, {}), Run(400, 4_800, 10.0, 8.9, 0.0, {})]
    with pytest.raises(RuntimeError, match="more turns"):
        _of_line(6, runs)
