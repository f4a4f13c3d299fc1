"""In process, over HTTP and asynchronously: a client asks the same questions and gets the same
answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

import slicewise as sw
from slicewise import errors
from slicewise.client import answers
from slicewise.client.http import AsyncHttpClient, HttpClient
from slicewise.serving.client import Client
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from tests.integration.serving.support import deployment, serving
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import Event, Served

REFS = [
    "listening:plays_1h",
    "listening:seconds_1h",
    "listening:mean_seconds_1h",
    "visits:plays_session_15m",
]
USERS = [{"user_id": name} for name in ("ann", "bob", "nobody")]


class AnyClient(Protocol):
    """Client as every client is."""

    def get(
        self, features: str | list[str], entities: Any, at: int | None = None, *,
        min_token: str | None = None, tokens: bool = True,
    ) -> answers.Answer: ...  # fmt: skip

    def leaderboard(self, name: str) -> answers.Leaderboard: ...

    def close(self) -> None: ...


class Awaited:
    """The asynchronous client, whose calls are awaited one by one."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = AsyncHttpClient(url, timeout_s=60)

    def get(self, *arguments: Any, **options: Any) -> answers.Answer:
        return self._loop.run_until_complete(self._client.get(*arguments, **options))

    def leaderboard(self, name: str) -> answers.Leaderboard:
        return self._loop.run_until_complete(self._client.leaderboard(name))

    def batches(self, *arguments: Any, **options: Any) -> list[answers.Answer]:
        async def gathered() -> list[answers.Answer]:
            return [batch async for batch in self._client.get_batches(*arguments, **options)]

        return self._loop.run_until_complete(gathered())

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()


class Running:
    """A store with events of ann's and bob's, and a serving process on it."""

    def __init__(self, redis: RedisServer, url: str, at_us: int) -> None:
        self.redis, self.url, self.at_us = redis, url, at_us


KINDS: dict[str, Callable[[Running], AnyClient]] = {
    "in process": lambda api: Client(api.redis.url),
    "HTTP, msgpack": lambda api: HttpClient(api.url, timeout_s=60),
    "HTTP, JSON": lambda api: HttpClient(api.url, timeout_s=60, form="json"),
    "HTTP, with retries": lambda api: HttpClient(api.url, timeout_s=60, retry=sw.Retry()),
    "asynchronous": lambda api: Awaited(api.url),
}


@pytest.fixture(scope="module")
def api() -> Iterator[Running]:
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        served = stack.enter_context(Served.on(redis.url, deployment()))
        now_us = time.time_ns() // 1_000
        columns = {"country": "no", "n": 1}
        events = [
            Event(0, 0, now_us - 2 * DAY_US, {"user_id": "bob", "seconds": 7.0, **columns}),
            Event(0, 1, now_us - HOUR_US // 2, {"user_id": "ann", "seconds": 0.1, **columns}),
            Event(0, 2, now_us - MINUTE_US, {"user_id": "ann", "seconds": 0.2, **columns}),
        ]
        served.apply(events)
        yield Running(redis, stack.enter_context(serving(redis.url)), now_us)


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, api: Running) -> Iterator[AnyClient]:
    made = KINDS[request.param](api)
    yield made
    made.close()


@pytest.fixture(scope="module")
def expected(api: Running) -> answers.Answer:
    """The in-process client's answer, at the moment that all are asked about."""
    with Client(api.redis.url) as near:
        return near.get(REFS, USERS, api.at_us)


def test_the_answer_is_the_same_in_each_part(
    client: AnyClient, expected: answers.Answer, api: Running
) -> None:
    got = client.get(REFS, USERS, api.at_us)
    assert isinstance(got, answers.Answer)
    parts = ("features", "mode", "t_us", "bounds", "results", "flags", "incomplete", "tokens")
    assert {part: getattr(got, part) for part in parts} == {
        part: getattr(expected, part) for part in parts
    }
    assert [source.source for source in got.freshness] == [
        source.source for source in expected.freshness
    ]
    assert list(got.rows()) == list(expected.rows())
    for index, result in enumerate(got.results):
        assert [type(value) for value in result.values] == [
            type(value) for value in expected.results[index].values
        ]
        assert got.bounds_of(index) == expected.bounds_of(index)
    # a session of two days ago is out of reach: of bob visits keeps nothing
    assert [row.no_data for row in got.results] == [(), ("visits",), ("listening", "visits")]
    assert got.values()["listening:seconds_1h"] == pytest.approx(0.3, abs=1e-12)


def test_now_is_answered_with_a_token_that_binds_the_next_answer(client: AnyClient) -> None:
    first = client.get("churn_v1", USERS[0])
    assert first.mode == "live"
    again = client.get("churn_v1", USERS[0], min_token=first.results[0].token, tokens=False)
    assert (again.values(), again.results[0].token, again.tokens) == (first.values(), "", False)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda client: client.get(["listening:plays_2h"], USERS), errors.UnknownName),
        (lambda client: client.get("no_such_set", USERS), errors.UnknownName),
        (lambda client: client.get(REFS, [{"user": "ann"}]), errors.BadRequest),
        (lambda client: client.get([], USERS), errors.BadRequest),
        (lambda client: client.get(REFS, [], None), errors.BadRequest),
        (lambda client: client.get(REFS, USERS, -1), errors.BadRequest),
        (lambda client: client.get(REFS, USERS, 86_400_000_000), errors.BeyondRetention),
        (lambda client: client.get(REFS, USERS, min_token="no token"), errors.BadRequest),
        (lambda client: client.leaderboard("no/such leaderboard"), errors.UnknownName),
    ],
)
def test_what_is_refused_is_refused_by_the_same_words(
    client: AnyClient,
    api: Running,
    call: Callable[[AnyClient], object],
    kind: type[errors.SlicewiseError],
) -> None:
    def raised(by: AnyClient) -> errors.SlicewiseError:
        with pytest.raises(kind) as caught:
            call(by)
        return caught.value

    with Client(api.redis.url) as near:
        ours, theirs = raised(near), raised(client)
    assert type(theirs) is type(ours)
    assert vars(theirs).keys() == vars(ours).keys()
    assert (theirs.what, theirs.where, theirs.expected, theirs.next_step) == (
        ours.what,
        ours.where,
        ours.expected,
        ours.next_step,
    )


def test_batches_hold_what_single_calls_hold(api: Running) -> None:
    many = [{"user_id": name} for name in ("ann", "bob", *(f"nobody{n}" for n in range(150)))]
    with Client(api.redis.url) as near, HttpClient(api.url, timeout_s=60) as far:
        expected = list(near.get(REFS, many, api.at_us).rows())
        split = list(far.get_batches(REFS, many, api.at_us))
    waiting = Awaited(api.url)
    try:
        beside = waiting.batches(REFS, iter(many), api.at_us, size=50)
    finally:
        waiting.close()
    assert [len(batch.results) for batch in split] == [64, 64, 24]
    assert [len(batch.results) for batch in beside] == [50, 50, 50, 2]
    for batches in (split, beside):
        assert [row for batch in batches for row in batch.rows()] == expected
