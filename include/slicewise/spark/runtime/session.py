"""A session is made here alone, so that every job runs under the same settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from slicewise.arrow import without_pandas
from slicewise.settings import Settings
from slicewise.spark.runtime.classes import surviving
from slicewise.spark.runtime.conf import job_conf, realtime_conf, stream_conf
from slicewise.spark.runtime.daemon import YOUNG as YOUNG
from slicewise.spark.runtime.lean import lean


def stream_session(settings: Settings, cores: int = 2) -> SparkSession:
    """The session of a stream driver: `cores` task slots, a failed task is tried four times."""
    name = "slicewise-stream"
    without_pandas()
    with surviving(settings, name):
        return _session(settings, name, f"local[{cores},4]", stream_conf(settings))


def realtime_session(settings: Settings, slots: int) -> SparkSession:
    """The session of the real-time lane's driver, a slot for each partition; a failed task is the
    query's failure: what a writer may do twice it does itself, and all else is planned anew from
    the metadata."""
    name = "slicewise-realtime"
    without_pandas()
    with surviving(settings, name):
        return _session(settings, name, f"local[{slots},1]", realtime_conf(settings))


def task_slots(session: SparkSession) -> int:
    """Tasks that can run at once now. Spark's `defaultParallelism` says two of a cluster with
    fewer."""
    context: Any = session.sparkContext._jsc
    return int(
        context.sc().maxNumConcurrentTasks(
            context.sc().resourceProfileManager().defaultResourceProfile()
        )
    )


def job_session(settings: Settings, name: str, cores: int = 2) -> SparkSession:
    """The session of a bounded job. Under spark-submit the submitted configuration stands."""
    return _session(settings, name, f"local[{cores},4]", job_conf(settings))


def _session(settings: Settings, name: str, master: str, conf: Mapping[str, str]) -> SparkSession:
    lean()
    # Workers are started by the JVM, which reads this when it is launched.
    os.environ["PYSPARK_PYTHON"] = str(settings.spark_python)
    (settings.state_dir / "spark" / "tmp").mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.appName(name)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has chosen the master
        builder = builder.master(master)
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
