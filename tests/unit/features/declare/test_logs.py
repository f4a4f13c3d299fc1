"""A feature set logs to a source that is a request log, or says why it cannot."""

from __future__ import annotations

import json
from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.logs import COLUMNS, kind_of
from slicewise.features.plan.changes.history import changed
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan

PLAYS = sw.KafkaSource(
    "plays", schema={"user": "string", "played_at": "timestamp_us"}, timestamp="played_at"
)
LISTENING = sw.FeatureView(
    "listening",
    source=PLAYS,
    entity=["user"],
    features=[sw.Feature("plays", sw.count(), windows=["1h"])],
)
REFS = ["listening:plays_1h"]
REQUESTS = sw.request_log()


def planned(*views: sw.FeatureView, **log: Any) -> Deployment:
    return plan(Project("tests", (LISTENING, *views), (sw.FeatureSet("set", REFS, **log),)))


@pytest.mark.parametrize(
    "log",
    [
        {"log": PLAYS},
        {"log": sw.label_log()},
        {"log": "requests"},
        {"log": REQUESTS, "log_rate": 0.0},
        {"log": REQUESTS, "log_rate": 1.5},
        {"log": REQUESTS, "log_rate": True},
        {"log_rate": 0.5},
    ],
)
def test_what_is_no_log_is_refused_where_it_is_written(log: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError) as refused:
        sw.FeatureSet("set", REFS, **log)
    assert "set" in str(refused.value.where)


def test_a_log_that_no_view_reads_is_refused_since_nobody_would_archive_it() -> None:
    with pytest.raises(DefinitionError, match="no view reads"):
        planned(log=REQUESTS)


def test_two_logs_of_one_name_are_refused() -> None:
    other = sw.request_log(topic="elsewhere")
    with pytest.raises(DefinitionError, match="two different sources"):
        planned(sw.request_view(REQUESTS), log=other)


def test_a_deployment_says_what_is_logged_and_one_without_a_log_says_nothing() -> None:
    view = sw.request_view(REQUESTS)
    logged, plain = planned(view, log=REQUESTS, log_rate=0.25), planned(view)
    assert Deployment.from_json(logged.to_json()) == logged
    assert (logged.feature_set("set").log, logged.feature_set("set").log_rate) == ("requests", 0.25)
    assert "log" not in json.loads(plain.to_json())["feature_sets"][0]
    [change] = [one for one in changed(logged, plain) if one.name == "set"]
    assert change.differences == ("answers are logged to requests, 0.25 of entities, were nowhere",)


@pytest.mark.parametrize("kind", sorted(COLUMNS))
def test_a_source_is_a_log_by_its_columns(kind: str) -> None:
    made = {"answers": sw.request_log, "predictions": sw.prediction_log, "labels": sw.label_log}
    source = made[kind]("any_name")
    assert kind_of(source.schema) == kind
    assert kind_of({**source.schema, "more": "string"}) is None
    assert kind_of(PLAYS.schema) is None


def evaluated(view: sw.FeatureView, events: list[dict[str, Any]], **entity: str) -> dict[str, Any]:
    query = {**entity, "at": "1970-01-01T00:10:00Z"}
    row: dict[str, Any] = sw.evaluate(view, events, [query]).to_pylist()[0]
    return row


def test_the_views_over_logs_have_values_of_logged_events() -> None:
    answers = [
        {
            "request_id": f"r{n}",
            "logged_at": n * 1_000_000,
            "feature_set": "set",
            "deployment": "d",
            "answered_at": n,
            "entity": f'{{"user":"u{n % 2}"}}',
            "answer": "{}",
            "flags": "stale" if n == 3 else "",
            "feature_count": 4,
            "null_count": n % 2,
            "latency_us": 100 * n,
        }
        for n in range(4)
    ]
    values = evaluated(sw.request_view(REQUESTS), answers, feature_set="set")
    assert values["answers_10m"] == 4
    assert values["null_share_10m"] == 0.125
    assert (values["flagged_10m"], values["latency_us_most_10m"], values["entities_10m"]) == (
        1,
        300,
        2,
    )

    labels = [
        {
            "event_id": f"e{n}",
            "prediction_id": f"p{n}",
            "logged_at": n * 1_000_000,
            "model": "m",
            "label": label,
            "predicted": predicted,
            "value": value,
            "score": score,
        }
        for n, (label, predicted, value, score) in enumerate(
            [("a", "a", 1.0, 0.5), ("a", "b", 0.0, 0.5), ("a", None, None, None)]
        )
    ]
    view = sw.label_view(sw.label_log())
    values = evaluated(view, labels, model="m")
    assert (values["labels_10m"], values["accuracy_10m"]) == (3, 0.5)
    assert (values["error_10m"], values["squared_error_10m"]) == (0.0, 0.25)
