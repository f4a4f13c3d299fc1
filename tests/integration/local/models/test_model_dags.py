"""A model is trained, judged and promoted by runs of a real Airflow, on logged answers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slicewise.local.airflow.api import DagRun
from slicewise.settings import MODELS_FILE
from slicewise.windows.durations import HOUR_US
from tests.support.platform.airflow import PATIENCE_S, PROJECT, USERS, AirflowStack, airflow_stack

pytestmark = pytest.mark.timeout(2400)

LOGGED = """
requests = sw.request_log()
predictions = sw.prediction_log()
labels = sw.label_log()
by_set = sw.request_view(requests)
by_model = sw.prediction_view(predictions)
matured = sw.label_view(labels)
whole = sw.FeatureSet("whole", ["listening:plays_1h", "listening:seconds_1h"], log=requests)
"""
MODELS = """
[models.odd]
features = "whole"
missing = 0
[models.odd.training]
code = "fit.py:fit"
spine = "spine.parquet"
label = "odd"
promotion = "no worse"
"""
FIT = """
from sklearn.linear_model import LogisticRegression

def fit(features, labels, seed):
    return LogisticRegression(random_state=seed).fit(features.to_pandas(), labels)
"""
REQUESTS = 60


@pytest.fixture(scope="module")
def platform() -> Iterator[AirflowStack]:
    with airflow_stack() as stack:
        stack.define(PROJECT + LOGGED)
        yield stack


def ran(platform: AirflowStack, dag_id: str, **conf: object) -> DagRun:
    run = platform.api.trigger(dag_id, conf=conf)
    return platform.api.wait(run, timeout_s=PATIENCE_S)


def test_runs_train_judge_and_promote_a_model(platform: AirflowStack) -> None:
    platform.api.wait_for_dags(["backtest_model", "ingest_stream", "train_model"], PATIENCE_S)
    assert platform.streamed
    (platform.project / "fit.py").write_text(FIT)
    (platform.project / MODELS_FILE).write_text(MODELS)
    # labels of the hour before last, which is older than all that a version is judged on
    first_us = platform.hours[0] * HOUR_US
    rows = [
        {"user_id": f"user {n % USERS}", "at": first_us + 600_000_000 + n * 10_000_000}
        for n in range(240)
    ]
    table = pa.table(
        {
            "user_id": [row["user_id"] for row in rows],
            "at": pa.array([row["at"] for row in rows], pa.timestamp("us", tz="UTC")),
            "odd": [n % USERS % 2 for n in range(240)],
        }
    )
    pq.write_table(table, platform.project / "spine.parquet")

    trained = ran(platform, "train_model", model="odd", hours=1, min_rows=20)
    assert trained.well, shown(platform, trained)
    assert platform.api.task_states(trained) == {
        **dict.fromkeys(("begin", "train", "backtest", "decide", "promote"), "success"),
        "approve": "skipped",
    }
    assert live(platform) == "odd@1", "the first version, by its own measures"

    nothing = ran(platform, "backtest_model", model="odd")
    assert not nothing.well
    assert "is archived yet" in platform.api.log(nothing, "backtest")

    requests(platform)
    platform.job("archive")
    judged = ran(platform, "backtest_model", model="odd", hours=1, min_rows=REQUESTS)
    assert judged.well, platform.api.log(judged, "backtest")[-6000:]
    report: Any = platform.api.xcom(judged, "backtest")
    assert report["measured"] == REQUESTS
    assert "<svg" in page(platform, report["page"])
    [note] = [task.note for task in platform.api.task_runs(judged)]
    assert f"{REQUESTS} of {REQUESTS} logged answers are measured" in note

    again = ran(platform, "train_model", model="odd", hours=1, min_rows=20)
    assert again.well, shown(platform, again)
    compared: Any = platform.api.xcom(again, "backtest")
    assert compared["report"]["beside"] == "odd@1"
    assert compared["report"]["gain"]["verdict"] == "no difference", "the same rows, the same bytes"
    assert live(platform) == "odd@2"
    listed = page(platform, "/slicewise/reports/trainings/")
    assert listed.count("rule no worse") == 2
    [name] = [part for part in listed.split('"') if part.startswith("training-")][:1]
    text = page(platform, f"/slicewise/reports/trainings/{name}")
    assert "odd@2 beside odd@1" in text
    assert "<svg" in text

    a_person_approves(platform)


def a_person_approves(platform: AirflowStack) -> None:
    """With the rule `approval` a run waits, shows its reasons, and promotes in the person's
    name."""
    file = platform.project / MODELS_FILE
    file.write_text(MODELS.replace('"no worse"', '"approval"'))
    run = platform.api.trigger("train_model", conf={"model": "odd", "hours": 1, "min_rows": 20})

    def waits() -> str | None:
        states = platform.api.task_states(run)
        return None if states.get("approve") == "awaiting_input" else f"{states}"

    platform.wait(waits, "the approval", PATIENCE_S)
    assert live(platform) == "odd@2", "nobody has approved yet"
    where = f"/api/v2/dags/train_model/dagRuns/{run.run_id}/taskInstances/approve/-1"
    shown_to = platform.api._http.send("GET", f"{where}/hitlDetails")["body"]
    assert "**odd@3** beside odd@2." in shown_to
    assert "the rule of its model is 'approval'" in shown_to
    answer = {"chosen_options": ["Approve"], "params_input": {}}
    # a person takes longer: Airflow 3.3 fails a task that is answered before its executor has
    # reported that it was parked
    time.sleep(10)
    platform.api._http.send("PATCH", f"{where}/hitlDetails", json=answer)
    ended = platform.api.wait(run, timeout_s=PATIENCE_S)
    assert ended.well, shown(platform, ended)
    assert platform.api.task_states(ended)["approve"] == "success"
    assert live(platform) == "odd@3"
    assert "rule approval" not in page(platform, "/slicewise/reports/trainings/")


def requests(platform: AirflowStack) -> None:
    """Answers that are logged, and their labels."""
    for n in range(REQUESTS):
        entities = [{"user_id": f"user {n % USERS}"}]
        platform.request(feature_set="whole", entities=entities, request_id=f"r{n}")
    labels = [
        {"prediction_id": f"r{n}", "model": "odd", "value": float(n % USERS % 2)}
        for n in range(REQUESTS)
    ]
    url = f"{platform.settings.serving_url}/v1/outcomes"
    answer = httpx.post(url, json={"labels": labels}, timeout=30, trust_env=False)
    assert answer.status_code == 200, answer.text
    platform.wait(
        lambda: None if len(platform.records("requests")) >= REQUESTS else "not all are logged",
        "answers to be logged",
        60,
    )
    time.sleep(1.0)


def live(platform: AirflowStack) -> object:
    return json.loads(platform.cli("models", "odd", "--json").stdout)["models"][0]["live"]


def page(platform: AirflowStack, path: str) -> str:
    answer = httpx.get(f"{platform.settings.airflow_url}{path}", timeout=60, trust_env=False)
    assert answer.status_code == 200, answer.text
    return answer.text


def shown(platform: AirflowStack, run: DagRun) -> str:
    """States of a run's tasks, and the log of the one that failed."""
    states = platform.api.task_states(run)
    logs = [
        platform.api.log(run, name)[-4000:] for name, state in states.items() if state == "failed"
    ]
    return "\n".join([f"{states}", *logs])
