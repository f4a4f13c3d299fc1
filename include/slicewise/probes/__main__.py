"""`python -m slicewise.probes` probes until it is told to stop; what it saw stands in the store, a
file and metrics."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from slicewise import log
from slicewise.clock import SystemClock
from slicewise.errors import StoreUnavailable
from slicewise.features.own import TOPIC
from slicewise.probes.api import Api
from slicewise.probes.figures import Metrics, Recent
from slicewise.probes.prober import PATIENCE_S, Prober
from slicewise.settings import Settings
from slicewise.stores.log.producer import PromptWriter
from slicewise.stores.online.redis.status import record_part

PART = "probes"
REPORT_EVERY_S = 2.0


def run(settings: Settings, stop: threading.Event) -> None:
    """Until told to stop."""
    metrics, recent, api = Metrics(), Recent(SystemClock()), Api(settings.serving_url)
    port = metrics.serve(settings.probes_metrics)
    writer = PromptWriter(settings.kafka_bootstrap, TOPIC, PATIENCE_S)
    prober = Prober(
        lambda probe: writer.append(0, json.dumps({"probe": probe}).encode()),
        api.request,
        time.monotonic,
        secrets.token_hex(6),
    )
    file = settings.state_dir / PART / "heartbeat.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    log.event("probes_started", metrics_port=port)
    report_at, refused = 0.0, 0
    while not stop.is_set():
        seen = prober.step()
        recent.add(seen)
        for seconds in seen.freshness:
            metrics.freshness.observe(seconds)
        metrics.lost.inc(seen.lost)
        metrics.refused.inc(api.refused - refused)
        metrics.waiting.set(prober.waiting_s())
        refused = api.refused
        if time.monotonic() >= report_at:
            report(
                settings,
                file,
                recent.to_json("running", prober.waiting_s()) | {"metrics_port": port},
            )
            report_at = time.monotonic() + REPORT_EVERY_S
        if (pause := prober.wake()) > 0:
            stop.wait(pause)
    report(settings, file, recent.to_json("stopped", 0.0) | {"metrics_port": port})
    api.close()
    log.event("probes_stopped")


def report(settings: Settings, file: Path, status: dict[str, Any]) -> None:
    """To the store, and to the supervisor's file, which is replaced in one step."""
    text = json.dumps(status)
    part = file.with_suffix(".part")
    part.write_text(text)
    os.replace(part, file)  # noqa: PTH105
    try:
        record_part(settings.redis_url, PART, text, timeout_s=1.0)
    except StoreUnavailable as away:
        log.warning("probes_not_reported", error=away.what)


def main() -> int:
    log.to_stderr()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    run(Settings.load(), stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
