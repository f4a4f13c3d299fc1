"""A job tells its lineage beside its work: a receiver that is away or slow costs it nothing."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from slicewise.clock import SystemClock
from slicewise.settings import Settings
from slicewise.spark.lineage import report
from slicewise.spark.lineage.report import PARENT, Lineage, lineage_of
from tests.support.platform.receiver import Receiver, receiving

MANIFEST: dict[str, Any] = {
    "sources": [
        {"name": "plays", "topic": "plays", "columns": [["user", "string"], ["n", "long"]]}
    ],
    "units": [
        {
            "view": "listening",
            "source": "plays",
            "project": "x",
            "entity": [["user", "string"]],
            "where": None,
            "columns": [],
            "features": [{"column": "n_1h", "aggregate": {"kind": "sum", "column": "n"}}],
            "storage_fingerprint": "0011223344556677",
        }
    ],
}
TASK = "of/Airflow/compact_slices.compact/01939761-5298-7a52-9d2c-5a0e01b05a4e"


def settings(url: str) -> Settings:
    return Settings.load({"SLICEWISE_LINEAGE_URL": url, "SLICEWISE_LINEAGE_NAMESPACE": "music"})


def sent(receiver: Receiver, kind: str) -> dict[str, dict[str, Any]]:
    return {post["job"]["name"]: post for post in receiver.posts if post["eventType"] == kind}


def test_a_job_says_what_each_of_its_steps_read_and_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PARENT, TASK)
    with receiving() as receiver:
        with lineage_of(settings(receiver.url), "compact", SystemClock()) as lineage:
            lineage.complete(MANIFEST)
        deadline = time.monotonic() + 20
        while len(receiver.posts) < 5 and time.monotonic() < deadline:
            time.sleep(0.05)
    done = sent(receiver, "COMPLETE")
    assert sent(receiver, "START").keys() == {"compact"}
    steps = {"compact.archive", "compact.hours", "compact.publish"}
    assert done.keys() == {"compact"} | steps
    assert {post["job"]["namespace"] for post in receiver.posts} == {"music"}
    job = done["compact"]["run"]
    task = job["facets"]["parent"]["job"]
    assert (task["namespace"], task["name"]) == ("of/Airflow", "compact_slices.compact")
    for step in steps:
        assert done[step]["run"]["facets"]["parent"]["run"]["runId"] == job["runId"]
    (view,) = done["compact.publish"]["outputs"]
    (read,) = view["facets"]["columnLineage"]["fields"]["n_1h"]["inputFields"]
    assert (read["name"], read["field"]) == ("log.plays", "n")
    assert [one["name"] for one in view["facets"]["schema"]["fields"]] == ["user", "n_1h"]


def fail(receiver: Receiver) -> None:
    with lineage_of(settings(receiver.url), "compact", SystemClock()):
        raise ValueError("no room")


def test_a_job_that_fails_says_so_and_names_no_data() -> None:
    with receiving() as receiver:
        with pytest.raises(ValueError, match="no room"):
            fail(receiver)
        deadline = time.monotonic() + 20
        while not sent(receiver, "FAIL") and time.monotonic() < deadline:
            time.sleep(0.05)
    failed = sent(receiver, "FAIL")["compact"]
    assert failed["run"]["facets"]["errorMessage"]["message"] == "ValueError: no room"
    assert failed["outputs"] == []
    assert "COMPLETE" not in {post["eventType"] for post in receiver.posts}


def test_a_receiver_that_is_slow_holds_no_job_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_TIMEOUT_S", 60.0)
    with receiving() as slow:
        slow.gate.clear()
        opened = threading.Timer(20, slow.gate.set)
        opened.start()
        with lineage_of(settings(slow.url), "compact", SystemClock()) as lineage:
            for _ in range(50):
                lineage.running(MANIFEST)
            lineage.complete(MANIFEST)
        assert slow.answered == 0, "the job waited for an answer"
        opened.cancel()
        slow.gate.set()


def test_a_receiver_that_is_away_fails_no_job() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # listens to nobody
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with lineage_of(settings(url), "compact", SystemClock()) as lineage:
            lineage.complete(MANIFEST)


def test_without_an_address_nothing_is_started() -> None:
    lineage = Lineage(settings(""), "stream", SystemClock(), streaming=True)
    lineage.begin()
    lineage.running(MANIFEST)
    lineage.close()
    assert lineage._thread is None
