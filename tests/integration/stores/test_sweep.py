"""The sweep sets right what it finds in a real store, and touches nothing that is well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import redis

from slicewise.cli import main
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.settings import Settings
from slicewise.stores.online import keys
from slicewise.stores.online.operations.connecting import Initialise
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.redis import open_store
from slicewise.stores.online.redis.status import read_status, record_part
from tests.support.platform.airflow import PROJECT
from tests.support.platform.servers import RedisServer

MANY = 2_500  # more than the sweep takes at once


@pytest.fixture
def deployed(own_redis: RedisServer, tmp_path: Path) -> Deployment:
    (tmp_path / "slicewise.toml").write_text('name = "plays"\ndefinitions = "features.py"\n')
    (tmp_path / "features.py").write_text(PROJECT)
    deployment = plan(load_project(tmp_path / "features.py"))
    store = open_store(own_redis.url)
    try:
        metadata = store.run(Initialise())
        store.run(Deploy(deployment, metadata.deployment_version, {"plays": "a" * 32}))
    finally:
        store.close()
    return deployment


def swept(
    own_redis: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *more: str,
) -> dict[str, Any]:
    for name, value in (
        Settings.load({"SLICEWISE_STATE": str(own_redis.state.path)}).to_env().items()
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLICEWISE_REDIS_URL", own_redis.url)
    assert main(["sweep", "--json", *more]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def test_keys_are_found_by_the_thousand_and_set_right_once(
    own_redis: RedisServer,
    deployed: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    unit = deployed.units[0]
    store_id = int(read_status(own_redis.url).metadata["generation"])
    tags = keys.entity_tags([("user_id", "string")], [[f"user {n}" for n in range(MANY)]])
    with redis.Redis.from_url(own_redis.url) as client:
        now = client.time()[0]
        well = now + 3_600
        pipe = client.pipeline(transaction=False)
        for tag in tags:
            key = keys.hot_key(store_id, tag, unit.storage_fingerprint)
            pipe.hset(key, "l:0:0", 1).expireat(key, well)
        stray = keys.hot_key(store_id, b"user_id:string:stray", unit.storage_fingerprint)
        pipe.hset(stray, "l:0:0", 1)
        long = keys.day_key(store_id, tags[0], unit.storage_fingerprint, now // 86_400)
        pipe.hset(long, "c", b"\x90").expireat(long, now + 10**8)
        old = keys.hot_key(store_id - 1, tags[0], unit.storage_fingerprint)
        pipe.hset(old, "l:0:0", 1)
        pipe.set("sw:somebody's", "x").set("other:key", "x")
        pipe.execute()

        dry = swept(own_redis, monkeypatch, capsys, "--dry-run")
        assert (dry["no_expiry"], dry["over_long"], dry["old_store_id"], dry["unknown"]) == (
            1,
            1,
            1,
            1,
        )
        assert dry["changed"] == 0
        assert client.ttl(stray) == -1
        assert dry["bytes_freed"] == client.memory_usage(old)
        assert dry["bytes_to_expire"] == client.memory_usage(stray) + client.memory_usage(long)
        kinds = {(row["view"], row["kind"]): row for row in dry["kinds"]}
        hot, day = kinds["listening", "hot"], kinds["listening", "day"]
        assert (hot["keys"], hot["found"], day["keys"], day["found"]) == (MANY + 2, 2, 1, 1)
        assert (kinds["", "other"]["keys"], kinds["", "other"]["found_bytes"]) == (1, 0)

        done = swept(own_redis, monkeypatch, capsys)
        assert done["changed"] == 3
        assert done["keys_after"] == done["keys_before"] - 1
        assert done["bytes_freed"] == dry["bytes_freed"]
        assert done["scanned"] >= MANY + 4
        reach_s = unit.retention_us // 1_000_000
        assert reach_s < client.ttl(stray) <= reach_s + 60 + 7_200
        assert client.expiretime(long) < now + 10**8
        assert not client.exists(old)
        assert client.get("sw:somebody's") == b"x"
        assert client.expiretime(keys.hot_key(store_id, tags[7], unit.storage_fingerprint)) == well

        again = swept(own_redis, monkeypatch, capsys)
        assert (
            again["changed"],
            again["no_expiry"],
            again["over_long"],
            again["old_store_id"],
        ) == (0, 0, 0, 0)
        memory = again["memory"][unit.view]
        assert memory["keys"] == MANY + 2
        assert 50 * MANY < memory["bytes"] < 1_000 * MANY


def test_an_expiry_that_a_micro_batch_extended_meanwhile_is_never_lengthened(
    own_redis: RedisServer, deployed: Deployment
) -> None:
    from slicewise.lifecycle.sweep import Finding, Verdict
    from slicewise.stores.online.redis import sweep as store

    deployed_now = store.deployed(own_redis.url)
    assert deployed_now is not None
    key = keys.hot_key(
        deployed_now.metadata.store_id, b"user_id:string:u", deployed.units[0].storage_fingerprint
    )
    with redis.Redis.from_url(own_redis.url) as client:
        now = client.time()[0]
        client.hset(key, "l:0:0", 1)
        client.expireat(key, now + 100)
        # as if it had had none when it was looked at
        store.sweep(
            own_redis.url, deployed_now, lambda *_: Verdict(Finding.NO_EXPIRY, "u", now + 5_000)
        )
        assert client.expiretime(key) == now + 100


def test_a_store_without_deployment_has_nothing_to_sweep(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = swept(own_redis, monkeypatch, capsys)
    assert (report["deployed"], report["scanned"]) == (False, 0)


def test_the_status_holds_what_is_deployed_and_what_parts_say(
    own_redis: RedisServer, deployed: Deployment
) -> None:
    (unit,) = [storage_unit.storage_fingerprint for storage_unit in deployed.units]
    record_part(own_redis.url, "stream:plays", '{"state": "running"}')
    record_part(own_redis.url, "job:sweep", "{}")
    # hours of the one unit, and an archive version that totals name
    with redis.Redis.from_url(own_redis.url) as client:
        store_id = int(read_status(own_redis.url).metadata["generation"])
        client.hset(keys.published_key(store_id, unit), mapping={"490000": 3, "t:3": 489984})
    status = read_status(own_redis.url, ["sweep", "check"])
    assert status.sources == ("plays",)
    assert {unit["view"] for unit in status.units} == {"listening"}
    assert status.parts == {"stream:plays": '{"state": "running"}', "job:sweep": "{}"}
    assert status.published == {unit: {490_000: 3}}
