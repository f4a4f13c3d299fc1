"""Instants that the store no longer keeps are answered over HTTP from the archive, bit for bit."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise import errors
from slicewise.client.http import HttpClient
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.serving.http.offline import OfflineAnswers
from slicewise.settings import Settings
from slicewise.stores.lake.catalog import open_catalog
from slicewise.training.past import Past
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from tests.integration.serving.support import deployment, serving
from tests.integration.serving.test_answers import events_before, expected
from tests.integration.serving.test_questions import abroad, visited
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.archived import archive
from tests.support.stores.served import TOPIC, Event, Served

SEED = 20_261_130
DEPLOYMENT = deployment()
REFS = [f"{unit.view}:{feature.column}" for unit in DEPLOYMENT.units for feature in unit.features]
LISTENING = [ref for ref in REFS if ref.startswith("listening:")]
TWO_COLUMNS = [ref for ref in REFS if ref.startswith("places:")]
EVERYONE = [ref for ref in REFS if ref.startswith("everyone:")]
VISITS = [ref for ref in REFS if ref.startswith("visits:")]
USERS = ("ann", "bob", "zoë", "per cent%", "nobody")


@dataclass
class Api:
    url: str
    settings: Settings
    events: list[Event]
    now_us: int

    @property
    def past_us(self) -> int:
        """An instant that the store no longer keeps, among events."""
        return (self.now_us - 60 * DAY_US) // MINUTE_US * MINUTE_US

    def post(self, **body: Any) -> httpx.Response:
        url = self.url + "/v1/features"
        return httpx.post(url, json=body, trust_env=False, timeout=60)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A prediction API on a store with the last events, and an archive with older ones too."""
    print(f"seed {SEED}")
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        served = stack.enter_context(Served.on(redis.url, DEPLOYMENT))
        state = tmp_path_factory.mktemp("past")
        variables = {"SLICEWISE_STATE": str(state), "SLICEWISE_REDIS_URL": redis.url}
        settings = Settings.load(variables)
        now_us = time.time_ns() // 1_000
        old = events_before(now_us - 60 * DAY_US, 900, SEED)
        first = {p: sum(e.partition == p for e in old) for p in (0, 1)}
        late = [
            replace(e, offset=e.offset + first[e.partition])
            for e in events_before(now_us, 400, SEED + 1)
        ]
        rows = [
            {**e.columns, "played_at": e.time_us, "partition": e.partition, "offset": e.offset}
            for e in (*old, *late)
        ]
        source = DEPLOYMENT.source("plays")
        archive(open_catalog(settings), source, TOPIC, 1, rows, [], now_us)
        served.apply(late)
        url = stack.enter_context(serving(redis.url, settings=variables))
        yield Api(url, settings, [*old, *late], now_us)


def entities_of(refs: list[str]) -> list[dict[str, Any]]:
    if refs == EVERYONE:
        return [{}]
    if refs == TWO_COLUMNS:
        return [{"user_id": user, "country": country} for user in USERS for country in ("no", "se")]
    return [{"user_id": user} for user in USERS]


def given(entities: list[dict[str, Any]], at_us: int) -> pa.Table:
    at = pa.array([at_us] * len(entities), pa.timestamp("us", "UTC"))
    names = dict.fromkeys(name for entity in entities for name in entity)
    return pa.table({**{name: [e[name] for e in entities] for name in names}, "at": at})


@pytest.mark.parametrize("refs", [LISTENING, TWO_COLUMNS, EVERYONE], ids=["users", "two", "global"])
def test_beyond_what_is_kept_the_archive_answers_as_brute_force_does(
    api: Api, refs: list[str]
) -> None:
    entities = entities_of(refs)
    for back_us in (0, 7 * MINUTE_US, 3 * HOUR_US):
        at = api.past_us - back_us
        refused = api.post(features=refs, entities=entities, at=at)
        assert refused.status_code == 422
        assert "offline" in refused.json()["error"]["next_step"]
        given = api.post(features=refs, entities=entities, at=at, offline=True)
        assert given.status_code == 200, given.text
        answer = given.json()
        assert (answer["flags"], answer["mode"]) == (["offline"], "at")
        some = 0
        for entity, result in zip(entities, answer["results"], strict=True):
            assert result["entity"] == entity
            assert result["token"] == ""
            for ref in refs:
                wanted = expected(ref, api.events, entity, answer["bounds"][ref])
                assert repr(result["values"][ref]) == repr(wanted), (ref, entity, at)
                some += bool(wanted)
        assert some > 5 or refs == EVERYONE


def test_within_what_is_kept_store_and_archive_give_the_same_bits(api: Api) -> None:
    past = Past(api.settings)
    for refs in (LISTENING, TWO_COLUMNS, EVERYONE, VISITS):
        entities = entities_of(refs)
        for back_us in (11 * MINUTE_US, 5 * HOUR_US):
            at = (api.now_us - back_us) // 7 * 7
            answer = api.post(features=refs, entities=entities, at=at, offline=True).json()
            assert answer["flags"] == [], "the store keeps it"
            offline = past.answer(DEPLOYMENT.digest, refs, given(entities, at))
            for ref in refs:
                online = [result["values"][ref] for result in answer["results"]]
                assert repr(offline.table[ref].to_pylist()) == repr(online), (ref, at)


def test_sets_have_their_defaults_and_clients_their_errors(api: Api) -> None:
    with HttpClient(api.url, timeout_s=60.0) as client:
        answer = client.get("churn_v1", {"user_id": "nobody"}, at=api.past_us, offline=True)
        assert answer.flags == ("offline",)
        assert answer.values()["listening:seconds_1h"] == 0.0
        (batch,) = client.get_batches(LISTENING, entities_of(LISTENING), api.past_us, offline=True)
        assert len(batch.results) == len(USERS)
        with pytest.raises(errors.BadRequest, match="without a past instant"):
            client.get(LISTENING, {"user_id": "ann"}, offline=True)
        token = client.get(LISTENING, {"user_id": "ann"}).results[0].token
        with pytest.raises(errors.BadRequest, match="with a min_token"):
            client.get(LISTENING, {"user_id": "ann"}, api.past_us, min_token=token, offline=True)
        with pytest.raises(errors.BadRequest, match="is missing"):
            client.get(LISTENING, {}, api.past_us, offline=True)
        with pytest.raises(errors.BeyondRetention):
            client.get(LISTENING, {"user_id": "ann"}, api.past_us)


def workers_of(api: Api) -> list[psutil.Process]:
    """The processes of this test's API that read archives."""
    state = str(api.settings.state_dir)
    some = []
    for process in psutil.Process().children(recursive=True):
        # one that ended lately may stand there still
        with contextlib.suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            if "slicewise.training.past" in process.cmdline():
                own = process.environ().get("SLICEWISE_STATE") == state
                some += [process] if own else []
    return some


def test_of_a_killed_reader_another_one_answers_what_it_had(api: Api) -> None:
    body = {"features": EVERYONE, "at": api.past_us, "offline": True}
    assert api.post(**body).status_code == 200
    (worker,) = workers_of(api)
    worker.suspend()
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(lambda: api.post(**body))
        time.sleep(0.5)
        # the store's answers do not wait for it
        assert api.post(features=EVERYONE).status_code == 200
        os.kill(worker.pid, signal.SIGKILL)
        assert waits.result(60).status_code == 200
    (again,) = workers_of(api)
    assert again.pid != worker.pid


def test_more_questions_than_wait_are_refused_with_the_time_to_ask_again(api: Api) -> None:
    body = {"features": EVERYONE, "at": api.past_us, "offline": True}
    assert api.post(**body).status_code == 200
    (worker,) = workers_of(api)
    worker.suspend()
    with ThreadPoolExecutor(16) as pool:
        some = [pool.submit(lambda: api.post(**body)) for _ in range(16)]
        refusals = list(itertools.islice(as_completed(some, 60), 11))
        worker.resume()  # all others wait by now
        assert {one.result().status_code for one in refusals} == {429}
        answers = [one.result(60) for one in some]
    codes = sorted(answer.status_code for answer in answers)
    assert set(codes) == {200, 429}
    assert codes.count(200) == 5, "of one client"
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.headers["retry-after"]


SILENT = "import sys, time; sys.stdin.readline(); time.sleep(60)"
ENDS_FIRST = """
import pathlib, sys
begun = pathlib.Path(sys.argv[1])
if begun.exists():
    sys.stdin.readline()
    print('{"size": 0, "error": null}', flush=True)
    sys.stdin.readline()
begun.touch()
"""
"""A reader that ends before its first question; the second one answers."""


def test_all_who_wait_are_refused_in_their_own_time() -> None:
    async def run() -> list[float]:
        answers = OfflineAnswers(0.5, (sys.executable, "-c", SILENT))

        async def one(client: str) -> float:
            begun = time.monotonic()
            with pytest.raises(errors.StoreUnavailable, match="waiting included"):
                await answers._in_turn(b"{}\n", client)
            return time.monotonic() - begun

        try:
            return await asyncio.gather(*(one(f"client {n}") for n in range(9)))
        finally:
            await answers.end()

    assert max(asyncio.run(run())) < 3.0


def test_a_reader_that_ended_by_itself_is_another_ones_question(tmp_path: Path) -> None:
    program = (sys.executable, "-c", ENDS_FIRST, str(tmp_path / "begun"))

    async def run() -> dict[str, Any]:
        answers = OfflineAnswers(20.0, program)
        try:
            first = await answers._running()
            header, _ = await answers._in_turn(b"{}\n", "client")
            assert (await answers._running()).pid != first.pid
            return header
        finally:
            await answers.end()

    assert asyncio.run(run()) == {"size": 0, "error": None}


KEYED = sw.FeatureView(
    "keyed",
    source=sw.KafkaSource(
        "plays",
        schema={
            "born": "date",
            "begun": "timestamp_us",
            "device": "int64",
            "known": "boolean",
            "played_at": "timestamp_us",
        },
        timestamp="played_at",
    ),
    entity=["born", "begun", "device", "known"],
    features=[sw.Feature("plays", sw.count(), windows=["1h"])],
)


def test_entities_of_every_type_are_those_of_the_store(tmp_path: Path) -> None:
    planned = plan(Project("tests", (KEYED,), ()))
    at_us = 1_767_225_600_000_000
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    row = {
        "born": date(2000, 2, 29),
        "begun": at_us,
        "device": -7,
        "known": True,
        "played_at": at_us - 1,
        "partition": 0,
        "offset": 0,
    }
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        stack.enter_context(Served.on(redis.url, planned))
        variables = {"SLICEWISE_STATE": str(tmp_path), "SLICEWISE_REDIS_URL": redis.url}
        catalog = open_catalog(Settings.load(variables))
        now_us = time.time_ns() // 1_000
        archive(catalog, planned.source("plays"), TOPIC, 1, [row], [], now_us)
        url = stack.enter_context(serving(redis.url, settings=variables))
        entity = {"born": "2000-02-29", "device": -7, "known": True}
        entities = [
            {**entity, "begun": moment.isoformat()},
            {**entity, "begun": at_us},
            {**entity, "begun": at_us, "known": False},
        ]
        body = {"features": ["keyed:plays_1h"], "entities": entities, "at": at_us, "offline": True}
        reply = httpx.post(url + "/v1/features", json=body, trust_env=False, timeout=60)
        assert reply.status_code == 200, reply.text
        values = [one["values"]["keyed:plays_1h"] for one in reply.json()["results"]]
        assert values == [1, 1, 0]


def test_filters_answer_a_list_by_a_list_and_a_value_by_a_value(tmp_path: Path) -> None:
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        planned = plan(Project("tests", (visited,), (abroad,)))
        served = stack.enter_context(Served.on(redis.url, planned))
        variables = {"SLICEWISE_STATE": str(tmp_path), "SLICEWISE_REDIS_URL": redis.url}
        now_us = time.time_ns() // 1_000
        past_us = now_us - 60 * DAY_US
        listed = [("ann", "no", 1), ("ann", "se", None), *(("bob", None, n) for n in range(5))]
        columns = [
            {"user_id": user, "country": country, "seconds": 1.0, "n": n}
            for user, country, n in listed
        ]
        rows = [
            {**one, "played_at": past_us - 10 - i, "partition": 0, "offset": i}
            for i, one in enumerate(columns)
        ]
        archive(
            open_catalog(Settings.load(variables)),
            planned.source("plays"),
            TOPIC,
            1,
            rows,
            [],
            now_us,
        )
        served.apply([Event(0, i, now_us - 10 - i, one) for i, one in enumerate(columns)])
        url = stack.enter_context(serving(redis.url, settings=variables))
        refs = ["visited:countries_1d", "visited:numbers_1d"]
        body = {
            "features": refs,
            "entities": [
                {"user_id": "ann", "country": ["no", "dk", None], "n": 1},
                {"user_id": "ann", "country": "se", "n": [1, 2]},
                {"user_id": "ann", "country": None, "n": []},
                {"user_id": "bob", "country": "no", "n": 1},
            ],
        }

        def post(**more: Any) -> list[Any]:
            reply = httpx.post(
                url + "/v1/features", json={**body, **more}, trust_env=False, timeout=60
            )
            assert reply.status_code == 200, reply.text
            parts = ("values", "errors")
            return [[one.get(part) for part in parts] for one in reply.json()["results"]]

        online, offline = post(), post(at=past_us // HOUR_US * HOUR_US + HOUR_US, offline=True)
        assert online[0][0] == {refs[0]: [True, False, None], refs[1]: True}
        assert offline == online


def test_what_is_not_archived_and_what_is_lost_is_said(api: Api, tmp_path: Path) -> None:
    nothing = replace(
        api.settings,
        state_dir=tmp_path,
        catalog_uri=f"sqlite:///{tmp_path}/c.db",
        warehouse=str(tmp_path / "w"),
    )
    with pytest.raises(errors.DataLoss, match="nothing of 'plays' is archived"):
        Past(nothing).answer(DEPLOYMENT.digest, EVERYONE, given([{}], api.past_us))
    with pytest.raises(errors.NotReady, match="not in the store"):
        Past(api.settings).answer("0" * 64, EVERYONE, given([{}], api.past_us))
    with pytest.raises(errors.BadRequest, match="later than the archive"):
        Past(api.settings).answer(DEPLOYMENT.digest, EVERYONE, given([{}], api.now_us + HOUR_US))
