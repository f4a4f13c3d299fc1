"""Every Spark job of slicewise runs under this one configuration, however it is started.

The values are plain text and need no pyspark, so that a DAG can hand them to spark-submit and a
session started in process can use the same.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from slicewise.java import LATE_COMPILER
from slicewise.settings import Settings
from slicewise.spark.runtime.classes import sharing

_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
# A serial collector needs no threads of its own on a machine that also carries the servers.
_JAVA = "-XX:+UseSerialGC -Xss4m -Dderby.system.home={scratch}"
# A job that lives for seconds spends more on its second compiler than that ever gives back: without
# it a start and a first parse take 14 s of processor time instead of 20. With one compiler Java
# keeps 48 MB for code in place of 240, and a check that compared four views filled them: it
# compiled no more, and then died. The room is address space alone until it is used.
_ROOM = "-XX:ReservedCodeCacheSize=240m"
_SHORT = f"-XX:TieredStopAtLevel=1 {_ROOM}"
# A stream goes through its records' way millions of times and through Spark's planning a few times
# a second: the second compiler is for the first alone (docs/adr/0088).
SECOND_COMPILER = Path(__file__).with_name("second_compiler.json")
# Java begins with a 64th of the machine's memory, whoever needs it.
_LONG = (
    f'-Xms128m -XX:+UnlockDiagnosticVMOptions "-XX:CompilerDirectivesFile={SECOND_COMPILER}" '
    f"{' '.join(LATE_COMPILER)} {_ROOM}"
)

# Spark starts with no less than 470 MB at most; this one starts with less, and gives back what it
# does not need.
_SMALL = "-Xms64m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40"


def job_conf(
    settings: Settings, *, memory: str = "1g", classes: str | None = None
) -> dict[str, str]:
    """Configuration of a bounded job (archive, compaction, backfill, check, maintenance).

    classes: the JVM's option about the archive of classes; without one given, that which maps it.
    """
    name = settings.catalog_name
    catalog = f"spark.sql.catalog.{name}"
    scratch = settings.state_dir / "spark"
    classes = sharing(settings) if classes is None else classes
    java = f"{_JAVA.format(scratch=scratch)} {_SHORT} {classes}"
    conf = {
        "spark.driver.extraClassPath": f"{settings.spark_jars}/*",
        "spark.executor.extraClassPath": f"{settings.spark_jars}/*",
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": java.rstrip(),
        "spark.local.dir": str(scratch / "tmp"),
        "spark.sql.warehouse.dir": str(scratch / "unused"),
        "spark.pyspark.python": str(settings.spark_python),
        "spark.pyspark.driver.python": str(settings.spark_python),
        "spark.python.daemon.module": "slicewise.spark.runtime.daemon",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        # it plans each stage again, to choose a number of partitions that is small already
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # what bounds a batch of long texts: a value may have a megabyte, and direct memory is as
        # large as the heap
        "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        f"{catalog}.uri": settings.catalog_jdbc_uri,
        f"{catalog}.warehouse": settings.warehouse,
        f"{catalog}.cache-enabled": "false",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.jdbc.busy_timeout": "60000",
    }
    if settings.spark_master.startswith("local"):
        # executors on other machines must reach the driver: elsewhere Spark takes the host's name
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if settings.warehouse.startswith("s3:"):
        # address and credentials are the SDK's own variables (AWS_ENDPOINT_URL_S3,
        # AWS_ACCESS_KEY_ID, ...)
        conf[f"{catalog}.io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
        conf[f"{catalog}.s3.path-style-access"] = "true"
    secret = urlsplit(settings.catalog_uri)
    if secret.username:
        # SQLAlchemy's URL has them percent-encoded, JDBC's properties have them as they are
        conf[f"{catalog}.jdbc.user"] = unquote(secret.username)
        conf[f"{catalog}.jdbc.password"] = unquote(secret.password or "")
    return conf


def stream_conf(settings: Settings) -> dict[str, str]:
    """Configuration of the stream: the same, with an empty trigger made cheap (docs/adr/0025)."""
    java = f"{_JAVA.format(scratch=settings.state_dir / 'spark')} {_LONG} {sharing(settings)}"
    return job_conf(settings) | {
        "spark.driver.extraJavaOptions": java.rstrip(),
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "2",
        # rows of the real-time lane hold dates of the calendar that Spark counts by; the old class
        # lacks days of 1582
        "spark.sql.datetime.java8API.enabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "4",
        "spark.locality.wait": "0",
        "spark.sql.ui.explainMode": "simple",
    }


def realtime_conf(settings: Settings) -> dict[str, str]:
    """Configuration of the real-time lane: a stream that plans once a batch of many seconds, and
    holds few rows at a time."""
    java = (
        f"{_JAVA.format(scratch=settings.state_dir / 'spark')} {_SHORT} {_SMALL} "
        f"{sharing(settings)}"
    )
    return stream_conf(settings) | {
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": java.rstrip(),
        # as local[n,1] says: what a writer may do twice it does itself, and all else is planned
        # anew from the metadata
        "spark.task.maxFailures": "1",
    }
