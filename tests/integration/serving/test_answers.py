"""Over HTTP from a real store: values, tokens and refusals."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

import httpx
import msgspec
import pytest

import slicewise as sw
from slicewise import errors
from slicewise.client.http import HttpClient
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.answering.requests import instant_us
from slicewise.serving.client import Client
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from tests.integration.serving.support import deployment, serving
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import TOPIC, Event, Served

SEED = 20_130_101
USERS = ("ann", "bob", "zoë", "per cent%", "a,b:c}{")
COUNTRIES = ("no", "se")


def events_before(now_us: int, count: int, seed: int) -> list[Event]:
    """Plays of the last eight days, most of them of the last two hours, in no order of time."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    spans = (HOUR_US // 6, 2 * HOUR_US, 2 * HOUR_US, 2 * DAY_US, 8 * DAY_US - HOUR_US)
    offsets = [0, 0]
    made = []
    for _ in range(count):
        partition = chance.randrange(2)
        columns = {
            "user_id": chance.choice(USERS),
            "country": chance.choice(COUNTRIES),
            "seconds": chance.choice([None, 0.1, 1e16, -1e16, chance.uniform(0, 300)]),
            "n": chance.choice([None, chance.randrange(-5, 500)]),
        }
        moment = now_us - chance.randrange(chance.choice(spans))
        made.append(Event(partition, offsets[partition], moment, columns))
        offsets[partition] += 1
    return made


class Running:
    """A store with known events, and a serving process on it."""

    def __init__(self, redis: RedisServer, url: str, served: Served, loaded_us: int) -> None:
        self.redis, self.url, self.served, self.loaded_us = redis, url, served, loaded_us

    def post(self, body: Any, **headers: str) -> httpx.Response:
        return httpx.post(
            self.url + "/v1/features", json=body, headers=headers, trust_env=False, timeout=30
        )


@pytest.fixture(scope="module")
def running_api() -> Iterator[Running]:
    """Shared by the module; nobody changes what is stored."""
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        served = stack.enter_context(Served.on(redis.url, deployment()))
        now_us = time.time_ns() // 1_000
        events = events_before(now_us, 1_500, SEED)
        served.apply(events[:800])
        served.log = events[:900]  # the archive runs ahead of the stream
        hours = sorted({e.time_us // HOUR_US for e in events if e.time_us < now_us - HOUR_US})
        offset_vector = OffsetVector({(TOPIC, p): _end(events[:900], p) for p in (0, 1)})
        for hour in hours[: len(hours) - 1]:
            served.compact(hour, offset_vector)
        for day in sorted({hour // 24 for hour in hours})[:-1]:
            served.total(day)
        served.apply(events[800:])  # late events too, into compacted hours
        served.log = events
        url = stack.enter_context(serving(redis.url))
        yield Running(redis, url, served, now_us)


def _end(events: list[Event], partition: int) -> int:
    return max((e.offset + 1 for e in events if e.partition == partition), default=0)


REFS = [f"{unit.view}:{feature.column}" for unit in deployment().units for feature in unit.features]
LISTENING = [ref for ref in REFS if ref.startswith("listening:")]


def expected(ref: str, events: list[Event], entity: dict[str, str], bounds: list[str]) -> Any:
    """By brute force: over the events inside the answer's bounds."""
    start, end = (instant_us(text) for text in bounds)
    inside = [
        e
        for e in events
        if start <= e.time_us < end and all(e.columns[c] == v for c, v in entity.items())
    ]
    name = ref.partition(":")[2]
    if name.startswith("plays"):
        return len(inside)
    column = "n" if name.startswith("total") else "seconds"
    values = [Fraction(e.columns[column]) for e in inside if e.columns[column] is not None]
    if not values:
        return None
    exact = sum(values, Fraction(0))
    if name.startswith("total"):
        return int(exact)
    exact = exact / len(values) if name.startswith("mean") else exact
    return exact.numerator / exact.denominator


def test_every_value_is_what_brute_force_finds_within_the_answers_bounds(
    running_api: Running,
) -> None:
    entities = [{"user_id": user} for user in (*USERS, "nobody")]
    answer = running_api.post({"features": LISTENING, "entities": entities}).json()
    assert len(answer["results"]) == len(entities)
    compared = 0
    for entity, result in zip(entities, answer["results"], strict=True):
        assert result["entity"] == entity
        for ref in LISTENING:
            wanted = expected(ref, running_api.served.log, entity, answer["bounds"][ref])
            assert repr(result["values"][ref]) == repr(wanted), (ref, entity)
            compared += 1
    both = [{"user_id": u, "country": c} for u in USERS for c in COUNTRIES]
    others = [ref for ref in REFS if ref.startswith("places:")]
    answer = running_api.post({"features": others, "entities": both}).json()
    for entity, result in zip(both, answer["results"], strict=True):
        for ref in others:
            wanted = expected(ref, running_api.served.log, entity, answer["bounds"][ref])
            assert result["values"][ref] == wanted, (ref, entity)
            compared += 1
    answer = running_api.post({"features": ["everyone:plays_1h", "everyone:plays_1d"]}).json()
    for ref, value in answer["results"][0]["values"].items():
        assert value == expected(ref, running_api.served.log, {}, answer["bounds"][ref])
        compared += 1
    print(f"compared {compared} values")
    assert compared == 6 * len(LISTENING) + 10 * len(others) + 2


def test_a_session_is_answered_with_the_bounds_that_it_has_for_each_entity(
    running_api: Running,
) -> None:
    refs = [ref for ref in REFS if ref.startswith("visits:")]
    entities = [{"user_id": user} for user in (*USERS, "nobody")]
    opened = set()
    for back_us in (1, HOUR_US // 3, HOUR_US, 5 * HOUR_US):
        at = running_api.loaded_us - back_us
        with (
            Client(running_api.redis.url) as near,
            HttpClient(running_api.url, timeout_s=60) as far,
        ):
            ours, theirs = near.get(refs, entities, at), far.get(refs, entities, at)
        text = running_api.post({"features": refs, "entities": entities, "at": at}).json()
        for i, (entity, result) in enumerate(zip(entities, text["results"], strict=True)):
            (token,) = tokens.decode_all(result["token"])
            # the slice is a minute, a tenth of the gap and less
            searched = [instant_us(bound) for bound in text["bounds"]["visits:plays_session_15m"]]
            own = [
                e.time_us
                for e in running_api.served.log
                if e.columns["user_id"] == entity["user_id"]
            ]
            visit = session_of(
                [us for us in own if searched[0] <= us < searched[1]], searched[1], 15 * MINUTE_US
            )
            start = min(visit) // MINUTE_US * MINUTE_US if visit else searched[1]
            assert token.bounds["plays_session_15m"] == (start, searched[1])
            assert ours.bounds_of(i) == theirs.bounds_of(i)
            for ref in refs:
                bounds = result.get("bounds", {}).get(ref, text["bounds"][ref])
                assert (
                    ours.bounds_of(i)[ref]
                    == tuple(map(instant_us, bounds))
                    == token.bounds[ref.partition(":")[2]]
                )
                assert (ref in result["bounds"]) == ("session" in ref)
                wanted = expected(ref, running_api.served.log, entity, bounds)
                if ref.startswith("visits:lasted"):
                    wanted = max(visit) - min(visit) if visit else None
                answer = result["values"][ref]
                assert (
                    repr(answer)
                    == repr(wanted)
                    == repr(ours.values(i)[ref])
                    == repr(theirs.values(i)[ref])
                )
            opened.add(len(visit) > 0)
    assert opened == {True, False}


def session_of(times_us: list[int], end_us: int, gap_us: int) -> list[int]:
    """Back from the latest event, while the next one is less than the gap away."""
    left, result = sorted(times_us), [end_us]
    while left and result[-1] - left[-1] < gap_us:
        result.append(left.pop())
    return result[1:]


def test_a_read_at_a_past_time_ends_there(running_api: Running) -> None:
    at = running_api.loaded_us - 3 * HOUR_US - 12_345_678
    for user in USERS:
        body = {"features": LISTENING, "entities": [{"user_id": user}], "at": at}
        answer = running_api.post(body).json()
        assert answer["mode"] == "at"
        for ref in LISTENING:
            start, end = answer["bounds"][ref]
            assert instant_us(end) <= at
            entity = {"user_id": user}
            wanted = expected(ref, running_api.served.log, entity, [start, end])
            assert answer["results"][0]["values"][ref] == wanted


def test_a_token_names_the_partitions_up_to_which_events_are_contained(
    running_api: Running,
) -> None:
    answer = running_api.post({"features": LISTENING, "entities": [{"user_id": "ann"}]}).json()
    (token,) = tokens.decode_all(answer["results"][0]["token"])
    ends = {(TOPIC, p): _end(running_api.served.log, p) for p in (0, 1)}
    assert dict(token.base.offsets) == ends
    assert token.compacted_beyond == {}
    assert set(token.bounds) == {ref.partition(":")[2] for ref in LISTENING}


def test_in_process_http_json_and_msgpack_give_the_same_values(running_api: Running) -> None:
    at = running_api.loaded_us - HOUR_US
    entities = [{"user_id": user} for user in USERS]
    with Client(running_api.redis.url) as near, HttpClient(running_api.url, timeout_s=60) as far:
        ours, theirs = near.get(LISTENING, entities, at), far.get(LISTENING, entities, at)
    text = running_api.post({"features": LISTENING, "entities": entities, "at": at}).json()
    for own, other, third in zip(ours.results, theirs.results, text["results"], strict=True):
        assert own.token == other.token == third["token"]
        assert dict(own.entity) == dict(other.entity)
        for ref, one, two in zip(LISTENING, own.values, other.values, strict=True):
            three = third["values"][ref]
            assert type(one) is type(two)
            if isinstance(one, float):
                assert struct.pack("<d", one) == struct.pack("<d", two) == struct.pack("<d", three)
            assert one == two == three
    assert ours.bounds == theirs.bounds
    assert ours.values(0) == dict(zip(LISTENING, ours.results[0].values, strict=True))
    assert next(iter(theirs.rows()))["user_id"] == USERS[0]


def test_a_feature_set_answers_its_features_with_its_defaults(running_api: Running) -> None:
    body = {"feature_set": "churn_v1", "entities": [{"user_id": "nobody"}]}
    answer = running_api.post(body).json()
    values = answer["results"][0]["values"]
    assert list(values) == ["listening:plays_1h", "listening:seconds_1h", "everyone:plays_1h"]
    assert values["listening:plays_1h"] == 0
    assert values["listening:seconds_1h"] == 0.0  # declared; without it, null
    assert values["everyone:plays_1h"] > 0


@pytest.mark.parametrize(
    ("body", "status", "kind", "message"),
    [
        ({"features": ["listening:plays_2h"]}, 404, "UnknownName", "plays_"),
        ({"features": ["listenin:plays_1h"]}, 404, "UnknownName", "listening"),
        ({"features": ["plays_1h"]}, 404, "UnknownName", "view:column"),
        ({"feature_set": "churn"}, 404, "UnknownName", "churn_v1"),
        ({}, 400, "BadRequest", "exactly one"),
        ({"features": ["listening:plays_1h"], "feature_set": "churn_v1"}, 400, "BadRequest", "exactly one"),
        ({"features": []}, 400, "BadRequest", "at least one"),
        ({"features": ["listening:plays_1h"] * 2}, 400, "BadRequest", "twice"),
        ({"features": ["listening:plays_1h"], "entities": []}, 400, "BadRequest", "at least one"),
        ({"features": ["listening:plays_1h"], "entities": [{}]}, 400, "BadRequest", "user_id"),
        ({"features": ["listening:plays_1h"], "entities": [{"user": "a"}]}, 400, "BadRequest", "user_id"),
        ({"features": ["listening:plays_1h"], "entities": [{"user_id": 5}]}, 400, "BadRequest", "string"),
        ({"features": ["listening:plays_1h"], "entities": [{"user_id": None}]}, 400, "BadRequest", "string"),
        ({"features": ["listening:plays_1h"], "entities": [{"user_id": ["a"]}]}, 400, "BadRequest", "entities"),
        ({"features": ["listening:plays_1h"], "entities": [{"user_id": "a", "x": 1}]}, 400, "BadRequest", "x"),
        ({"features": ["listening:plays_1h"], "entities": [{"user_id": "a"}] * 1001}, 400, "BadRequest", "1000"),
        ({"features": ["everyone:plays_1h"], "at": "2013-01-01T00:00:00"}, 400, "BadRequest", "zone"),
        ({"features": ["everyone:plays_1h"], "at": "yesterday"}, 400, "BadRequest", "RFC 3339"),
        ({"features": ["everyone:plays_1h"], "at": True}, 400, "BadRequest", "at"),
        ({"features": ["everyone:plays_1h"], "at": 1 << 60}, 400, "BadRequest", "instant"),
        ({"features": ["everyone:plays_1h"], "at": "2100-01-01T00:00:00Z"}, 400, "BadRequest", "future"),
        ({"features": ["everyone:plays_1h"], "at": "2013-01-01T00:00:00Z"}, 422, "BeyondRetention", "starts at"),
        ({"features": ["everyone:plays_1h"], "min_token": "AAAA"}, 400, "BadRequest", "token"),
        ({"features": ["everyone:plays_1h"], "more": 1}, 400, "BadRequest", "more"),
        ([1, 2], 400, "BadRequest", "object"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_told_what_was_wrong_and_what_exists(
    running_api: Running, body: Any, status: int, kind: str, message: str
) -> None:
    reply = running_api.post(body)
    error = reply.json()["error"]
    assert (reply.status_code, error["kind"]) == (status, kind), reply.text
    assert message in reply.text
    assert set(error) >= {"kind", "what", "where", "expected", "next_step"}


def test_a_body_that_is_no_json_and_one_too_large_are_refused(running_api: Running) -> None:
    for content in (b"", b"{", b'{"features": ["\xff"]}', b"[" * 100_000, b"null"):
        reply = httpx.post(
            running_api.url + "/v1/features", content=content, trust_env=False, timeout=30
        )
        assert reply.status_code == 400, reply.text
    large = b'{"features": ["' + b"x" * (1 << 20) + b'"]}'
    reply = httpx.post(running_api.url + "/v1/features", content=large, trust_env=False, timeout=30)
    assert (reply.status_code, reply.json()["error"]["kind"]) == (413, "BodyTooLarge")


def test_beyond_retention_names_the_earliest_time_that_is_answered(running_api: Running) -> None:
    body = {"features": LISTENING, "entities": [{"user_id": "ann"}], "at": "2013-01-01T00:00:00Z"}
    error = running_api.post(body).json()["error"]
    earliest = error["earliest_at_us"]
    before = running_api.post({**body, "at": earliest - 1})
    assert before.status_code == 422
    # the store's time goes on, so a little later is the first that surely stands
    after = running_api.post({**body, "at": earliest + HOUR_US})
    assert after.status_code == 200, after.text


def test_min_token_waits_for_what_it_contains(running_api: Running) -> None:
    body = {"features": LISTENING, "entities": [{"user_id": "ann"}]}
    text = running_api.post(body).json()["results"][0]["token"]
    assert running_api.post({**body, "min_token": text}).status_code == 200
    token = tokens.decode(text)
    later = OffsetVector(
        {topic_partition: offset + 1 for topic_partition, offset in token.base.offsets.items()}
    )
    beyond = tokens.encode(token.unit, token.definition, later, {}, "live", token.bounds)
    reply = running_api.post({**body, "min_token": beyond})
    assert reply.status_code == 503
    assert reply.json()["error"]["kind"] == "BehindToken"
    assert int(reply.headers["retry-after"]) >= 1


def test_min_token_that_does_not_name_a_view_asked_for_is_refused(running_api: Running) -> None:
    one = {"features": LISTENING, "entities": [{"user_id": "ann"}]}
    both = {"features": [*LISTENING, "everyone:plays_1h"], "entities": [{"user_id": "ann"}]}
    of_one = running_api.post(one).json()["results"][0]["token"]
    reply = running_api.post({**both, "min_token": of_one})
    assert reply.status_code == 400
    error, unit = reply.json()["error"], deployment().view("everyone")[0]
    assert "'everyone'" in error["what"]
    assert unit.storage_fingerprint in error["where"]
    # joined tokens name both; a unit that is not read may be named as well
    of_all = running_api.post({"features": ["everyone:plays_1h"], "entities": [{}]}).json()[
        "results"
    ][0]["token"]
    assert running_api.post({**both, "min_token": f"{of_one}.{of_all}"}).status_code == 200
    assert running_api.post({**one, "min_token": f"{of_one}.{of_all}"}).status_code == 200


@pytest.mark.parametrize("kind", ["application/msgpack", "Application/MsgPack"])
def test_msgpack_is_spoken_both_ways(running_api: Running, kind: str) -> None:
    body = msgspec.msgpack.encode({"features": ["everyone:plays_1h"], "entities": [{}]})
    reply = httpx.post(
        running_api.url + "/v1/features",
        content=body,
        headers={"content-type": kind, "accept": kind},
        trust_env=False,
    )
    assert reply.headers["content-type"] == kind.lower()
    assert msgspec.msgpack.decode(reply.content)["results"][0]["values"]["everyone:plays_1h"] > 0
    wrong = httpx.post(
        running_api.url + "/v1/features",
        content=b"\xc1",
        headers={"content-type": kind, "accept": kind},
        trust_env=False,
    )
    assert wrong.status_code == 400
    assert msgspec.msgpack.decode(wrong.content)["error"]["kind"] == "BadRequest"


def test_what_exists_is_listed(running_api: Running) -> None:
    listed = httpx.get(running_api.url + "/v1/features", trust_env=False, timeout=30).json()
    assert [view["name"] for view in listed["views"]] == [
        "listening",
        "places",
        "everyone",
        "visits",
    ]
    assert listed["feature_sets"][0]["entity"] == {"user_id": "string"}
    one = httpx.get(
        running_api.url + "/v1/features/listening:plays_1h", trust_env=False, timeout=30
    ).json()
    assert one["type"] == "int64"
    unknown = httpx.get(running_api.url + "/v1/features/listenin", trust_env=False, timeout=30)
    assert unknown.status_code == 404
    assert "listening" in unknown.json()["error"]["next_step"]
    page = httpx.get(running_api.url + "/", trust_env=False, timeout=30).text
    assert all(ref in page for ref in REFS)


def test_metrics_count_requests_errors_and_the_stores_share(running_api: Running) -> None:
    running_api.post({"features": ["everyone:plays_1h"]})
    running_api.post({"features": ["nothing:here"]})
    text = httpx.get(running_api.url + "/metrics", trust_env=False, timeout=30).text
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(samples['slicewise_request_seconds_count{route="/v1/features"}']) >= 2
    assert float(samples['slicewise_errors_total{kind="UnknownName"}']) >= 1
    assert float(samples["slicewise_store_seconds_count"]) >= 1


def test_other_paths_and_methods_are_refused_in_the_same_shape(running_api: Running) -> None:
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("DELETE", "/v1/features", 405),
        ("POST", "/healthz", 405),
    ):
        reply = httpx.request(method, running_api.url + path, trust_env=False, timeout=30)
        assert reply.status_code == status
        assert reply.json()["error"]["what"]


def test_errors_of_the_client_are_those_of_the_service(running_api: Running) -> None:
    with Client(running_api.redis.url) as near, HttpClient(running_api.url, timeout_s=60) as far:
        for client in (near, far):
            with pytest.raises(errors.UnknownName, match="plays_9h"):
                client.get(["listening:plays_9h"], {"user_id": "ann"})
            with pytest.raises(errors.BeyondRetention) as caught:
                client.get(LISTENING, {"user_id": "ann"}, at="2013-01-01T00:00:00Z")
            assert caught.value.earliest_at_us > 0
            with pytest.raises(errors.BadRequest):
                client.get(LISTENING, {"user_id": 7})
    assert sw.Client is Client
