"""An answer of one entity as an event of the request log (`slicewise.features.logs`)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from slicewise.serving.answering.answer import Answer, LogRule
from slicewise.serving.answering.requests import Entity, FeaturesRequest


class LoggedAnswer(msgspec.Struct):
    """Event of the request log, in the order of its source's columns; times in microseconds UTC."""

    request_id: str
    logged_at: int
    feature_set: str
    deployment: str
    versions: str
    caller: str
    mode: str
    answered_at: int
    entity: str
    answer: str
    token: str
    flags: str
    errors: str
    feature_count: int
    null_count: int
    latency_us: int


@dataclass(frozen=True, slots=True)
class Answered:
    """A response that was given, of which some is logged. position: of its entity in the answer,
    which may be of several requests; None: all of the answer are its own."""

    rule: LogRule
    request: FeaturesRequest
    request_id: str
    answer: Answer
    position: int | None
    caller: str
    logged_us: int
    latency_us: int

    @property
    def positions(self) -> range:
        """Positions of its entities in the answer."""
        if self.position is None:
            return range(len(self.answer.results))
        return range(self.position, self.position + 1)


_ENCODER = msgspec.json.Encoder()
_SORTED = msgspec.json.Encoder(order="sorted")


def entity_text(entity: Entity) -> str:
    """JSON of an entity, the same for every order of its columns."""
    return _SORTED.encode(entity).decode()


def record_of(answered: Answered, position: int) -> bytes:
    """The event of one of its entities, as JSON."""
    answer = answered.answer
    result = answer.results[position]
    return _ENCODER.encode(
        LoggedAnswer(
            answered.request_id,
            answered.logged_us,
            answered.request.feature_set or "",
            answered.rule.deployment,
            answered.rule.versions,
            answered.caller,
            answer.mode,
            answer.t_us,
            entity_text(result.entity),
            answer.values_text(position).decode(),
            result.token,
            ",".join(answer.flags),
            _ENCODER.encode(result.errors).decode() if result.errors else "",
            len(result.values),
            sum(value is None for value in result.values),
            answered.latency_us,
        )
    )
