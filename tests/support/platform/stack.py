"""The platform without Airflow, on real servers in a folder of its own.

It is driven by the same commands and functions that people and Airflow use.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import IO, Any

import httpx
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from slicewise.local.servers import control, stream, supervisor
from slicewise.local.servers import redis as redis_server
from slicewise.local.servers.process import descendants, wait_gone
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis import open_store

WAIT_S = 300.0


class Stack:
    """Running servers; `settings` lead to them."""

    def __init__(
        self, state: Path, project: Path, overrides: Mapping[str, str] | None = None
    ) -> None:
        # real-time lane and probes are tried by tests of their own: elsewhere what is deployed is
        # what the test declares
        given = {
            "SLICEWISE_STATE": str(state),
            "SLICEWISE_PROJECT": str(project),
            "SLICEWISE_PROBES": "off",
        }
        self.given = {**given, "SLICEWISE_REALTIME": "off", **(overrides or {})}
        self.settings = Settings.load(self.given)
        self._producer: Producer | None = None

    def up(self, *services: str) -> None:
        """Starts servers (all but Airflow by default) and waits until they are well."""
        only = services or ("redis", "kafka", "serving")
        nodes = redis_server.names(self.settings.store_nodes)[1:] if "redis" in only else ()
        self.settings = supervisor.up(self.settings, print, only=(*only, *nodes))

    def status(self) -> list[supervisor.ServiceStatus]:
        """The services as they are."""
        return supervisor.status(self.settings)

    def down(self) -> None:
        """Stops everything that this stack started."""
        self._producer = None  # else it looks for its broker for ever
        supervisor.down(self.settings, print)

    def produce_for(
        self, seconds: float, topic: str, rng: Random, event: Callable[[int], Mapping[str, Any]]
    ) -> None:
        """Events that `event` makes of the present microsecond, a few at once, into two
        partitions."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            now = time.time_ns() // 1000
            records = [
                (rng.randrange(2), json.dumps(event(now)).encode(), now // 1000)
                for _ in range(rng.randint(1, 12))
            ]
            self.produce(topic, records)
            time.sleep(0.05)

    # ---------------------------------------------------------------- the user's commands
    def cli(
        self, *arguments: str, check: bool = True, timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """`slicewise …` as a person runs it."""
        argv = [str(self.settings.platform_python.parent / "slicewise"), *arguments]
        return self._command(argv, check, timeout_s)

    def job(
        self, name: str, *arguments: str, check: bool = True, timeout_s: float = 300
    ) -> dict[str, Any]:
        """A bounded Spark job; its report."""
        done = self._command(self._job(name, arguments), check, timeout_s)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        assert lines, f"{name} reported nothing\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        report: dict[str, Any] = json.loads(lines[-1])
        return report

    def begin_job(self, name: str, *arguments: str, out: IO[str]) -> subprocess.Popen[str]:
        """The same, which nobody waits for, in a session of its own; its report is the last line of
        `out`."""
        argv = self._job(name, arguments)
        return subprocess.Popen(
            argv, stdout=out, stderr=out, text=True, env=self.environment(), start_new_session=True
        )

    def _job(self, name: str, arguments: Sequence[str]) -> list[str]:
        script = self.settings.home / "spark_jobs" / f"{name}.py"
        return [str(self.settings.spark_python), str(script), *arguments, "--json"]

    def environment(self) -> dict[str, str]:
        """The variables of commands of this platform."""
        python = str(self.settings.spark_python)
        # What a person would set: the addresses come from the state folder, as they do for them.
        return {
            **os.environ,
            **self.given,
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
        }

    def _command(
        self, argv: Sequence[str], check: bool, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        env = self.environment()
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                env=env,
                check=False,
                start_new_session=True,  # as Airflow's are: not of the session that measures
            )
        except subprocess.TimeoutExpired as late:
            output = b"\n".join(
                part for part in (late.stdout, late.stderr) if isinstance(part, bytes)
            ).decode()
            raise AssertionError(
                f"{' '.join(argv)}: not over after {timeout_s:.0f} s\n{output[-6000:]}"
            ) from None
        assert not check or done.returncode == 0, (
            f"{' '.join(argv)} ended with "
            f"{done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        )
        return done

    # ---------------------------------------------------------------- the stream
    def start_stream(self) -> int:
        """Starts the driver; its pid."""
        result = stream.ensure_stream(self.settings)
        assert result.pid is not None
        return result.pid

    def kill_stream(self) -> None:
        """SIGKILL, to the driver and to all that it started, in the middle of whatever it does."""
        self.kill_driver(stream.NAME)

    def kill_driver(self, name: str) -> None:
        """The same to one of the drivers."""
        state = StateFolder(self.settings.state_dir)
        birth = control.running(stream.service(self.settings, state, name), state)
        assert birth is not None, "the driver does not run"
        tree = [birth, *descendants(birth)]
        for process in tree:
            process.signal(signal.SIGKILL)
        assert not wait_gone(tree, 20.0)

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """A driver and all below it stand still meanwhile."""
        state = StateFolder(self.settings.state_dir)
        birth = control.running(stream.service(self.settings, state, name), state)
        assert birth is not None, "the driver does not run"
        tree = [birth, *descendants(birth)]
        for process in tree:
            process.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in reversed(tree):
                process.signal(signal.SIGCONT)

    def wait_realtime(self, source: str, timeout_s: float = 240) -> None:
        """Waits until the real-time lane of this server run of the drivers and of the store
        writes."""

        def reason() -> str | None:
            result = stream.driver_status(self.settings, stream.REALTIME)
            status = result.heartbeat.get("sources", {}).get(source)
            if status is None or status["waiting"] or status["state"] != "running":
                return str(result)
            with self.store() as store:
                start = store.run(ReadMetadata()).realtime_starts.get(source)
                return (
                    None
                    if start is not None and start.server_run == store.server_run
                    else "no entry of this server run"
                )

        self.wait(reason, "the real-time lane to begin", timeout_s)

    def wait_written(self, source: str, timeout_s: float = 120) -> None:
        """Waits until the real-time lane says that it has written all that the log holds now."""
        # a heartbeat may tell of a log that was read a second before
        since_us = time.time_ns() // 1000 + 2_000_000

        def reason() -> str | None:
            status = (
                stream.driver_status(self.settings, stream.REALTIME)
                .heartbeat.get("sources", {})
                .get(source, {})
            )
            late = status.get("heartbeat_us", 0) < since_us or sum(status["lag"].values())
            return f"the real-time lane says {status}" if late else None

        self.wait(reason, "the real-time lane to bring all", timeout_s)

    def stop_stream(self) -> None:
        """SIGTERM: it drains."""
        stream.stop_stream(self.settings)

    def wait_applied(self, topic: str, timeout_s: float = WAIT_S) -> None:
        """Waits until the committed offsets have reached the end of the topic."""
        with KafkaLog(self.settings.kafka_bootstrap) as log:
            end = log.latest(topic)

        def is_applied() -> str | None:
            with self.store() as store:
                committed = store.run(ReadMetadata()).committed
            return (
                None
                if committed.dominates(end)
                else f"committed {dict(committed.offsets)} of {dict(end.offsets)}"
            )

        self.wait(is_applied, f"topic {topic} to be applied", timeout_s)

    def wait(self, reason: Callable[[], str | None], what: str, timeout_s: float = WAIT_S) -> None:
        """Polls until `reason` gives None; fails with the last reason."""
        deadline = time.monotonic() + timeout_s
        while (why := reason()) is not None:
            if time.monotonic() > deadline:
                log = self.settings.state_dir / "logs" / "stream.log"
                last = log.read_text()[-3000:] if log.exists() else ""
                raise AssertionError(f"{what}: not within {timeout_s:.0f} s: {why}\n{last}")
            time.sleep(0.05)

    # ---------------------------------------------------------------- log, store, answers
    @contextmanager
    def store(self) -> Iterator[OnlineStore]:
        """A connection to the online store."""
        store = open_store(self.settings.redis_url)
        try:
            yield store
        finally:
            store.close()

    def produce(self, topic: str, records: Sequence[tuple[int, bytes, int]]) -> None:
        """(partition, value, Kafka time in milliseconds) in this order; returns when all stand."""
        if self._producer is None:
            self._producer = self._new_producer()
        for partition, value, time_ms in records:
            while True:
                try:
                    self._producer.produce(
                        topic, value=value, partition=partition, timestamp=time_ms
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
                except KafkaException as error:
                    # a partition that was added a moment ago: another producer knows of it at once
                    if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                        raise
                    assert self._producer.flush(60) == 0
                    self._producer = self._new_producer()
        assert self._producer.flush(60) == 0

    def _new_producer(self) -> Producer:
        made = Producer({"bootstrap.servers": self.settings.kafka_bootstrap, "linger.ms": 5})
        made.list_topics(timeout=30)
        return made

    def progress(self, topic: str, view: str) -> list[str]:
        """The broker's texts of a view's emission, per partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.settings.kafka_bootstrap,
                "group.id": f"slicewise-emit-{view}",
            }
        )
        try:
            partitions = [TopicPartition(topic, p) for p in range(self.settings.kafka_partitions)]
            return [
                partition.metadata or "" for partition in consumer.committed(partitions, timeout=30)
            ]
        finally:
            consumer.close()

    def keyed(self, topic: str) -> list[tuple[bytes, bytes]]:
        """(key, value) of all records of a topic."""
        return [(key, value) for *_, key, value in self._read(topic)]

    def records(self, topic: str) -> list[tuple[str, int, int, int, bytes]]:
        """The whole log by a reader of its own: (topic id, partition, offset, Kafka time ms,
        value)."""
        return [
            (topic_id, p, offset, stamp, value)
            for topic_id, p, offset, stamp, _, value in self._read(topic)
        ]

    def _read(self, topic: str) -> list[tuple[str, int, int, int, bytes, bytes]]:
        with KafkaLog(self.settings.kafka_bootstrap) as log:
            topic_id, latest = log.topic_id(topic), log.latest(topic)
        consumer = Consumer(
            {
                "bootstrap.servers": self.settings.kafka_bootstrap,
                "group.id": "oracle",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        results: list[tuple[str, int, int, int, bytes, bytes]] = []
        try:
            for (_, partition), end in latest.offsets.items():
                consumer.assign([TopicPartition(topic, partition, 0)])
                seen = 0
                while seen < end:
                    message = consumer.poll(10.0)
                    assert message is not None, f"partition {partition} gave {seen} of {end}"
                    assert message.error() is None, message.error()
                    offset, stamp = message.offset(), message.timestamp()[1]
                    assert offset is not None
                    seen = offset + 1
                    results.append(
                        (
                            topic_id,
                            partition,
                            offset,
                            stamp,
                            message.key() or b"",
                            message.value() or b"",
                        )
                    )
        finally:
            consumer.close()
        return results

    def request(self, **body: Any) -> dict[str, Any]:
        """POST /v1/features; the answer."""
        url = f"{self.settings.serving_url}/v1/features"
        # verify: reading certificates, which this address needs none of, takes longer than the
        # answer
        answer = httpx.post(url, json=body, timeout=30, trust_env=False, verify=False)
        assert answer.status_code == 200, answer.text
        parsed: dict[str, Any] = answer.json()
        return parsed


@contextmanager
def stack(project: Path, overrides: Mapping[str, str] | None = None) -> Iterator[Stack]:
    """A stack in a temporary folder, gone with all its processes and data afterwards."""
    with TemporaryDirectory(prefix="slicewise-stack-") as folder:
        made = Stack(Path(folder) / "state", project, overrides)
        try:
            yield made
        finally:
            made.down()


@contextmanager
def stack_of(
    definitions: str, folder: Path, overrides: Mapping[str, str] | None = None
) -> Iterator[Stack]:
    """A stack of two partitions over a project of these definitions, with Redis and Kafka up."""
    project = folder / "project"
    project.mkdir()
    (project / "slicewise.toml").write_text('definitions = "features.py"\n')
    (project / "features.py").write_text(definitions)
    with stack(project, {"SLICEWISE_KAFKA_PARTITIONS": "2", **(overrides or {})}) as running:
        running.up("redis", "kafka")
        yield running
