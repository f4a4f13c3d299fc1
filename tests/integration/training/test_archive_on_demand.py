"""A training set right after `apply`: what its spine needs is archived first, by the real job,
beside any other."""

from __future__ import annotations

import csv
import json
import subprocess
import time
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewise.errors import ServerError
from slicewise.lifecycle.history.entries import ARCHIVE
from slicewise.local import history
from slicewise.stores.lake.archive import archive_state, load, records_by_hour
from slicewise.stores.lake.catalog import open_catalog
from slicewise.training.api import training_set
from slicewise.training.archiving.job import archive_first
from slicewise.training.archiving.offline import Offline
from slicewise.training.archiving.pending import Need, pending
from slicewise.training.requests.unit_requests import resolve
from tests.support.platform.stack import Stack, stack_of

pytestmark = pytest.mark.timeout(1200)

DEFINITIONS = """
import slicewise as sw

plays = sw.KafkaSource(
    "plays", schema={"user_id": "string", "seconds": "double", "played_at": "timestamp_us"}, timestamp="played_at"
)
listening = sw.FeatureView(
    "listening",
    source=plays,
    entity=["user_id"],
    features=[
        sw.Feature("plays", sw.count(), windows=["1h"]),
        sw.Feature("longest", sw.top_k("seconds", by="seconds", k=2), windows=["1h"]),
        sw.Feature("mean", sw.mean("seconds"), windows=["1h"]),
    ],
)
"""
FEATURES = "listening:plays_1h,listening:mean_1h,listening:longest_1h"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Deployed, and nothing else: no stream runs, no Airflow, and nothing was ever archived."""
    with stack_of(DEFINITIONS, tmp_path_factory.mktemp("on-demand")) as running:
        running.cli("apply", "--no-wait")
        yield running


def produce(platform: Stack, seconds: list[float]) -> None:
    now = time.time_ns() // 1000
    events = [
        {"user_id": "007", "seconds": duration, "played_at": now - 60_000_000}
        for duration in seconds
    ]
    platform.produce(
        "plays",
        [(n % 2, json.dumps(event).encode(), now // 1000) for n, event in enumerate(events)],
    )


def spine(folder: Path, at: str | None = None) -> Path:
    at = at or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    file = folder / f"spine-{time.monotonic_ns()}.csv"
    file.write_text(f"user_id,at,churned\n007,{at},1\n7,{at},0\n")
    return file


def build(
    platform: Stack, given: Path, out: Path, *more: str, check: bool = True
) -> tuple[dict[str, Any], str]:
    arguments = ("--spine", str(given), "--features", FEATURES, "--out", str(out), "--json", *more)
    done = platform.cli("dataset", "build", *arguments, check=check, timeout_s=600)
    return (json.loads(done.stdout) if done.returncode == 0 else {}), done.stderr


def rows(out: Path) -> list[dict[str, str]]:
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


def archived(platform: Stack) -> tuple[int, int]:
    """The newest archive version, and how many events all of them hold."""
    table = load(open_catalog(platform.settings), "plays")
    assert table is not None
    return archive_state(table).archive_version, sum(records_by_hour(table).values())


def test_who_deploys_where_no_stream_runs_is_told(platform: Stack) -> None:
    output = platform.cli("apply", "--no-wait").stdout
    assert "stream     does not run" in output
    assert "slicewise stream ensure" in output


def test_where_nothing_can_be_archived_the_error_says_what_to_do(
    platform: Stack, tmp_path: Path
) -> None:
    given = spine(tmp_path)
    _, output = build(platform, given, tmp_path / "o.csv", check=False)
    assert "its topic holds no event" in output
    assert "next step: produce some" in output
    produce(platform, [30.0])
    _, output = build(platform, given, tmp_path / "o.csv", "--no-archive", check=False)
    assert "nothing of 'plays' is archived" in output
    assert "--no-archive" in output
    no_spark = {**platform.given, "SLICEWISE_SPARK_PYTHON": str(tmp_path / "nowhere")}
    lacking = copy(platform)
    lacking.given = no_spark
    _, output = build(lacking, given, tmp_path / "o.csv", check=False)
    assert "there is no Spark for archiving" in output
    assert "make setup" in output
    assert not (tmp_path / "o.csv").exists()


def test_an_archive_that_takes_too_long_is_stopped_and_the_next_goes_on(platform: Stack) -> None:
    offline = Offline.open(platform.settings)
    _, requested = resolve(offline.deployment, FEATURES.split(","))
    need = Need(offline.clock.now_us())
    some = pending(
        offline.deployment,
        offline.archive,
        offline.archive,
        requested,
        need,
        offline.clock.now_us(),
    )
    assert [(wanted.source.name, wanted.offsets) for wanted in some] == [("plays", 1)]
    lines: list[str] = []
    with pytest.raises(ServerError, match="not done after 1 s") as late:
        archive_first(platform.settings, some, offline.archive, lines.append, patience_s=1.0)
    assert "goes on where it stopped" in str(late.value)
    assert lines == ["archiving plays first: nothing of it is archived yet; 1 offsets to go"]
    assert load(open_catalog(platform.settings), "plays") is None


def test_two_at_once_archive_everything_once_and_both_answer(
    platform: Stack, tmp_path: Path
) -> None:
    produce(platform, [0.1, 0.2, 90.0])
    given = spine(tmp_path)
    outs = [tmp_path / "a.csv", tmp_path / "b.parquet"]
    begun = time.monotonic()
    slicewise = str(platform.settings.platform_python.parent / "slicewise")
    both = [
        subprocess.Popen(
            [
                slicewise,
                *("dataset", "build", "--spine", given, "--features", FEATURES, "--out", out),
            ],
            env=platform.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for out in outs
    ]
    output = [process.communicate(timeout=600)[1] for process in both]
    print(f"two training sets, archives included: {time.monotonic() - begun:.0f} s\n{output[0]}")
    assert [process.returncode for process in both] == [0, 0], output
    assert all(
        "archiving plays first: nothing of it is archived yet; 4 offsets to go" in text
        for text in output
    )
    assert all("offsets to go, " in text and "archived plays: " in text for text in output), (
        "with progress"
    )
    assert archived(platform)[1] == 4, "each event once"
    kept = [one for one in history.read(platform.settings, 0) if one.get("job") == ARCHIVE]
    events = [one["archived"]["plays"]["events"] for one in kept if one.get("archived")]
    assert sum(events) == 4, "the reports count them"
    result = rows(outs[0])
    assert [row["user_id"] for row in result] == ["007", "7"], "texts, not numbers"
    assert [row["churned"] for row in result] == ["1", "0"]
    assert [row["listening:plays_1h"] for row in result] == ["4", "0"]
    assert float(result[0]["listening:mean_1h"]) == (30.0 + 0.1 + 0.2 + 90.0) / 4
    assert [item["by"] for item in json.loads(result[0]["listening:longest_1h"])] == [90.0, 30.0]
    same = training_set(given, FEATURES.split(","), settings=platform.settings, archive=False)
    assert (
        same.table.to_pylist()
        == training_set(
            outs[1].with_name("b.spine.parquet"),
            FEATURES.split(","),
            settings=platform.settings,
            archive=False,
        ).table.to_pylist()
    )


def test_what_is_archived_is_not_archived_again(platform: Stack, tmp_path: Path) -> None:
    before, log = archived(platform), platform.settings.state_dir / "logs" / "archive.log"
    size, given = log.stat().st_size, spine(tmp_path)
    report, output = build(platform, given, tmp_path / "o.csv")
    assert "archiving" not in output
    assert log.stat().st_size == size, "no Spark was started"
    assert report["sources"] == {"plays": before[0]}
    produce(platform, [5.0])
    later = spine(tmp_path)
    _, output = build(platform, later, tmp_path / "p.csv", "--no-archive", check=False)
    assert "later than the archive" in output
    _, output = build(
        platform, spine(tmp_path, "2999-01-01T00:00:00Z"), tmp_path / "p.csv", check=False
    )
    assert "lies in the future" in output
    assert archived(platform) == before
    platform.job("archive", "--source", "plays")
    platform.job("archive")
    assert archived(platform) == (before[0] + 1, before[1] + 1), "a rerun commits nothing"
    build(platform, later, tmp_path / "p.csv", "--no-archive")
    assert rows(tmp_path / "p.csv")[0]["listening:plays_1h"] == "5"


def test_a_failed_job_is_told_with_its_reason_and_log(platform: Stack) -> None:
    produce(platform, [6.0])
    offline = Offline.open(platform.settings)
    _, requested = resolve(offline.deployment, FEATURES.split(","))
    now = offline.clock.now_us()
    (one,) = pending(
        offline.deployment, offline.archive, offline.archive, requested, Need(now), now
    )
    other = replace(one, source=replace(one.source, name="paused"))  # which nobody deployed
    with pytest.raises(ServerError, match=r"archiving failed: .*paused") as failed:
        archive_first(platform.settings, [other], offline.archive, print)
    assert failed.value.where == str(platform.settings.state_dir / "logs" / "archive.log")
