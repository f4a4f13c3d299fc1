"""Predictions and labels come by `POST /v1/outcomes`, and stand in their topics when it answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import xxhash

from slicewise.client.answers import Entity
from slicewise.client.instants import instant_us
from slicewise.errors import BadRequest, Overloaded, StoreUnavailable, UnknownName
from slicewise.features.plan.deployment import Deployment
from slicewise.serving.logged.records import entity_text
from slicewise.serving.metrics import Metrics

if TYPE_CHECKING:
    from slicewise.stores.log.producer import EventWriter

MAX_EVENTS = 1_000
"""Predictions and labels of one request."""
MAX_TEXT = 1_000
"""Characters of a text in them."""
MAX_EVENT_BYTES = 1 << 16
"""Bytes of an event as it stands in its topic."""
WAITING = 5_000
"""Events of all requests that wait for the broker."""
PATIENCE_S = 5.0
"""Longest that the broker may take."""
POLL_S = 0.005
AT_ONCE = 50
"""Events that are written in one turn of the loop."""


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
    score, predicted: the prediction's, where they are to be compared as they come."""

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


Event = tuple[str, bytes, bytes]
"""Topic, key and value."""
_JSON = msgspec.json.Decoder(OutcomesBody)
_MSGPACK = msgspec.msgpack.Decoder(OutcomesBody)
_ENCODER = msgspec.json.Encoder()


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


class Outcomes:
    """Outcomes that one process of the API takes in."""

    def __init__(self, bootstrap: str, metrics: Metrics, patience_s: float = PATIENCE_S) -> None:
        """bootstrap: the broker's address; empty: there is none."""
        self._bootstrap, self._patience_s = bootstrap, patience_s
        self._counted = metrics.outcomes
        self._writer: EventWriter | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def checked(
        self, body: OutcomesBody, deployment: Deployment, now_us: int
    ) -> Sequence[Event]:
        """The events of a body. Raises UnknownName where no source takes them, and BadRequest."""
        events: list[Event] = []
        if body.predictions:
            topic = _topic(deployment, "predictions")
            for i, one in enumerate(body.predictions):
                await _breathe(i)
                events.append((topic, *prediction_event(one, now_us, f"predictions[{i}]")))
        if body.labels:
            topic = _topic(deployment, "labels")
            for i, label in enumerate(body.labels):
                await _breathe(i)
                events.append((topic, *_label(label, now_us, f"labels[{i}]")))
        return events

    def count(self, body: OutcomesBody) -> Mapping[str, int]:
        """Counts what was taken; the numbers of both."""
        taken = {"predictions": len(body.predictions), "labels": len(body.labels)}
        for kind, number in taken.items():
            self._counted.labels(kind).inc(number)
        return taken

    async def write(self, events: Sequence[Event]) -> None:
        """Returns when all of them stand.

        Raises Overloaded, and StoreUnavailable where some may not stand: sent again, what stands
        counts once.
        """
        writer = self._opened()
        if writer.waiting + len(events) > WAITING:
            raise Overloaded(
                f"{writer.waiting} predictions and labels wait for the broker",
                where="outcomes",
                retry_after_s=self._patience_s,
                next_step="send them again after Retry-After; none of them was taken",
            )
        done = asyncio.get_running_loop().create_future()
        failures: list[str] = []
        left = len(events)

        def delivered(error: str | None) -> None:
            nonlocal left
            left -= 1
            if error is not None:
                failures.append(error)
            if not left and not done.done():
                done.set_result(None)

        for i, (topic, key, value) in enumerate(events):
            await _breathe(i)
            if not writer.append(topic, key, value, delivered):
                delivered("too many events wait for the broker")
        self._poll()
        await done
        if failures:
            raise StoreUnavailable(
                f"the broker did not take {len(failures)} of {len(events)} events for "
                f"{', '.join(sorted({topic for topic, *_ in events}))}: {failures[0]}",
                where=f"Kafka at {self._bootstrap}",
                expected="a broker that has the topics of the deployment",
                next_step="send them all again: what stands already counts once",
            )

    def _poll(self) -> None:
        """Polls the broker's client, for as long as somebody waits for it."""
        writer = self._opened()
        writer.poll()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = (
            asyncio.get_running_loop().call_later(POLL_S, self._poll) if writer.waiting else None
        )

    def _opened(self) -> EventWriter:
        if not self._bootstrap:
            raise StoreUnavailable(
                "this API has no broker",
                where="outcomes",
                expected="SLICEWISE_KAFKA_BOOTSTRAP in its environment",
                next_step="start it by python -m slicewise.serving, with the platform's settings",
            )
        if self._writer is None:
            from slicewise.stores.log.producer import EventWriter  # for those alone who send some

            self._writer = EventWriter(self._bootstrap, self._patience_s, WAITING)
        return self._writer

    def close(self) -> None:
        """Ends it; who waits was answered before."""
        if self._timer is not None:
            self._timer.cancel()
        if self._writer is not None:
            self._writer.close(1.0)


async def _breathe(i: int) -> None:
    """Lets others have the loop, now and then."""
    if i % AT_ONCE == AT_ONCE - 1:
        await asyncio.sleep(0)


def _topic(deployment: Deployment, kind: str) -> str:
    names = [s for s in deployment.sources if s.log_kind == kind]
    if len(names) == 1:
        return names[0].topic
    if not names:
        function = f"sw.{kind.removesuffix('s')}_log"
        raise UnknownName(
            f"no source takes {kind}",
            where=kind,
            expected=f"a source made by {function}, and a view over it",
            next_step=f"declare {function}() in the project's definitions, and deploy them",
        )
    raise BadRequest(
        f"several sources take {kind}: {', '.join(source.name for source in names)}",
        where=kind,
        expected="one on a platform",
        next_step="share one among the projects",
    )


def prediction_event(one: Prediction, now_us: int, where: str) -> tuple[bytes, bytes]:
    """Key and value of a prediction's event. where: names it in errors. Raises BadRequest."""
    record = {
        "event_id": _id_of([one.model, one.prediction_id]),
        "prediction_id": one.prediction_id,
        "logged_at": now_us,
        "model": one.model,
        "predicted_at": _instant(one.predicted_at, f"{where}.predicted_at"),
        "request_id": one.request_id,
        "entity": None if one.entity is None else entity_text(one.entity),
        "score": one.score,
        "predicted": one.predicted,
    }
    return one.prediction_id.encode(), _encoded(record, where)


def _label(one: Label, now_us: int, where: str) -> tuple[bytes, bytes]:
    content: dict[str, Any] = {
        "prediction_id": one.prediction_id,
        "model": one.model,
        "happened_at": _instant(one.happened_at, f"{where}.happened_at"),
        "label": one.label,
        "value": one.value,
        "score": one.score,
        "predicted": one.predicted,
    }
    record = {"event_id": _id_of(content), "logged_at": now_us, **content}
    return one.prediction_id.encode(), _encoded(record, where)


def _id_of(content: object) -> str:
    """The same for equal content."""
    return xxhash.xxh3_128_hexdigest(_ENCODER.encode(content))


def _encoded(record: Mapping[str, Any], where: str) -> bytes:
    encoded = _ENCODER.encode(record)
    if len(encoded) > MAX_EVENT_BYTES:
        raise BadRequest(
            f"an event of {len(encoded):,} bytes",
            where=where,
            expected=f"at most {MAX_EVENT_BYTES:,}",
            next_step="shorten it; nothing of this request was taken",
        )
    return encoded


def _instant(value: str | int | None, where: str) -> int | None:
    if value is None:
        return None
    try:
        return instant_us(value)
    except BadRequest as error:
        raise BadRequest(
            error.what,
            where=where,
            expected=error.expected,
            next_step="correct it; nothing of this request was taken",
        ) from error
