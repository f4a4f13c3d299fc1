"""A request is checked once, at the edge; inside, nothing checks again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import msgspec

from slicewise.client.answers import Entity as Entity
from slicewise.client.answers import Scalar as Scalar
from slicewise.client.instants import instant as instant
from slicewise.client.instants import instant_text as instant_text
from slicewise.client.instants import instant_us as instant_us
from slicewise.errors import BadRequest
from slicewise.offsets.token import Token, decode_all

MAX_BODY_BYTES = 1 << 20
MAX_ENTITIES = 1_000
MAX_FEATURES = 500
MAX_ID = 200
"""Characters of a request's id."""
MAX_VALUES = 100_000
"""Entities times features of one request."""


class FeaturesBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Body of `POST /v1/features`. Either `features` or `feature_set`.

    `min_token`: the answer holds at least the events of these tokens (joined by "."), which name
    every unit that is read: 400 where one is not named, 503 while the store is behind; never a
    remembered or a default answer. `tokens`: false leaves them out of the answer, which is smaller
    and cheaper then. `offline`: true answers an `at` that the store no longer keeps from the
    archive, in seconds, with the flag `offline` and without tokens. `request_id`: the caller's name
    of this request, under which its answers stand in the request log.
    """

    features: list[str] | None = None
    feature_set: str | None = None
    entities: list[Entity] = msgspec.field(default_factory=lambda: [{}])
    at: str | int | None = None
    min_token: str | None = None
    tokens: bool = True
    offline: bool = False
    request_id: str | None = None


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
    """Tells whether the answer says what it contains."""
    offline: bool = False
    """Tells whether the archive may answer where the store no longer keeps the instant."""
    request_id: str = ""
    """The caller's name of it; empty where none was given."""


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
        decoded = (_MSGPACK if msgpack else _JSON).decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(
            f"the body is no request: {error}",
            where="body",
            expected=(
                '{"features": ["view:column", …], "entities": [{…}, …]}; feature_set, at, '
                "min_token, tokens, offline, request_id"
            ),
            next_step="see /openapi.json",
        ) from error
    return checked(
        decoded.features,
        decoded.feature_set,
        decoded.entities,
        decoded.at,
        decoded.min_token,
        tokens=decoded.tokens,
        offline=decoded.offline,
        request_id=decoded.request_id or "",
    )


def checked(
    features: list[str] | tuple[str, ...] | None,
    feature_set: str | None,
    entities: list[Entity] | tuple[Entity, ...],
    at: str | int | datetime | None = None,
    min_token: str | None = None,
    *,
    tokens: bool = True,
    offline: bool = False,
    request_id: str = "",
) -> FeaturesRequest:
    """A request of these parts. Raises BadRequest."""
    if (features is None) == (feature_set is None):
        raise BadRequest(
            "a request names features or a feature set",
            where="features, feature_set",
            expected="exactly one of the two",
            next_step="leave one of them out"
            if features is not None
            else 'add "features": ["view:column"]',
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
            f"{twice!r} is asked for twice",
            where="features",
            expected="each once",
            next_step="leave it out once",
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
    if offline and (at is None or min_token is not None):
        raise BadRequest(
            "offline is asked for without a past instant"
            if at is None
            else "offline is asked for with a min_token",
            where="offline",
            expected="an `at`, and no min_token: the archive's answers have no tokens",
            next_step="add `at`" if at is None else "leave one of the two out",
        )
    if len(request_id) > MAX_ID:
        raise BadRequest(
            f"a request_id of {len(request_id)} characters",
            where="request_id",
            expected=f"at most {MAX_ID}",
            next_step="give a shorter one",
        )
    return FeaturesRequest(
        refs,
        feature_set,
        tuple(entities),
        None if at is None else instant_us(at),
        () if min_token is None else decode_all(min_token),
        tokens,
        offline,
        request_id,
    )


@lru_cache(maxsize=16_384)
def interval_text(interval: tuple[int, int]) -> tuple[str, str]:
    """`instant_text` of both its ends."""
    return instant_text(interval[0]), instant_text(interval[1])
