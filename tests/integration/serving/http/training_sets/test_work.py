"""Training sets wait in one line: they are cancelled whole, begun again after a killed worker, and
seen by every process of the API."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.integration.serving.http.training_sets.support import (
    Api,
    api_on,
    platform_on,
    started,
    until,
)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with api_on(
        tmp_path_factory.mktemp("work"),
        SLICEWISE_TRAINING_SETS_PER_CLIENT="3",
        SLICEWISE_TRAINING_SETS_WAITING="2",
    ) as api:
        yield api


def running_by_spark(api: Api) -> str:
    """A training set whose Spark runs."""
    job_id = api.submit(engine="spark")
    api.when(job_id, lambda state: state["state"] == "running")
    until(lambda: api.sparks())
    return job_id


def test_one_that_is_built_is_cancelled_with_its_spark_and_the_next_one_comes(api: Api) -> None:
    first = running_by_spark(api)
    second = api.submit()
    assert api.state(second)["waits_for"] == 1
    sparks = [*api.sparks(), *(child for one in api.sparks() for child in one.children(True))]
    cancelled = api.call("DELETE", f"/{first}")
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert api.ended(second)["state"] == "done"
    assert not psutil.wait_procs(sparks, timeout=20)[1]
    assert api.state(first)["state"] == "cancelled"
    assert api.call("GET", f"/{first}/data").status_code == 409
    names = {path.name for path in (api.folder / first).iterdir()}
    assert names <= {"request.json", "record.json", "cancelled.json"}
    assert not [path for path in (api.settings.state_dir / "datasets").iterdir() if path.is_dir()]
    removed = api.call("DELETE", f"/{first}")
    assert removed.json()["state"] == "removed"
    assert api.call("GET", f"/{first}").status_code == 404
    assert not (api.folder / first).exists()


def test_of_a_killed_worker_another_one_begins_the_job_again(api: Api) -> None:
    job_id = running_by_spark(api)
    (worker,) = api.workers()
    os.kill(worker.pid, signal.SIGKILL)
    state = api.ended(job_id)
    assert (state["state"], state["attempts"]) == ("done", 2)
    assert state["result"]["content"] == api.ended(api.submit())["result"]["content"]


def test_more_than_may_wait_are_refused_with_the_time_to_come_again(api: Api) -> None:
    first = running_by_spark(api)
    others = [api.submit(), api.submit()]
    try:
        refused = api.call("POST", json={"features": "churn_v1", "spine": api.rows()})
        assert (refused.status_code, refused.json()["error"]["kind"]) == (429, "OverShare")
        assert int(refused.headers["retry-after"]) > 1
    finally:
        for job_id in (*others, first):
            api.call("DELETE", f"/{job_id}")
    assert {api.state(job_id)["state"] for job_id in others} == {"cancelled"}


def test_processes_of_the_api_share_their_sets_and_work_them_once(api: Api) -> None:
    with started(api.variables, api.now_us, workers=2) as other:
        assert other.url != api.url
        job_id = api.submit()
        assert other.ended(job_id)["state"] == "done"
        assert job_id in [one["id"] for one in other.call("GET").json()["training_sets"]]
        assert other.call("GET", f"/{job_id}/data").content == (
            api.call("GET", f"/{job_id}/data").content
        )
        until(lambda: len(api.workers()) == 1)  # one that comes second ends
        counted = 'slicewise_training_sets{state="done"}'
        for url in (api.url, other.url):
            until(lambda url=url: counted in httpx.get(f"{url}/metrics", trust_env=False).text)  # type: ignore[misc]
        assert other.state(job_id)["attempts"] == 1


def test_an_api_that_stops_leaves_its_set_to_the_next_one(tmp_path: Path) -> None:
    with platform_on(tmp_path) as (variables, now_us):
        with started(variables, now_us) as first:
            job_id = running_by_spark(first)
            processes = [*first.workers(), *first.sparks()]
        assert not psutil.wait_procs(processes, timeout=20)[1]
        with started(variables, now_us) as second:
            state = second.ended(job_id)
            assert (state["state"], state["attempts"]) == ("done", 2)
