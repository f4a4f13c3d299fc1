"""A leaderboard made of a tick is answered over HTTP, in both forms, and by the clients, with its
flags."""

from __future__ import annotations

import time
from contextlib import ExitStack

import httpx
import msgspec
import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.client.http import HttpClient
from slicewise.clock import SystemClock
from slicewise.emission.leaderboards import LeaderboardSink
from slicewise.emission.ticks import Tick
from slicewise.errors import UnknownName
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.stores.online.operations.connecting import ReadMetadata, ReadTime
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.redis import open_store
from tests.integration.serving.support import serving
from tests.support.platform.servers import RedisServer
from tests.support.stores.served import TOPIC, Served
from tests.support.stores.stored import offset_vector

SECOND_US = 1_000_000
PLAYS = sw.KafkaSource(
    "plays", schema={"song_id": "string", "at_": "timestamp_us"}, timestamp="at_"
)
SONGS = sw.FeatureView(
    "songs",
    source=PLAYS,
    entity=["song_id"],
    features=[sw.Feature("plays", sw.count(), windows=["10s"])],
)
LEADERBOARDS = [
    sw.Leaderboard("top_songs", view=SONGS, by="plays_10s", k=2, every="1m"),
    sw.Leaderboard("nobody_makes_it", view=SONGS, by="plays_10s"),
]
DEPLOYMENT = plan(Project.of("songs", [SONGS, *LEADERBOARDS]))
MADE = plan(Project.of("songs", [SONGS, LEADERBOARDS[0]]))
WINDOW = DEPLOYMENT.resolve("songs:plays_10s")[1].window
SCRIPT = "<script>alert(1)</script>"


def tick(counts: dict[str, int], end_us: int) -> Tick:
    entities, values = (
        pa.table({"song_id": list(counts)}),
        pa.table({"plays_10s": list(counts.values())}),
    )
    start = end_us - 10 * SECOND_US
    return Tick(
        "songs",
        WINDOW,
        start,
        end_us,
        entities,
        values,
        np.ones(len(counts), np.bool_),
        offset_vector(77),
    )


def test_leaderboards_are_served_with_their_age_and_flags(own_redis: RedisServer) -> None:
    url = own_redis.url
    with ExitStack() as opened, Served.on(url, DEPLOYMENT) as served, serving(url) as address:

        def sink_of(deployment: Deployment, deployment_version: int) -> LeaderboardSink:
            sink = LeaderboardSink(
                deployment, deployment_version, lambda: open_store(url), SystemClock()
            )
            opened.callback(sink.close)
            return sink

        sink = sink_of(MADE, served.store.run(ReadMetadata()).deployment_version)
        end = served.store.run(ReadTime()) // (60 * SECOND_US) * 60 * SECOND_US
        sink.publish(tick({"zoë": 3, SCRIPT: 5, "a": 1}, end))
        with (
            httpx.Client(base_url=address, trust_env=False) as http,
            HttpClient(address, timeout_s=60) as remote,
        ):
            body = http.get("/v1/leaderboards/top_songs").json()
            assert body["rows"] == [
                {"rank": 1, "entity": {"song_id": SCRIPT}, "value": 5},
                {"rank": 2, "entity": {"song_id": "zoë"}, "value": 3},
            ]
            assert (body["flags"], body["more"], body["every"], body["feature"]) == (
                [], True, "1m", "songs:plays_10s",
            )  # fmt: skip
            assert body["cover"] == {next(iter(offset_vector(77)))[0]: {"0": 77}}
            packed = http.get(
                "/v1/leaderboards/top_songs", headers={"accept": "application/msgpack"}
            )
            assert msgspec.msgpack.decode(packed.content)["rows"] == body["rows"]

            over_http = remote.leaderboard("top_songs")
            with sw.Client(url) as local:
                in_process = local.leaderboard("top_songs")
                assert in_process.rows == over_http.rows
                assert (in_process.start_us, in_process.end_us) == (end - 10 * SECOND_US, end)
                assert in_process.age_us is not None
                assert 0 <= in_process.age_us < 120 * SECOND_US
                missing = local.leaderboard("nobody_makes_it")
                assert (missing.rows, missing.flags, missing.age_us) == ((), ("missing",), None)
                with pytest.raises(UnknownName, match="unknown leaderboard 'top_song'"):
                    local.leaderboard("top_song")
            with pytest.raises(UnknownName, match="unknown leaderboard"):
                remote.leaderboard("no/such leaderboard")

            refused = http.get("/v1/leaderboards/top_song")
            assert refused.status_code == 404
            assert "top_songs" in refused.json()["error"]["expected"]
            assert http.post("/v1/leaderboards/top_songs").status_code == 405
            listed = http.get("/v1/leaderboards").json()["leaderboards"]
            assert [leaderboard["name"] for leaderboard in listed] == [
                "top_songs",
                "nobody_makes_it",
            ]
            page = http.get("/leaderboards/top_songs")
            assert page.headers["content-type"].startswith("text/html")
            assert "songs:plays_10s" in page.text
            assert http.get("/leaderboards/other").status_code == 404
            assert "/leaderboards/top_songs" in http.get("/").text
            assert (
                'slicewise_leaderboard_age_seconds{leaderboard="top_songs"}'
                in http.get("/metrics").text
            )

            # a leaderboard whose window ended long ago is answered, and flagged
            sink.publish(tick({"b": 1}, end + 60 * SECOND_US))
            assert remote.leaderboard("top_songs").flags == ()
            long_ago = end - 3_600 * SECOND_US
            behind = sink_of(MADE, served.store.run(ReadMetadata()).deployment_version + 1)
            behind.publish(tick({"old": 1}, long_ago))
            behind.flush()  # nothing newer came
            assert remote.leaderboard("top_songs").flags == ("stale",)

            # what another definition made is no leaderboard of this name
            changed = plan(
                Project.of(
                    "songs", [SONGS, sw.Leaderboard("top_songs", view=SONGS, by="plays_10s", k=3)]
                )
            )
            metadata = served.store.run(
                Deploy(
                    changed,
                    served.store.run(ReadMetadata()).deployment_version,
                    topics={"plays": TOPIC},
                )
            )
            assert remote.leaderboard("top_songs").flags == ("missing",)
            sink_of(changed, metadata.deployment_version + 1).publish(
                tick({"a": 1, "b": 2, "c": 3}, end + 120 * SECOND_US)
            )
            deadline = time.monotonic() + 60
            while remote.leaderboard("top_songs").flags == ("missing",):
                assert time.monotonic() < deadline
            assert [row.entity["song_id"] for row in remote.leaderboard("top_songs").rows] == [
                "c",
                "b",
                "a",
            ]
