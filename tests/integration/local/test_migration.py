"""A release that stores an aggregate otherwise answers as the one before, and migrates its views.

The next release is a copy of the package whose sums have semantic version 2, and which keeps the
class of before. It is run by the platform's own commands, jobs and API.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from slicewise.local.servers import supervisor
from slicewise.settings import Settings
from slicewise.windows.durations import HOUR_US
from tests.support.inputs.seeds import seeds
from tests.support.platform.stack import Stack, stack_of

DEFINITIONS = """
import slicewise as sw

plays = sw.KafkaSource(
    "plays",
    schema={"user_id": "string", "seconds": "double", "played_at": "timestamp_us"},
    timestamp="played_at",
    max_lateness="2d",
)
listening = sw.FeatureView(
    "listening",
    source=plays,
    entity=["user_id"],
    features=[sw.Feature("seconds", sw.sum("seconds"), windows=["1d"])],
)
"""
NEXT_RELEASE = """

@dataclass(frozen=True)
class FirstSum(Sum):
    semantic_version = 1


Sum.semantic_version = 2
Sum.earlier = {1: FirstSum}
"""
USERS = 5


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Stack]:
    with stack_of(DEFINITIONS, tmp_path) as stack:
        yield stack


def releases(stack: Stack, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """From now on every process that the stack begins is one of the next release."""
    home = Settings.load().home
    shutil.copytree(
        home / "include" / "slicewise",
        folder / "slicewise",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    sums = folder / "slicewise" / "aggregates" / "exact" / "sums.py"
    sums.write_text(sums.read_text(encoding="utf-8") + NEXT_RELEASE, encoding="utf-8")
    patch.setenv("PYTHONPATH", str(folder))
    stack.given["SLICEWISE_HOME"] = str(home)
    # servers are not given the variable
    program = folder / "bin" / "python"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={folder} exec {stack.settings.platform_python} "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    real = stack.settings.platform_python.absolute()
    program.with_name("slicewise").symlink_to(real.with_name("slicewise"))
    (folder / "lib").symlink_to(real.parent.parent / "lib")  # where the store's server stands
    stack.settings = replace(stack.settings, platform_python=program)


def answers(stack: Stack, at: int) -> list[object]:
    request = stack.request(
        features=["listening:seconds_1d"],
        entities=[{"user_id": f"u{user}"} for user in range(USERS)],
        at=at,
    )
    return [result["values"] for result in request["results"]]


@pytest.mark.parametrize("seed", seeds([1]))
def test_a_raised_semantic_version_is_migrated(
    seed: int, running: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(seed)
    running.up("serving")
    running.cli("apply", "--no-wait")
    now_hour = time.time_ns() // 1000 // HOUR_US
    at = now_hour * HOUR_US
    records = []
    for _ in range(400):
        event_us = at - chance.randrange(1, 20 * HOUR_US)
        play = {
            "user_id": f"u{chance.randrange(USERS)}",
            "seconds": round(chance.uniform(0, 420), 3),
            "played_at": event_us,
        }
        records.append((chance.randrange(2), json.dumps(play).encode(), event_us // 1000))
    running.produce("plays", records)
    running.start_stream()
    running.wait_applied("plays")
    running.stop_stream()
    running.job("archive")
    before = answers(running, at)
    assert all(value["listening:seconds_1d"] for value in before)  # type: ignore[index]

    releases(running, tmp_path / "next", monkeypatch)
    supervisor.down(running.settings, print, only=["serving"])
    running.up("serving")
    assert answers(running, at) == before, "partials of before are read by the class of before"
    text = "stored by semantic version 1 of sum, this code has 2; a version is needed"
    assert text in running.cli("plan").stdout
    plan = json.loads(running.cli("migrate", "--plan", "--json").stdout.splitlines()[-1])
    (left,) = plan["migrations"]
    assert (plan["done"], left["version"]) == (False, "listening@2")
    assert left["steps"] == ["apply", "build", "diff", "promote", "retire"]

    running.cli("apply", "--no-wait", "--here")
    plan = json.loads(running.cli("migrate", "--plan", "--json").stdout.splitlines()[-1])
    assert plan["migrations"][0]["steps"][0] == "diff", "it goes on where it was stopped"
    printed = running.cli("migrate", "--here").stdout
    assert "all values equal" in printed
    assert "migrated: listening" in printed
    assert answers(running, at) == before
    assert "nothing to migrate" in running.cli("migrate").stdout
    assert "listening: unchanged" in running.cli("plan").stdout
