"""A model is trained on a real lake, trained again to the same bytes, promoted and gone back
from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from slicewise.cli import main
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.settings import Settings
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.lake.records import records
from slicewise.stores.lake.schemas import DATASETS
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.redis import open_store
from tests.support.platform.servers import RedisServer
from tests.support.stores.archived import archive
from tests.unit.training.world import PLAYS, START, TOPIC, random_events

HOUR = 3_600_000_000
END = START + 7 * HOUR
DEPLOYMENT = plan(
    Project.of(
        "test",
        [
            sw.FeatureView(
                "users",
                source=PLAYS,
                entity=["user"],
                features=[
                    sw.Feature("plays", sw.count(), ["1h"]),
                    sw.Feature("seconds", sw.mean("stars"), ["3h"]),
                ],
            ),
            sw.FeatureSet(
                "taste",
                ["users:plays_1h", "users:seconds_3h"],
                defaults={"users:seconds_3h": 1.5},
            ),
        ],
    )
)
CODE = """
import numpy as np
from sklearn.linear_model import LogisticRegression


def fit(features, labels, seed):
    assert not np.isnan(features["users:seconds_3h"].to_numpy()).any(), "it has a default"
    return LogisticRegression(random_state=seed).fit(features.to_pandas(), labels)
"""
MODELS = """
[models.taste]
features = "taste"
positive = "liked"
missing = -1
[models.taste.training]
code = "train.py:fit"
spine = '''sql:SELECT user, played_at AS at,
    CASE WHEN stars >= 3 THEN 'liked' WHEN stars IS NOT NULL THEN 'left' END AS opinion
    FROM plays'''
label = "opinion"
matured = "30m"
seed = 7
"""


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_redis: RedisServer) -> Settings:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SLICEWISE_PROJECT", str(tmp_path))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", own_redis.url)
    (tmp_path / "models.toml").write_text(MODELS)
    (tmp_path / "train.py").write_text(CODE)
    settings = Settings.load()
    source = DEPLOYMENT.source("plays")
    archive(open_catalog(settings), source, TOPIC, 1, random_events(7, 600), [], END)
    store = open_store(own_redis.url)
    store.run(Initialise())
    store.run(Deploy(DEPLOYMENT, store.run(ReadMetadata()).deployment_version))
    store.close()
    return settings


def command(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code, capsys.readouterr().err
    shown = capsys.readouterr()
    return json.loads(shown.out) if shown.out else shown.err


def test_a_model_is_trained_again_to_the_same_bytes_promoted_and_gone_back_from(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    first = command(capsys, "train", "taste")
    assert first["model"] == "taste@1"
    rows = [e for e in random_events(7, 600) if e["stars"] is not None]
    newest = max(e["played_at"] for e in random_events(7, 600))
    rows = [e for e in rows if e["played_at"] <= newest - HOUR // 2]
    assert first["rows"] == len(rows)
    assert first["label_rate"] == sum(e["stars"] >= 3 for e in rows) / len(rows)
    assert first["left_out"].keys() == {"without a label", "newer than 30m before the newest"}
    assert 0 < first["measures"]["auc"] < 1

    second = command(capsys, "train", "taste")
    assert (second["model"], second["sha256"]) == ("taste@2", first["sha256"])
    again = command(capsys, "train", "--again", "taste@1")
    assert again["same"], again
    assert again["differs"] == []
    names = [row["name"] for row in records(open_catalog(settings), DATASETS)]
    assert sorted(names) == ["taste@1", "taste@2"]

    folder = settings.models_folder / "taste"
    assert sorted(path.name for path in (folder / "1").iterdir()) == [
        "data.manifest.json",
        "data.spine.parquet",
        "manifest.json",
        "model.skops",
    ]
    assert not list(folder.glob(".training-*"))
    assert (folder / "1" / "model.skops").read_bytes() == (
        folder / "2" / "model.skops"
    ).read_bytes()

    assert "no version of model 'taste' is live" in command(capsys, "backtest", "taste", code=1)
    promoted = command(capsys, "promote-model", "taste@2", "--by", "ann", "--instead-of", "none")
    assert promoted == {"model": "taste@2", "before": None}
    assert "is taste@2, not taste@1" in command(
        capsys, "promote-model", "taste@1", "--by", "bob", "--instead-of", "taste@1", code=1
    )
    back = command(capsys, "promote-model", "taste@1", "--by", "bob", "--instead-of", "taste@2")
    assert back == {"model": "taste@1", "before": "taste@2"}
    (listed,) = command(capsys, "models", "taste")["models"]
    assert (listed["live"], listed["kind"]) == ("taste@1", "trained")
    assert listed["location"] == str(folder / "1" / "model.skops")
    assert [(one["by"], one["from"], one["to"]) for one in listed["promotions"]] == [
        ("ann", None, "taste@2"),
        ("bob", "taste@2", "taste@1"),
    ]
    assert main(["models"]) == 0
    assert "taste@2" in capsys.readouterr().out
