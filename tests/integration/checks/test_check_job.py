"""The check job over the whole platform: green when nothing is wrong, red with the name of a
falsified value."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import redis

from slicewise.local import deploy
from slicewise.local.servers.redis import operator_url
from slicewise.local.servers.state import StateFolder
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.lake.records import records
from slicewise.stores.lake.schemas import CHECKS
from tests.e2e.payments import PARTITIONS, payments
from tests.support.oracles.answers import HOUR
from tests.support.platform.stack import Stack, stack

pytestmark = pytest.mark.timeout(1800)

PROJECT = Path(__file__).parents[2] / "e2e" / "project"
SEED = 77


@pytest.fixture(scope="module")
def platform() -> Iterator[Stack]:
    """One platform for all. Its values are right until a test falsifies one, and the last test
    empties its store."""
    with stack(PROJECT, {"SLICEWISE_KAFKA_PARTITIONS": str(PARTITIONS)}) as running:
        running.up()
        running.cli("apply", "--no-wait")
        now = time.time_ns() // 1000
        made = payments(SEED, 2_000, now, now - 3 * HOUR, now, bad=20)
        running.produce(
            "payments", [(payment.partition, payment.value, payment.time_ms) for payment in made]
        )
        running.start_stream()
        running.wait_applied("payments")
        running.stop_stream()
        yield running


def _check(platform: Stack, folder: Path, code: int) -> dict[str, Any]:
    script = str(platform.settings.home / "spark_jobs" / "check.py")
    python = str(platform.settings.spark_python)
    arguments = ["--sample", "100", "--run", "same", "--report", str(folder), "--json"]
    done = platform._command([python, script, *arguments], check=False, timeout_s=600)
    assert done.returncode == code, (
        f"{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    )
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def _falsify(platform: Stack) -> tuple[str, int]:
    """Doubles what one card's newest slice holds: its field once more, in the slice before. Its
    checksum holds."""
    with deploy.connected(platform.settings) as store:
        (unit,) = deploy.require_units(deploy.current(store)).view("by_card")
    client = redis.Redis.from_url(platform.settings.redis_url)
    for key in sorted(client.scan_iter(match=f"*:{unit.storage_fingerprint}:hot", count=1_000)):
        fields: dict[Any, Any] = dict(client.hgetall(key))
        running = sorted(bytes(field) for field in fields if bytes(field).startswith(b"r:"))
        if running:
            newest = running[-1]
            _, number, topic, partition = newest.split(b":")
            forged = b":".join([b"r", str(int(number) - 1).encode(), topic, partition])
            client.hset(key, forged, fields[newest])
            card = unquote(key.decode().partition("{card:string:")[2].partition("}")[0])
            client.close()
            return card, len(running)
    raise AssertionError("no card has a running partial")


def test_a_store_that_is_killed_under_the_check_is_waited_for(
    platform: Stack, tmp_path: Path
) -> None:
    """Killed once the first answers were read; brought back once the check has said that it
    waits."""
    log, folder = tmp_path / "check.log", tmp_path / "waited"
    with log.open("w") as out:
        job = platform.begin_job("check", "--sample", "100", "--report", str(folder), out=out)
        platform.wait(
            lambda: None if "check_read" in log.read_text() else log.read_text()[-500:],
            "the first answers",
        )
        [store] = [service for service in platform.status() if service.name == "redis"]
        assert store.pid is not None
        os.kill(store.pid, signal.SIGKILL)
        platform.wait(
            lambda: None if "check_waits" in log.read_text() else log.read_text()[-500:],
            "the check to wait",
        )
        platform.up("redis")
        assert job.wait(timeout=600) == 0, log.read_text()[-6000:]
    report = json.loads(log.read_text().splitlines()[-1])
    print({name: report[name] for name in ("values", "mismatches", "waits", "took_ms")})
    assert (report["outcome"], report["mismatches"]) == ("green", 0)
    assert report["values"] > 1_000
    assert report["waits"] >= 1


def test_a_falsified_value_turns_the_check_red_and_is_named(
    platform: Stack, tmp_path: Path
) -> None:
    print(f"seed {SEED}")
    green = _check(platform, tmp_path / "green", 0)
    print(
        {
            name: green[name]
            for name in ("values", "mismatches", "entities", "plain_sums", "took_ms", "notes")
        }
    )
    assert green["outcome"] == "green"
    assert green["values"] > 1_000
    assert green["mismatches"] == 0
    assert {one["source"] for one in green["archived"]} == {"payments"}

    card, _ = _falsify(platform)
    red = _check(platform, tmp_path / "red", 2)
    print({name: red[name] for name in ("values", "mismatches", "causes")})
    assert red["outcome"] == "red"
    assert red["mismatches"] > 0
    assert {(row["view"], row["entity"]["card"]) for row in red["wrong"]} == {("by_card", card)}
    html = unescape((tmp_path / "red" / "latest.html").read_text())
    assert all(row["online"] in html for row in red["wrong"])
    kept = records(open_catalog(platform.settings), CHECKS)
    assert {row["result"] for row in kept} >= {"green", "red", "mismatch"}
    healing = json.loads(platform.cli("checks", "--json").stdout)
    (mark,) = healing["marked"]
    assert (mark["view"], [json.loads(text) for text in mark["entities"]]) == (
        "by_card",
        [{"card": card}],
    )
    assert [step["kind"] for step in healing["stories"][-1]["steps"]] == ["red"]
    # a look that uses no Spark sees the same, and leaves to the check what it judged already
    looked = json.loads(platform.cli("checks", "look", "--json").stdout)
    assert looked["differs"] == {"by_card": 1}, looked
    assert card in looked["wrong"][0]["entity"]
    assert looked["judge"] == []
    hours = json.loads(platform.cli("hours", "--json").stdout)["views"]
    assert [one["view"] for one in hours if one["marked"]] == ["by_card"]


def test_a_check_without_anything_deployed_says_that_it_could_not_be_made(
    platform: Stack, tmp_path: Path
) -> None:
    port = urlsplit(platform.settings.redis_url).port
    assert port is not None
    with redis.Redis.from_url(
        operator_url(StateFolder(platform.settings.state_dir), port)
    ) as client:
        client.flushall()
    report = _check(platform, tmp_path, 1)
    print(report)
    assert report["outcome"] == "not_made"
    assert report["why"]
    html = unescape((tmp_path / "latest.html").read_text())
    assert "The check could not be made" in html
    assert report["why"] in html
