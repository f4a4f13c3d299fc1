"""A job's entry point hands over what it says its work imports: what is only listed is imported
late. A job gives way to whatever somebody waits for."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

AUTOGROUP = Path("/proc/self/autogroup")
WEIGHED = """
import json, os, pathlib
from slicewise.spark.lake.job import give_way

def weighs():
    group = pathlib.Path("/proc/self/autogroup")
    text = group.read_text().split() if group.exists() else []
    return [os.nice(0), int(text[-1]) if text else None]

before = weighs()
give_way()
print(json.dumps([before, weighs()]))
"""
JOBS = sorted((Path(__file__).resolve().parents[3] / "spark_jobs").glob("*.py"))


@pytest.mark.parametrize("job", JOBS, ids=lambda path: path.stem)
def test_every_constant_of_an_entry_point_is_used(job: Path) -> None:
    tree = ast.parse(job.read_text(encoding="utf-8"))
    targets = [
        target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
    ]
    constants = {target.id for target in targets if isinstance(target, ast.Name)}
    used = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    assert constants - used == set()


@pytest.mark.parametrize("leads", [True, False], ids=["own session", "session of another"])
def test_a_job_weighs_less_and_leaves_the_session_of_another_as_it_is(leads: bool) -> None:
    argv = [sys.executable, "-c", WEIGHED]
    if not leads:  # a leader that does nothing else
        argv = ["sh", "-c", '"$0" "$@"; exit $?', *argv]
    done = subprocess.run(
        argv, check=True, capture_output=True, text=True, start_new_session=True, timeout=120
    )
    (nice, group), (nice_after, group_after) = json.loads(done.stdout)
    assert nice_after == min(19, nice + 10)
    if not AUTOGROUP.exists():
        assert group_after is None
    else:
        assert group_after == (10 if leads else group)
        assert nice == os.nice(0)
