"""A client uploads no more than the bound, and reads tables of the namespaces that are open to it
alone."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest

import slicewise as sw
from slicewise.serving.http.protocol import SEND_S
from tests.integration.serving.http.training_sets.support import REFS, Api, api_on, until

MOST = 20_000


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with api_on(
        tmp_path_factory.mktemp("bounds"),
        SLICEWISE_TRAINING_SETS_BYTES=str(MOST),
        SLICEWISE_TRAINING_SETS_NAMESPACES="marketing, log",
    ) as api:
        yield api


def post(api: Api, content: bytes) -> int:
    headers = {"content-type": "application/vnd.apache.parquet"}
    reply = api.call("POST", params={"features": "churn_v1"}, content=content, headers=headers)
    return reply.status_code


def test_a_spine_beyond_the_bound_is_refused_and_nothing_of_it_is_kept(api: Api) -> None:
    assert post(api, b"x" * (MOST + 1)) == 413
    assert post(api, iter([b"x" * MOST, b"x"])) == 413, "of no declared length"  # type: ignore[arg-type]
    assert post(api, b"") == 400
    assert not list(api.folder.glob(".incoming-*"))


def test_a_table_of_an_open_namespace_is_a_spine(api: Api, tmp_path: Path) -> None:
    rows = pq.read_table(api.spine(tmp_path / "spine.parquet"))
    built = sw.training_set(rows, REFS[:1], settings=api.settings)
    built.to_iceberg("marketing.churn", api.settings)
    done = api.ended(api.submit(spine="iceberg:marketing.churn", features=REFS[1:]))
    assert (done["state"], done["result"]["rows"]) == ("done", 12)
    missing = api.ended(api.submit(spine="iceberg:marketing.none", features=REFS[1:]))
    assert "there is no table 'marketing.none'" in missing["error"]["what"]


def test_a_table_of_the_platform_is_none_whatever_is_open(api: Api) -> None:
    state = api.ended(api.submit(spine="iceberg:log.plays"))
    assert state["state"] == "failed"
    assert "'log' holds tables of the platform" in state["error"]["what"]


def test_a_slow_upload_has_its_time_and_one_that_stands_still_has_not(
    api: Api, tmp_path: Path
) -> None:
    content = api.spine(tmp_path / "spine.parquet").read_bytes()
    head = (
        "POST /v1/training-sets?features=churn_v1 HTTP/1.1\r\nhost: api\r\n"
        "content-type: application/vnd.apache.parquet\r\n"
        f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
    ).encode()
    parts = [
        content[i : i + len(content) // 4 + 1]
        for i in range(0, len(content), len(content) // 4 + 1)
    ]
    address = urlsplit(api.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as slow:
        slow.sendall(head)
        begun = time.monotonic()
        for part in parts:
            time.sleep(SEND_S / 2.5)
            slow.sendall(part)
        assert time.monotonic() - begun > SEND_S
        assert slow.recv(64).startswith(b"HTTP/1.1 202")
    with socket.create_connection((address.hostname, address.port), timeout=30) as still:
        still.sendall(head + parts[0])
        assert still.recv(64).startswith(b"HTTP/1.1 408")
    # what was behind it sees that a moment later
    until(lambda: not list(api.folder.glob(".incoming-*")))
