"""The embedded broker keeps the producers' timestamps and creates no topic that nobody asked
for. It maps the classes that it loads from an archive (Java's class data sharing, JEP 350), where
set-up could make one."""

from __future__ import annotations

import base64
import os
import subprocess
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path

from slicewise.errors import ServerError
from slicewise.java import LATE_COMPILER
from slicewise.local.servers import health, ports
from slicewise.local.servers.ports import HOST
from slicewise.local.servers.service import Service
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings

NAME = "kafka"

_PROPERTIES = "server.properties"
_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
LIVE_S = 60.0
"""Longest that a broker which is only to leave its classes may begin, and end."""
FORMAT_S = 120.0
"""Longest that the formatting of a log folder may take."""

_LOGGING = """\
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
logger.server.name = kafka.server.KafkaRaftServer
logger.server.level = INFO
"""


def java() -> str:
    """The Java program: of JAVA_HOME if set, else on PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def service(settings: Settings, state: StateFolder, port: int, controller_port: int) -> Service:
    """One broker that is its own controller (KRaft), its log under the state folder."""
    folder = state.path / NAME
    return Service(
        name=NAME,
        argv=(
            *_java(settings, folder),
            "kafka.Kafka",
            str(folder / _PROPERTIES),
        ),
        cwd=state.path,
        health=lambda _: health.kafka(port),
        address=f"{HOST}:{port}",
        prepare=lambda: _prepare(settings, folder, port, controller_port),
        stop_order=40,
        start_timeout_s=120.0,  # after a crash the log is recovered before the first answer
        stop_timeout_s=40.0,
    )


class _Unfit(Exception):
    """No archive can be made of a broker's classes, or it would be of no use."""


def archive_of(settings: Settings) -> Path | None:
    """The archive of a broker's classes, if one stands whole. Java goes on without it where jars or
    Java are others; it would die of one that was cut short, so that its size is in its name."""
    for archive in _archives(settings):
        with suppress(OSError):  # another set-up makes one anew
            if archive.stem.rpartition("-")[2] == str(archive.stat().st_size):
                return archive
    return None


def _archives(settings: Settings) -> list[Path]:
    # beside the jars: among them it would be one more entry of the folder that the class path names
    return sorted(settings.kafka_jars.parent.glob(f"{settings.kafka_jars.name}-*.jsa"))


def make_archive(settings: Settings) -> None:
    """Makes the archive anew, by a broker that begins and ends. A broker without it takes twice as
    long to its first answer, and 2.4 seconds of processor time more.

    Raises ServerError where this Java cannot make or map one; then there is none.
    """
    _forget_archive(settings)
    part = settings.kafka_jars.with_name(f"{settings.kafka_jars.name}.jsa.{os.getpid()}.part")
    with tempfile.TemporaryDirectory(prefix="slicewise-broker-") as made:
        folder = Path(made)
        port = ports.choose()
        controller_port = ports.choose(taken=(port,))
        try:
            _prepare(settings, folder, port, controller_port)
            leaving = (f"-XX:ArchiveClassesAtExit={part}", "-XX:TieredStopAtLevel=1")
            argv = [*_java(settings, folder, *leaving), "kafka.Kafka", str(folder / _PROPERTIES)]
            _live_once(argv, port, folder / "broker.log")
            _require_whole(settings, folder, part)
            with part.open("rb") as written:
                os.fsync(written.fileno())
            size = part.stat().st_size
            part.rename(part.with_name(f"{settings.kafka_jars.name}-{size}.jsa"))
        except (_Unfit, ServerError, OSError, subprocess.TimeoutExpired) as error:
            where = (error.where if isinstance(error, ServerError) else "") or str(error)
            raise ServerError(
                "no archive of the broker's classes could be made",
                where=where.strip(),
                next_step="none is needed: brokers start without it, and take longer",
            ) from error
        finally:
            part.unlink(missing_ok=True)


def _require_whole(settings: Settings, folder: Path, archive: Path) -> None:
    """Raises _Unfit where a JVM that may not go on without the archive refuses it."""
    demanding = ("-Xshare:on", "-XX:+VerifySharedSpaces", f"-XX:SharedArchiveFile={archive}")
    java = [*_java(settings, folder, *demanding), "-version"]
    # a JVM that dies leaves its report where it runs
    done = subprocess.run(
        java, cwd=folder, capture_output=True, text=True, timeout=LIVE_S, check=False
    )
    if done.returncode:
        raise _Unfit(f"Java refuses it: {(done.stdout + done.stderr)[-1000:]}")


def _forget_archive(settings: Settings) -> None:
    for archive in _archives(settings):
        archive.unlink(missing_ok=True)


def _live_once(argv: list[str], port: int, log: Path) -> None:
    """A broker's life, from its start to its first answer."""
    with log.open("wb") as written:
        process = subprocess.Popen(argv, cwd=log.parent, stdout=written, stderr=subprocess.STDOUT)
        try:
            until_s = time.monotonic() + LIVE_S
            while health.kafka(port) is not None:
                if process.poll() is not None or time.monotonic() > until_s:
                    output = log.read_text(errors="replace")[-1000:]
                    raise _Unfit(f"its broker never answered: {output}")
                time.sleep(0.1)
            process.terminate()
            process.wait(LIVE_S)
        finally:
            process.kill()
            process.wait()


def _java(settings: Settings, folder: Path, *options: str) -> tuple[str, ...]:
    """options: about archives, in place of that which maps one. The heap is the same whatever they
    are: an archive of a larger one does not fit."""
    archive = archive_of(settings)
    mapped = () if archive is None else (f"-XX:SharedArchiveFile={archive}", *_QUIET)
    return (
        java(),
        "-XX:+UseSerialGC",
        "-Xms128m",
        "-Xmx512m",
        *LATE_COMPILER,
        *(options or mapped),
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        "-cp",
        str(settings.kafka_jars / "*"),
    )


def _prepare(settings: Settings, folder: Path, port: int, controller_port: int) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    if not any(settings.kafka_jars.glob("kafka_*.jar")):
        raise ServerError(
            "the broker's jars are missing",
            where=str(settings.kafka_jars),
            next_step="make setup fetches them",
        )
    data = folder / "data"
    properties = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
        "log.message.timestamp.type": "CreateTime",
        # whether an event lies too far ahead is the source's rule, not the broker's; but a time
        # that Spark's microseconds cannot hold would stop every reader of the topic for good
        "log.message.timestamp.after.max.ms": 200_000_000_000_000,
        "log.retention.ms": settings.kafka_retention_ms,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        "auto.create.topics.enable": "false",
        "num.partitions": settings.kafka_partitions,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        # a killed broker may register again only when its last session is over
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 500,
    }
    (folder / "log4j2.properties").write_text(_LOGGING)
    server = folder / _PROPERTIES
    server.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    if not (data / "meta.properties").exists():
        _format(settings, folder, server)


def _format(settings: Settings, folder: Path, server: Path) -> None:
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    done = _formatted(settings, folder, server, cluster)
    if done.returncode < 0 and archive_of(settings) is not None:
        # Java dies of an archive that was damaged, and every broker would
        _forget_archive(settings)
        done = _formatted(settings, folder, server, cluster)
    if done.returncode:
        raise ServerError(
            "the broker's log folder cannot be formatted",
            where=done.stderr[-2000:],
            next_step=(
                "make room on the disk or remove the broken folder with slicewise clean, then "
                "slicewise up"
            ),
        )


def _formatted(
    settings: Settings, folder: Path, server: Path, cluster: str
) -> subprocess.CompletedProcess[str]:
    # --ignore-formatted: a format that was cut off half way is finished
    tool = ("-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format", "--ignore-formatted")
    try:
        return subprocess.run(
            [*_java(settings, folder), *tool, f"--cluster-id={cluster}", "-c", str(server)],
            cwd=folder,  # a JVM that dies leaves its report where it runs
            capture_output=True,
            text=True,
            timeout=FORMAT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise ServerError(
            "no Java to run", where=java(), expected="JDK 17", next_step="make check says how"
        ) from error
