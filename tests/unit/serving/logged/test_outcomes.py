"""Predictions and labels are taken whole, or refused with the event that is wrong."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

import slicewise as sw
from slicewise.errors import BadRequest, SlicewiseError, StoreUnavailable, UnknownName
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.serving.logged.outcomes import MAX_EVENTS, Outcomes, parse_outcomes
from slicewise.serving.metrics import Metrics

PREDICTION = {"prediction_id": "p", "model": "m", "score": 0.5}
LABEL = {"prediction_id": "p", "label": "fair"}
NOW = 1_700_000_000_000_000


def deployment(*topics: str) -> Deployment:
    """Deployment with the logs of predictions at the first topics, and of labels at the last."""
    predictions = [sw.prediction_log(topic, topic=topic) for topic in topics[:-1]]
    labels = sw.label_log(topics[-1], topic=topics[-1])
    views = [sw.prediction_view(log, f"v{n}") for n, log in enumerate(predictions)]
    return plan(Project("tests", (*views, sw.label_view(labels))))


def body(**events: Any) -> bytes:
    return json.dumps(events).encode()


@pytest.mark.parametrize(
    ("events", "where"),
    [
        ({}, "body"),
        ({"predictions": [PREDICTION] * (MAX_EVENTS + 1)}, "body"),
        ({"predictions": [PREDICTION, {"prediction_id": "q"}]}, "body"),
        ({"predictions": [PREDICTION, {**PREDICTION, "colour": 1}]}, "body"),
        ({"predictions": [PREDICTION, {**PREDICTION, "prediction_id": ""}]},
         "predictions[1].prediction_id"),
        ({"predictions": [{**PREDICTION, "model": ""}]}, "predictions[0].model"),
        ({"labels": [LABEL, LABEL, {"prediction_id": "p"}]}, "labels[2].label"),
        ({"labels": [{**LABEL, "label": "x" * 1001}]}, "labels[0].label"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(events: dict[str, Any], where: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_outcomes(body(**events))
    assert refused.value.where == where
    if where == "body" and events.get("predictions", [{}])[-1] != PREDICTION:
        assert len(events) == 0 or "predictions[1]" in refused.value.what


def test_no_number_is_none() -> None:
    packed = msgspec.msgpack.encode({"predictions": [{**PREDICTION, "score": float("nan")}]})
    with pytest.raises(BadRequest) as refused:
        parse_outcomes(packed, msgpack=True)
    assert refused.value.where == "predictions[0].score"


def taken(outcomes: Outcomes, of: Deployment, **events: Any) -> Any:
    async def played() -> Any:
        try:
            parsed = parse_outcomes(body(**events))
            await outcomes.write(await outcomes.checked(parsed, of, NOW))
            return outcomes.count(parsed)
        finally:
            outcomes.close()

    return asyncio.run(played())


@pytest.mark.parametrize(
    ("topics", "events", "kind"),
    [
        (("labels",), {"predictions": [PREDICTION]}, UnknownName),
        (("one", "two", "labels"), {"predictions": [PREDICTION]}, BadRequest),
    ],
)
def test_events_that_no_single_source_takes_are_refused(
    topics: tuple[str, ...], events: dict[str, Any], kind: type[SlicewiseError]
) -> None:
    outcomes = Outcomes("127.0.0.1:1", Metrics())
    with pytest.raises(kind):
        taken(outcomes, deployment(*topics), **events)


def test_a_broker_that_is_away_is_said_and_nothing_counts_as_taken() -> None:
    metrics = Metrics()
    outcomes = Outcomes("127.0.0.1:1", metrics, patience_s=0.5)
    with pytest.raises(StoreUnavailable, match="2 of 2"):
        taken(outcomes, deployment("predictions", "labels"), labels=[LABEL, LABEL])
    assert not metrics.outcomes.labels("labels")._value.get()


def test_an_instant_that_is_none_is_named_before_anything_is_written() -> None:
    outcomes = Outcomes("127.0.0.1:1", Metrics())
    with pytest.raises(BadRequest) as refused:
        taken(
            outcomes,
            deployment("predictions", "labels"),
            labels=[LABEL, {**LABEL, "happened_at": "yesterday"}],
        )
    assert refused.value.where == "labels[1].happened_at"


def test_an_event_that_is_too_large_is_named_before_anything_is_written() -> None:
    outcomes = Outcomes("127.0.0.1:1", Metrics())
    large = {**PREDICTION, "entity": {"user": "x" * 70_000}}
    with pytest.raises(BadRequest) as refused:
        taken(outcomes, deployment("predictions", "labels"), predictions=[PREDICTION, large])
    assert refused.value.where == "predictions[1]"
