"""Reads over HTTP: one set of rules, a blocking and an asynchronous client around it."""

from __future__ import annotations

import asyncio
import itertools
import random as chance
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote

import httpx

from slicewise.calls import checked_class
from slicewise.client.answers import Answer, Entity, Explanation, Leaderboard
from slicewise.client.remote import (
    AsyncRemoteSets,
    AsyncRemoteTrainingSet,
    RemoteSets,
    RemoteTrainingSet,
)
from slicewise.client.retrying import (
    NoReply,
    Outcome,
    Retry,
    Wait,
)
from slicewise.client.rules import Rules
from slicewise.client.training_sets import Instant, Knowledge, TrainingSetState, submission
from slicewise.client.wire import (
    Entities,
    Features,
    ManyEntities,
    entities_of,
    features_body,
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
        self._rules = Rules(url, timeout_s, retry, form, clock or SystemClock(), monotonic, random)
        self._http = httpx.Client(**self._rules.options(connections, headers))
        self._sleep = sleep
        self._sets = RemoteSets(self._rules, self._http, self._repeated, sleep)

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

    def training_set(
        self,
        spine: object,
        features: Features,
        knowledge: Knowledge = "event_time",
        *,
        known_at: Instant = None,
        as_of_definition: Instant = None,
        engine: Literal["auto", "local", "spark"] = "auto",
        archive: bool = True,
        format: Literal["parquet", "csv"] = "parquet",  # noqa: A002  # as the API names it
    ) -> RemoteTrainingSet:
        """Requests a training set, which a process beside the API builds; gives its handle.

        spine: dicts of rows, a dict of columns, a frame or an Arrow table, the path of a file
        (Parquet, Feather or CSV), or "iceberg:namespace.table". Other arguments are those of
        `sw.training_set`. A request has a key of its own, so that one which is sent again is the
        same training set; `timeout_s` is for each part of it that is sent.

        Raises BadRequest, UnknownName, Overloaded (OverShare: this client has enough of them).
        """
        given = submission(
            self._rules.form,
            spine,
            features,
            knowledge,
            known_at,
            as_of_definition,
            engine,
            format,
            archive=archive,
        )
        return self._sets.submit(given)

    def training_sets(self) -> Sequence[TrainingSetState]:
        """States of the training sets that this client requested, in their order."""
        return self._sets.all()

    def training_set_of(self, training_set_id: str) -> RemoteTrainingSet:
        """The handle of a training set that was requested before."""
        return self._sets.of(training_set_id)

    def _call(self, method: str, path: str, body: bytes | None) -> Outcome:
        return self._repeated(
            lambda timeout_s: self._http.request(method, path, content=body, timeout=timeout_s)
        )

    def _repeated(self, send: Callable[[float], httpx.Response]) -> Outcome:
        """Outcome of a request that may be sent again. send: sends it, in a time of seconds."""
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
                outcome = self._rules.reply(send(step.timeout_s))
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
        self._rules = Rules(url, timeout_s, retry, form, clock or SystemClock(), monotonic, random)
        self._http = httpx.AsyncClient(**self._rules.options(connections, headers))
        self._sleep = sleep
        self._sets = AsyncRemoteSets(self._rules, self._http, self._repeated, sleep)

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

    async def training_set(
        self,
        spine: object,
        features: Features,
        knowledge: Knowledge = "event_time",
        *,
        known_at: Instant = None,
        as_of_definition: Instant = None,
        engine: Literal["auto", "local", "spark"] = "auto",
        archive: bool = True,
        format: Literal["parquet", "csv"] = "parquet",  # noqa: A002  # as the API names it
    ) -> AsyncRemoteTrainingSet:
        """Requests a training set as `HttpClient.training_set`."""
        given = submission(
            self._rules.form,
            spine,
            features,
            knowledge,
            known_at,
            as_of_definition,
            engine,
            format,
            archive=archive,
        )
        return await self._sets.submit(given)

    async def training_sets(self) -> Sequence[TrainingSetState]:
        """States of the training sets that this client requested, in their order."""
        return await self._sets.all()

    def training_set_of(self, training_set_id: str) -> AsyncRemoteTrainingSet:
        """The handle of a training set that was requested before."""
        return self._sets.of(training_set_id)

    async def _call(self, method: str, path: str, body: bytes | None) -> Outcome:
        return await self._repeated(
            lambda timeout_s: self._http.request(method, path, content=body, timeout=timeout_s)
        )

    async def _repeated(self, send: Callable[[float], Awaitable[httpx.Response]]) -> Outcome:
        """Outcome as of `HttpClient._repeated`."""
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
                outcome = self._rules.reply(await send(step.timeout_s))
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
