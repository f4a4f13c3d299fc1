"""Every published leaderboard and correction equals a recomputation from the raw plays below its
offset vector."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewise.codec.leaderboards import StoredLeaderboard
from slicewise.local.servers import stream
from slicewise.stores.online.operations.leaderboards import ReadLeaderboard
from slicewise.stores.online.redis import open_store
from tests.support.platform.stack import Stack, stack_of

pytestmark = pytest.mark.timeout(1200)

SEED = 20261122
S = 1_000_000
K, LENGTH = 3, 4 * S
SONGS = ["a", "größe", 'q"\\', "d", "e", "f"]
DEFINITIONS = """
import slicewise as sw

plays = sw.KafkaSource(
    "plays",
    schema={"song_id": "string", "played_at": "timestamp_us"},
    timestamp="played_at",
    max_lateness="1h",
)
songs = sw.FeatureView(
    "songs", source=plays, entity=["song_id"], slice="1s", features=[sw.Feature("plays", sw.count(), windows=["4s"])]
)
top_songs = sw.Leaderboard("top_songs", view=songs, by="plays_4s", k=3, late="correct", correct_within="2m")
"""
Log = list[tuple[int, int, dict[str, Any]]]


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Stack]:
    with stack_of(DEFINITIONS, tmp_path) as running:
        yield running


class Watcher(threading.Thread):
    """Keeps every leaderboard that stood, and how old each was when it was first seen."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.leaderboards: dict[bytes, StoredLeaderboard] = {}
        self.ages: list[float] = []
        self._store = open_store(url)
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.02):
            result = self._store.run(ReadLeaderboard("top_songs"))
            if result.leaderboard is not None and result.leaderboard not in self.leaderboards:
                self.leaderboards[result.leaderboard] = leaderboard = StoredLeaderboard.unpack(
                    result.leaderboard
                )
                self.ages.append((result.time_us - leaderboard.end_us) / S)

    @property
    def newest_end(self) -> int:
        return max(
            (leaderboard.end_us for leaderboard in list(self.leaderboards.values())), default=0
        )

    def stop(self) -> None:
        self._done.set()
        self.join()
        self._store.close()


def produce_for(platform: Stack, seconds: float, rng: random.Random) -> None:
    """Plays of now, some of them late."""

    def play(now: int) -> dict[str, Any]:
        return {
            "song_id": rng.choice(SONGS),
            "played_at": now - rng.choice((0, 0, 0, 0, 2 * S, 20 * S)),
        }

    platform.produce_for(seconds, "plays", rng, play)


def best(log: Log, below: Mapping[int, int], end_us: int) -> list[tuple[str, int]]:
    """By counting all raw plays, and sorting them whole: keys are percent-encoded in the order of
    ties."""
    counts = Counter(
        play["song_id"]
        for partition, offset, play in log
        if offset < below.get(partition, 0) and end_us - LENGTH <= play["played_at"] < end_us
    )
    encoded = {
        song: "".join(c if c.isalnum() and c.isascii() else f"%{ord(c):02X}" for c in song)
        for song in SONGS
    }
    return sorted(counts.items(), key=lambda item: (-item[1], encoded[item[0]]))[:K]


def test_leaderboards_and_corrections_are_those_of_their_offset_vectors_also_after_a_kill(
    platform: Stack,
) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    platform.cli("apply", "--no-wait")
    watcher = Watcher(platform.settings.redis_url)
    watcher.start()
    platform.start_stream()
    produce_for(platform, 1, rng)
    deadline = time.monotonic() + 120
    while not watcher.leaderboards:
        produce_for(platform, 1, rng)
        assert time.monotonic() < deadline, "no leaderboard was made"
    produce_for(platform, 8, rng)
    platform.kill_driver(stream.EMIT)
    produce_for(platform, 3, rng)
    before = len(watcher.leaderboards)
    stream.ensure_emission(platform.settings)
    while len(watcher.leaderboards) == before:
        produce_for(platform, 1, rng)
        assert time.monotonic() < deadline, "no leaderboard was made after the kill"
    produce_for(platform, 8, rng)
    end = time.time_ns() // 1000
    platform.wait(lambda: None if watcher.newest_end > end else "behind", "all windows", 60)
    platform.stop_stream()
    watcher.stop()

    raw = platform.records("plays")
    [topic_id] = {row[0] for row in raw}
    log: Log = [(partition, offset, json.loads(value)) for _, partition, offset, _, value in raw]
    assert len(watcher.leaderboards) > 10
    for leaderboard in watcher.leaderboards.values():
        below = {
            partition: offset
            for (_, partition), offset in leaderboard.offset_vector.offsets.items()
        }
        assert [(row.key[0], row.value) for row in leaderboard.rows] == best(
            log, below, leaderboard.end_us
        )
    texts: dict[tuple[bytes, int], bytes] = {}
    for key, text in platform.keyed("top_songs.corrections"):
        record = json.loads(text)
        assert texts.setdefault((key, record["version"]), text) == text, (
            "equal offset vectors, equal bytes"
        )
        below = {int(partition): offset for partition, offset in record["cover"][topic_id].items()}
        shown = [(row["entity"]["song_id"], row["value"]) for row in record["new"]]
        assert shown == best(log, below, record["end_us"])
        assert record["old"] != record["new"]
        cause = record["cause"]
        [play] = [entry[2] for entry in log if entry[:2] == (cause["partition"], cause["offset"])]
        assert record["start_us"] <= play["played_at"] < record["end_us"]
    # whoever takes leaderboard and corrections together has the truth of every window end
    ordered = sorted(texts.items(), key=lambda entry: entry[0][1])
    newest = {json.loads(key)["end_us"]: json.loads(text) for (key, _), text in ordered}
    everything = {0: 1 << 60, 1: 1 << 60}
    last = {
        leaderboard.end_us: leaderboard
        for leaderboard in sorted(
            watcher.leaderboards.values(), key=lambda leaderboard: leaderboard.version
        )
    }
    compared = 0
    for end_us, leaderboard in last.items():
        rows = [(row.key[0], row.value) for row in leaderboard.rows]
        if end_us in newest and newest[end_us]["version"] > leaderboard.version:
            rows = [(row["entity"]["song_id"], row["value"]) for row in newest[end_us]["new"]]
        if end_us <= end:  # a later instant was published: what came late until then is said
            assert rows == best(log, everything, end_us)
            compared += 1
    assert compared > 10
    ages = sorted(watcher.ages)
    print(
        f"{len(watcher.leaderboards)} leaderboards, {len(texts)} corrections, {compared} "
        "compared with all plays"
    )
    print(
        f"age of a leaderboard when first seen: median {ages[len(ages) // 2]:.2f} s, most "
        f"{ages[-1]:.2f} s"
    )
    assert len(texts) > 5
