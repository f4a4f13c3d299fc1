"""Sources of answers, predictions and labels, which the prediction API writes.

They are sources like any other: archived by the hour, and read by views.
"""

from __future__ import annotations

from slicewise.features.logs import COLUMNS, REQUIRED, TIME
from slicewise.features.schema.dedupe import MAX_MOST, dedupe
from slicewise.features.schema.kafka_source import KafkaSource


def request_log(
    name: str = "requests", *, topic: str | None = None, owner: str | None = None
) -> KafkaSource:
    """Source of answers: one event per entity of an answered request of a feature set that logs.

    A feature set logs to it by `FeatureSet(log=…, log_rate=…)`.
    """
    return _source("answers", name, topic, owner, "Answers of the prediction API.")


def prediction_log(
    name: str = "predictions", *, topic: str | None = None, owner: str | None = None
) -> KafkaSource:
    """Source of predictions, which models' owners send to `POST /v1/outcomes`."""
    return _source("predictions", name, topic, owner, "Predictions, as models made them.")


def label_log(
    name: str = "labels", *, topic: str | None = None, owner: str | None = None
) -> KafkaSource:
    """Source of labels: what turned out to be true of predictions, from `POST /v1/outcomes`."""
    return _source("labels", name, topic, owner, "Labels of predictions, as they matured.")


def _source(
    kind: str, name: str, topic: str | None, owner: str | None, description: str
) -> KafkaSource:
    return KafkaSource(
        name,
        schema=dict(COLUMNS[kind]),
        timestamp=TIME,
        # the API says when it took it in, and hands it to the broker at once
        max_lateness="1h",
        topic=topic,
        required=REQUIRED[kind],
        dedupe=None if kind == "answers" else dedupe("event_id", most=MAX_MOST),
        owner=owner,
        description=description,
    )
