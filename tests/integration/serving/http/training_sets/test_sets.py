"""Training sets over HTTP have the bytes of `slicewise dataset build`, and faults of a spine name
its row."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from slicewise.cli import main
from slicewise.stores.lake.archive import archive_state, load
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.lake.records import records
from slicewise.stores.lake.schemas import DATASETS
from slicewise.stores.online.operations.committed import (
    AdvanceCommitted,
    EnterCommitted,
    committed_of,
)
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.redis import open_store
from slicewise.training.jobs.building import recorded_name
from tests.integration.serving.http.training_sets.support import REFS, Api, api_on, text_of
from tests.integration.serving.support import deployment

PARQUET = {"content-type": "application/vnd.apache.parquet"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with api_on(tmp_path_factory.mktemp("sets")) as api:
        yield api


@pytest.fixture
def environment(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in api.variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("environment")
def test_an_uploaded_spine_gives_the_bytes_that_the_command_writes(
    api: Api, tmp_path: Path
) -> None:
    spine, out = api.spine(tmp_path / "spine.parquet"), tmp_path / "built.parquet"
    command = ["dataset", "build", "--spine", str(spine), "--features", ",".join(REFS)]
    assert main([*command, "--out", str(out)]) == 0
    query = {"features": ",".join(REFS)}
    reply = api.call("POST", params=query, content=spine.read_bytes(), headers=PARQUET)
    assert reply.status_code == 202, reply.text
    state = api.ended(reply.json()["id"])
    assert state["state"] == "done", state
    data = api.call("GET", f"/{state['id']}/data")
    assert data.headers["content-type"] == PARQUET["content-type"]
    assert data.content == out.read_bytes()
    assert hashlib.sha256(data.content).hexdigest() == state["result"]["content"]
    assert (state["result"]["rows"], state["result"]["bytes"]) == (12, len(data.content))
    for name, file in (("manifest", "built.manifest.json"), ("spine", "built.spine.parquet")):
        fetched = api.call("GET", f"/{state['id']}/{name}")
        assert fetched.content == (tmp_path / file).read_bytes()
    recorded = {row["name"]: row for row in records(open_catalog(api.settings), DATASETS)}
    assert recorded[recorded_name(state["id"])]["dataset_id"] == state["result"]["dataset"]


def test_a_key_is_of_one_request(api: Api) -> None:
    body = {"features": REFS, "spine": api.rows()}
    key = {"idempotency-key": "nightly-1"}
    first, again = (api.call("POST", json=body, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"]
    other = api.call("POST", json=body | {"format": "csv"}, headers=key)
    assert (other.status_code, other.json()["error"]["where"]) == (400, "Idempotency-Key")
    assert first.json()["id"] in other.json()["error"]["expected"]
    others = api.call("POST", json=body | {"spine": api.rows()[:3]}, headers=key)
    assert others.status_code == 400, "another spine"
    bad = api.call("POST", json=body, headers={"idempotency-key": "two words"})
    assert (bad.status_code, bad.json()["error"]["where"]) == (400, "Idempotency-Key")


def test_each_form_of_a_spine_gives_the_same_set(api: Api, tmp_path: Path) -> None:
    table = pq.read_table(api.spine(tmp_path / "spine.parquet"))
    stream, feather, texts = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    pyarrow.feather.write_feather(table, feather)
    pyarrow.csv.write_csv(pa.Table.from_pylist(api.rows()), texts)
    bodies = {
        "application/vnd.apache.arrow.stream": stream,
        "application/vnd.apache.arrow.file": feather,
        "text/csv; charset=utf-8": texts,
    }
    ids = [api.submit()]
    columns = {name: [row[name] for row in api.rows()] for name in api.rows()[0]}
    packed = msgpack.packb({"features": REFS, "spine": columns})
    headers = {"content-type": "application/msgpack", "accept": "application/msgpack"}
    reply = api.call("POST", content=packed, headers=headers)
    ids.append(msgpack.unpackb(reply.content)["id"])
    api.ended(ids[-1])  # a client has four at a time
    for kind, body in bodies.items():
        query = {"features": ",".join(REFS)}
        headers = {"content-type": kind}
        reply = api.call("POST", params=query, content=body.getvalue(), headers=headers)
        assert reply.status_code == 202, reply.text
        ids.append(reply.json()["id"])
        api.ended(ids[-1])
    states = [api.ended(one) for one in ids]
    assert [state["error"] for state in states] == [None] * 5
    assert len({state["result"]["content"] for state in states}) == 1


@pytest.mark.usefixtures("environment")
def test_csv_is_what_the_command_writes(api: Api, tmp_path: Path) -> None:
    spine, out = api.spine(tmp_path / "spine.parquet"), tmp_path / "built.csv"
    command = ["dataset", "build", "--spine", str(spine), "--features", "churn_v1"]
    assert main([*command, "--out", str(out)]) == 0
    given = {"features": "churn_v1", "format": "csv"}
    reply = api.call("POST", params=given, content=spine.read_bytes(), headers=PARQUET)
    planned = deployment().feature_set("churn_v1").features
    assert reply.json()["refs"] == list(planned)
    state = api.ended(reply.json()["id"])
    assert state["state"] == "done", state
    data = api.call("GET", f"/{state['id']}/data")
    assert data.headers["content-type"].startswith("text/csv")
    assert data.content == out.read_bytes()
    manifest = json.loads((tmp_path / "built.manifest.json").read_text())
    assert state["result"]["content"] == manifest["content"]


def test_a_range_is_that_part_of_the_file(api: Api) -> None:
    state = api.ended(api.submit())
    whole = api.call("GET", f"/{state['id']}/data").content
    for given, part in (
        ("bytes=0-3", whole[:4]),
        ("bytes=10-", whole[10:]),
        ("bytes=-4", whole[-4:]),
        (f"bytes=5-{len(whole) * 2}", whole[5:]),
    ):
        reply = api.call("GET", f"/{state['id']}/data", headers={"range": given})
        assert (reply.status_code, reply.content) == (206, part)
        assert reply.headers["content-range"].endswith(f"/{len(whole)}")
    beyond = api.call("GET", f"/{state['id']}/data", headers={"range": f"bytes={len(whole)}-"})
    assert beyond.status_code == 416
    assert beyond.json()["error"]["kind"] == "RangeRefused"
    head = api.call("HEAD", f"/{state['id']}/data")
    assert (head.headers["content-length"], head.content) == (str(len(whole)), b"")


def test_a_bad_spine_is_refused_by_its_row_and_leaves_no_file(api: Api) -> None:
    rows = [{"user_id": "ann", "at": text_of(api.now_us)}, {"user_id": "bob", "at": "yesterday"}]
    state = api.ended(api.submit(spine=rows))
    assert (state["state"], state["error"]["kind"]) == ("failed", "BadRequest")
    assert state["error"]["where"] == "spine, column 'at', row 1"
    data = api.call("GET", f"/{state['id']}/data")
    assert data.status_code == 409
    assert "yesterday" in data.json()["error"]["what"]
    names = {path.name for path in (api.folder / state["id"]).iterdir()}
    assert names == {"request.json", "record.json"}


def test_a_body_that_is_no_parquet_names_no_folder_of_the_server(api: Api) -> None:
    given = {"features": "churn_v1"}
    for content in (b"PAR1 and nothing else", b"user_id,at\n"):
        reply = api.call("POST", params=given, content=content, headers=PARQUET)
        error = api.ended(reply.json()["id"])["error"]
        assert error["what"].startswith("the body cannot be read as Parquet")
        assert str(api.settings.state_dir) not in json.dumps(error)


@pytest.mark.parametrize(
    ("body", "status", "where"),
    [
        ({"features": ["listening:play_1h"]}, 404, "view 'listening'"),
        ({"features": "churn_v2"}, 404, None),
        ({"spine": "sql:SELECT * FROM '/etc/hostname'"}, 400, "spine"),
        ({"spine": "/etc/hostname"}, 400, "spine"),
        ({"spine": "iceberg:log.plays"}, 400, "spine"),
        ({"spine": []}, 400, "body"),
        ({"spine": {"user_id": ["ann"], "at": []}}, 400, "spine"),
        ({"known_at": "yesterday"}, 400, "known_at"),
        ({"knowledge": "all"}, 400, "body"),
        ({"unknown": 1}, 400, "body"),
    ],
)
def test_what_is_wrong_at_once_is_refused_at_once(
    api: Api, body: dict[str, object], status: int, where: str | None
) -> None:
    before = {path.name for path in api.folder.glob("*")}
    reply = api.call("POST", json={"features": REFS, "spine": api.rows(), **body})
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert error["next_step"]
    assert error["where"] == where
    assert {path.name for path in api.folder.glob("*")} <= before | {".submitting.lock"}


def test_a_large_request_is_refused_by_its_size(api: Api) -> None:
    rows = [{"user_id": "u" * 1_000, "at": 0}] * 1_100
    reply = api.call("POST", json={"features": REFS, "spine": rows})
    assert reply.status_code == 413
    assert "a body of its own" in reply.json()["error"]["next_step"]


def test_an_id_that_is_none_is_no_path(api: Api) -> None:
    for job_id in ("0" * 32, "..%2f..%2fetc", "%2e%2e", ".working.lock"):
        for method, part in (("GET", ""), ("GET", "/data"), ("DELETE", "")):
            reply = api.call(method, f"/{job_id}{part}")
            assert reply.status_code == 404, (method, job_id, part, reply.text)
    refused = api.call("PATCH")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, POST")


@pytest.mark.usefixtures("environment")
def test_a_set_by_arrival_has_what_it_is_built_again_of(api: Api, tmp_path: Path) -> None:
    known_at = applied(api)
    spine, out = api.spine(tmp_path / "spine.parquet"), tmp_path / "built.parquet"
    command = ["dataset", "build", "--spine", str(spine), "--features", ",".join(REFS)]
    assert main([*command, "--known-at", text_of(known_at), "--out", str(out)]) == 0
    state = api.ended(api.submit(known_at=known_at))
    assert state["state"] == "done", state
    assert set(state["files"]) == {"data", "manifest", "spine", "arrival"}
    for name, file in (("data", "parquet"), ("arrival", "arrival.parquet")):
        fetched = api.call("GET", f"/{state['id']}/{name}")
        assert fetched.content == (tmp_path / f"built.{file}").read_bytes()
    by_time = api.ended(api.submit())
    assert by_time["result"]["content"] == state["result"]["content"]
    assert api.call("GET", f"/{by_time['id']}/arrival").status_code == 409


def applied(api: Api) -> int:
    """Enters that the stream had applied all that is archived; when it had."""
    catalog = open_catalog(api.settings)
    table = load(catalog, "plays")
    assert table is not None
    state = archive_state(table)
    with open_store(api.settings.redis_url) as store:
        before = store.run(ReadMetadata())
        stands = before.deployment_version, before.units
        store.run(AdvanceCommitted(before.committed, state.offset_vector, *stands))
        committed = committed_of(store.run(ReadMetadata()), "plays")
        return store.run(EnterCommitted("plays", committed, 0))
