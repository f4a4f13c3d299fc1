"""A serving process of its own on a store of its own, with a project whose events are known."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.local.servers import ports

plays = sw.KafkaSource(
    "plays",
    schema={
        "user_id": "string",
        "country": "string",
        "seconds": "double",
        "n": "int64",
        "played_at": "timestamp_us",
    },
    timestamp="played_at",
    max_lateness="1d",
)
listening = sw.FeatureView(
    "listening",
    source=plays,
    entity=["user_id"],
    features=[
        sw.Feature("plays", sw.count(), windows=["10m", "1h", "7d", sw.tumbling("1h")]),
        sw.Feature(
            "plays_before",
            sw.count(),
            windows=[sw.sliding("1h", offset="1h"), sw.tumbling("2h", offset="1d")],
        ),
        sw.Feature("seconds", sw.sum("seconds"), windows=["1h", "7d"]),
        sw.Feature("mean_seconds", sw.mean("seconds"), windows=["1h"]),
        sw.Feature("total", sw.sum("n"), windows=["1h"]),
    ],
)
by_country = sw.FeatureView(
    "places",
    source=plays,
    entity=["country", "user_id"],
    features=[sw.Feature("plays", sw.count(), windows=["1h", "1d"])],
)
everyone = sw.FeatureView(
    "everyone",
    source=plays,
    entity=[],
    features=[sw.Feature("plays", sw.count(), windows=["1h", "1d"])],
)
visits = sw.FeatureView(
    "visits",
    source=plays,
    entity=["user_id"],
    features=[
        sw.Feature("plays", sw.count(), windows=["1h", sw.session("15m", max_length="6h")]),
        sw.Feature("seconds", sw.sum("seconds"), windows=[sw.session("15m", max_length="6h")]),
        sw.Feature("lasted", sw.span(), windows=[sw.session("15m", max_length="6h")]),
    ],
)
churn = sw.FeatureSet(
    "churn_v1",
    features=["listening:plays_1h", "listening:seconds_1h", "everyone:plays_1h"],
    defaults={"listening:seconds_1h": 0.0},
)
remembered = sw.FeatureSet(
    "remembered", features=["everyone:plays_1h"], on_failure="stale", max_staleness="10m"
)
forgetful = sw.FeatureSet(
    "forgetful", features=["everyone:plays_1h"], on_failure="stale", max_staleness="1us"
)
assumed = sw.FeatureSet(
    "assumed",
    features=["everyone:plays_1h", "everyone:plays_1d"],
    defaults={"everyone:plays_1h": 7},
    on_failure="default",
)


def deployment() -> Deployment:
    """The deployment of the tests."""
    return plan(
        Project(
            "tests",
            (listening, by_country, everyone, visits),
            (churn, remembered, forgetful, assumed),
        )
    )


@contextmanager
def serving(
    redis_url: str, workers: int = 1, settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """`python -m slicewise.serving` on a free port, with these variables; its address. Stopped by
    its pid."""
    with TemporaryDirectory(prefix="slicewise-serving-") as folder:
        url = f"http://{ports.HOST}:{ports.choose(owner=Path(folder))}"
        env = {
            **os.environ,
            "SLICEWISE_STATE": folder,
            "SLICEWISE_REDIS_URL": redis_url,
            "SLICEWISE_SERVING_URL": url,
            "SLICEWISE_SERVING_WORKERS": str(workers),
            **(settings or {}),
        }
        log = Path(folder) / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "slicewise.serving"], env=env, stderr=out, stdout=out
            )
        try:
            _await_up(url, process, log)
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(20)
            sys.stdout.write(log.read_text())  # shown where the test fails
            assert code == 0, log.read_text()


def _await_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            if httpx.get(url + "/healthz", trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.02)
    raise AssertionError(f"not up within 60 s:\n{log.read_text()}")
