"""An explanation over HTTP from a real store: its answer is that of /v1/features, and its segments
are all that a value was made of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from slicewise.cli import main
from slicewise.client.answers import Explanation
from slicewise.client.http import AsyncHttpClient, HttpClient
from slicewise.errors import BadRequest, UnknownName
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.answering.requests import instant_us
from slicewise.serving.client import Client
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from tests.integration.serving.support import deployment, serving
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import TOPIC, Event, Served

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "flights" / "features.py"
FLIGHTS = plan(load_project(EXAMPLE))
REFS = [f"{unit.view}:{feature.column}" for unit in FLIGHTS.units for feature in unit.features]


def loaded(
    stack: ExitStack, redis_url: str, of: Deployment, columns: Mapping[str, Any]
) -> tuple[Served, str, int]:
    """A store and a serving process on it: compacted hours of two days, a late event in one of
    them, live slices, and pending events. With the hour of the late event."""
    served = stack.enter_context(Served.on(redis_url, of))
    now_us = time.time_ns() // 1_000
    times = [now_us - 30 * HOUR_US + n * HOUR_US // 2 for n in range(50)]
    events = [Event(0, n, at, columns) for n, at in enumerate(times)]
    served.apply(events)
    compacted = OffsetVector({(TOPIC, 0): len(events)})
    hours = sorted({at // HOUR_US for at in times})[:-1]
    for hour in hours:
        served.compact(hour, compacted)
    for day in sorted({hour // 24 for hour in hours})[:-1]:
        served.total(day)
    late = hours[-3] * HOUR_US + MINUTE_US
    served.apply([Event(0, 50, late, columns), Event(0, 51, now_us - 3 * MINUTE_US, columns)])
    served.begin_realtime()
    served.write_pending([Event(0, 52, now_us - MINUTE_US, columns)])
    url = stack.enter_context(serving(redis_url))
    return served, url, hours[-3]


FLIGHT = {
    "number": 1,
    "carrier": "UA",
    "flight": 1,
    "tailnum": "N1",
    "origin": "EWR",
    "dest": "IAH",
    "distance": 1400,
    "dep_delay": 17,
    "arr_delay": 3,
    "air_time": 200,
    "cancelled": False,
    "late": True,
    "route": "EWR-IAH",
    "made_up": 14,
}
MADE = {
    name: {"boolean": True, "string": "no"}.get(kind, 2)
    for unit in FLIGHTS.units
    for name, kind in unit.input_types
    if name not in FLIGHT
}
"""Columns that the views make of an event's own."""


@pytest.fixture(scope="module")
def stored_at() -> Iterator[str]:
    """Address of the store of the plays."""
    with running(RedisServer) as redis:
        yield redis.url


@pytest.fixture(scope="module")
def plays(stored_at: str) -> Iterator[tuple[Served, str, int]]:
    """The plays of the tests, by ann."""
    columns = {"user_id": "ann", "country": "no", "seconds": 0.1, "n": 7}
    with ExitStack() as stack:
        yield loaded(stack, stored_at, deployment(), columns)


def post(url: str, path: str, body: Any, **headers: str) -> httpx.Response:
    return httpx.post(url + path, json=body, headers=headers, trust_env=False, timeout=30)


def count(window: Mapping[str, Any], key: str) -> int:
    return sum(s.get(key, 0) for s in window["segments"] if s["state"] == "counted")


ALL = [f"{unit.view}:{feature.column}" for unit in deployment().units for feature in unit.features]
ANN = {"listening": {"user_id": "ann"}, "visits": {"user_id": "ann"}, "everyone": {}} | {
    "places": {"user_id": "ann", "country": "no"}
}


@pytest.mark.parametrize("ref", ALL)
def test_the_explained_value_is_that_of_features_at_the_token(
    ref: str, plays: tuple[Served, str, int]
) -> None:
    _, url, _ = plays
    at = int(time.time() * 1e6) - 10 * 1_000_000
    body = {"features": [ref], "entities": [ANN[ref.partition(":")[0]]], "at": at}
    for accept, decode in (
        ("application/json", msgspec.json.decode),
        ("application/msgpack", msgspec.msgpack.decode),
    ):
        explained = decode(post(url, "/v1/explain", body, accept=accept).content)
        answered = decode(post(url, "/v1/features", body, accept=accept).content)
        assert explained["answer"]["results"] == answered["results"]
        assert explained["answer"]["bounds"] == answered["bounds"]
        (view,) = explained["views"]
        (feature,) = view["features"]
        assert msgspec.msgpack.encode(feature["value"]) == msgspec.msgpack.encode(
            answered["results"][0]["values"][ref]
        )
        assert view["token"] == answered["results"][0]["token"]


@pytest.mark.parametrize("view", sorted({unit.view for unit in FLIGHTS.units}))
def test_the_shipped_examples_views_are_explained_as_they_are_answered(
    view: str, flights: str
) -> None:
    refs = [ref for ref in REFS if ref.startswith(f"{view}:")]
    units = [unit for unit in FLIGHTS.units if unit.view == view]
    entity = {column: FLIGHT[column] for unit in units for column, _ in unit.entity}
    with HttpClient(flights) as client:
        at = int(time.time() * 1e6) - 5_000_000
        answered, explained = client.get(refs, entity, at), client.explain(refs, entity, at)
    assert explained.answer == answered
    assert {
        feature.feature: feature.value for part in explained.views for feature in part.features
    } == answered.values()
    assert len(explained.views) == len(units)
    bounds = answered.bounds_of()
    for part in explained.views:
        assert tokens.decode(part.token).unit == part.unit
        for feature in part.features:
            window = part.windows[feature.window]
            start_us, end_us = bounds[feature.feature]
            since_ever = start_us < 0  # a lifetime
            assert (window.start_us, window.end_us) == (None if since_ever else start_us, end_us)


@pytest.fixture(scope="module")
def flights() -> Iterator[str]:
    """Address of a process that serves the shipped example's views."""
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        yield loaded(stack, redis.url, FLIGHTS, FLIGHT | MADE)[1]


def explained_view(url: str, ref: str, entity: Mapping[str, str], **more: Any) -> dict[str, Any]:
    body = {"features": [ref], "entities": [entity], **more}
    reply = post(url, "/v1/explain", body)
    assert reply.status_code == 200, reply.text
    (view,) = reply.json()["views"]
    return dict(view)


@pytest.mark.parametrize("ref", ["listening:plays_7d", "listening:plays_1h", "everyone:plays_1d"])
def test_segments_that_count_lie_within_the_window_and_hold_its_events(
    ref: str, plays: tuple[Served, str, int]
) -> None:
    served, url, _ = plays
    view = explained_view(url, ref, ANN[ref.partition(":")[0]])
    (window,), (feature,) = view["windows"], view["features"]
    start, end = instant_us(window["start"]), instant_us(window["end"])
    counted = [s for s in window["segments"] if s["state"] == "counted"]
    assert all(start <= instant_us(s["start"]) < instant_us(s["end"]) <= end for s in counted)
    applied = [e for e in served.log if start <= e.time_us < end]
    inside = {
        e.offset
        for e in applied
        if any(instant_us(s["start"]) <= e.time_us < instant_us(s["end"]) for s in counted)
    }
    assert inside == {e.offset for e in applied}
    assert feature["value"] == len(applied) + view["pending"]["events"]


def test_a_late_event_stands_beside_its_compacted_hour(plays: tuple[Served, str, int]) -> None:
    _, url, hour = plays
    view = explained_view(url, "listening:plays_1h", ANN["listening"], at=(hour + 1) * HOUR_US)
    ((late,),) = [[s for s in w["segments"] if s.get("late")] for w in view["windows"]]
    assert late["where"] == "live"
    assert late["offsets"] == {TOPIC: {"0": [50, 50]}}
    (version,) = late["archive_versions"]
    assert view["archive_versions"][str(version)]["offsets"] == {TOPIC: {"0": 50}}
    (total,) = [s for s in view["windows"][0]["segments"] if s["where"] == "hour"]
    assert total["archive_versions"] == [version]
    assert total["state"] == "counted"


def test_pending_events_and_offsets_are_those_of_the_token(plays: tuple[Served, str, int]) -> None:
    _, url, _ = plays
    view = explained_view(url, "listening:plays_1h", ANN["listening"])
    (pending,) = [s for s in view["windows"][0]["segments"] if s["where"] == "pending"]
    assert (pending["events"], pending["offsets"]) == (1, {TOPIC: {"0": [52, 52]}})
    assert view["pending"] == {"events": 1, "left": 0}
    assert view["offsets"]["committed"] == {TOPIC: {"0": 52}}
    assert view["offsets"]["applied"] == {TOPIC: {"0": 52}}
    assert view["offsets"]["contained"] == {TOPIC: {"0": 53}}
    assert tokens.decode(view["token"]).base == OffsetVector({(TOPIC, 0): 53})


def test_of_an_entity_that_was_never_seen_all_is_empty(plays: tuple[Served, str, int]) -> None:
    _, url, _ = plays
    view = explained_view(url, "listening:plays_7d", {"user_id": "nobody"})
    states = {s["state"] for s in view["windows"][0]["segments"]}
    assert states == {"empty"}
    assert view["offsets"]["applied"] == {}


REFUSED = [
    {"features": ["listening:plais_1h"], "entities": [{"user_id": "ann"}]},
    {"features": ["nobody:plays_1h"], "entities": [{"user_id": "ann"}]},
    {"features": ["listening:plays_1h"], "entities": [{}]},
    {"features": ["listening:plays_1h"], "entities": [{"user_id": 7}]},
    {"features": ["listening:plays_1h"], "entities": [{"user_id": "ann"}], "at": 1},
    {"features": [], "entities": [{"user_id": "ann"}]},
    {"feature": ["listening:plays_1h"]},
    [],
]


@pytest.mark.parametrize("body", REFUSED, ids=str)
def test_what_features_refuses_is_refused_alike(body: Any, plays: tuple[Served, str, int]) -> None:
    _, url, _ = plays
    explained, answered = (post(url, path, body) for path in ("/v1/explain", "/v1/features"))
    assert explained.status_code == answered.status_code >= 400
    assert explained.json()["error"]["kind"] == answered.json()["error"]["kind"]


def test_an_explanation_is_of_one_entity_and_posted(plays: tuple[Served, str, int]) -> None:
    _, url, _ = plays
    two = {"features": ["listening:plays_1h"], "entities": [{"user_id": "ann"}] * 2}
    assert post(url, "/v1/explain", two).status_code == 400
    reply = httpx.get(url + "/v1/explain", trust_env=False, timeout=30)
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")


async def explained_later(url: str, at: int) -> Explanation:
    async with AsyncHttpClient(url) as client:
        return await client.explain(["listening:plays_1h"], {"user_id": "ann"}, at)


def test_all_clients_explain_alike(plays: tuple[Served, str, int], stored_at: str) -> None:
    _, url, _ = plays
    at = int(time.time() * 1e6) - DAY_US
    with HttpClient(url) as client:
        over_http = client.explain(["listening:plays_1h"], {"user_id": "ann"}, at)
        with pytest.raises(UnknownName):
            client.explain(["listening:plais_1h"], {"user_id": "ann"})
        with pytest.raises(BadRequest):
            client.explain(["listening:plays_1h"], {})
    assert asyncio.run(explained_later(url, at)).views == over_http.views
    with Client(stored_at) as client:
        inside = client.explain(["listening:plays_1h"], {"user_id": "ann"}, at)
    assert inside.views == over_http.views
    assert inside.answer.results == over_http.answer.results


def test_the_command_prints_tables_or_json(
    plays: tuple[Served, str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    _, url, _ = plays
    named = ["explain", "listening:plays_7d", "user_id=ann", "--url", url]
    assert main(named) == 0
    shown = capsys.readouterr().out
    assert "listening: slices of" in shown
    assert "late" in shown
    assert "pending events in the answer: 1" in shown
    assert main([*named, "--json"]) == 0
    explained = msgspec.json.decode(capsys.readouterr().out)
    assert explained["views"][0]["view"] == "listening"
    assert main(["explain", "listening:plays_7d", "user_id:=ann", "--url", url]) == 1
    assert "is no JSON" in capsys.readouterr().err
    assert main(["explain", "listening:plais_7d", "user_id=ann", "--url", url]) == 1
    assert "did you mean plays_7d" in capsys.readouterr().err
