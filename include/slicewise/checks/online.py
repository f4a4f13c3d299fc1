"""The check reads predictions through the same door as everyone: the serving API, as msgpack."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgpack

from slicewise.checks.model import Predicted
from slicewise.checks.patience import Patience
from slicewise.errors import (
    BadRequest,
    BeyondRetention,
    CodecError,
    DataLoss,
    NotReady,
    StoreUnavailable,
    UnknownArchive,
)
from slicewise.features.plan.unit import StorageUnit
from slicewise.offsets.token import Token, decode_all

PATH = "/v1/features"
MAX_ENTITIES = 500
MAX_VALUES = 50_000
MOST_WAITS = 30
_MSGPACK = "application/msgpack"


@dataclass(frozen=True)
class HttpReader:
    """Reads features over HTTP; `url` is the serving API's."""

    url: str
    timeout_s: float = 30.0
    pause: Callable[[float], None] = time.sleep
    """Waits so many seconds: a service that is overloaded is asked again, since the check is in no
    hurry."""
    patience: Patience = field(default_factory=lambda: Patience(0.0))
    """For a service or a store that is away; by default none. A request that got its answer is not
    repeated."""

    def read(
        self, refs: Sequence[str], entities: Sequence[Mapping[str, Any]], at_us: int | None
    ) -> list[Predicted]:
        """One answer per entity, in their order. at_us: microseconds UTC; None asks for now.

        Raises StoreUnavailable, NotReady, BeyondRetention; UnknownArchive, DataLoss and CodecError
        where what is stored of one of them gives no answer; and BadRequest for all else.
        """
        size = max(1, min(MAX_ENTITIES, MAX_VALUES // max(1, len(refs))))
        predictions: list[Predicted] = []
        for first in range(0, len(entities), size):
            predictions += self._request(refs, entities[first : first + size], at_us)
        return predictions

    def _request(
        self, refs: Sequence[str], entities: Sequence[Mapping[str, Any]], at_us: int | None
    ) -> list[Predicted]:
        request: dict[str, Any] = {"features": list(refs), "entities": list(entities)}
        if at_us is not None:
            request["at"] = at_us
        packed = msgpack.packb(request, use_bin_type=True)
        body = self.patience.through("answers", lambda: self._answer(packed))
        results = body["results"]
        if len(results) != len(entities):
            raise BadRequest(
                f"{len(results)} answers to {len(entities)} entities",
                where=self.url,
                expected="one answer per entity",
                next_step="ask the serving API of the same version: slicewise down, then slicewise up",
            )
        lacking = frozenset(body.get("incomplete", ()))
        return [
            Predicted(result["values"], decode_all(result["token"]), result["token"], lacking)
            for result in results
        ]

    def _answer(self, packed: bytes) -> Any:
        status, body = self._post(packed)
        for _ in range(MOST_WAITS):
            if (after := _overloaded(status, body)) is None:
                break
            self.pause(after)
            status, body = self._post(packed)
        if status != http.client.OK:
            raise _error(status, body, self.url)
        return body

    def _post(self, body: bytes) -> tuple[int, Any]:
        address = urlsplit(self.url)
        kind = (
            http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        )
        connection = kind(address.netloc, timeout=self.timeout_s)
        try:
            headers = {"Content-Type": _MSGPACK, "Accept": _MSGPACK}
            connection.request("POST", address.path.rstrip("/") + PATH, body, headers)
            reply = connection.getresponse()
            return reply.status, msgpack.unpackb(reply.read(), strict_map_key=False)
        except (OSError, http.client.HTTPException, ValueError, msgpack.UnpackException) as error:
            raise StoreUnavailable(
                f"the serving API does not answer: {error!r}",
                where=self.url,
                expected="a msgpack answer",
                next_step="see whether it runs: slicewise status",
            ) from error
        finally:
            connection.close()


def token_of(unit: StorageUnit, tokens: Sequence[Token]) -> Token:
    """The token of a unit's answers. Raises DataLoss where none of these is."""
    own = [token for token in tokens if token.unit == unit.storage_fingerprint]
    # views that share an event list have a token each
    token = next((token for token in own if token.definition == unit.definition_fingerprint), None)
    if token is None:
        raise DataLoss(
            f"an answer of view {unit.view!r} has no token of unit {unit.storage_fingerprint}",
            expected="one token per unit that was read",
            next_step=(
                "restart serving, so that it runs the version that checks: slicewise down, then "
                "slicewise up"
            ),
        )
    return token


def _overloaded(status: int, body: Any) -> float | None:
    """Seconds after which a service that refused for lack of time may be asked again."""
    after = body.get("error", {}).get("retry_after_s") if isinstance(body, Mapping) else None
    busy = status in (http.client.TOO_MANY_REQUESTS, http.client.SERVICE_UNAVAILABLE)
    return float(after) if busy and after is not None else None


def _error(status: int, body: Any, url: str) -> Exception:
    error = body.get("error", {}) if isinstance(body, Mapping) else {}
    kind, what = str(error.get("kind", "")), str(error.get("what", body))
    if kind == "BeyondRetention":
        return BeyondRetention(
            what,
            earliest_at_us=int(error.get("earliest_at_us", 0)),
            where=url,
            next_step=error.get("next_step"),
        )
    if kind == "NotReady":
        return NotReady(what, progress=0.0, where=url, next_step=error.get("next_step"))
    for unreadable in (UnknownArchive, DataLoss, CodecError):
        if kind == unreadable.__name__:
            return unreadable(what, where=url, next_step=error.get("next_step"))
    if status >= http.client.INTERNAL_SERVER_ERROR:
        return StoreUnavailable(
            f"{status} {kind}: {what}", where=url, next_step=error.get("next_step")
        )
    return BadRequest(f"{status} {kind}: {what}", where=url, next_step=error.get("next_step"))
