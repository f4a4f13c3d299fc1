"""A label without its prediction is set beside the one that the store has, and is never lost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import StoreUnavailable
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.serving.answering.answer import Answer, EntityAnswer
from slicewise.serving.answering.requests import FeaturesRequest
from slicewise.serving.logged.matching import matching_refs
from slicewise.serving.logged.outcomes import Outcomes, parse_outcomes
from slicewise.serving.metrics import Metrics

NOW = 1_700_000_000_000_000
PREDICTIONS, LABELS = sw.prediction_log(), sw.label_log()
REFS = tuple(f"predictions_by_id:{name}_7d" for name in ("models", "model", "score", "predicted"))
STORED = {
    "p": (1, "fraud", 0.75, None),
    "twice": (2, "fraud", 0.5, "fair"),
    "none": (0, None, None, None),
}


def deployment(*more: sw.FeatureView) -> Deployment:
    views = (sw.prediction_view(PREDICTIONS), sw.label_view(LABELS), *more)
    return plan(Project("tests", views))


MATCHING = deployment(sw.matching_view(PREDICTIONS))


class Read:
    """A store that knows some predictions, and what it was asked."""

    def __init__(self, error: Exception | None = None) -> None:
        self.requests: list[FeaturesRequest] = []
        self.error = error

    async def __call__(self, request: FeaturesRequest) -> Answer:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        none = STORED["none"]
        rows = [
            EntityAnswer(entity, STORED.get(str(entity["prediction_id"]), none), "")
            for entity in request.entities
        ]
        doubles = (False, False, True, False)
        return Answer(request.features, "live", NOW, {}, tuple(rows), doubles=doubles)


def written(read: Read, of: Deployment = MATCHING, **events: Any) -> list[dict[str, Any]]:
    """Events of the labels of a body."""
    outcomes = Outcomes("", Metrics())

    async def played() -> list[dict[str, Any]]:
        body = parse_outcomes(json.dumps(events).encode())
        both = await outcomes.matched(body, of, read)
        made = await outcomes.checked(body, of, NOW, both)
        return [json.loads(value) for topic, _, value in made if topic == "labels"]

    return asyncio.run(played())


def seen(event: dict[str, Any]) -> tuple[Any, ...]:
    return event["model"], event["score"], event["predicted"]


def test_a_label_is_set_beside_its_prediction() -> None:
    read = Read()
    labels = [{"prediction_id": name, "value": 1.0} for name in ("p", "p", "unknown")]
    one, again, other = written(read, labels=labels)
    assert seen(one) == seen(again) == ("fraud", 0.75, None)
    assert seen(other) == (None, None, None), "it is taken as it was given"
    [request] = read.requests
    assert request.features == REFS
    assert [entity["prediction_id"] for entity in request.entities] == ["p", "unknown"]


def test_its_id_is_that_of_what_was_given() -> None:
    """A label that is sent again counts once, though its prediction was not known at first."""
    label = {"prediction_id": "p", "value": 1.0}
    [matched], [bare] = (
        written(Read(), labels=[label]),
        written(Read(), deployment(), labels=[label]),
    )
    assert matched["event_id"] == bare["event_id"]
    assert (seen(matched), seen(bare)) == (("fraud", 0.75, None), (None, None, None))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"model": "fraud"}, ("fraud", 0.75, None)),
        ({"model": "another"}, ("another", None, None)),
        ({"predicted": "fair"}, ("fraud", None, "fair")),
        ({"score": 0.1}, ("fraud", 0.1, None)),
        ({"model": "another", "score": 0.1}, ("another", 0.1, None)),
    ],
)
def test_the_callers_own_word_holds(given: dict[str, Any], wanted: tuple[Any, ...]) -> None:
    [event] = written(Read(), labels=[{"prediction_id": "p", "value": 1.0, **given}])
    assert seen(event) == wanted


def test_an_id_that_several_models_have_matches_none() -> None:
    [event] = written(Read(), labels=[{"prediction_id": "twice", "value": 1.0}])
    assert seen(event) == (None, None, None)


def test_a_prediction_of_the_same_request_counts_before_the_store_has_it() -> None:
    read = Read()
    predictions = [{"prediction_id": "new", "model": "m", "score": 0.5, "predicted": "late"}]
    [event] = written(read, predictions=predictions, labels=[{"prediction_id": "new", "value": 2}])
    assert seen(event) == ("m", 0.5, "late")
    assert not read.requests
    other = [*predictions, {**predictions[0], "model": "n"}]
    [event] = written(Read(), predictions=other, labels=[{"prediction_id": "new", "value": 2}])
    assert seen(event) == (None, None, None)


def test_a_store_that_is_away_loses_no_label(caplog: pytest.LogCaptureFixture) -> None:
    read = Read(StoreUnavailable("away", next_step="wait"))
    [event] = written(read, labels=[{"prediction_id": "p", "value": 1.0}])
    assert seen(event) == (None, None, None)
    assert "labels_not_matched" in caplog.text


def test_no_other_view_by_the_id_is_taken_for_it() -> None:
    features = [sw.Feature("models", sw.count(), windows=["7d"])]
    view = sw.FeatureView("x", source=PREDICTIONS, entity=["prediction_id"], features=features)
    assert matching_refs(deployment(view)) is None
    assert matching_refs(MATCHING) == REFS
    read = Read()
    [event] = written(read, deployment(view), labels=[{"prediction_id": "p", "value": 1}])
    assert seen(event) == (None, None, None)
    assert not read.requests
