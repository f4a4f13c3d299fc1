"""A scrape of the platform reads a real store, and is answered while that is away or hangs."""

from __future__ import annotations

import os
import signal

import httpx

from slicewise.lifecycle.health.overview import job_record
from slicewise.serving.platform_metrics import TIMEOUT_S
from slicewise.stores.online.redis.status import record_part
from tests.integration.serving.support import deployment, serving
from tests.support.platform.servers import RedisServer
from tests.support.stores.served import Served


def scraped(url: str) -> dict[str, float]:
    """Metric with its labels -> value."""
    reply = httpx.get(url + "/metrics/platform", trust_env=False, timeout=30)
    assert reply.status_code == 200
    lines = (line.rpartition(" ") for line in reply.text.splitlines() if line[:1] != "#")
    return {name: float(value) for name, _, value in lines}


def test_a_scrape_shows_the_store_and_a_store_that_is_away_breaks_none(
    own_redis: RedisServer,
) -> None:
    with Served.on(own_redis.url, deployment()), serving(own_redis.url) as url:
        record_part(own_redis.url, "job:check", job_record({"values": 9}, ok=True, at_us=1))
        seen = scraped(url)
        assert seen["slicewise_status_read"] == 1
        assert seen['slicewise_job_figure{figure="values",job_name="check"}'] == 9
        assert seen['slicewise_view_ready{view="listening"}'] == 1
        used = seen['slicewise_store_memory_bytes{node="1"}']
        assert 0 < used < seen['slicewise_store_memory_limit_bytes{node="1"}']
        assert seen['slicewise_store_keys{node="1"}'] > 0

        gone = {"slicewise_status_read": 0.0, 'slicewise_store_up{node="1"}': 0.0}
        os.kill(own_redis.pid, signal.SIGSTOP)
        try:
            assert scraped(url) == gone, f"it hangs: {TIMEOUT_S} s of each read are waited for"
        finally:
            os.kill(own_redis.pid, signal.SIGCONT)
        own_redis.kill()
        assert scraped(url) == gone
        own_redis.start()
        assert scraped(url)["slicewise_status_read"] == 1
