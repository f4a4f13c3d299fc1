"""A wrong spine is refused before a store, the log or Spark is asked for anything."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.cli import main
from slicewise.errors import BadRequest, SlicewiseError, StoreUnavailable, UnknownName
from slicewise.settings import Settings
from tests.unit.training.test_dataset import DEPLOYMENT
from tests.unit.training.world import START

EMPTY = pa.table({"user": pa.array([], pa.string()), "at": pa.array([], pa.int64())})
ROW = {"user": "ann", "at": START}


class Listener:
    """A port on which every server of the settings would be; it counts who comes."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"

    def came(self) -> bool:
        try:
            self.socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.socket.close()


@pytest.fixture
def settings(tmp_path: Path, listener: Listener) -> Settings:
    return replace(
        Settings.load({"SLICEWISE_STATE": str(tmp_path / "state")}),
        redis_url=f"redis://{listener.address}/0",
        kafka_bootstrap=listener.address,
    )


def naive() -> pd.DataFrame:
    return pd.DataFrame({"user": ["a"], "at": pd.to_datetime(["2026-01-01"])})


@pytest.mark.parametrize(
    ("spine", "features", "knowledge", "message"),
    [
        ([], "churn", "event_time", "the spine has no rows"),
        (EMPTY, "churn", "event_time", "the spine has no rows"),
        ([{"user": "ann"}], "churn", "event_time", "the spine lacks at"),
        (pa.table([["a"], ["b"], [START]], names=["user", "user", "at"]), "churn", "event_time", "two columns"),
        ([ROW, {"user": "a", "at": None}], "churn", "event_time", "column 'at', row 1"),
        (naive(), "churn", "event_time", "has no time zone"),
        ([{"user": "a", "at": 1.5}], "churn", "event_time", "column 'at'"),
        ([ROW], [], "event_time", "no features"),
        ([ROW], ["users:n_10m", "churn"], "event_time", "'churn' is no feature"),
        ([ROW], ["users:n_10m"] * 2, "event_time", "stand twice"),
        ([ROW], "churn", "hindsight", "knowledge 'hindsight'"),
        ([ROW], "churn", "token", "no tokens"),
        ([{**ROW, "token": "x"}], "churn", "token", "column 'token', row 0"),
        ([{**ROW, "users:n_10m": 1}], ["users:n_10m"], "event_time", "already"),
        ("nowhere.csv", "churn", "event_time", "there is no such file"),
    ],
)  # fmt: skip
def test_what_is_wrong_under_any_deployment_is_said_without_a_server(
    settings: Settings, listener: Listener, spine: Any, features: Any, knowledge: str, message: str
) -> None:
    with pytest.raises(BadRequest, match=message) as refused:
        sw.training_set(spine, features, knowledge, settings=settings)
    assert refused.value.next_step, "what to do"
    assert not listener.came()
    assert not settings.state_dir.exists(), "nor is a catalog made"


@pytest.mark.parametrize(
    ("spine", "features", "kind", "message"),
    [
        ([{"at": START}], "churn", BadRequest, "lacks user"),
        ([ROW, {"user": None, "at": START}], "churn", BadRequest, "column 'user', row 1"),
        ([{"user": 7, "at": START}], "churn", BadRequest, "of type int64"),
        ([ROW], ["users:m_10m"], UnknownName, "m_10m"),
        ([ROW], "churns", UnknownName, "churns"),
    ],
)
def test_what_is_wrong_by_the_deployment_is_said_before_archive_log_and_spark(
    settings: Settings,
    listener: Listener,
    spine: Any,
    features: Any,
    kind: type[SlicewiseError],
    message: str,
) -> None:
    with pytest.raises(kind, match=message):
        sw.training_set(spine, features, deployment=DEPLOYMENT, settings=settings)
    assert not listener.came()
    assert not settings.state_dir.exists()


def test_a_spine_that_is_right_goes_on_to_the_store(settings: Settings, listener: Listener) -> None:
    listener.socket.close()
    with pytest.raises(StoreUnavailable):
        sw.training_set([ROW], "churn", settings=settings)


def test_the_command_says_the_same_and_looks_where_its_result_goes(
    tmp_path: Path,
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", f"redis://{listener.address}/0")
    spine = tmp_path / "spine.csv"
    spine.write_text("user,at\nann,2026-01-01T00:00:00\n")
    build = ["dataset", "build", "--features", "churn", "--spine", str(spine)]
    for out, message in (
        (tmp_path / "o.csv", "has no time zone"),
        (tmp_path / "no" / "o.csv", "there is no folder"),
        (spine, "is the spine"),
    ):
        assert main([*build, "--out", str(out)]) == 1
        output = capsys.readouterr().err
        assert message in output
        assert "next step" in output
    assert not listener.came()
    assert spine.read_text().startswith("user,at"), "the spine is not written over"
