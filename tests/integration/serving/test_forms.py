"""An answer's form, what it leaves out on request, and what it says where nothing of an entity is
kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import msgspec
import pytest

from slicewise import errors
from slicewise.client.http import HttpClient
from slicewise.serving.client import Client
from slicewise.windows.durations import DAY_US, MINUTE_US
from tests.integration.serving.support import deployment, serving
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import Event, Served

REFS = ["listening:plays_1h", "listening:seconds_1h"]
REQUEST = {"features": REFS, "entities": [{"user_id": "ann"}]}
MSGPACK = "application/msgpack"


class Running:
    """Store with an event of ann's and a two days' old one of bob's, and a serving process on
    it."""

    def __init__(self, redis: RedisServer, url: str) -> None:
        self.redis, self.url = redis, url

    def post(self, body: object, **headers: str) -> httpx.Response:
        return httpx.post(
            self.url + "/v1/features", json=body, headers=headers, trust_env=False, timeout=30
        )

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers=headers, trust_env=False, timeout=30)


@pytest.fixture(scope="module")
def api() -> Iterator[Running]:
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        served = stack.enter_context(Served.on(redis.url, deployment()))
        now_us = time.time_ns() // 1_000
        columns = {"country": "no", "seconds": 2.5, "n": 1}
        events = [
            Event(0, 0, now_us - 2 * DAY_US, {"user_id": "bob", **columns}),
            Event(0, 1, now_us - MINUTE_US, {"user_id": "ann", **columns}),
        ]
        served.apply(events)
        served.log = events
        yield Running(redis, stack.enter_context(serving(redis.url)))


# ---- Accept
@pytest.mark.parametrize(
    "accept",
    [
        "text/csv",
        "application/xml, text/plain;q=0.5",
        "application/json;q=0",
        "*/*;q=0.0",
        "image/*",
        "application/jso",
    ],
)
def test_a_form_that_there_is_not_is_refused_with_those_that_there_are(
    api: Running, accept: str
) -> None:
    for reply in (api.post(REQUEST, accept=accept), api.get("/v1/features", accept=accept)):
        assert reply.status_code == 406
        assert reply.headers["content-type"] == "application/json"
        error = reply.json()["error"]
        assert error["kind"] == "NotAcceptable"
        assert accept in error["what"]
        assert error["expected"] == "application/json or application/msgpack"
        assert error["next_step"]


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("application/json; charset=utf-8", "application/json"),
        ("text/html, application/xhtml+xml, */*;q=0.8", "application/json"),
        ("text/csv, application/json;q=0.1", "application/json"),
        (MSGPACK, MSGPACK),
        ("Application/MsgPack", MSGPACK),
        ("application/x-msgpack", MSGPACK),
    ],
)
def test_a_form_that_there_is_is_answered(api: Running, accept: str, form: str) -> None:
    reply = api.post(REQUEST, accept=accept)
    assert (reply.status_code, reply.headers["content-type"]) == (200, form)


def test_pages_are_html_and_what_tells_of_the_service_is_told_whatever_is_accepted(
    api: Running,
) -> None:
    assert api.get("/", accept="text/html").status_code == 200
    refused = api.get("/", accept="application/json")
    assert (refused.status_code, refused.json()["error"]["expected"]) == (406, "text/html")
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json"):
        assert api.get(path, accept="image/png").status_code == 200


# ---- tokens
def test_tokens_are_left_out_where_nobody_wants_them(api: Running) -> None:
    whole = api.post(REQUEST).json()
    bare = api.post({**REQUEST, "tokens": False}).json()
    assert whole["results"][0].pop("token")
    assert bare["results"] == whole["results"]
    packed = api.post({**REQUEST, "tokens": False}, accept=MSGPACK)
    assert "token" not in msgspec.msgpack.decode(packed.content)["results"][0]
    assert api.post({**REQUEST, "tokens": True}).json()["results"][0]["token"]
    assert api.post({**REQUEST, "tokens": "no"}).status_code == 400


def test_clients_leave_tokens_out_and_min_token_holds_all_the_same(api: Running) -> None:
    with Client(api.redis.url) as here, HttpClient(api.url) as there:
        for client in (here, there):
            whole = client.get(REFS, {"user_id": "ann"})
            bare = client.get(REFS, {"user_id": "ann"}, tokens=False)
            assert (whole.tokens, bare.tokens) == (True, False)
            assert whole.results[0].token
            assert bare.results[0].token == ""
            assert bare.values() == whole.values()
            answer = client.get(
                REFS, {"user_id": "ann"}, min_token=whole.results[0].token, tokens=False
            )
            assert (answer.values(), answer.results[0].token) == (whole.values(), "")
            with pytest.raises(errors.BadRequest):
                client.get(
                    ["everyone:plays_1h"], {}, min_token=whole.results[0].token, tokens=False
                )


def test_what_is_remembered_for_a_store_that_is_away_has_its_token_though_it_was_read_without() -> (
    None
):
    with (
        running(RedisServer) as redis,
        Served.on(redis.url, deployment()) as served,
        Client(redis.url) as client,
    ):
        served.apply(
            [
                Event(
                    0,
                    0,
                    time.time_ns() // 1_000,
                    {"user_id": "ann", "country": "no", "seconds": 1.0, "n": 1},
                )
            ]
        )
        assert client.get("remembered", {}, tokens=False).results[0].token
        redis.stop()
        stale = client.get("remembered", {})
        assert (stale.flags, stale.tokens) == (("stale",), True)
        assert stale.results[0].token
        assert not client.get("remembered", {}, tokens=False).tokens


# ---- entities of which nothing is kept
def test_an_entity_never_seen_is_told_from_one_without_recent_events(api: Running) -> None:
    entities = [{"user_id": name} for name in ("ann", "bob", "nobody")]
    body = {"features": REFS, "entities": entities}
    for answer in (
        api.post(body).json(),
        msgspec.msgpack.decode(api.post(body, accept=MSGPACK).content),
    ):
        ann, bob, nobody = answer["results"]
        assert ann["values"]["listening:plays_1h"] == 1
        assert bob["values"] == nobody["values"], "neither has an event of the last hour"
        assert "no_data" not in ann
        assert "no_data" not in bob
        assert nobody["no_data"] == ["listening"]
        assert answer["flags"] == []
    for alone, nothing in (("bob", ()), ("nobody", ("listening",))):
        with Client(api.redis.url) as here, HttpClient(api.url) as there:
            for client in (here, there):
                result = client.get(REFS, {"user_id": alone})
                assert result.results[0].no_data == nothing


def test_each_view_is_told_by_itself(api: Running) -> None:
    refs = ["listening:plays_1h", "places:plays_1h", "everyone:plays_1h"]
    rows = [
        {"user_id": "ann", "country": "se"},
        {"user_id": "ann", "country": "no"},
        {"user_id": "x", "country": "y"},
    ]
    results = api.post({"features": refs, "entities": rows}).json()["results"]
    assert [result.get("no_data", []) for result in results] == [
        ["places"],
        [],
        ["listening", "places"],
    ]


def test_a_global_view_without_an_event_has_no_data() -> None:
    with (
        running(RedisServer) as redis,
        Served.on(redis.url, deployment()) as served,
        Client(redis.url) as client,
    ):
        refs = ["everyone:plays_1h"]
        assert client.get(refs, {}).results[0].no_data == ("everyone",)
        served.apply(
            [
                Event(
                    1,
                    0,
                    time.time_ns() // 1_000,
                    {"user_id": "ann", "country": "no", "seconds": 1.0, "n": 1},
                )
            ]
        )
        assert client.get(refs, {}).results[0].no_data == ()
