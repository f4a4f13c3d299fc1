"""In process or over HTTP, a client asks the same questions and gets the same values."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from slicewise import log
from slicewise.calls import checked_class, shown
from slicewise.client.answers import Explanation
from slicewise.clock import Clock, SystemClock
from slicewise.errors import BadRequest, SlicewiseError
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.memory.fallback import DEFAULT, STALE
from slicewise.serving.answering.requests import Entity, checked
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.factory import blocking
from slicewise.serving.leaderboards import Leaderboard, read_leaderboard

LISTEN_EVERY_S = 1.0
Features = str | Sequence[str]
"""The name of a feature set, or refs "view:column"."""
Entities = Mapping[str, Any] | Sequence[Mapping[str, Any]]


@checked_class
class Client:
    """Reads features from the online store in this process. Used by one thread at a time.

    with sw.Client(redis_url) as client:
        client.get(["listening:plays_1h"], {"user_id": "42"}).values()
    """

    def __init__(
        self, redis_url: str | None = None, *, clock: Clock | None = None, timeout_s: float = 5.0
    ) -> None:
        if redis_url is None:
            from slicewise.settings import Settings

            redis_url = Settings.load().redis_url
        if not isinstance(redis_url, str):
            raise BadRequest(
                f"redis_url is {shown(redis_url)}",
                where="sw.Client",
                expected='the address of the store: "redis://host:6379/0"',
                next_step="leave it out for the one of the settings",
            )
        self._service = FeatureService(clock or SystemClock())
        self._connection = blocking(redis_url, timeout_s)
        self._listen_at = 0.0

    def get(
        self,
        features: Features,
        entities: Entities,
        at: str | int | datetime | None = None,
        *,
        min_token: str | None = None,
        tokens: bool = True,
    ) -> Answer:
        """Features of one entity (a mapping) or several, now or at a past instant.

        tokens: False leaves them out, for those who do not keep them; min_token holds all the same.

        Raises BadRequest, UnknownName, NotReady, BeyondRetention, BehindToken, StoreUnavailable.
        """
        refs, name = _named(features)
        request = checked(refs, name, _entities(entities), at, min_token, tokens=tokens)
        answer = self._connection.run(self._service.read(request))
        # a store that did not answer just now is not asked once more
        if (
            time.monotonic() >= self._listen_at
            and STALE not in answer.flags
            and DEFAULT not in answer.flags
        ):
            self._listen()
        return answer

    def explain(
        self,
        features: Features,
        entity: Mapping[str, Any],
        at: str | int | datetime | None = None,
        *,
        min_token: str | None = None,
    ) -> Explanation:
        """Features of one entity as `get` reads them, and what the answer was made of.

        Raises what `get` raises; nothing is answered instead of the store.
        """
        refs, name = _named(features)
        request = checked(refs, name, _entities(entity), at, min_token)
        return self._connection.run(self._service.explain(request))

    def leaderboard(self, name: str) -> Leaderboard:
        """The leaderboard of this name as it stands. Raises UnknownName, NotReady,
        StoreUnavailable, CodecError."""
        return self._connection.run(read_leaderboard(self._service, name))

    def _listen(self) -> None:
        """Does the work of the serving API's listener beside its requests: here after one, about
        once a second."""
        self._listen_at = time.monotonic() + LISTEN_EVERY_S
        if (catalog := self._service.catalog) is not None:
            try:
                self._connection.run(self._service.freshness.listen(catalog))
            except SlicewiseError as error:
                log.warning("store_not_ready", kind=type(error).__name__, what=error.what)
            except Exception as error:  # noqa: BLE001
                lines = "".join(traceback.format_exception(error))
                log.warning("listening_failed", kind=type(error).__name__, trace=lines)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: TracebackType | type[BaseException] | BaseException | None) -> None:
        self.close()


def _named(features: Features) -> tuple[list[str] | None, str | None]:
    return (None, features) if isinstance(features, str) else (list(features), None)


def _entities(entities: Entities) -> list[Entity]:
    if isinstance(entities, Mapping):
        return [dict(entities)]
    return [dict(entity) for entity in entities]
