"""Predictions and labels as `POST /v1/outcomes` takes them, checked once."""

from __future__ import annotations

import math

import msgspec

from slicewise.client.answers import Entity
from slicewise.errors import BadRequest

MAX_EVENTS = 1_000
"""Predictions and labels of one request."""
MAX_TEXT = 1_000
"""Characters of a text in them."""


class Prediction(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A prediction of a model. prediction_id names it, together with the model. request_id: of the
    features that it was made of; entity: whom it is of; predicted: the class."""

    prediction_id: str
    model: str
    score: float | None = None
    predicted: str | None = None
    predicted_at: str | int | None = None
    request_id: str | None = None
    entity: Entity | None = None


class Label(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The truth about a prediction, as it came out: a class (`label`) or a number (`value`). model,
    score, predicted: the prediction's, where they are to be compared as they come; by default
    those that a view by `prediction_id` has (`sw.matching_view`)."""

    prediction_id: str
    label: str | None = None
    value: float | None = None
    happened_at: str | int | None = None
    model: str | None = None
    score: float | None = None
    predicted: str | None = None


class OutcomesBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Body of `POST /v1/outcomes`. An event that is sent again within an hour counts once."""

    predictions: list[Prediction] = msgspec.field(default_factory=list)
    labels: list[Label] = msgspec.field(default_factory=list)


_JSON = msgspec.json.Decoder(OutcomesBody)
_MSGPACK = msgspec.msgpack.Decoder(OutcomesBody)


def parse_outcomes(body: bytes, *, msgpack: bool = False) -> OutcomesBody:
    """The outcomes of a body in JSON or msgpack. Raises BadRequest, which names the event."""
    try:
        decoded = (_MSGPACK if msgpack else _JSON).decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(
            f"the body holds no outcomes: {error}",
            where="body",
            expected='{"predictions": [{"prediction_id", "model", "score", …}, …], '
            '"labels": [{"prediction_id", "label" or "value", …}, …]}',
            next_step="see /openapi.json",
        ) from error
    events = len(decoded.predictions) + len(decoded.labels)
    if not 1 <= events <= MAX_EVENTS:
        raise BadRequest(
            f"{events} predictions and labels",
            where="body",
            expected=f"from 1 to {MAX_EVENTS}",
            next_step="send them in several requests" if events else "send one at least",
        )
    for i, one in enumerate(decoded.predictions):
        _check(one, f"predictions[{i}]")
    for i, label in enumerate(decoded.labels):
        _check(label, f"labels[{i}]")
    return decoded


def _check(one: Prediction | Label, where: str) -> None:
    values = {name: getattr(one, name) for name in one.__struct_fields__}
    for name, value in values.items():
        long = isinstance(value, str) and len(value) > MAX_TEXT
        if long or (isinstance(value, float) and not math.isfinite(value)):
            raise BadRequest(
                f"{len(value)} characters" if long else f"{value} is no number",
                where=f"{where}.{name}",
                expected=f"at most {MAX_TEXT}" if long else "a finite number, or none",
                next_step="correct it; nothing of this request was taken",
            )
    lacking = "prediction_id" if not one.prediction_id else ""
    if isinstance(one, Prediction):
        lacking = lacking or ("model" if not one.model else "")
    elif one.label is None and one.value is None:
        lacking = lacking or "label"
    if lacking:
        raise BadRequest(
            f"{lacking} is missing",
            where=f"{where}.{lacking}",
            expected="a label, or a value" if lacking == "label" else "a text",
            next_step="add it; nothing of this request was taken",
        )
