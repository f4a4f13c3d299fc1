"""A backtest that is killed begins again to the same bytes, and leaves no half of a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from skl2onnx import to_onnx
from sklearn.linear_model import LinearRegression

import slicewise as sw
from slicewise.cli import main
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.settings import Settings
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.redis import open_store
from tests.support.platform.killed import killed_after
from tests.support.platform.servers import RedisServer
from tests.support.stores.archived import archive
from tests.unit.training.world import PLAYS, START, TOPIC

SECOND, HOUR = 1_000_000, 3_600_000_000
REF = "users:plays_1h"
REQUESTS, LABELS = sw.request_log(), sw.label_log()
DEPLOYMENT = plan(
    Project.of(
        "test",
        [
            sw.FeatureView(
                "users",
                source=PLAYS,
                entity=["user"],
                features=[sw.Feature("plays", sw.count(), ["1h"])],
            ),
            sw.request_view(REQUESTS),
            sw.label_view(LABELS),
            sw.FeatureSet("taste", [REF], log=REQUESTS),
        ],
    )
)
MODELS = f"""
[models.taste]
features = ["{REF}"]
onnx = "taste.onnx"
"""


def _at(n: int) -> dict[str, Any]:
    return {"partition": 0, "offset": n, "logged_at": START + n * SECOND}


def logged(n: int) -> dict[str, Any]:
    """An answer of the set, as the API logs it."""
    return {
        **_at(n),
        "event_id": f"r{n}",
        "request_id": f"r{n}",
        "feature_set": "taste",
        "deployment": DEPLOYMENT.digest,
        "mode": "live",
        "answered_at": START + n * SECOND,
        "entity": json.dumps({"user": f"u{n % 5}"}),
        "answer": json.dumps({REF: n % 7}),
    }


def labelled(n: int) -> dict[str, Any]:
    """A label of the request of this number."""
    return {**_at(n), "event_id": f"l{n}", "prediction_id": f"r{n}", "value": float(n % 7 > 3)}


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_redis: RedisServer) -> None:
    """Logs of sixty answers and their labels, and a model of the project."""
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SLICEWISE_PROJECT", str(tmp_path))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", own_redis.url)
    (tmp_path / "models.toml").write_text(MODELS)
    x = np.arange(14, dtype=np.float32)[:, None]
    model = LinearRegression().fit(x, x[:, 0] / 14)
    (tmp_path / "taste.onnx").write_bytes(to_onnx(model, x[:1]).SerializeToString())
    catalog = open_catalog(Settings.load())
    for name, of in (("requests", logged), ("labels", labelled)):
        events = [of(n) for n in range(60)]
        archive(catalog, DEPLOYMENT.source(name), TOPIC, 1, events, [], START + HOUR)
    store = open_store(own_redis.url)
    store.run(Initialise())
    store.run(Deploy(DEPLOYMENT, store.run(ReadMetadata()).deployment_version))
    store.close()


def test_a_killed_backtest_begins_again_to_the_same_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing stands under a final name that is not whole, whenever it is killed."""
    whole, folder = tmp_path / "whole", tmp_path / "again"
    whole.mkdir()
    folder.mkdir()

    def backtest(into: Path) -> list[str]:
        files = ["--html", str(into / "taste.html"), "--out", str(into / "rows.parquet")]
        return ["backtest", "taste", "--no-archive", *files]

    assert main(backtest(whole)) == 0, capsys.readouterr().err
    assert "60 of 60 logged answers are measured" in capsys.readouterr().out
    wanted = {path.name: path.read_bytes() for path in whole.iterdir()}
    assert wanted.keys() == {"taste.html", "rows.parquet"}
    steps = 0
    while killed_after(steps, folder, backtest(folder), os.environ):
        stands = {path.name: path.read_bytes() for path in folder.glob("[!.]*")}
        assert stands.items() <= wanted.items(), f"half of it stands after {steps} steps"
        steps += 1
    print(f"killed after each of {steps} steps")
    assert steps >= 4, "each file is written and takes its name"
    assert {path.name: path.read_bytes() for path in folder.glob("[!.]*")} == wanted
