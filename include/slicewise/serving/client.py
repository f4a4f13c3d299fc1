"""In process or over HTTP, a client asks the same questions and gets the same values."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx
import msgspec

from slicewise import errors, log
from slicewise.calls import checked_class, shown
from slicewise.clock import Clock, SystemClock
from slicewise.errors import BadRequest, SlicewiseError, StoreUnavailable
from slicewise.serving.answering.answer import Answer, EntityAnswer, SourceFreshness
from slicewise.serving.answering.leaderboards import Leaderboard, LeaderboardRow, read_leaderboard
from slicewise.serving.answering.memory.fallback import DEFAULT, STALE
from slicewise.serving.answering.requests import Entity, checked, instant_us
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.factory import blocking
from slicewise.windows.slices import parse_duration

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

    def __init__(self, redis_url: str | None = None, *, clock: Clock | None = None, timeout_s: float = 5.0) -> None:
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
        refs, name = _asked(features)
        request = checked(refs, name, _entities(entities), at, min_token, tokens=tokens)
        answer = self._connection.run(self._service.read(request))
        # a store that did not answer just now is not asked once more
        if time.monotonic() >= self._listen_at and STALE not in answer.flags and DEFAULT not in answer.flags:
            self._listen()
        return answer

    def leaderboard(self, name: str) -> Leaderboard:
        """The board of this name as it stands. Raises UnknownName, NotReady, StoreUnavailable, CodecError."""
        return self._connection.run(read_leaderboard(self._service, name))

    def _listen(self) -> None:
        """What the serving API's listener does beside its requests: here after one, about once a second."""
        self._listen_at = time.monotonic() + LISTEN_EVERY_S
        if (catalog := self._service.catalog) is not None:
            try:
                self._connection.run(self._service.freshness.listen(catalog))
            except SlicewiseError as error:
                log.warning("store_not_ready", kind=type(error).__name__, what=error.what)
            except Exception as error:  # noqa: BLE001  a defect of ours: told, and the answer stands
                lines = "".join(traceback.format_exception(error))
                log.warning("listening_failed", kind=type(error).__name__, trace=lines)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: TracebackType | type[BaseException] | BaseException | None) -> None:
        self.close()


class HttpClient:
    """Reads features from a serving API, as msgpack: doubles arrive as their eight bytes."""

    def __init__(self, url: str | None = None, *, timeout_s: float = 5.0) -> None:
        if url is None:
            from slicewise.settings import Settings

            url = Settings.load().serving_url
        kind = "application/msgpack"
        self._http = httpx.Client(
            base_url=url,
            timeout=timeout_s,
            trust_env=False,
            headers={"content-type": kind, "accept": kind},
        )

    def get(
        self,
        features: Features,
        entities: Entities,
        at: str | int | datetime | None = None,
        *,
        min_token: str | None = None,
        tokens: bool = True,
    ) -> Answer:
        """As `Client.get`, over HTTP. Raises Overloaded too (OverShare: this client alone asks too much).

        Nothing is asked again by itself, which is what overload feeds on; `retry_after_s` says when it is worth it.
        """
        refs, name = _asked(features)
        body: dict[str, Any] = {"entities": _entities(entities)}
        if name is None:
            body["features"] = refs
        else:
            body["feature_set"] = name
        if at is not None:
            body["at"] = instant_us(at)
        if min_token is not None:
            body["min_token"] = min_token
        if not tokens:
            body["tokens"] = False
        return _answer(self._asked("POST", "/v1/features", msgspec.msgpack.encode(body)))

    def leaderboard(self, name: str) -> Leaderboard:
        """As `Client.leaderboard`, over HTTP."""
        return _leaderboard(self._asked("GET", f"/v1/leaderboards/{quote(name, safe='')}", None))

    def _asked(self, method: str, path: str, body: bytes | None) -> Any:
        try:
            reply = self._http.request(method, path, content=body)
            wire = msgspec.msgpack.decode(reply.content)
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            raise StoreUnavailable(
                f"the serving API does not answer: {error}",
                where=str(self._http.base_url),
                next_step="see that it runs: slicewise status; then ask again",
            ) from error
        if reply.status_code != 200:
            raise _error(wire["error"])
        return wire

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: TracebackType | type[BaseException] | BaseException | None) -> None:
        self.close()


def _asked(features: Features) -> tuple[list[str] | None, str | None]:
    return (None, features) if isinstance(features, str) else (list(features), None)


def _entities(entities: Entities) -> list[Entity]:
    if isinstance(entities, Mapping):
        return [dict(entities)]
    return [dict(entity) for entity in entities]


def _error(wire: Mapping[str, Any]) -> SlicewiseError:
    kind = getattr(errors, str(wire["kind"]), SlicewiseError)
    parts = {name: wire.get(name) for name in ("where", "expected", "next_step")}
    if kind is errors.NotReady:
        return errors.NotReady(wire["what"], progress=wire.get("progress", 0.0), **parts)
    if kind is errors.BeyondRetention:
        return errors.BeyondRetention(wire["what"], earliest_at_us=wire["earliest_at_us"], **parts)
    if kind is errors.BehindToken:
        return errors.BehindToken(wire["what"], retry_after_s=1.0, **parts)
    if kind is errors.Overloaded or kind is errors.OverShare:
        overloaded: type[errors.Overloaded] = kind
        return overloaded(wire["what"], retry_after_s=wire["retry_after_s"], **parts)
    if isinstance(kind, type) and issubclass(kind, SlicewiseError):
        return kind(wire["what"], **parts)
    return SlicewiseError(wire["what"], **parts)


def _answer(wire: Mapping[str, Any]) -> Answer:
    results = wire["results"]
    features = tuple(results[0]["values"])
    return Answer(
        features=features,
        mode=wire["mode"],
        t_us=instant_us(wire["t"]),
        bounds=_bounds(wire["bounds"]),
        results=tuple(
            EntityAnswer(
                each["entity"],
                tuple(each["values"][name] for name in features),
                each.get("token", ""),
                each.get("errors", {}),
                _bounds(each.get("bounds", {})),
                tuple(each.get("no_data", ())),
            )
            for each in results
        ),
        freshness=tuple(
            SourceFreshness(
                source,
                _instant(each["ledger_advanced_at"]),
                each["lag_events"],
                _instant(each["stream_heartbeat_at"]),
                each.get("tail", {}).get("events", 0),
                _instant(each.get("tail", {}).get("newest")),
            )
            for source, each in wire["freshness"].items()
        ),
        flags=tuple(wire["flags"]),
        incomplete=tuple(wire.get("incomplete", ())),
        doubles=tuple(True for _ in features),
        tokens=all("token" in each for each in results),
    )


def _leaderboard(wire: Mapping[str, Any]) -> Leaderboard:
    return Leaderboard(
        name=wire["leaderboard"],
        feature=wire["feature"],
        k=wire["k"],
        every_us=parse_duration(wire["every"]),
        now_us=instant_us(wire["now"]),
        start_us=_instant(wire["start"]),
        end_us=_instant(wire["end"]),
        written_us=_instant(wire["written"]),
        rows=tuple(LeaderboardRow(each["rank"], each["entity"], each["value"]) for each in wire["rows"]),
        more=wire["more"],
        cover=wire["cover"],
        flags=tuple(wire["flags"]),
    )


def _bounds(wire: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    return {name: (instant_us(start), instant_us(end)) for name, (start, end) in wire.items()}


def _instant(text: str | None) -> int | None:
    return None if text is None else instant_us(text)
