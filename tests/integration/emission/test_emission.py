"""Records that a view publishes are what the raw events below each record's offset vector come
to."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewise.local.servers import stream
from tests.support.platform.stack import Stack, stack_of

pytestmark = pytest.mark.timeout(1200)

SEED = 20261121
S = 1_000_000
USERS = ["ada", "größe", 'q"\\', "eve"]
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
    slice="1s",
    features=[
        sw.Feature("plays", sw.count(), windows=[sw.tumbling("2s"), sw.hopping("6s", every="2s")]),
        sw.Feature("seconds", sw.sum("seconds"), windows=[sw.tumbling("2s"), sw.hopping("6s", every="2s")]),
    ],
    emit=sw.Emit("listening.windows", corrections="2m"),
)
"""
WINDOWS = {"tumbling_2s": (2 * S, 2 * S), "hopping_6s_2s": (6 * S, 2 * S)}
OFFSET_VECTOR = Mapping[str, Mapping[str, int]]


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Stack]:
    with stack_of(DEFINITIONS, tmp_path) as running:
        yield running


def beat(platform: Stack) -> dict[str, Any]:
    sources: dict[str, Any] = stream.driver_status(platform.settings, stream.EMIT).heartbeat.get(
        "sources", {}
    )
    views: dict[str, Any] = sources.get("plays", {}).get("views", {}).get("listening", {})
    return views


def instant_of(platform: Stack) -> int:
    return int(beat(platform).get("instant_us", 0))


def produce_for(platform: Stack, seconds: float, rng: random.Random) -> None:
    """Plays of now, some of them up to half a minute late, and some that the view refuses."""

    def play(now: int) -> dict[str, Any]:
        late = rng.choice((0, 0, 0, 0, 3 * S, 30 * S))
        return {
            "user_id": rng.choice([*USERS, None]),
            "seconds": rng.choice([0.1, 1e300, 30.5, -1.0, 1e-5]),
            "played_at": now - late,
        }

    platform.produce_for(seconds, "plays", rng, play)


def values_at(
    log: list[tuple[int, int, dict[str, Any]]],
    offset_vector: OFFSET_VECTOR,
    start: int,
    end: int,
    user: str,
) -> list[Any]:
    """Count and exact sum, of raw events below the offset vector."""
    below = {int(p): offset for parts in offset_vector.values() for p, offset in parts.items()}
    seconds = [
        play["seconds"]
        for partition, offset, play in log
        if offset < below.get(partition, 0)
        and play["user_id"] == user
        and play["seconds"] >= 0
        and start <= play["played_at"] < end
    ]
    return [len(seconds), math.fsum(seconds) if seconds else None]


def test_records_are_those_of_their_offset_vectors_also_where_the_driver_was_killed(
    platform: Stack,
) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    platform.cli("apply", "--no-wait")
    platform.start_stream()
    begun = time.monotonic()
    platform.wait(
        lambda: None if instant_of(platform) else "not begun", "the emission to begin", 120
    )
    print(f"began after {time.monotonic() - begun:.1f} s")
    produce_for(platform, 9, rng)
    platform.kill_driver(stream.EMIT)
    produce_for(platform, 3, rng)
    stream.ensure_emission(platform.settings)
    produce_for(platform, 12, rng)
    end = time.time_ns() // 1000 // S * S
    platform.wait(
        lambda: None if instant_of(platform) > end + 10 * S else str(beat(platform)),
        "all windows",
        60,
    )
    [status] = [service for service in platform.status() if service.name == stream.EMIT]
    assert status.state == "up"
    print(beat(platform))
    platform.stop_stream()

    raw = platform.records("plays")
    [topic_id] = {row[0] for row in raw}
    log = [(partition, offset, json.loads(value)) for _, partition, offset, _, value in raw]
    since = json.loads(platform.progress("plays", "listening")[0])["since"]
    records = platform.keyed("listening.windows")
    texts: dict[tuple[bytes, int], bytes] = {}
    newest: dict[bytes, dict[str, Any]] = {}
    kinds = {"window": 0, "correction": 0}
    for key, text in records:
        record, who = json.loads(text), json.loads(key)
        assert texts.setdefault((key, record["version"]), text) == text, (
            "equal offset vectors, equal bytes"
        )
        kinds[record["kind"]] += 1
        assert record["version"] == sum(
            o for parts in record["cover"].values() for o in parts.values()
        )
        truth = values_at(log, record["cover"], who["start"], who["end"], who["entity"]["user_id"])
        suffix = who["window"]
        assert [record["values"][f"{f}_{suffix}"] for f in ("plays", "seconds")] == truth
        if record["kind"] == "correction":
            topic, partition, offset = record["cause"]
            assert topic == topic_id
            [play] = [entry[2] for entry in log if entry[:2] == (partition, offset)]
            # of the window, or of one that it only differs from since
            assert who["start"] - WINDOWS[suffix][1] <= play["played_at"] < who["end"]
        if key not in newest or newest[key]["version"] < record["version"]:
            newest[key] = record
    print(f"{len(records)} records, {len(records) - len(texts)} of them again, {kinds}")
    assert min(kinds.values()) > 20

    # whoever keeps the newest of each window, and where there is none the window before, has the
    # truth
    everything = {topic_id: {str(p): 1 << 60 for p in (0, 1)}}
    by_window = {
        (w["window"], w["end"], w["entity"]["user_id"]): record for w, record in decoded(newest)
    }
    compared = 0
    for suffix, (length, step) in WINDOWS.items():
        for user in USERS:
            latest_values: list[Any] = [0, None]
            first = since // step * step + step
            for at in range(first, end + 8 * S, step):
                record = by_window.get((suffix, at, user))
                if record is not None:
                    latest_values = [
                        record["values"][f"{f}_{suffix}"] for f in ("plays", "seconds")
                    ]
                assert latest_values == values_at(log, everything, at - length, at, user), (
                    suffix,
                    at,
                    user,
                )
                compared += 1
    print(f"{compared} windows compared")


def decoded(newest: Mapping[bytes, dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(json.loads(key), record) for key, record in newest.items()]
