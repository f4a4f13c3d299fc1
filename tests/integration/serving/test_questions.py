"""A request's row asks for members, one or several, over HTTP and in process, from a real store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

import slicewise as sw
from slicewise.client.http import HttpClient
from slicewise.errors import BadRequest
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.client import Client
from slicewise.windows.durations import HOUR_US
from tests.integration.serving.support import plays, serving
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import TOPIC, Event, Served

visited = sw.FeatureView(
    "visited",
    source=plays,
    entity=["user_id"],
    features=[
        sw.Feature("countries", sw.bloom("country", capacity=3, error=1e-6), windows=["1h", "1d"]),
        sw.Feature("numbers", sw.cuckoo("n", capacity=3, error=1e-6), windows=["1d"]),
    ],
)
abroad = sw.FeatureSet(
    "abroad",
    features=["visited:countries_1d", "visited:numbers_1d"],
    defaults={"numbers_1d": False},
)
REFS = ["visited:countries_1d", "visited:numbers_1d"]


def _event(offset: int, time_us: int, user: str, country: str | None, n: int | None) -> Event:
    return Event(0, offset, time_us, {"user_id": user, "country": country, "seconds": 1.0, "n": n})


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, str]]:
    """(store, serving): ann was in two countries, one of them in a compacted hour; bob has too many
    numbers."""
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        served = stack.enter_context(
            Served.on(redis.url, plan(Project("tests", (visited,), (abroad,))))
        )
        now_us = time.time_ns() // 1_000
        before = now_us - 3 * HOUR_US
        events = [_event(0, before, "ann", "no", 1), _event(1, now_us - 10, "ann", "se", None)]
        events += [_event(2 + n, now_us - 20, "bob", None, n) for n in range(5)]
        served.apply(events)
        served.compact(before // HOUR_US, OffsetVector({(TOPIC, 0): 1}))
        yield redis.url, stack.enter_context(serving(redis.url))


def _post(url: str, **body: Any) -> httpx.Response:
    return httpx.post(url + "/v1/features", json=body, trust_env=False, timeout=30)


def test_a_value_is_answered_by_a_boolean_and_a_list_by_a_list(urls: tuple[str, str]) -> None:
    reply = _post(
        urls[1],
        features=[*REFS, "visited:countries_1h"],
        entities=[
            {"user_id": "ann", "country": ["no", "se", "dk", None], "n": 1},
            {"user_id": "ann", "country": "no", "n": [1, 2]},
            {"user_id": "nobody", "country": "no", "n": []},
        ],
    )
    assert reply.status_code == 200, reply.text
    values = [list(result["values"].values()) for result in reply.json()["results"]]
    assert values == [
        [[True, True, False, None], True, [False, True, False, None]],
        [True, [True, False], False],
        [False, [], False],
    ]


def test_beyond_its_capacity_an_answer_is_null_with_its_error_or_the_default(
    urls: tuple[str, str],
) -> None:
    entity = {"user_id": "bob", "country": "no", "n": 1}
    (result,) = _post(urls[1], features=REFS, entities=[entity]).json()["results"]
    assert result["values"] == {REFS[0]: False, REFS[1]: None}
    assert result["errors"] == {REFS[1]: "over_capacity"}
    (result,) = _post(urls[1], feature_set="abroad", entities=[entity]).json()["results"]
    assert result["values"] == {REFS[0]: False, REFS[1]: False}


def test_both_clients_ask_alike(urls: tuple[str, str]) -> None:
    entity = {"user_id": "ann", "country": ["se", "fi"], "n": 7}
    with Client(urls[0]) as here, HttpClient(urls[1], timeout_s=60) as there:
        assert here.get(REFS, entity).values() == there.get(REFS, entity).values()
        assert here.get(REFS, entity).values() == {REFS[0]: [True, False], REFS[1]: False}


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ({"user_id": "ann", "n": 1}, "'country' is missing"),
        ({"user_id": "ann", "country": 5, "n": 1}, "no value of entity column 'country'"),
        ({"user_id": "ann", "country": "no", "n": ["x"]}, "no value of entity column 'n'"),
        ({"user_id": ["ann"], "country": "no", "n": 1}, "no value of entity column 'user_id'"),
        ({"user_id": "ann", "country": ["no"] * 1001, "n": 1}, "1001 values"),
        ({"user_id": "ann", "country": "no", "n": 1, "x": 1}, "unknown entity column"),
    ],
)
def test_a_row_that_asks_wrongly_is_refused(
    urls: tuple[str, str], entity: dict[str, Any], message: str
) -> None:
    reply = _post(urls[1], features=REFS, entities=[entity])
    assert (reply.status_code, message in reply.text) == (400, True), reply.text
    with Client(urls[0]) as client, pytest.raises(BadRequest, match=message):
        client.get(REFS, entity)


def test_what_a_feature_is_asked_by_is_listed(urls: tuple[str, str]) -> None:
    body = httpx.get(
        urls[1] + "/v1/features/visited:numbers_1d", trust_env=False, timeout=30
    ).json()
    assert (body["type"], body["asked_by"]) == ("bool", {"n": "long"})
