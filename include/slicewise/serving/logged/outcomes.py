"""Predictions and labels come by `POST /v1/outcomes`, and stand in their topics when it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import xxhash

from slicewise import log
from slicewise.client.instants import instant_us
from slicewise.errors import (
    BadRequest,
    Overloaded,
    SlicewiseError,
    StoreUnavailable,
    UnknownName,
)
from slicewise.features.plan.deployment import Deployment
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.requests import FeaturesRequest
from slicewise.serving.logged import matching
from slicewise.serving.logged.bodies import MAX_EVENTS as MAX_EVENTS
from slicewise.serving.logged.bodies import Label
from slicewise.serving.logged.bodies import OutcomesBody as OutcomesBody
from slicewise.serving.logged.bodies import Prediction as Prediction
from slicewise.serving.logged.bodies import parse_outcomes as parse_outcomes
from slicewise.serving.logged.records import entity_text
from slicewise.serving.metrics import Metrics

if TYPE_CHECKING:
    from slicewise.stores.log.producer import EventWriter

MAX_EVENT_BYTES = 1 << 16
"""Bytes of an event as it stands in its topic."""
WAITING = 5_000
"""Events of all requests that wait for the broker."""
PATIENCE_S = 5.0
"""Longest that the broker may take."""
POLL_S = 0.005
AT_ONCE = 50
"""Events that are written in one turn of the loop."""


Reading = Callable[[FeaturesRequest], Awaitable[Answer]]
Event = tuple[str, bytes, bytes]
"""Topic, key and value."""
_ENCODER = msgspec.json.Encoder()


class Outcomes:
    """Outcomes that one process of the API takes in."""

    def __init__(self, bootstrap: str, metrics: Metrics, patience_s: float = PATIENCE_S) -> None:
        """bootstrap: the broker's address; empty: there is none."""
        self._bootstrap, self._patience_s = bootstrap, patience_s
        self._counted, self._matched = metrics.outcomes, metrics.matched_labels
        self._writer: EventWriter | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def matched(
        self, body: OutcomesBody, deployment: Deployment, read: Reading
    ) -> Mapping[int, Label]:
        """Labels beside the predictions that the store has of them, by their position. read:
        answers a request."""
        labels = matching.unmatched(body)
        refs = matching.matching_refs(deployment) if labels else None
        if refs is None:
            return {}
        stored = matching.sent_along(body.predictions)
        wanted = [i for i, label in labels.items() if label.prediction_id not in stored]
        if wanted:
            try:
                request = matching.request_of([labels[i] for i in wanted], refs)
                stored |= matching.answered(await read(request))
            except SlicewiseError as error:  # a label is not lost because its prediction is
                log.warning("labels_not_matched", labels=len(wanted), error=str(error))
        both = matching.matched(labels, stored)
        self._matched.labels("matched").inc(len(both))
        self._matched.labels("unmatched").inc(len(labels) - len(both))
        return both

    async def checked(
        self,
        body: OutcomesBody,
        deployment: Deployment,
        now_us: int,
        matched: Mapping[int, Label] = MappingProxyType({}),
    ) -> Sequence[Event]:
        """The events of a body. matched: labels beside their predictions, by their position.
        Raises UnknownName where no source takes them, and BadRequest."""
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
                both = matched.get(i, label)
                events.append((topic, *_label(label, both, now_us, f"labels[{i}]")))
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


def _label(given: Label, both: Label, now_us: int, where: str) -> tuple[bytes, bytes]:
    """Key and value of a label's event. both: the same beside its prediction. The id is of what was
    given, so that a label that is sent again counts once whatever is known of its prediction."""
    happened_us = _instant(given.happened_at, f"{where}.happened_at")

    def content(of: Label) -> dict[str, Any]:
        return {
            "prediction_id": of.prediction_id,
            "model": of.model,
            "happened_at": happened_us,
            "label": of.label,
            "value": of.value,
            "score": of.score,
            "predicted": of.predicted,
        }

    record = {"event_id": _id_of(content(given)), "logged_at": now_us, **content(both)}
    return given.prediction_id.encode(), _encoded(record, where)


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
