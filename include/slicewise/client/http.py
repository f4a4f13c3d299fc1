"""Reads over HTTP: one set of rules, a blocking and an asynchronous client around it."""

from __future__ import annotations

import asyncio
import itertools
import math
import random as chance
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote, urlsplit

import httpx

from slicewise.calls import checked_class, shown
from slicewise.client.answers import Answer, Entity, Explanation, Leaderboard
from slicewise.client.retrying import (
    Attempts,
    Budget,
    NoReply,
    Outcome,
    Reply,
    Retry,
    Wait,
    attempts,
)
from slicewise.client.wire import (
    Entities,
    Features,
    ManyEntities,
    answer_of,
    decoded,
    entities_of,
    explanation_of,
    features_body,
    form_of,
    leaderboard_of,
    outcomes_body,
)
from slicewise.clock import Clock, SystemClock
from slicewise.errors import BadRequest

BATCH = 64
"""Entities of a request in `get_batches`: what the API takes in work as one."""
AT_ONCE = 4
"""Requests of an asynchronous `get_batches` that are under way together."""
_FEATURES, _EXPLAIN, _LEADERBOARDS = "/v1/features", "/v1/explain", "/v1/leaderboards/"
_OUTCOMES = "/v1/outcomes"
Sent = Sequence[Mapping[str, Any]]
"""Predictions or labels, as the API's document has them."""


class _Rules:
    """Settings, steps and reading of a call, for both clients."""

    def __init__(
        self,
        url: str | None,
        timeout_s: float,
        retry: Retry | None,
        form: str,
        clock: Clock,
        monotonic: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        if url is None:
            from slicewise.settings import Settings

            url = Settings.load().serving_url
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadRequest(
                f"url is {shown(url)}",
                where="HttpClient",
                expected="the address of the serving API, as http://host:8000",
                next_step="leave it out for the one of the settings (SLICEWISE_SERVING_URL)",
            )
        if type(timeout_s) not in (int, float) or not 0 < timeout_s < math.inf:
            raise BadRequest(
                f"timeout_s is {timeout_s!r}",
                where="HttpClient",
                expected="a number of seconds, more than 0",
                next_step="leave it out for 5 seconds",
            )
        self.url, self.form = url, form_of(form)
        self._timeout_s, self._retry = timeout_s, retry or Retry(times=0)
        self._budget = Budget(self._retry.share)
        self._clock, self._monotonic, self._random = clock, monotonic, random

    def options(self, connections: int, headers: Mapping[str, str] | None) -> dict[str, Any]:
        """Options of httpx."""
        return {
            "base_url": self.url,
            "trust_env": False,
            "limits": httpx.Limits(
                max_connections=connections, max_keepalive_connections=connections
            ),
            "headers": {
                **(headers or {}),
                "content-type": self.form.media_type,
                "accept": self.form.media_type,
            },
        }

    def call(self) -> Attempts:
        """The steps of one call."""
        return attempts(self._retry, self._budget, self._timeout_s, self._monotonic, self._random)

    def reply(self, response: httpx.Response) -> Reply:
        """A response whose body was read."""
        after = response.headers.get("retry-after")
        return Reply(
            response.status_code, response.content, None if after is None else self._seconds(after)
        )

    def _seconds(self, retry_after: str) -> float | None:
        """Retry-After is a number of seconds, or a date."""
        try:
            return max(0.0, float(retry_after))
        except ValueError:
            pass
        try:
            return max(
                0.0, parsedate_to_datetime(retry_after).timestamp() - self._clock.now_us() / 1e6
            )
        except ValueError:
            return None

    def answer(self, outcome: Outcome) -> Answer:
        return answer_of(decoded(self.form, outcome, self.url))

    def explanation(self, outcome: Outcome) -> Explanation:
        return explanation_of(decoded(self.form, outcome, self.url))

    def leaderboard(self, outcome: Outcome) -> Leaderboard:
        return leaderboard_of(decoded(self.form, outcome, self.url))

    def taken(self, outcome: Outcome) -> dict[Literal["predictions", "labels"], int]:
        numbers = decoded(self.form, outcome, self.url)
        return {"predictions": numbers["predictions"], "labels": numbers["labels"]}


@checked_class
class HttpClient:
    """Reads features from a serving API. Connections are kept and shared; several threads may use
    one client.

    with sw.HttpClient("http://host:8000") as client:
        client.get(["listening:plays_1h"], {"user_id": "42"}).values()
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout_s: float = 5.0,
        retry: Retry | None = None,
        form: Literal["msgpack", "json"] = "msgpack",
        connections: int = 10,
        headers: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        random: Callable[[], float] = chance.random,
    ) -> None:
        """url: None for that of the settings. timeout_s: for a whole call, with its retries and
        their waits.

        retry: None sends each call once, since retries are what overload feeds on; `sw.Retry()`
        asks for bounded ones. form: in "msgpack" doubles arrive as their eight bytes; in "json" NaN
        and infinities arrive as texts. headers: sent with each request, as a gateway wants them.
        Raises BadRequest.
        """
        self._rules = _Rules(url, timeout_s, retry, form, clock or SystemClock(), monotonic, random)
        self._http = httpx.Client(**self._rules.options(connections, headers))
        self._sleep = sleep

    def get(
        self,
        features: Features,
        entities: Entities,
        at: str | int | datetime | None = None,
        *,
        min_token: str | None = None,
        tokens: bool = True,
        offline: bool = False,
        request_id: str | None = None,
    ) -> Answer:
        """Features of one entity (a mapping) or several, now or at a past instant; as `Client.get`.

        offline: an instant that the store no longer keeps is answered from the archive, which takes
        seconds: give a `timeout_s` for that. request_id: the name of this request in the request
        log.

        Raises what `Client.get` raises, and Overloaded (OverShare: this client alone asks too
        much).
        """
        body = features_body(
            self._rules.form,
            features,
            entities_of(entities),
            at,
            min_token,
            tokens,
            offline=offline,
            request_id=request_id,
        )
        return self._rules.answer(self._call("POST", _FEATURES, body))

    def get_batches(
        self,
        features: Features,
        entities: ManyEntities,
        at: str | int | datetime | None = None,
        *,
        size: int = BATCH,
        min_token: str | None = None,
        tokens: bool = True,
        offline: bool = False,
    ) -> Iterator[Answer]:
        """Features of many entities, in requests of `size`; an answer for each request, in the
        order of the entities.

        Each is read at its own moment: name one with `at` where all shall be of the same.
        """
        return (
            self.get(features, batch, at, min_token=min_token, tokens=tokens, offline=offline)
            for batch in _batches(entities, size)
        )

    def explain(
        self,
        features: Features,
        entity: Mapping[str, Any],
        at: str | int | datetime | None = None,
        *,
        min_token: str | None = None,
    ) -> Explanation:
        """Features of one entity as `get` reads them, and what the answer was made of: its windows
        with the parts that were read, and the offsets that it contains.

        Raises what `get` raises; nothing is answered instead of the store.
        """
        body = features_body(self._rules.form, features, [dict(entity)], at, min_token, True)
        return self._rules.explanation(self._call("POST", _EXPLAIN, body))

    def leaderboard(self, name: str) -> Leaderboard:
        """The leaderboard of this name as it stands. Raises UnknownName, NotReady,
        StoreUnavailable, Overloaded."""
        return self._rules.leaderboard(
            self._call("GET", _LEADERBOARDS + quote(name, safe=""), None)
        )

    def send_outcomes(
        self, predictions: Sent = (), labels: Sent = ()
    ) -> dict[Literal["predictions", "labels"], int]:
        """Predictions and labels, as `POST /v1/outcomes` takes them; how many were taken.

        They stand in their topics when it returns. What is sent again within an hour counts once.
        Raises BadRequest, which names the event, UnknownName where nothing takes them, Overloaded
        and StoreUnavailable.
        """
        body = outcomes_body(self._rules.form, predictions, labels)
        return self._rules.taken(self._call("POST", _OUTCOMES, body))

    def _call(self, method: str, path: str, body: bytes | None) -> Outcome:
        steps = self._rules.call()
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                ended: Outcome = end.value
                return ended
            if isinstance(step, Wait):
                self._sleep(step.seconds)
                outcome = None
                continue
            try:
                response = self._http.request(method, path, content=body, timeout=step.timeout_s)
                outcome = self._rules.reply(response)
            except httpx.HTTPError as error:
                outcome = NoReply(error)

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: TracebackType | type[BaseException] | BaseException | None) -> None:
        self.close()


@checked_class
class AsyncHttpClient:
    """Client as `HttpClient`, for asyncio.

    async with sw.AsyncHttpClient("http://host:8000") as client:
        (await client.get(["listening:plays_1h"], {"user_id": "42"})).values()
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout_s: float = 5.0,
        retry: Retry | None = None,
        form: Literal["msgpack", "json"] = "msgpack",
        connections: int = 10,
        headers: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = chance.random,
    ) -> None:
        """Takes the arguments of `HttpClient`."""
        self._rules = _Rules(url, timeout_s, retry, form, clock or SystemClock(), monotonic, random)
        self._http = httpx.AsyncClient(**self._rules.options(connections, headers))
        self._sleep = sleep

    async def get(
        self,
        features: Features,
        entities: Entities,
        at: str | int | datetime | None = None,
        *,
        min_token: str | None = None,
        tokens: bool = True,
        offline: bool = False,
        request_id: str | None = None,
    ) -> Answer:
        """Reads as `HttpClient.get`."""
        body = features_body(
            self._rules.form,
            features,
            entities_of(entities),
            at,
            min_token,
            tokens,
            offline=offline,
            request_id=request_id,
        )
        return self._rules.answer(await self._call("POST", _FEATURES, body))

    def get_batches(
        self,
        features: Features,
        entities: ManyEntities,
        at: str | int | datetime | None = None,
        *,
        size: int = BATCH,
        at_once: int = AT_ONCE,
        min_token: str | None = None,
        tokens: bool = True,
        offline: bool = False,
    ) -> AsyncGenerator[Answer, None]:
        """Reads as `HttpClient.get_batches`, with up to `at_once` requests under way together."""
        if at_once < 1:
            raise _not_positive("at_once", at_once)
        calls = (
            self.get(features, batch, at, min_token=min_token, tokens=tokens, offline=offline)
            for batch in _batches(entities, size)
        )
        return _in_order(calls, at_once)

    async def explain(
        self,
        features: Features,
        entity: Mapping[str, Any],
        at: str | int | datetime | None = None,
        *,
        min_token: str | None = None,
    ) -> Explanation:
        """Reads as `HttpClient.explain`."""
        body = features_body(self._rules.form, features, [dict(entity)], at, min_token, True)
        return self._rules.explanation(await self._call("POST", _EXPLAIN, body))

    async def leaderboard(self, name: str) -> Leaderboard:
        """Reads as `HttpClient.leaderboard`."""
        return self._rules.leaderboard(
            await self._call("GET", _LEADERBOARDS + quote(name, safe=""), None)
        )

    async def send_outcomes(
        self, predictions: Sent = (), labels: Sent = ()
    ) -> dict[Literal["predictions", "labels"], int]:
        """Sends as `HttpClient.send_outcomes`."""
        body = outcomes_body(self._rules.form, predictions, labels)
        return self._rules.taken(await self._call("POST", _OUTCOMES, body))

    async def _call(self, method: str, path: str, body: bytes | None) -> Outcome:
        steps = self._rules.call()
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                ended: Outcome = end.value
                return ended
            if isinstance(step, Wait):
                await self._sleep(step.seconds)
                outcome = None
                continue
            try:
                response = await self._http.request(
                    method, path, content=body, timeout=step.timeout_s
                )
                outcome = self._rules.reply(response)
            except httpx.HTTPError as error:
                outcome = NoReply(error)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, *_: TracebackType | type[BaseException] | BaseException | None
    ) -> None:
        await self.aclose()


def _batches(entities: ManyEntities, size: int) -> Iterator[list[Entity]]:
    if size < 1:
        raise _not_positive("size", size)
    if isinstance(entities, Mapping):
        entities = [entities]
    rows = iter(entities)
    return iter(lambda: [dict(entity) for entity in itertools.islice(rows, size)], [])


def _not_positive(name: str, value: int) -> BadRequest:
    return BadRequest(
        f"{name} is {value!r}",
        where="get_batches",
        expected="at least 1",
        next_step="leave it out for the usual one",
    )


async def _in_order(
    calls: Iterator[Awaitable[Answer]], at_once: int
) -> AsyncGenerator[Answer, None]:
    """Results in the order of the calls; a call is begun when one before it has ended."""
    under_way: deque[asyncio.Future[Answer]] = deque()
    try:
        while True:
            for call in itertools.islice(calls, at_once - len(under_way)):
                under_way.append(asyncio.ensure_future(call))
            if not under_way:
                return
            yield await under_way.popleft()
    finally:
        for left in under_way:
            left.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
