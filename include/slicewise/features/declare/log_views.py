"""Views of answers, predictions and labels: how an API and its models do, as features."""

from __future__ import annotations

from collections.abc import Sequence

from slicewise import aggregates as agg
from slicewise.features.declare.definitions import Feature, FeatureView
from slicewise.features.schema.kafka_source import KafkaSource
from slicewise.windows.sliding import sliding

WINDOWS = ("10m", "1h", "1d")


def request_view(
    source: KafkaSource, name: str = "requests_by_set", *, windows: Sequence[str] = WINDOWS
) -> FeatureView:
    """View of answers by feature set: how many, share of nulls, flagged ones, latency, callers."""
    return FeatureView(
        name,
        source=source,
        entity=["feature_set"],
        columns={"null_share": "null_count * 1.0 / feature_count", "flagged": "flags <> ''"},
        features=[
            Feature("answers", agg.count(), windows=windows),
            Feature("null_share", agg.mean("null_share"), windows=windows),
            Feature("flagged", agg.count(where="flagged"), windows=windows),
            Feature("latency_us", agg.mean("latency_us"), windows=windows),
            Feature("latency_us_most", agg.max("latency_us"), windows=windows),
            Feature("entities", agg.distinct_count("entity"), windows=windows),
        ],
        description="Answers that were logged, by feature set.",
    )


def prediction_view(
    source: KafkaSource,
    name: str = "predictions_by_model",
    *,
    windows: Sequence[str] = WINDOWS,
    edges: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
) -> FeatureView:
    """View of predictions by model: how many, mean, spread and histogram of scores, missing ones.

    edges: of the histogram's bins. The day before the last one stands beside it, to see drift.
    """
    return FeatureView(
        name,
        source=source,
        entity=["model"],
        columns={"without_score": "score IS NULL"},
        features=[
            Feature("predictions", agg.count(), windows=windows),
            Feature("score", agg.mean("score"), windows=windows),
            Feature("score_stddev", agg.stddev("score"), windows=windows),
            Feature("without_score", agg.count(where="without_score"), windows=windows),
            Feature(
                "score_histogram",
                agg.histogram("score", edges=edges),
                windows=["1d", sliding("1d", offset="1d")],
            ),
        ],
        description="Predictions and their scores, by model.",
    )


def label_view(
    source: KafkaSource, name: str = "labels_by_model", *, windows: Sequence[str] = WINDOWS
) -> FeatureView:
    """View of labels by model: how many, mean, share of right classes, mean error of scores.

    The last two are of labels with `predicted`, or `score` and `value`: as their caller sent them,
    or as `matching_view` has them.
    """
    return FeatureView(
        name,
        source=source,
        entity=["model"],
        where="model IS NOT NULL",
        columns={
            "right": "CASE WHEN predicted = label THEN 1.0 WHEN predicted <> label THEN 0.0 END",
            "error": "score - value",
            "squared_error": "(score - value) * (score - value)",
        },
        features=[
            Feature("labels", agg.count(), windows=windows),
            Feature("value", agg.mean("value"), windows=windows),
            Feature("accuracy", agg.mean("right"), windows=windows),
            Feature("error", agg.mean("error"), windows=windows),
            Feature("squared_error", agg.mean("squared_error"), windows=windows),
        ],
        description="Labels that matured, beside what was predicted, by model.",
    )


def matching_view(
    source: KafkaSource, name: str = "predictions_by_id", *, within: str = "7d"
) -> FeatureView:
    """View of predictions by their id: labels that come without their prediction find it there.

    within: how long after its prediction a label may come. The store keeps each prediction so long.
    """
    return FeatureView(
        name,
        source=source,
        entity=["prediction_id"],
        features=[
            Feature("models", agg.distinct_count("model"), windows=[within]),
            Feature("model", agg.last("model"), windows=[within]),
            Feature("score", agg.last("score"), windows=[within]),
            Feature("predicted", agg.last("predicted"), windows=[within]),
        ],
        description="What was predicted last under an id, which its label is set beside.",
    )
