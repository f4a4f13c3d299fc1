"""A probe goes from the log through the stream to an answer, on real servers; an alert tells of
failures."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from slicewise.features import own
from slicewise.lifecycle.health.judge import Limits
from slicewise.lifecycle.health.overview import health_of, overview, probes_of
from slicewise.local.servers import stream
from slicewise.probes.prober import PATIENCE_S
from slicewise.stores.online.redis.status import read_status
from tests.support.platform.stack import Stack, stack

DEFINITIONS = """
import slicewise as sw

plays = sw.KafkaSource("plays", schema={"user": "string"}, timestamp="kafka")
seen = sw.Feature("n", sw.count(), windows=["1h"])
listening = sw.FeatureView("listening", source=plays, entity=["user"], features=[seen])
"""


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Stack]:
    (tmp_path / "slicewise.toml").write_text('name = "mine"\ndefinitions = "features.py"\n')
    (tmp_path / "features.py").write_text(DEFINITIONS)
    with stack(tmp_path, {"SLICEWISE_PROBES": "on"}) as running:
        running.up()
        running.cli("apply", "--no-wait")
        yield running


def test_freshness_is_seen_and_told_until_the_stream_is_gone_and_then_an_alert_is(
    platform: Stack,
) -> None:
    url = platform.settings.redis_url
    limits = Limits(probe_ms=3_000.0)
    platform.start_stream()

    def fresh() -> str | None:
        probes = probes_of(read_status(url))
        return (
            None
            if probes is not None and probes.shown >= 5 and probes.waiting_ms < 2_000
            else f"{probes}"
        )

    platform.wait(fresh, "probes in answers", 240)
    [line] = [service for service in platform.status() if service.name == stream.PROBES]
    assert line.state == "up"
    assert line.detail.startswith("produce to answer p50 ")
    beat = stream.driver_status(platform.settings, stream.PROBES).heartbeat
    served = httpx.get(
        f"http://127.0.0.1:{beat['metrics_port']}/metrics", trust_env=False, timeout=30
    ).text
    [count] = [
        text
        for text in served.splitlines()
        if text.startswith("slicewise_probe_freshness_seconds_count ")
    ]
    assert float(count.split()[1]) >= 5
    # none, unless the stream took a minute to begin
    assert "\nslicewise_probes_lost_total " in served

    # of what users declare nothing is touched, and they are shown nothing else
    listed = httpx.get(
        f"{platform.settings.serving_url}/v1/features", trust_env=False, timeout=30
    ).json()
    assert [view["name"] for view in listed["views"]] == ["listening"]
    assert listed["project"] == "mine"
    status = read_status(url)
    assert [view.view for view in overview(status, limits).views] == ["listening"]
    assert {stopped_stream.source for stopped_stream in overview(status, limits).streams} == {
        "plays",
        own.SOURCE,
    }
    assert platform.records("plays") == []

    # the stream is gone; the prober is not, and says so
    before, gone = probes_of(read_status(url)), time.monotonic()
    assert before is not None
    platform.kill_stream()

    def alert() -> str | None:
        reasons = health_of(read_status(url), limits).aging
        return (
            None
            if any(r.startswith("probes: a probe is in no answer for") for r in reasons)
            else str(reasons)
        )

    platform.wait(alert, "the alert", 60)

    # it comes back: what was produced meanwhile shows, and none of it is lost that had not waited
    # for a minute
    platform.start_stream()
    platform.wait(fresh, "probes in answers again", 240)
    probes = probes_of(read_status(url))
    assert probes is not None
    print(f"whole again after {time.monotonic() - gone:.1f} s, {probes.lost} probes lost")
    assert probes.lost <= before.lost or time.monotonic() - gone > PATIENCE_S
    assert probes.recent_p99_ms is not None
    assert probes.recent_p99_ms > limits.probe_ms

    platform.stop_stream()
    assert health_of(read_status(url), limits).stopped
    stopped = [
        service for service in platform.status() if service.name in (stream.NAME, stream.PROBES)
    ]
    assert [service.state for service in stopped] == ["down", "down"]

    # switched off, they go, and what users declared stays as it is
    platform.given["SLICEWISE_PROBES"] = "off"
    platform.cli("apply", "--no-wait")
    manifest = json.dumps(read_status(url).manifest)
    assert own.SOURCE not in manifest
    assert "listening" in manifest
