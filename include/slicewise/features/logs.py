"""Columns of what the prediction API itself writes: answers, predictions and labels.

A source is one of these logs by its columns, so that no name is reserved for it
(docs/guides/requests.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

TIME = "logged_at"
"""Event time of all three: when the API took it in."""

ANSWERS: Mapping[str, str] = MappingProxyType(
    {
        "request_id": "string",  # the id that the caller gave, else one that the API made
        TIME: "timestamp_us",
        "feature_set": "string",
        "deployment": "string",  # its digest
        "versions": "string",  # of the set and its views, of those that have had several
        "caller": "string",
        "mode": "string",  # live or at
        "answered_at": "timestamp_us",  # the instant that the answer is of
        "entity": "string",  # JSON
        "answer": "string",  # JSON, feature -> value, as the API wrote it
        "token": "string",
        "flags": "string",  # separated by commas
        "errors": "string",  # JSON, feature -> code; empty without any
        "feature_count": "int64",
        "null_count": "int64",
        "latency_us": "int64",
    }
)
PREDICTIONS: Mapping[str, str] = MappingProxyType(
    {
        "event_id": "string",  # of its model and its id: what is sent again counts once
        "prediction_id": "string",  # the caller's, which its label names
        TIME: "timestamp_us",
        "model": "string",
        "predicted_at": "timestamp_us",
        "request_id": "string",  # of the features that it was made of
        "entity": "string",  # JSON
        "score": "double",
        "predicted": "string",  # the class
    }
)
LABELS: Mapping[str, str] = MappingProxyType(
    {
        "event_id": "string",  # of its content: a label that is corrected is another event
        "prediction_id": "string",
        TIME: "timestamp_us",
        "model": "string",
        "happened_at": "timestamp_us",
        "label": "string",  # the class that it turned out to be
        "value": "double",  # the number that it turned out to be
        "score": "double",  # the prediction's, where the caller still has them
        "predicted": "string",
    }
)
REQUIRED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "answers": (
            "request_id",
            TIME,
            "feature_set",
            "deployment",
            "answered_at",
            "entity",
            "answer",
        ),
        "predictions": ("event_id", "prediction_id", TIME, "model"),
        "labels": ("event_id", "prediction_id", TIME),
    }
)
COLUMNS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"answers": ANSWERS, "predictions": PREDICTIONS, "labels": LABELS}
)


def kind_of(columns: Mapping[str, str]) -> str | None:
    """The log that a source with these columns is, by their names in their order: "answers",
    "predictions", "labels", or None."""
    names = list(columns)
    return next((kind for kind, own in COLUMNS.items() if list(own) == names), None)
