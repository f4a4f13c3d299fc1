"""Answers, predictions and labels become events of a running platform.

Its archive gives the answers again, as the very bytes.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
import skops.io
from skl2onnx import to_onnx
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score

from tests.support.platform.stack import Stack, stack_of

DEFINITIONS = """
import slicewise as sw

plays = sw.KafkaSource(
    "plays",
    schema={"user_id": "string", "song": "string", "seconds": "double", "played_at": "timestamp_us"},
    timestamp="played_at",
)
listening = sw.FeatureView(
    "listening",
    source=plays,
    entity=["user_id"],
    features=[
        sw.Feature("plays", sw.count(), windows=["10m", "1d", sw.rows(3)]),
        sw.Feature("seconds", sw.mean("seconds"), windows=["10m", "1d", sw.exact_range("10m")]),
        sw.Feature("songs", sw.last_k("song", k=3), windows=["1h"]),
        sw.Feature("visit", sw.count(), windows=[sw.session("1m", max_length="1h")]),
    ],
)
everyone = sw.FeatureView(
    "everyone", source=plays, entity=[], features=[sw.Feature("plays", sw.count(), windows=["1h"])]
)
requests = sw.request_log()
predictions = sw.prediction_log()
labels = sw.label_log()
by_set = sw.request_view(requests)
by_model = sw.prediction_view(predictions)
by_id = sw.matching_view(predictions)
matured = sw.label_view(labels)
FEATURES = [
    "listening:plays_10m",
    "listening:plays_rows_3",
    "listening:seconds_1d",
    "listening:seconds_exact_10m",
    "listening:songs_1h",
    "listening:visit_session_1m",
    "everyone:plays_1h",
]
whole = sw.FeatureSet("whole", FEATURES, log=requests, defaults={"listening:seconds_1d": 0.5})
some = sw.FeatureSet("some", ["listening:plays_1d"], log=requests, log_rate=0.5)
silent = sw.FeatureSet("silent", ["listening:plays_1d"])
"""
USERS = [f"u{n}" for n in range(40)]


def produced(running: Stack, first: int) -> None:
    now_us = time.time_ns() // 1000
    records = []
    for n in range(first, first + 300):
        event = {
            "user_id": USERS[n % 30],  # ten users never come
            "song": f"s{n % 7}",
            "seconds": None if n % 11 == 0 else n / 3,
            "played_at": now_us - (300 - n % 300) * 1_000_000,
        }
        records.append((n % 2, json.dumps(event).encode(), now_us // 1000))
    running.produce("plays", records)
    running.wait_applied("plays")


def answer_to(running: Stack, name: str, user: str, **more: Any) -> dict[str, Any]:
    body = {"feature_set": name, "entities": [{"user_id": user}], **more}
    return running.request(**body)


def logged(running: Stack) -> list[dict[str, Any]]:
    return [json.loads(value) for *_, value in running.records("requests")]


def test_answers_are_logged_watched_and_answered_again(tmp_path: Path) -> None:
    with stack_of(DEFINITIONS, tmp_path, {"SLICEWISE_REALTIME": "on"}) as running:
        running.cli("apply")
        running.up("serving")
        running.start_stream()
        produced(running, 0)

        # one by one and together, of one entity and of several
        given: dict[str, dict[str, Any]] = {}
        for n, user in enumerate(USERS):
            given[f"r{n}"] = answer_to(running, "whole", user, request_id=f"r{n}")
        produced(running, 300)
        with ThreadPoolExecutor(16) as pool:
            wanted = [f"t{n}" for n in range(200)]
            answers = pool.map(
                lambda n: answer_to(running, "whole", USERS[n % 40], request_id=f"t{n}"), range(200)
            )
            given |= dict(zip(wanted, answers, strict=True))
        entities = [{"user_id": user} for user in USERS]
        several = running.request(feature_set="whole", entities=entities, request_id="all")
        for _ in range(3):
            for user in USERS:
                answer_to(running, "some", user)
                answer_to(running, "silent", user)
        past = answer_to(running, "whole", "u1", at=time.time_ns() // 1000 - 60_000_000)

        most = len(given) + len(entities) + 1
        running.wait(
            lambda: None if len(logged(running)) > most else f"{len(logged(running))} are logged",
            "answers to be logged",
            30,
        )
        time.sleep(1.0)
        events = logged(running)
        by_set = {
            name: [e for e in events if e["feature_set"] == name] for name in ("whole", "some")
        }
        assert len(by_set["whole"]) == most
        assert len(by_set["whole"]) + len(by_set["some"]) == len(events)
        of_request = {event["request_id"]: event for event in by_set["whole"]}
        for name, answer in given.items():
            event, [result] = of_request[name], answer["results"]
            assert json.loads(event["answer"]) == result["values"]
            assert json.loads(event["entity"]) == result["entity"]
            assert event["token"] == result["token"]
            assert event["null_count"] == sum(v is None for v in result["values"].values())
        of_all = [event for event in by_set["whole"] if event["request_id"] == "all"]
        assert [
            json.loads(event["answer"]) for event in sorted(of_all, key=lambda e: e["entity"])
        ] == [
            result["values"]
            for result in sorted(several["results"], key=lambda r: r["entity"]["user_id"])
        ]
        assert any(json.loads(e["answer"]) == past["results"][0]["values"] for e in by_set["whole"])
        # half of the users, each of them always
        sampled = {event["entity"] for event in by_set["some"]}
        assert 5 < len(sampled) < 35
        assert len(by_set["some"]) == 3 * len(sampled)

        sent = outcomes(running)
        assert sent == {"predictions": 50, "labels": 40}
        assert outcomes(running) == sent  # again, as a client whose connection broke
        running.wait_applied("predictions")
        running.wait_applied("labels")
        running.wait_applied("requests")
        [watched] = running.request(
            features=["predictions_by_model:predictions_1h", "labels_by_model:accuracy_1h"],
            entities=[{"model": "fraud"}],
        )["results"]
        assert watched["values"] == {
            "predictions_by_model:predictions_1h": 50,
            "labels_by_model:accuracy_1h": 0.75,
        }
        [watched] = running.request(
            features=["requests_by_set:answers_1h"], entities=[{"feature_set": "whole"}]
        )["results"]
        assert watched["values"] == {"requests_by_set:answers_1h": most}

        running.job("archive")
        done = running.cli("replay-requests", "--json")
        report = json.loads(done.stdout)
        assert report["differing"] == []
        assert (report["answers"], report["equal"]) == (len(events), len(events))
        metrics = httpx.get(f"{running.settings.serving_url}/metrics", trust_env=False).text
        assert f"slicewise_logged_answers_total {float(len(events))}" in metrics
        assert "slicewise_lost_answers_total{" not in metrics
        a_model_is_judged(running, given)
        a_version_is_judged_beside_the_live_one(running)
        bare_labels_are_set_beside_their_predictions(running)


def a_model_is_judged(running: Stack, given: dict[str, dict[str, Any]]) -> None:
    """A model is judged on what was logged: by the answers, and by a feature that was not one."""
    folder = running.settings.project_dir
    inputs = ["listening:plays_10m", "listening:seconds_1d"]
    chance = np.random.default_rng(3)
    x = chance.normal(size=(100, 2)) * (10, 50)
    candidate = LogisticRegression().fit(x, x[:, 0] > 0)
    skops.io.dump(candidate, folder / "candidate.skops")
    wider = LinearRegression().fit(x[:, :1], x[:, 0])
    (folder / "wider.onnx").write_bytes(to_onnx(wider, x[:1, :1]).SerializeToString())
    (folder / "models.toml").write_text(
        f"[models.candidate]\nfeatures = {json.dumps(inputs)}\nskops = 'candidate.skops'\n"
        'positive = "fraud"\n[models.wider]\nfeatures = ["listening:plays_1d"]\n'
        'onnx = "wider.onnx"\npositive = "fraud"\n'
        f"[models.plain]\nfeatures = {json.dumps(inputs[:1])}\nonnx = 'wider.onnx'\n"
        'positive = "fraud"\n'
    )
    command = ("backtest", "candidate", "--beside", "fraud", "--set", "whole", "--json")
    page = folder / "candidate.html"
    report = json.loads(running.cli(*command, "--html", str(page)).stdout)
    assert (report["features"], report["scores_of_a"]) == ("served", "sent")
    assert report["measured"] == 40
    without = report["requests"] - 41
    assert report["left_out"] == {"about a past instant": 1, "without a label": without}
    labels = [float(n % 4 == 3) for n in range(40)]
    of_a = roc_auc_score(labels, [n / 50 for n in range(40)])
    assert report["measures_of_a"]["values"]["auc"] == of_a
    values = [given[f"r{n}"]["results"][0]["values"] for n in range(40)]
    rows = np.array([[one[ref] for ref in inputs] for one in values], np.float64)
    of_b = roc_auc_score(labels, candidate.predict_proba(rows)[:, 1])
    assert report["measures"]["values"]["auc"] == of_b
    assert "<svg" in page.read_text()

    report = json.loads(
        running.cli("backtest", "candidate", "--beside", "plain", "--set", "whole", "--json").stdout
    )
    assert (report["scores_of_a"], report["measured"]) == ("computed", 40)
    of_a = roc_auc_score(labels, rows[:, 0])
    assert report["measures_of_a"]["values"]["auc"] == of_a

    out = folder / "rows.parquet"
    command = ("backtest", "wider", "--set", "whole", "--json", "--out", str(out))
    report = json.loads(running.cli(*command).stdout)
    assert (report["features"], report["measured"]) == ("arrival", 40)
    # what the stream had applied in the second before may be missing, and nothing else
    written = pq.read_table(out).to_pylist()
    scores = {row["request_id"]: row["score_b"] for row in written}
    for n in range(40):
        plays = given[f"r{n}"]["results"][0]["values"]["listening:plays_10m"]
        nearest = wider.predict(np.arange(plays + 1.0)[:, None])
        assert np.abs(nearest - scores[f"r{n}"]).min() < 1e-3
    assert {round(scores[f"r{n}"]) for n in range(30, 40)} == {0}, "who never came"


def a_version_is_judged_beside_the_live_one(running: Stack) -> None:
    """A name stands for the live version wherever a model is named."""
    folder = running.settings.project_dir
    (folder / "train.py").write_text(
        "from sklearn.linear_model import LogisticRegression\n\n"
        "def fit(features, labels, seed):\n"
        "    return LogisticRegression().fit(features.to_pandas(), labels)\n"
    )
    (folder / "models.toml").write_text(
        '[models.own]\nfeatures = ["listening:plays_10m", "listening:seconds_1d"]\n'
        'positive = "fraud"\nmissing = 0\n[models.own.training]\ncode = "train.py:fit"\n'
        "spine = \"sql:SELECT user_id, played_at AS at, CASE WHEN seconds > 60 THEN 'fraud' "
        'ELSE \'fair\' END AS label FROM plays"\nlabel = "label"\n'
    )
    trained = [json.loads(running.cli("train", "own", "--json").stdout) for _ in range(2)]
    assert [one["model"] for one in trained] == ["own@1", "own@2"]
    assert trained[0]["sha256"] == trained[1]["sha256"]
    running.cli("promote-model", "own@1", "--by", "ann", "--instead-of", "none")
    command = ("backtest", "own@2", "--beside", "own", "--set", "whole", "--json")
    report = json.loads(running.cli(*command).stdout)
    assert (report["measured"], report["scores_of_a"]) == (40, "computed")
    assert report["measures"] == report["measures_of_a"]
    assert report["inputs"]["models"] == dict.fromkeys(("own@2", "own"), trained[0]["sha256"])


def bare_labels_are_set_beside_their_predictions(running: Stack) -> None:
    labels = [{"prediction_id": f"p{n}", "label": "fair"} for n in range(40, 50)]
    url = f"{running.settings.serving_url}/v1/outcomes"
    body = {"labels": [*labels, {"prediction_id": "of nobody", "label": "fair"}]}
    answer = httpx.post(url, json=body, timeout=30, trust_env=False)
    assert answer.json() == {"predictions": 0, "labels": 11}, answer.text
    events = [json.loads(value) for *_, value in running.records("labels")]
    matched = {event["prediction_id"]: event for event in events if event["label"] == "fair"}
    for n in range(40, 50):
        event = matched[f"p{n}"]
        assert (event["model"], event["score"]) == ("fraud", n / 50)
        assert event["predicted"] == ("fraud" if n % 2 else "fair")
    assert matched["of nobody"]["model"] is None
    metrics = httpx.get(f"{running.settings.serving_url}/metrics", trust_env=False).text
    assert 'slicewise_matched_labels_total{outcome="matched"} 10.0' in metrics
    assert 'slicewise_matched_labels_total{outcome="unmatched"} 1.0' in metrics
    running.wait_applied("labels")
    [watched] = running.request(
        features=["labels_by_model:labels_1h", "labels_by_model:accuracy_1h"],
        entities=[{"model": "fraud"}],
    )["results"]
    assert watched["values"] == {
        "labels_by_model:labels_1h": 50,
        "labels_by_model:accuracy_1h": 35 / 50,
    }


def outcomes(running: Stack) -> dict[str, int]:
    predictions = [
        {
            "prediction_id": f"p{n}",
            "model": "fraud",
            "score": n / 50,
            "predicted": "fraud" if n % 2 else "fair",
            "request_id": f"r{n}",
            "entity": {"user_id": f"u{n}"},
        }
        for n in range(50)
    ]
    labels = [
        {
            "prediction_id": f"p{n}",
            "model": "fraud",
            "predicted": "fraud" if n % 2 else "fair",
            "label": "fair" if n % 4 == 1 else "fraud" if n % 2 else "fair",
        }
        for n in range(40)
    ]
    url = f"{running.settings.serving_url}/v1/outcomes"
    body = {"predictions": predictions, "labels": labels}
    answer = httpx.post(url, json=body, timeout=30, trust_env=False)
    assert answer.status_code == 200, answer.text
    taken: dict[str, int] = answer.json()
    return taken
