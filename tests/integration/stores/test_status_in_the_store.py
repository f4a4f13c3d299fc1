"""Statuses in a real store give a watch its time, and the main job its word on a check."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from slicewise.lifecycle.health.judge import Health, Limits
from slicewise.lifecycle.health.overview import health_of, job_record
from slicewise.local.main_job import _not_green
from slicewise.settings import Settings
from slicewise.stores.online.keys import METADATA, manifest_key, status_key
from slicewise.stores.online.redis.status import DEPLOYED, read_status, record_instants, record_part
from tests.support.platform.servers import RedisServer

DIGEST = "d" * 64


@pytest.fixture
def store(redis_server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.operator_url) as client:
        client.flushall()
        yield client
        client.flushall()


def deployed(client: redis.Redis, **more: Any) -> None:
    manifest = {
        "sources": [{"name": "plays"}],
        "units": [{"view": "v", "source": "plays", "storage_fingerprint": "a" * 16}],
    }
    client.hset(METADATA, mapping={"generation": 1, "epoch": 1, "units": DIGEST})
    client.set(manifest_key(DIGEST), json.dumps(manifest | more))


def streaming(client: redis.Redis) -> None:
    seconds, micros = client.time()
    status = {"state": "running", "heartbeat_us": seconds * 1_000_000 + micros, "lag": 0}
    client.set(status_key("stream:plays"), json.dumps(status))


def test_a_first_leaderboard_is_waited_for_from_its_deployment_and_from_the_start_of_its_driver(
    redis_server: RedisServer, store: redis.Redis
) -> None:
    def looked(start_us: int = 120_000_000) -> Health:
        streaming(store)
        return health_of(read_status(redis_server.url), Limits(start_us=start_us))

    deployed(store)
    assert looked().well
    deployed(store, leaderboards=[{"view": "v"}])
    assert looked().reasons == ("emission: plays: no driver has written a status",), (
        "nothing says when it was deployed"
    )
    record_instants(redis_server.url, [DEPLOYED])
    result = looked()
    assert (result.reasons, result.well, result.unensured) == ((), False, True)
    record_instants(redis_server.url, ["ensured:emit", "started:emit"])
    result = looked()
    assert (result.reasons, result.well, result.unensured) == ((), False, False)
    assert looked(start_us=0).reasons == ("emission: plays: no driver has written a status",)


RED = {"result": "red", "why": "2 of 9 values differ (stale 2)", "mismatches": 2}
UNMADE = {"result": "not_made", "why": "the online store does not answer"}


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("report", "at_us", "words", "anchor"),
    [
        (RED, 11, "the check is red: 2 of 9 values differ (stale 2)", "#the-check-is-red"),
        (
            UNMADE,
            11,
            "the check could not be made: the online store does not answer",
            "#the-check-could-not-be-made",
        ),
        (
            RED,
            10,
            "the check could not be made: its task ended without a report",
            "#the-check-could-not-be-made",
        ),
    ],
    ids=["red", "not made", "only an earlier run's"],
)
def test_the_main_job_tells_a_red_check_from_one_that_could_not_be_made(
    redis_server: RedisServer, report: dict[str, Any], at_us: int, words: str, anchor: str
) -> None:
    settings = Settings.load({"SLICEWISE_REDIS_URL": redis_server.url})
    record_part(redis_server.url, "job:check", job_record(report, ok=False, at_us=at_us))
    error = _not_green(settings, before_us=10)
    assert error.what == words
    assert error.next_step is not None
    assert error.next_step.startswith("http://")
    assert error.next_step.endswith(anchor)


def test_the_main_job_says_that_the_store_is_away() -> None:
    error = _not_green(
        Settings.load({"SLICEWISE_REDIS_URL": "redis://127.0.0.1:1/0"}), before_us=-1
    )
    assert error.what.startswith("the check could not be made: the online store does not answer")
