"""A label that comes without its prediction is set beside the one that the store has by its id.

The predictions are those of a view by `prediction_id` (`sw.matching_view`), which the stream keeps
as it keeps any other. A label is taken as it was given where none is known, or where several models
have the id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from slicewise.features.plan.deployment import Deployment
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.requests import Entity, FeaturesRequest
from slicewise.serving.logged.bodies import Label, OutcomesBody, Prediction

FEATURES = ("models", "model", "score", "predicted")
"""Names of the view's features."""


@dataclass(frozen=True)
class Predicted:
    """Content of a prediction that a label may lack."""

    model: str
    score: float | None
    predicted: str | None


def matching_refs(deployment: Deployment) -> tuple[str, ...] | None:
    """Refs of FEATURES in the first view that has predictions by their id; None without one."""
    logs = {source.name for source in deployment.sources if source.log_kind == "predictions"}
    for view in deployment.views:
        by_name: dict[str, str] = {}
        for unit in deployment.view(view):
            if unit.source in logs and [name for name, _ in unit.entity] == ["prediction_id"]:
                for feature in unit.features:
                    by_name.setdefault(feature.feature, f"{view}:{feature.column}")
        if by_name.keys() >= set(FEATURES):
            return tuple(by_name[name] for name in FEATURES)
    return None


def unmatched(body: OutcomesBody) -> dict[int, Label]:
    """Labels that lack the model, or both the score and the class, by their position."""
    return {
        i: label
        for i, label in enumerate(body.labels)
        if label.model is None or (label.score is None and label.predicted is None)
    }


def request_of(labels: Iterable[Label], refs: Sequence[str]) -> FeaturesRequest:
    """The request for the predictions of these labels."""
    ids = dict.fromkeys(label.prediction_id for label in labels)
    entities = tuple[Entity, ...]({"prediction_id": one} for one in ids)
    return FeaturesRequest(tuple(refs), None, entities, None, tokens=False)


def answered(answer: Answer) -> dict[str, Predicted]:
    """Predictions that the store knows of one model alone, by their id."""
    stored: dict[str, Predicted] = {}
    for result in answer.results:
        models, model, score, predicted = result.values
        if models == 1 and not result.errors:
            stored[str(result.entity["prediction_id"])] = Predicted(model, score, predicted)
    return stored


def sent_along(predictions: Sequence[Prediction]) -> dict[str, Predicted]:
    """Predictions of the same request, which the store does not have yet, by their id; none of an
    id that several models have."""
    by_id: dict[str, dict[str, Predicted]] = {}
    for one in predictions:
        made = Predicted(one.model, one.score, one.predicted)
        by_id.setdefault(one.prediction_id, {})[one.model] = made
    return {name: next(iter(made.values())) for name, made in by_id.items() if len(made) == 1}


def matched(labels: Mapping[int, Label], stored: Mapping[str, Predicted]) -> dict[int, Label]:
    """Labels beside their predictions, by their position; those without one are left out."""
    both: dict[int, Label] = {}
    for i, label in labels.items():
        one = stored.get(label.prediction_id)
        if one is not None and label.model in (None, one.model):
            has_either = label.score is not None or label.predicted is not None
            both[i] = msgspec.structs.replace(
                label,
                model=one.model,
                score=label.score if has_either else one.score,
                predicted=label.predicted if has_either else one.predicted,
            )
    return both
