"""A folder that cannot be used, and a process without one, are answered as errors of the API."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from slicewise.clock import ManualClock
from slicewise.serving.http.app import App
from slicewise.serving.http.training_sets.routes import Options
from slicewise.stores.jobs.folder import JobFolder
from slicewise.stores.jobs.job import JobRequest, Limits, Record, State

NOWHERE = "redis://127.0.0.1:1/0"
OPTIONS = Options(Limits(waiting=2, per_client=2, keep_us=1_000), most_bytes=1_000)


def call(
    folder: Path | None, method: str, path: str, client: str = "ann", **more: str
) -> httpx.Response:
    """The answer of an API whose store does not answer."""

    async def run() -> httpx.Response:
        sets = None if folder is None else (folder, OPTIONS)
        app = App(NOWHERE, ManualClock(500), client_header="x-client", training_sets=sets)
        transport = httpx.ASGITransport(app=app)
        headers = {"x-client": client, **more}
        async with httpx.AsyncClient(transport=transport, base_url="http://api") as http:
            try:
                return await http.request(method, path, headers=headers)
            finally:
                await app.close()

    return asyncio.run(run())


def submitted(folder: JobFolder, client: str, at_us: int = 1) -> str:
    with folder.incoming() as (job_id, _):
        request = JobRequest(job_id, client, at_us, "s", "spine.csv")
        return folder.submit(request, OPTIONS.limits).id


def test_a_folder_that_cannot_be_used_is_a_store_that_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "sets").write_text("a file")
    refused = call(tmp_path / "sets", "GET", "/v1/training-sets")
    assert refused.status_code == 503
    error = refused.json()["error"]
    assert (error["kind"], "SLICEWISE_STATE" in error["next_step"]) == ("StoreUnavailable", True)
    assert str(tmp_path) not in refused.text


def test_without_a_folder_there_is_no_such_page() -> None:
    assert call(None, "GET", "/v1/training-sets").status_code == 404


def test_a_client_lists_its_own_and_reads_what_it_has_the_id_of(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "sets")
    own, other = submitted(folder, "ann", 1), submitted(folder, "bob", 2)
    listed = call(folder.path, "GET", "/v1/training-sets").json()["training_sets"]
    assert [(one["id"], one["waits_for"]) for one in listed] == [(own, 0)]
    read = call(folder.path, "GET", f"/v1/training-sets/{other}")
    assert (read.json()["state"], read.json()["waits_for"]) == ("waiting", 1)


@pytest.mark.parametrize("state", [State.RUNNING, State.FAILED])
def test_files_of_one_that_is_not_done_are_none(tmp_path: Path, state: State) -> None:
    folder = JobFolder(tmp_path / "sets")
    job_id = submitted(folder, "ann")
    error = {"kind": "BadRequest", "what": "row 7 is no row"} if state is State.FAILED else None
    folder.record(job_id, Record(state, 1, 2, error=error))
    folder.file(job_id, "data.parquet").write_bytes(b"half of it")
    reply = call(folder.path, "GET", f"/v1/training-sets/{job_id}/data")
    assert reply.status_code == 409
    assert ("row 7" in reply.json()["error"]["what"]) == (state is State.FAILED)


def test_a_form_that_a_file_has_not_is_refused(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "sets")
    job_id = submitted(folder, "ann")
    folder.record(job_id, Record(State.DONE, 1, 2, 3))
    folder.file(job_id, "data.parquet").write_bytes(b"PAR1")
    path = f"/v1/training-sets/{job_id}/data"
    assert call(folder.path, "GET", path, accept="text/csv").status_code == 406
    assert call(folder.path, "GET", path, accept="*/*").content == b"PAR1"
