"""Both clients request, await and write training sets, with the files that the command writes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pyarrow.parquet as pq
import pytest

import slicewise as sw
from slicewise import errors
from slicewise.cli import main
from slicewise.client.http import AsyncHttpClient, HttpClient
from tests.integration.serving.http.training_sets.support import REFS, Api, api_on


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with api_on(tmp_path_factory.mktemp("client")) as api:
        yield api


def test_files_of_a_set_are_those_that_the_command_writes_and_builds_again(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spine, steps = api.spine(tmp_path / "spine.parquet"), tmp_path / "fetched.parquet"
    with HttpClient(api.url) as client:
        handle = client.training_set(spine, REFS)
        state = handle.wait(60)
        assert (state.state, state.rows, state.attempts) == ("done", 12, 1)
        assert handle.write_to(steps).content == state.content
        assert handle.id in [one.id for one in client.training_sets()]
        assert client.training_set_of(handle.id).state() == state
    built = sw.training_set(str(spine), REFS, settings=api.settings)
    built.write(tmp_path / "built.parquet")
    names = ("parquet", "spine.parquet", "manifest.json")
    for name in names:
        fetched = (tmp_path / f"fetched.{name}").read_bytes()
        assert fetched == (tmp_path / f"built.{name}").read_bytes()
    assert not list(tmp_path.glob(".*")), "no file in between"
    for variable, value in api.variables.items():
        monkeypatch.setenv(variable, value)
    again = tmp_path / "again.parquet"
    manifest = tmp_path / "fetched.manifest.json"
    assert main(["dataset", "rebuild", str(manifest), "--out", str(again)]) == 0
    assert again.read_bytes() == steps.read_bytes()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_request_whose_answer_was_lost_is_sent_again_and_is_one_set(
    api: Api, tmp_path: Path, is_async: bool
) -> None:
    spine = api.spine(tmp_path / "spine.parquet")
    with losing_answers(api.url, 1) as (url, lost), HttpClient(api.url) as direct:
        before = {one.id for one in direct.training_sets()}
        if is_async:
            made = asyncio.run(requested(url, spine))
        else:
            with HttpClient(url, retry=sw.Retry()) as client:
                made = client.training_set(spine, REFS).id
        assert lost, "an answer was lost"
        assert {one.id for one in direct.training_sets()} - before == {made}
        assert direct.training_set_of(made).wait(60).rows == 12


async def requested(url: str, spine: Path) -> str:
    async with AsyncHttpClient(url, retry=sw.Retry()) as client:
        return (await client.training_set(spine, REFS)).id


@contextmanager
def losing_answers(url: str, times: int) -> Iterator[tuple[str, list[bytes]]]:
    """An address that passes requests on, and loses the first answers after they were given."""
    lost: list[bytes] = []

    class Losing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["content-length"]))
            headers = {
                name: self.headers[name] for name in ("content-type", "accept", "idempotency-key")
            }
            reply = httpx.post(f"{url}{self.path}", content=sent, headers=headers, trust_env=False)
            if len(lost) < times:
                lost.append(reply.content)
                self.close_connection = True
                return
            self.send_response(reply.status_code)
            self.send_header("content-length", str(len(reply.content)))
            self.end_headers()
            self.wfile.write(reply.content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Losing)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", lost
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_rows_frames_and_columns_are_spines(api: Api, tmp_path: Path, form: str) -> None:
    frame = pq.read_table(api.spine(tmp_path / "spine.parquet")).to_pandas()
    rows = [row | {"at": datetime.fromisoformat(row["at"])} for row in api.rows()]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    with HttpClient(api.url, form=form) as client:  # type: ignore[arg-type]
        contents = {
            client.training_set(spine, REFS).wait(60).content for spine in (rows, columns, frame)
        }
        assert len(contents) == 1
        csv = client.training_set(rows, REFS, format="csv")
        csv.wait(60)
        with pytest.raises(errors.BadRequest, match=r"churn.parquet is no name of csv"):
            csv.write_to(tmp_path / "churn.parquet")
        csv.write_to(tmp_path / "churn.csv")
        assert (tmp_path / "churn.csv").read_text().startswith('"user_id","at","label"')


def test_refusals_and_failures_are_the_errors_of_the_api(api: Api, tmp_path: Path) -> None:
    with HttpClient(api.url) as client:
        with pytest.raises(errors.UnknownName, match="churn_v2"):
            client.training_set(api.rows(), "churn_v2")
        failing = client.training_set([{"user_id": 7, "at": api.rows()[0]["at"]}], REFS)
        with pytest.raises(errors.BadRequest) as refused:
            failing.wait(60)
        assert refused.value.where == "spine, column 'user_id'"
        with pytest.raises(errors.BadRequest):
            failing.write_to(tmp_path / "none.parquet")
        assert failing.cancel().state == "removed"
        with pytest.raises(errors.UnknownName):
            failing.state()
        for spine in ("none.parquet", tmp_path, 5, [{"at": object()}]):
            with pytest.raises(errors.BadRequest):
                client.training_set(spine, REFS)
    assert not list(tmp_path.iterdir())


def test_the_asynchronous_client_does_the_same(api: Api, tmp_path: Path) -> None:
    spine = api.spine(tmp_path / "spine.parquet")

    async def run() -> str | None:
        async with AsyncHttpClient(api.url) as client:
            first, second = await asyncio.gather(
                client.training_set(spine, REFS), client.training_set(api.rows(), REFS)
            )
            states = await asyncio.gather(first.wait(60), second.wait(60))
            assert states[0].content == states[1].content
            await first.write_to(tmp_path / "fetched.parquet")
            assert {first.id, second.id} <= {one.id for one in await client.training_sets()}
            slow = await client.training_set(spine, REFS, engine="spark")
            with pytest.raises(errors.NoResult, match=r"after 0\.1 s"):
                await slow.wait(0.1)
            assert (await slow.cancel()).state == "cancelled"
            with pytest.raises(errors.NoResult, match="is cancelled"):
                await client.training_set_of(slow.id).wait()
            return states[0].content

    content = asyncio.run(run())
    assert pq.read_table(tmp_path / "fetched.parquet").num_rows == 12
    assert content
