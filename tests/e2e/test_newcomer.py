"""A newcomer's way in its order: run, run again, a feature of one's own, the tutorial, a crash,
down.

On the whole platform, Airflow included, with a small share of the example's year in the past.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.local.servers import process, services
from slicewise.replay.flights import year
from slicewise.replay.schedule import Pace, Schedule
from slicewise.settings import Settings
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.windows.durations import DAY_US
from tests.support.pages import page_script
from tests.support.platform.stack import Stack, stack

pytestmark = pytest.mark.timeout(3600)

HOME = Path(__file__).resolve().parents[2]
EXAMPLE = HOME / "examples" / "flights"
walk = page_script("walk")
SHARE = 0.06
"""Share of the year, before the start. Compressed into a day that is almost an hour and a half: one
or two full hours to compact, by the time of the day."""
SETTINGS = {
    "SLICEWISE_REPLAY_SHARE": str(SHARE),
    "SLICEWISE_PROBES": "on",
    "SLICEWISE_REALTIME": "on",
}
OWN_VIEW = """
my_first = sw.FeatureView(
    "my_first",
    source=flights,
    entity=["dest"],
    features=[sw.Feature("arrivals", sw.count("arr_delay"), windows=["1h"])],
)
"""


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    project = tmp_path_factory.mktemp("project") / "flights"
    shutil.copytree(EXAMPLE, project)
    with stack(project, SETTINGS) as made:
        yield made


def run(platform: Stack) -> dict[str, Any]:
    """`slicewise run --json`; its figures."""
    begun = time.monotonic()
    done = platform.cli("run", "--json", timeout_s=1500)
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    platform.settings = Settings.load(platform.given)
    print(
        f"run took {time.monotonic() - begun:.0f} s: "
        f"{', '.join(report['changed']) or 'changed nothing'}"
    )
    return report


def pids(platform: Stack) -> dict[str, int | None]:
    return {service.name: service.pid for service in platform.status()}


def test_run_brings_everything_up_and_its_figures_are_true(platform: Stack) -> None:
    began_s = time.time()
    report = run(platform)
    print({name: value for name, value in report.items() if name not in ("example", "addresses")})
    assert report["events_in"] >= Schedule(year(), Pace(share=SHARE), base_us=0).due(
        round(SHARE * DAY_US)
    )
    assert report["views"] == len(plan(load_project(platform.settings.definitions)).views) + 1, (
        "and the songs'"
    )
    assert report["hours_compacted"] >= began_s // 3600 - (began_s - SHARE * 86_400) // 3600
    assert report["values_checked"] > 0
    assert report["mismatches"] == 0
    assert report["example"]["status"] == 200
    states = {service.name: service.state for service in platform.status()}
    assert states == dict.fromkeys(pids(platform), "up") | _idle(platform)


def test_the_songs_that_are_played_most_stand_on_a_live_leaderboard(platform: Stack) -> None:
    leaderboard = run(platform)["board"]
    windows: set[str] = set()
    assert leaderboard == sorted(leaderboard, key=lambda row: -row[1])
    deadline = time.monotonic() + 60
    while len(windows) < 3:
        answer = httpx.get(
            f"{platform.settings.serving_url}/v1/leaderboards/top_songs", timeout=30
        ).json()
        assert time.monotonic() < deadline, f"the leaderboard stands still: {answer}"
        if answer["rows"]:
            windows.add(answer["end"])
            assert len(answer["rows"]) == 10
            values = [row["value"] for row in answer["rows"]]
            assert values == sorted(values, reverse=True)
        time.sleep(0.3)
    page = httpx.get(f"{platform.settings.serving_url}/leaderboards/top_songs", timeout=30)
    assert page.status_code == 200


def test_a_second_run_changes_nothing(platform: Stack) -> None:
    before = pids(platform)
    report = run(platform)
    assert report["changed"] == []
    assert pids(platform) == before


def test_a_feature_of_ones_own_answers_within_minutes(platform: Stack) -> None:
    begun = time.monotonic()
    file = platform.settings.project_dir / "features.py"
    file.write_text(file.read_text() + OWN_VIEW)
    platform.cli("check")
    platform.cli("plan")
    platform.cli("apply", timeout_s=900)
    answer = platform.request(
        features=["my_first:arrivals_1h"], entities=[{"dest": "IAH"}, {"dest": "LAX"}]
    )
    seconds = time.monotonic() - begun
    values = [result["values"]["my_first:arrivals_1h"] for result in answer["results"]]
    print(f"from an edited file to the first answer {values}: {seconds:.0f} s")
    assert all(value > 0 for value in values), "the history was not built"


def test_the_tutorial_goes_from_a_topic_of_ones_own_to_a_training_set_beside_the_example(
    platform: Stack, tmp_path: Path
) -> None:
    begun = time.monotonic()
    page = (HOME / "docs" / "tutorial.md").read_text(encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("SLICEWISE_")}
    env |= {name: value for name, value in platform.given.items() if name != "SLICEWISE_PROJECT"}
    shell = walk.Shell(tmp_path, walk.reader_env(env), timeout_s=1200)
    for step in walk.steps(page):
        if step.file:
            shell.write(step.file, step.text)
            continue
        output = walk.scrubbed(shell.type(step.commands), tmp_path)
        print(f"[{time.monotonic() - begun:.0f} s] {step.commands}{output}")
        if step.output is None or not step.is_exact:
            continue
        wanted, deadline = walk.masked(step.output), time.monotonic() + 180
        # drivers that run already read the new topic within seconds
        while walk.masked(output) != wanted:
            assert time.monotonic() < deadline, f"{step.commands}\n{output}\nand not\n{step.output}"
            time.sleep(1)
            output = walk.scrubbed(shell.type(step.commands), tmp_path)
    print(f"from init to a training set: {time.monotonic() - begun:.0f} s")
    own_stack = Stack(platform.settings.state_dir, tmp_path / "plays", SETTINGS)
    plan = json.loads(own_stack.cli("plan", "--json").stdout.splitlines()[-1])
    assert all(change["change"] == "unchanged" for change in plan["changes"])
    answer = own_stack.request(
        features=[f"listening:{_a_column(own_stack, 'listening')}"],
        entities=[{"user_id": "nobody"}],
    )
    assert answer["results"][0]["values"] is not None
    assert platform.request(features=["carrier:flights_1h"], entities=[{"carrier": "UA"}])[
        "results"
    ]


def _a_column(platform: Stack, view: str) -> str:
    with platform.store() as store:
        text = store.run(ReadManifest(store.run(ReadMetadata()).units))
    assert text is not None
    units = [unit for unit in json.loads(text)["units"] if unit["view"] == view]
    return str(units[0]["features"][0]["column"])


def test_after_everything_was_killed_at_once_run_resumes_with_nothing_lost(platform: Stack) -> None:
    before = run(platform)
    watchers = process.marked(platform.settings.state_dir, services.WATCH)
    assert watchers
    # first: at once means that nobody is left who starts the others again
    for birth in (*watchers, *process.marked(platform.settings.state_dir)):
        birth.signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while process.marked(platform.settings.state_dir):
        assert time.monotonic() < deadline, "killed processes stay"
        time.sleep(0.1)
    after = run(platform)
    assert after["events_in"] >= before["events_in"]
    assert after["mismatches"] == 0


def test_down_leaves_no_process(platform: Stack) -> None:
    ours = {birth.pid for birth in process.marked(platform.settings.state_dir)}
    assert ours, "nothing ran"
    platform.cli("down")
    assert not process.marked(platform.settings.state_dir)
    left = [
        child.pid
        for child in psutil.process_iter()
        if child.pid in ours and child.status() != psutil.STATUS_ZOMBIE
    ]
    assert not left
    states = {service.name: service.state for service in platform.status()}
    assert states == dict.fromkeys(states, "down") | _idle(platform)


def _idle(platform: Stack) -> dict[str, str]:
    """Services that the example asks for nothing: none of its models answers beside a live one."""
    realtime = {"tail"} if platform.settings.realtime == "off" else set()
    return dict.fromkeys({"shadow"} | realtime, "idle")
