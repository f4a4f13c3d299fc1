"""A job's entry point hands over what it says its work imports: what is only listed is imported
late. A job gives way to whatever somebody waits for."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slicewise.clock import ManualClock
from slicewise.errors import BadRequest
from slicewise.local import history
from slicewise.settings import Settings
from slicewise.windows.durations import DAY_US
from spark_jobs import archive

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


@pytest.mark.parametrize("failing", [None, "b"])
def test_what_was_archived_for_a_training_set_is_counted_also_before_a_failure(
    failing: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.load({"SLICEWISE_STATE": str(tmp_path)})

    def archived(source: str) -> Any:
        if source == failing:
            raise BadRequest("events are gone")
        row = {"source": source, "events": 7, "bad": {}, "late": {}}
        return SimpleNamespace(to_json=lambda: row)

    context = SimpleNamespace(archive=archived, settings=settings, clock=ManualClock(DAY_US))
    monkeypatch.setattr(archive, "run_job", lambda _name, work, **_: work(context))
    monkeypatch.setattr(sys, "argv", ["archive.py", "--source", "a", "--source", "b"])
    with nullcontext() if failing is None else pytest.raises(BadRequest):
        archive.main()
    [file] = history.folder(settings).glob("*.jsonl")
    entry = json.loads(file.read_text())
    assert entry["ok"] is (failing is None)
    assert {source: of["events"] for source, of in entry["archived"].items()} == (
        {"a": 7} if failing else {"a": 7, "b": 7}
    )
