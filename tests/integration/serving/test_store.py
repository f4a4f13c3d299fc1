"""A store that is not deployed, goes away, is emptied or deployed anew: never a wrong answer."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from slicewise.errors import Recovering
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.serving.client import Client
from slicewise.stores.online.model import phases
from slicewise.stores.online.operations.connecting import ReadMetadata, ReadTime
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.readiness import MarkBuilding
from slicewise.stores.online.operations.status import PutStatus
from slicewise.windows.durations import MINUTE_US
from tests.integration.serving.support import deployment, everyone, listening, serving
from tests.support.platform.servers import RedisServer
from tests.support.stores.served import TOPIC, Event, Served

BODY = {"features": ["everyone:plays_1h"]}


def post(url: str, body: Any) -> httpx.Response:
    return httpx.post(url + "/v1/features", json=body, trust_env=False, timeout=30)


def play(offset: int) -> Event:
    """A play a minute ago."""
    columns = {"user_id": "ann", "country": "no", "seconds": 30.0, "n": 1}
    return Event(0, offset, time.time_ns() // 1_000 - MINUTE_US, columns)


def value(reply: httpx.Response) -> Any:
    assert reply.status_code == 200, reply.text
    return reply.json()["results"][0]["values"]["everyone:plays_1h"]


def answered(url: str, body: Any) -> httpx.Response:
    """The first answer that is none of an error, within a deadline."""
    deadline = time.monotonic() + 20
    while True:
        reply = post(url, body)
        if reply.status_code == 200 or time.monotonic() > deadline:
            return reply
        time.sleep(0.05)


def test_a_store_without_a_deployment_is_not_ready_and_then_is(own_redis: RedisServer) -> None:
    with serving(own_redis.url) as url:
        assert httpx.get(url + "/healthz", trust_env=False, timeout=30).status_code == 200
        reply = httpx.get(url + "/readyz", trust_env=False, timeout=30)
        assert (reply.status_code, reply.json()["ready"]) == (503, False)
        reply = post(url, BODY)
        assert (reply.status_code, reply.json()["error"]["kind"]) == (503, "NotReady")
        with Served.on(own_redis.url, deployment()):
            assert value(post(url, BODY)) == 0
            assert httpx.get(url + "/readyz", trust_env=False, timeout=30).json()["ready"] is True


def test_a_unit_whose_history_is_being_built_is_not_answered(own_redis: RedisServer) -> None:
    small = plan(Project("tests", (everyone,)))
    with Served.on(own_redis.url, small) as served, serving(own_redis.url) as url:
        served.apply([play(0)])  # so that something lies below the start offsets of a later unit
        whole = Served(served.store, deployment())
        topics = {source.topic: TOPIC for source in whole.deployment.sources}
        whole.store.run(
            Deploy(
                whole.deployment, whole.store.run(ReadMetadata()).deployment_version, topics=topics
            )
        )
        unit = whole.deployment.view("listening")[0]
        whole.store.run(MarkBuilding(unit, 1, 4))
        body = {"features": ["listening:plays_1h"], "entities": [{"user_id": "ann"}]}
        error = post(url, body).json()["error"]
        assert (error["kind"], error["progress"]) == ("NotReady", 0.25)
        assert "25%" in error["what"]
        assert value(post(url, BODY)) == 1  # another view answers all the while
        reasons = httpx.get(url + "/readyz", trust_env=False, timeout=30).json()["reasons"]
        assert "view listening is building: 1 of 4 hours" in reasons
        building = {unit.storage_fingerprint: "Spark computes hours"}
        whole.store.run(
            PutStatus(phases.PART, phases.changed(None, building, whole.store.run(ReadTime())))
        )
        deadline = time.monotonic() + 60
        while (
            "is building, 25%: Spark computes hours (for "
            not in post(url, body).json()["error"]["what"]
        ):
            assert time.monotonic() < deadline, "nobody listened to what the build waits for"
            time.sleep(0.1)


def test_a_store_that_goes_away_is_an_error_and_its_return_is_found_by_a_new_connection(
    own_redis: RedisServer,
) -> None:
    with Served.on(own_redis.url, deployment()) as served:
        served.apply([play(0)])
    with serving(own_redis.url) as url:
        assert value(post(url, BODY)) == 1
        own_redis.stop()  # it writes what it still holds
        reply = post(url, BODY)
        assert (reply.status_code, reply.json()["error"]["kind"]) == (503, "StoreUnavailable")
        assert int(reply.headers["retry-after"]) >= 1
        assert httpx.get(url + "/healthz", trust_env=False, timeout=30).status_code == 200
        assert httpx.get(url + "/readyz", trust_env=False, timeout=30).status_code == 503
        own_redis.start()
        assert value(answered(url, BODY)) == 1


def test_a_feature_set_answers_a_store_that_is_away_as_it_declares(own_redis: RedisServer) -> None:
    with Served.on(own_redis.url, deployment()) as served:
        served.apply([play(0), play(1)])
    with serving(own_redis.url) as url:
        for name in ("remembered", "forgetful", "assumed"):
            whole = post(url, {"feature_set": name})
            assert (value(whole), whole.json()["flags"]) == (2, [])
        own_redis.stop()
        stale = post(url, {"feature_set": "remembered"}).json()
        assert stale["flags"] == ["stale"]
        assert stale["results"][0]["values"] == {"everyone:plays_1h": 2}
        assert stale["results"][0]["token"]
        too_old = post(url, {"feature_set": "forgetful"})
        assert (too_old.status_code, too_old.json()["error"]["kind"]) == (503, "StoreUnavailable")
        assumed = post(url, {"feature_set": "assumed"}).json()
        assert assumed["flags"] == ["default"]
        assert assumed["results"][0]["values"] == {
            "everyone:plays_1h": 7,
            "everyone:plays_1d": None,
        }
        # a read of the past is never guessed
        at = {"feature_set": "remembered", "at": "2026-01-01T00:00:00Z"}
        assert post(url, at).status_code == 503
        assert post(url, BODY).status_code == 503
        own_redis.start()
        assert answered(url, BODY).json()["flags"] == []


def test_a_store_that_was_emptied_is_answered_under_its_new_store_id(
    own_redis: RedisServer,
) -> None:
    import redis

    with serving(own_redis.url) as url, Client(own_redis.url) as near:
        with Served.on(own_redis.url, deployment()) as served:
            served.apply([play(offset) for offset in range(3)])
        assert value(post(url, BODY)) == 3
        assert near.get(BODY["features"], {}).values() == {"everyone:plays_1h": 3}
        with redis.Redis.from_url(own_redis.operator_url) as operator:
            operator.flushall()
        assert post(url, BODY).status_code == 503
        with Served.on(own_redis.url, deployment()) as served:
            served.apply([play(0)])
            refused = post(url, BODY)
            assert (refused.status_code, refused.json()["error"]["kind"]) == (503, "Recovering")
            with pytest.raises(Recovering, match="2 to go"):
                near.get(BODY["features"], {})
            served.apply([play(1), play(2)])
        assert value(answered(url, BODY)) == 3
        assert near.get(BODY["features"], {}).values() == {"everyone:plays_1h": 3}


def test_a_new_deployment_is_seen_by_the_next_answer(own_redis: RedisServer) -> None:
    body = {"features": ["listening:plays_1h"], "entities": [{"user_id": "ann"}]}
    small = plan(Project("tests", (everyone,)))
    with Served.on(own_redis.url, small), serving(own_redis.url) as url:
        assert value(post(url, BODY)) == 0
        assert post(url, body).status_code == 404
        with Served.on(own_redis.url, deployment()):
            assert post(url, body).status_code == 200


def test_a_view_that_was_removed_and_came_back_is_answered_from_its_new_keys_alone(
    own_redis: RedisServer,
) -> None:
    small = plan(Project("tests", (listening,)))
    with serving(own_redis.url) as url, Client(own_redis.url) as near:
        with Served.on(own_redis.url, deployment()) as served:
            served.apply([play(offset) for offset in range(3)])
        assert value(post(url, BODY)) == 3
        assert near.get(BODY["features"], {}).values() == {"everyone:plays_1h": 3}
        with Served.on(own_redis.url, small):
            assert post(url, BODY).status_code == 404
        with Served.on(own_redis.url, deployment()) as served:
            # no backfill was made here: what lies below the new start offsets is in the old keys
            # only
            assert value(post(url, BODY)) == 0
            served.apply([play(3)])
        assert value(post(url, BODY)) == 1
        assert near.get(BODY["features"], {}).values() == {"everyone:plays_1h": 1}
