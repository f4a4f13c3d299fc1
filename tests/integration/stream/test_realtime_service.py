"""An event is visible at once, whoever of real-time lane, micro-batch lane and store was killed;
and in the end it counted once."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from slicewise.local.servers import control, stream
from slicewise.local.servers import redis as redis_server
from slicewise.local.servers.process import marked as marked_processes
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings
from slicewise.stores.online.operations.connecting import ReadMetadata
from tests.support.platform.stack import Stack, stack_of
from tests.support.stores.stored import is_pending

pytestmark = pytest.mark.timeout(900)

SEED = 20261122
USERS = ["ada", "größe", "eve"]
DEFINITIONS = """
import slicewise as sw

plays = sw.KafkaSource(
    "plays",
    schema={"user_id": "string", "seconds": "double", "played_at": "timestamp_us"},
    timestamp="played_at",
    max_lateness="1h",
)
listening = sw.FeatureView(
    "listening",
    source=plays,
    entity=["user_id"],
    where="seconds >= 0",
    columns={"minutes": "seconds / 60"},
    slice="1s",
    features=[
        sw.Feature("plays", sw.count(), windows=["1h", sw.rows(5)]),
        sw.Feature("minutes", sw.sum("minutes"), windows=["1h"]),
    ],
)
"""


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Stack]:
    with stack_of(
        DEFINITIONS, tmp_path, {"SLICEWISE_REALTIME": "on", "SLICEWISE_REALTIME_BATCH_S": "5"}
    ) as running:
        running.up("redis", "kafka", "serving")
        running.cli("apply", "--no-wait")
        yield running


def test_an_event_is_visible_at_once_and_counts_once_whatever_is_killed(platform: Stack) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    platform.start_stream()
    platform.wait_realtime("plays")

    # the micro-batch lane stands still
    with platform.stopped(stream.NAME):
        ms = [visible_ms(platform) for _ in range(20)]
    print(
        f"visible after {sorted(ms)[10]:.1f} ms, at most {max(ms):.1f} ms, without the "
        "micro-batch lane"
    )
    assert sorted(ms)[10] < 500
    assert "up" in {
        service.state for service in platform.status() if service.name == stream.REALTIME
    }

    # queries relieve each other while events come, and one that is drained leaves no stack trace to
    # wonder at
    produce_for(platform, 12, rng)
    log = platform.settings.state_dir / "logs" / "tail.log"
    platform.wait(
        lambda: None if log.read_text().count("realtime_relieved") > 1 else log.read_text(),
        "two reliefs",
        240,
    )
    visible_ms(platform)
    stream.stop_driver(platform.settings, stream.REALTIME)
    assert not re.findall(r".* ERROR .*|\n\s+at .*|.*Exception.*", log.read_text())
    right(platform)
    platform.start_stream()
    platform.wait_realtime("plays")
    assert not with_pandas(platform), "it costs half a second of a start, and 40 MB"

    # both killed in the middle of what they do; each by itself: make test-drills
    produce_for(platform, 1, rng)
    for name in (stream.REALTIME, stream.NAME):
        platform.kill_driver(name)
    produce_for(platform, 1, rng)
    platform.start_stream()
    platform.wait_realtime("plays")
    visible_ms(platform)

    # the store begins another server run
    another_server_run(platform, rng)
    platform.wait_realtime("plays")
    visible_ms(platform)
    right(platform)

    # switched off while events come: what it left stands as long as the store, and no longer
    switch(platform, "off", rng)
    assert not stream.driver_status(platform.settings, stream.REALTIME).running
    visible_ms(platform)
    right(platform)
    assert marked(platform)
    another_server_run(platform, rng)
    platform.wait(
        lambda: "its entry stands" if marked(platform) else None,
        "the entry of the server run before to go",
        90,
    )
    visible_ms(platform)
    right(platform)

    switch(platform, "on", rng)
    platform.wait_realtime("plays")
    visible_ms(platform)
    right(platform)


def another_server_run(platform: Stack, rng: random.Random) -> None:
    """The store is stopped and started again between events."""
    produce_for(platform, 1, rng)
    state = StateFolder(platform.settings.state_dir)
    control.stop(redis_server.service(platform.settings, state, state.ports()["redis"]), state)
    platform.up("redis")
    produce_for(platform, 1, rng)


def switch(platform: Stack, realtime: str, rng: random.Random) -> None:
    """The setting of the real-time lane, between events."""
    produce_for(platform, 1, rng)
    platform.settings = Settings.load(
        {**platform.settings.to_env(), "SLICEWISE_REALTIME": realtime}
    )
    stream.ensure_stream(platform.settings)
    produce_for(platform, 1, rng)


def produce_for(platform: Stack, seconds: float, rng: random.Random) -> None:
    """Plays of now, of some that the view refuses, some late."""
    platform.produce_for(
        seconds,
        "plays",
        rng,
        lambda now: {
            "user_id": rng.choice([*USERS, None]),
            "seconds": rng.choice([0.1, 1e300, 30.5, -1.0, 1e-5]),
            "played_at": now - rng.choice((0, 0, 3_000_000, 300_000_000)),
        },
    )


_PROBES = itertools.count()


def with_pandas(platform: Stack) -> list[str]:
    """Python's processes of both lanes that have imported pandas."""
    begun = [
        birth
        for name in (stream.NAME, stream.REALTIME)
        for birth in marked_processes(platform.settings.state_dir, name)
    ]
    pythons = {birth.pid for birth in begun if "python" in psutil.Process(birth.pid).name()}
    assert len(pythons) > 3, "two drivers, what forks workers, and one of them"
    maps = {pid: Path(f"/proc/{pid}/maps").read_text() for pid in pythons}
    return [f"{psutil.Process(pid).cmdline()}" for pid, text in maps.items() if "/pandas/" in text]


def visible_ms(platform: Stack) -> float:
    """From the broker's word to an answer that has it, of an event of an entity of its own."""
    user, now = f"probe-{next(_PROBES)}", time.time_ns()
    value = json.dumps({"user_id": user, "seconds": 60.0, "played_at": now // 1000}).encode()
    platform.produce("plays", [(0, value, now // 1_000_000)])
    produced = time.monotonic()
    deadline = produced + 180  # a driver may have to start before
    while values(platform, user)["plays_1h"] != 1:
        assert time.monotonic() < deadline, f"{user} is not visible"
    return (time.monotonic() - produced) * 1000


def values(platform: Stack, user: str) -> dict[str, Any]:
    refs = ["listening:plays_1h", "listening:minutes_1h", "listening:plays_rows_5"]
    [row] = platform.request(features=refs, entities=[{"user_id": user}])["results"]
    return {name.rpartition(":")[2]: value for name, value in row["values"].items()}


def right(platform: Stack) -> None:
    """Waits until all is applied: then nothing of the real-time lane is left, and each event counts
    once."""
    platform.wait_applied("plays")
    platform.wait(
        lambda: ", ".join(left(platform)[:5]) or None, "the real-time lane to be applied", 60
    )
    events = [json.loads(value) for *_, value in platform.records("plays")]
    for user in USERS:
        own = [e["seconds"] for e in events if e["user_id"] == user and e["seconds"] >= 0]
        result = values(platform, user)
        assert result["plays_1h"] == len(own)
        assert result["minutes_1h"] == math.fsum(seconds / 60 for seconds in own)
        assert result["plays_rows_5"] == min(5, len(own))


def left(platform: Stack) -> list[str]:
    """Pending fields in the store, and the count of them where it stands."""
    client = redis.Redis.from_url(platform.settings.redis_url)
    results = []
    for key in client.scan_iter(match="sw:*:hot", count=1000):
        names = [bytes(name) for name in client.hkeys(key) if isinstance(name, bytes)]
        results += [f"{key!r} {name!r}" for name in names if is_pending(name)]
    client.close()
    return results


def marked(platform: Stack) -> bool:
    with platform.store() as store:
        return "plays" in store.run(ReadMetadata()).realtime_starts
