"""A request is checked once, at the edge; inside, nothing checks again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from slicewise.clock import END_OF_TIME_US
from slicewise.errors import BadRequest
from slicewise.offsets.token import Token, decode_all

Scalar = str | int | float | bool | None
Entity = dict[str, Scalar | list[Scalar]]
"""Entity columns, and what is asked for: a value or a list of values."""

MAX_BODY_BYTES = 1 << 20
MAX_ENTITIES = 1_000
MAX_FEATURES = 500
MAX_VALUES = 100_000
"""Entities times features of one request."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FeaturesBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What `POST /v1/features` is sent. Either `features` or `feature_set`.

    `min_token`: the answer holds at least the events of these tokens (joined by "."), which name
    every unit that is read: 400 where one is not named, 503 while the store is behind; never a
    remembered or a default answer. `tokens`: false leaves them out of the answer, which is smaller and cheaper then.
    """

    features: list[str] | None = None
    feature_set: str | None = None
    entities: list[Entity] = msgspec.field(default_factory=lambda: [{}])
    at: str | int | None = None
    min_token: str | None = None
    tokens: bool = True


@dataclass(frozen=True)
class FeaturesRequest:
    """A checked request."""

    features: tuple[str, ...]
    """Refs "view:column"; empty where a feature set is asked for."""
    feature_set: str | None
    entities: tuple[Entity, ...]
    at_us: int | None
    """None: live."""
    min_token: tuple[Token, ...] = ()
    tokens: bool = True
    """Whether the answer says what it contains."""


_JSON = msgspec.json.Decoder(FeaturesBody)
_MSGPACK = msgspec.msgpack.Decoder(FeaturesBody)


def parse_body(body: bytes, *, msgpack: bool = False) -> FeaturesRequest:
    """The request of a body in JSON or msgpack. Raises BadRequest."""
    if len(body) > MAX_BODY_BYTES:
        raise BadRequest(
            f"a body of {len(body)} bytes",
            expected=f"at most {MAX_BODY_BYTES} bytes",
            next_step="ask in several requests",
        )
    try:
        found = (_MSGPACK if msgpack else _JSON).decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(
            f"the body is no request: {error}",
            where="body",
            expected='{"features": ["view:column", …], "entities": [{…}, …]}; feature_set, at, min_token, tokens',
            next_step="see /openapi.json",
        ) from error
    return checked(found.features, found.feature_set, found.entities, found.at, found.min_token, tokens=found.tokens)


def checked(
    features: list[str] | tuple[str, ...] | None,
    feature_set: str | None,
    entities: list[Entity] | tuple[Entity, ...],
    at: str | int | datetime | None = None,
    min_token: str | None = None,
    *,
    tokens: bool = True,
) -> FeaturesRequest:
    """A request of these parts. Raises BadRequest."""
    if (features is None) == (feature_set is None):
        raise BadRequest(
            "a request names features or a feature set",
            where="features, feature_set",
            expected="exactly one of the two",
            next_step="leave one of them out" if features is not None else 'add "features": ["view:column"]',
        )
    refs = tuple(features or ())
    if features is not None and not refs:
        raise BadRequest(
            "no feature is asked for",
            where="features",
            expected="at least one ref",
            next_step="GET /v1/features lists all that there are",
        )
    if len(refs) > MAX_FEATURES:
        raise BadRequest(
            f"{len(refs)} features",
            where="features",
            expected=f"at most {MAX_FEATURES}",
            next_step="ask in several requests",
        )
    if len(set(refs)) != len(refs):
        twice = next(ref for ref in refs if refs.count(ref) > 1)
        raise BadRequest(
            f"{twice!r} is asked for twice", where="features", expected="each once", next_step="leave it out once"
        )
    if not entities:
        raise BadRequest(
            "no entity is asked for",
            where="entities",
            expected="at least one; [{}] for global views",
            next_step='name the entity by its columns: "entities": [{"user_id": "ann"}]',
        )
    if len(entities) > MAX_ENTITIES:
        raise BadRequest(
            f"{len(entities)} entities",
            where="entities",
            expected=f"at most {MAX_ENTITIES}",
            next_step="ask in several requests",
        )
    return FeaturesRequest(
        refs,
        feature_set,
        tuple(entities),
        None if at is None else instant_us(at),
        () if min_token is None else decode_all(min_token),
        tokens,
    )


def instant_us(at: str | int | datetime) -> int:
    """Microseconds UTC of an instant: RFC 3339 text or a datetime, both with zone, or an integer."""
    us: int | None = None
    if isinstance(at, bool):
        us = None
    elif isinstance(at, int):
        us = at
    else:
        moment = at if isinstance(at, datetime) else _parsed(at)
        if moment is not None and moment.tzinfo is not None:
            us = (moment - _EPOCH) // timedelta(microseconds=1)
    if us is None or not 0 <= us < END_OF_TIME_US:
        raise BadRequest(
            f"{at!r} is no instant",
            where="at",
            expected="RFC 3339 with zone, as 2013-01-01T12:00:00Z, or microseconds since 1970",
            next_step="write the instant so, or leave `at` out for now",
        )
    return us


def _parsed(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except (ValueError, TypeError):
        return None


def instant(us: int) -> datetime:
    """The aware datetime of microseconds UTC."""
    return _EPOCH + timedelta(microseconds=us)


@lru_cache(maxsize=16_384)
def interval_text(interval: tuple[int, int]) -> tuple[str, str]:
    """`instant_text` of both its ends."""
    return instant_text(interval[0]), instant_text(interval[1])


@lru_cache(maxsize=16_384)
def instant_text(us: int) -> str:
    """RFC 3339 in UTC, with as many digits as it needs."""
    return instant(us).replace(tzinfo=None).isoformat() + "Z"
