"""On a cluster the real-time lane says which slots are missing, and runs where there are enough: a
real master, one worker."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from slicewise.local.servers import ports, stream
from slicewise.local.servers.process import Birth, descendants, wait_gone
from slicewise.spark.runtime.conf import realtime_conf
from tests.integration.stream.test_realtime_service import DEFINITIONS, values, visible_ms
from tests.support.platform.stack import Stack, stack_of

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Stack]:
    with stack_of(DEFINITIONS, tmp_path, {"SLICEWISE_REALTIME": "on"}) as running:
        running.up("redis", "kafka", "serving")
        running.cli("apply", "--no-wait")
        yield running


@contextmanager
def process(platform: Stack, argv: Sequence[str], log: Path) -> Iterator[None]:
    """A process of Spark's, on loopback; it and all below it are gone afterwards."""
    python = str(platform.settings.spark_python)
    env = {
        **os.environ,
        **platform.settings.to_env(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }
    env |= {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    with log.open("a") as file:
        started = subprocess.Popen(
            argv, env=env, stdout=file, stderr=file, cwd=log.parent, start_new_session=True
        )
    birth = Birth.of(started.pid)
    assert birth is not None, log.read_text()
    try:
        yield
    finally:
        tree = [birth, *descendants(birth)]
        started.terminate()
        started.wait(60)
        for child in wait_gone(tree, 20.0):
            os.kill(child.pid, 9)


@contextmanager
def worker(platform: Stack, master: str, cores: int, folder: Path) -> Iterator[None]:
    """One with so many cores."""
    options = ["--cores", str(cores), "--memory", "1g", "--host", "127.0.0.1", "--webui-port", "0"]
    with process(
        platform,
        [
            _spark(platform, "spark-class"),
            "org.apache.spark.deploy.worker.Worker",
            *options,
            master,
        ],
        folder / f"worker{cores}.log",
    ):
        yield


@contextmanager
def submitted(platform: Stack, master: str, log: Path) -> Iterator[None]:
    """The real-time lane's driver, by spark-submit."""
    conf = realtime_conf(platform.settings) | {"spark.executor.memory": "512m"}
    options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    script = str(platform.settings.home / "spark_jobs" / "tail.py")
    with process(
        platform, [_spark(platform, "spark-submit"), "--master", master, *options, script], log
    ):
        yield


def _spark(platform: Stack, name: str) -> str:
    return str(platform.settings.spark_python.parent / name)


def realtime_summary(platform: Stack) -> str:
    """The words of `slicewise status` on the real-time lane."""
    return stream.realtime_summary(
        stream.driver_status(platform.settings, stream.REALTIME).heartbeat
    )


def test_a_cluster_with_too_few_slots_is_told_of_and_one_with_enough_runs_the_real_time_lane(
    platform: Stack, tmp_path: Path
) -> None:
    port = ports.choose()
    master, log = f"spark://127.0.0.1:{port}", tmp_path / "tail.log"
    options = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    argv = [_spark(platform, "spark-class"), "org.apache.spark.deploy.master.Master", *options]
    with process(platform, argv, tmp_path / "master.log"):
        with worker(platform, master, 1, tmp_path), submitted(platform, master, log):
            missing = "1 slots for 2 partitions"
            platform.wait(
                lambda: (
                    None if missing in realtime_summary(platform) else realtime_summary(platform)
                ),
                missing,
                240,
            )
            # A heartbeat tells before the log does.
            platform.wait(
                lambda: None if "SLICEWISE_REALTIME=off" in log.read_text() else log.read_text(),
                "the error",
                30,
            )
            assert "expected: at least 2 cores of executors" in log.read_text()
        with worker(platform, master, 2, tmp_path), submitted(platform, master, log):
            platform.wait(
                lambda: None if "realtime_begun" in log.read_text() else log.read_text()[-2000:],
                "the real-time lane",
                240,
            )
            first = json.dumps(
                {"user_id": "ada", "seconds": 60.0, "played_at": time.time_ns() // 1000}
            ).encode()
            platform.produce("plays", [(0, first, time.time_ns() // 1_000_000)])
            platform.wait(
                lambda: None if values(platform, "ada")["plays_1h"] else "it is not visible",
                "an event",
                240,
            )
            ms = [visible_ms(platform) for _ in range(10)]
            print(
                f"visible after {sorted(ms)[5]:.1f} ms, at most {max(ms):.1f} ms, without any "
                "micro-batch lane"
            )
