"""The micro-batch lane on a cluster: what dies is an executor, and its tasks are tried again on
another, within their batch."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psutil

from slicewise.local.servers import ports, stream
from slicewise.local.servers.process import Birth, descendants, spawn, write_pid_file
from slicewise.local.servers.state import StateFolder
from slicewise.spark.runtime.conf import stream_conf
from tests.drills.stage.run import POLL_S, Run
from tests.drills.stage.scene import MICROBATCH, Scene, signal_all

_CONF = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2"}
_EXECUTOR = "CoarseGrainedExecutorBackend"


def kill_executor(run: Run) -> None:
    """One of two, at a random moment, again and again."""
    scene = run.scene
    _end(scene)
    with _clustered(scene) as worker:
        run.whole(time.monotonic())
        for _ in range(run.times):
            run.some(0.5, 3)
            while not (executors := _executors(worker)):
                time.sleep(POLL_S)
            begun = time.monotonic()
            signal_all([run.rng.choice(executors)], signal.SIGKILL)
            run.kills += 1
            run.whole(begun)
        _end(scene)
    begun = time.monotonic()
    scene.start(MICROBATCH)
    run.whole(begun)


def _end(scene: Scene) -> None:
    signal_all(scene.tree(MICROBATCH), signal.SIGKILL)


@contextmanager
def _clustered(scene: Scene) -> Iterator[Birth]:
    """A master, a worker, which is given, and the micro-batch lane's driver, submitted to them
    instead of the local one."""
    settings = scene.settings[MICROBATCH]
    state = StateFolder(settings.state_dir)
    driver = stream.service(settings, state, MICROBATCH)
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    environment = replace(driver, name="cluster").environment(settings) | local
    programs, port = settings.spark_python.parent, ports.choose()
    master = f"spark://127.0.0.1:{port}"

    def begun(part: str, *options: str) -> Birth:
        argv = [
            str(programs / "spark-class"),
            f"org.apache.spark.deploy.{part}",
            "--host",
            "127.0.0.1",
            *options,
        ]
        return spawn(argv, environment, state.path, state.log("cluster"))

    started = [begun("master.Master", "--port", str(port), "--webui-port", "0")]
    try:
        started.append(
            begun("worker.Worker", "--cores", "2", "--memory", "2g", "--webui-port", "0", master)
        )
        conf = [f"--conf={name}={value}" for name, value in (stream_conf(settings) | _CONF).items()]
        argv = [str(programs / "spark-submit"), "--master", master, *conf, driver.argv[-1]]
        write_pid_file(
            state.pid_file(MICROBATCH),
            spawn(argv, driver.environment(settings) | local, state.path, state.log(MICROBATCH)),
        )
        yield started[-1]
    finally:
        signal_all(
            [descendant for birth in started for descendant in (birth, *descendants(birth))],
            signal.SIGKILL,
        )


def _executors(worker: Birth) -> list[Birth]:
    executors = []
    for descendant in descendants(worker):
        try:
            if any(_EXECUTOR in word for word in psutil.Process(descendant.pid).cmdline()):
                executors.append(descendant)
        except psutil.Error:
            continue
    return executors
