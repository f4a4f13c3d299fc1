"""A platform that began on the oldest Airflow that is named goes on with the one that is locked."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator

import httpx
import pytest
from packaging.requirements import Requirement

from slicewise.local.servers import stream, supervisor
from slicewise.settings import Settings
from tests.architecture.import_table import ROOT
from tests.support.platform.airflow import EVENTS, HOURS, PATIENCE_S, AirflowStack, airflow_stack

pytestmark = pytest.mark.timeout(2400)

OLDEST = ROOT / ".venvs" / "airflow-oldest" / "bin" / "airflow"
AIRFLOW_BIN = "SLICEWISE_AIRFLOW_BIN"


@pytest.fixture
def platform() -> Iterator[AirflowStack]:
    with airflow_stack({AIRFLOW_BIN: str(OLDEST)}) as stack:
        yield stack


def version(platform: AirflowStack) -> str:
    url = f"{platform.settings.airflow_url}/api/v2/version"
    return str(httpx.get(url, trust_env=False, timeout=30).json()["version"])


def oldest_named() -> str:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [Requirement(text) for text in extras["optional-dependencies"]["airflow"]]
    (airflow,) = [one for one in named if one.name == "apache-airflow"]
    (lower,) = [one.version for one in airflow.specifier if one.operator == ">="]
    return lower


def test_runs_carry_on_after_the_metadata_database_is_upgraded(
    platform: AirflowStack,
) -> None:
    before = version(platform)
    assert before == f"{oldest_named()}.0"
    assert len(platform.compacted) == HOURS
    assert sum(row["events"] for row in platform.compacted_slices()) == EVENTS
    driver = stream.stream_status(platform.settings).pid
    runs = {run.run_id for run in platform.api.runs("compact_slices")}
    paused = platform.api.paused_by_dag()
    supervisor.down(platform.settings, print, only=("airflow",))
    del platform.given[AIRFLOW_BIN]
    platform.settings = Settings.load(platform.given)
    platform.up("airflow")
    print(f"Airflow {before} is {version(platform)}", flush=True)
    assert version(platform) > before
    platform.api.wait_for_dags(sorted(paused))
    assert platform.api.import_errors() == ()
    assert platform.api.paused_by_dag() == paused
    assert {run.run_id for run in platform.api.runs("compact_slices")} >= runs

    def watched() -> str | None:
        open_runs = [run for run in platform.api.runs("ingest_stream") if not run.over]
        states = [platform.api.task_states(run) for run in open_runs]
        return None if any(one.get("watch") == "deferred" for one in states) else f"{states}"

    platform.wait(watched, "a watch of the stream", PATIENCE_S)
    assert stream.stream_status(platform.settings).pid == driver, "the driver went on"
    key = time.strftime("%Y-%m-%dT%H:00:00", time.gmtime(platform.hours[0] * 3600))
    again = platform.api.trigger("compact_slices", conf={"only": True}, partition_key=key)
    run = platform.api.wait(again, timeout_s=PATIENCE_S)
    assert run.well, platform.api.log(run, "compact")[-6000:]
    report = platform.api.xcom(run, "compact")
    assert isinstance(report, dict)
    assert (report["outcome"], report["slices"]) == ("clean", [])
    assert platform.do("sweep_expired", "sweep")["unknown"] == 0
