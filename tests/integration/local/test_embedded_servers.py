"""The embedded servers are real, keep their promises to the platform, and leave no process
behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from slicewise.errors import ServerError, SettingsError
from slicewise.local.servers import control, kafka, process, services, supervisor
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings
from tests.support.platform.servers import KafkaBroker, RedisServer, listening


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateFolder]:
    folder = StateFolder(tmp_path / "state")
    yield folder
    supervisor.down(Settings.load({"SLICEWISE_STATE": str(folder.path)}), print)


@pytest.mark.parametrize(
    "command",
    ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "DEBUG SLEEP 0", "ACL SETUSER default allcommands"],
)
def test_platform_users_may_not_empty_or_swap_the_store(
    redis_server: RedisServer, command: str
) -> None:
    with (
        redis.Redis.from_url(redis_server.url) as client,
        pytest.raises(redis.exceptions.ResponseError),
    ):
        client.execute_command(*command.split())


def test_platform_users_may_not_restore_a_dump(redis_server: RedisServer) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        client.set("restore-source", "1")
        dump = client.dump("restore-source")
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.restore("restore-target", 0, dump)


def test_the_store_never_evicts_and_appends_what_it_is_told(redis_server: RedisServer) -> None:
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("hash-max-listpack-entries") == {
            "hash-max-listpack-entries": "512"
        }
        assert client.config_get("hash-max-listpack-value") == {"hash-max-listpack-value": "1024"}


def test_a_restarted_store_keeps_its_data_under_a_new_run_id(own_redis: RedisServer) -> None:
    with redis.Redis.from_url(own_redis.url, decode_responses=True) as client:
        client.set("kept", "yes")
        before = client.info("server")["run_id"]
    own_redis.stop()
    own_redis.start()
    with redis.Redis.from_url(own_redis.url, decode_responses=True) as client:
        assert client.get("kept") == "yes"
        assert client.info("server")["run_id"] != before


def test_an_operator_may_flush(own_redis: RedisServer) -> None:
    with redis.Redis.from_url(own_redis.operator_url) as client:
        client.set("gone", "1")
        client.flushall()
        assert client.dbsize() == 0


def test_the_broker_keeps_the_timestamps_of_producers_also_old_and_future_ones(
    kafka_broker: KafkaBroker,
) -> None:
    times = [0, 1_357_000_000_000, 4_102_444_800_000]
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap})
    # without retention: it would drop the old ones whenever the broker looks
    topic = NewTopic("times", num_partitions=1, replication_factor=1, config={"retention.ms": "-1"})
    admin.create_topics([topic])["times"].result(30)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap})
    for time_ms in times:
        producer.produce("times", value=b"x", timestamp=time_ms)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": kafka_broker.bootstrap,
            "group.id": "times",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition("times", 0, 0)])
    seen = consumer.consume(len(times), timeout=30)
    consumer.close()
    # a timestamp of 0 asks librdkafka for the time of now
    assert [message.timestamp()[1] for message in seen][1:] == times[1:]


def test_a_killed_broker_keeps_what_it_acknowledged(own_kafka: KafkaBroker) -> None:
    admin = AdminClient({"bootstrap.servers": own_kafka.bootstrap})
    admin.create_topics([NewTopic("kept", num_partitions=1, replication_factor=1)])["kept"].result(
        30
    )
    producer = Producer({"bootstrap.servers": own_kafka.bootstrap, "acks": "all"})
    for number in range(1000):
        producer.produce("kept", value=str(number).encode())
    assert producer.flush(30) == 0
    own_kafka.kill()
    own_kafka.start()
    consumer = Consumer(
        {"bootstrap.servers": own_kafka.bootstrap, "group.id": "kept", "enable.auto.commit": False}
    )
    assert consumer.get_watermark_offsets(TopicPartition("kept", 0), timeout=30) == (0, 1000)
    consumer.close()


def maps(server: KafkaBroker) -> str:
    """Files that the process of the server has mapped."""
    assert server.birth is not None
    return Path(f"/proc/{server.birth.pid}/maps").read_text()


def test_a_broker_maps_the_archive_of_its_classes(kafka_broker: KafkaBroker) -> None:
    archive = kafka.archive_of(kafka_broker.settings)
    assert archive is not None, "make setup left none: its output says why"
    assert str(archive) in maps(kafka_broker)


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that was never started, without an archive. One of its jars is newer than that of
    set-up's archive."""
    server = KafkaBroker(tmp_path / "state")
    first, *others = sorted(
        server.settings.kafka_jars.glob("*.jar"), key=lambda jar: jar.stat().st_size
    )
    jars = tmp_path / "jars"
    jars.mkdir()
    for jar in others:
        (jars / jar.name).symlink_to(jar)
    (jars / first.name).write_bytes(first.read_bytes())
    server.settings = replace(server.settings, kafka_jars=jars)
    yield server
    server.stop()


def test_a_broker_whose_jars_are_others_than_the_archives_starts_without_it(
    stopped: KafkaBroker,
) -> None:
    archive = kafka.archive_of(Settings.load({}))
    assert archive is not None
    jars = stopped.settings.kafka_jars
    beside = jars.with_name(f"{jars.name}-{archive.stat().st_size}.jsa")
    beside.symlink_to(archive)
    assert kafka.archive_of(stopped.settings) == beside
    controller_port = stopped.state.ports()["kafka_controller"]
    stopped.service = kafka.service(stopped.settings, stopped.state, stopped.port, controller_port)
    stopped.start()
    assert archive.name not in maps(stopped)


def test_an_archive_that_was_damaged_is_forgotten_where_a_log_is_formatted(
    stopped: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    kafka.make_archive(stopped.settings)
    archive = kafka.archive_of(stopped.settings)
    assert archive is not None
    whole, middle, some = archive.read_bytes(), archive.stat().st_size // 3, bytes(20 << 20)
    archive.unlink()
    archive.write_bytes(whole[:middle] + some + whole[middle + len(some) :])
    stopped.data.mkdir()
    with pytest.raises(kafka._Unfit, match="Java refuses it"):
        kafka._require_whole(stopped.settings, stopped.data, archive)
    kafka._prepare(stopped.settings, stopped.data, stopped.port, stopped.port + 1)
    assert kafka.archive_of(stopped.settings) is None
    archive.write_bytes(whole[:middle])
    assert kafka.archive_of(stopped.settings) is None, "one that was cut short is none"
    assert not list(here.iterdir()), "a report of Java's death where a person works"


@pytest.mark.parametrize(
    ("java", "why"),
    [
        ("echo no heap >&2; exit 1", "no heap"),
        ('case "$*" in *StorageTool*) exit 0; esac; exec sleep 60', "never answered"),
        ('case "$*" in *StorageTool*) exec sleep 60; esac', "timed out"),
        # it leaves a file, and does not map it
        (
            """
            case "$*" in *StorageTool*) exit 0;; *-version*) echo not mine; exit 1;; esac
            for w in "$@"; do case "$w" in *AtExit=*) echo x > "${w#*=}";; esac; done
            exec sleep 60""",
            "not mine",
        ),
    ],
    ids=["fails", "never answers", "hangs", "refuses"],
)
def test_a_java_that_makes_no_archive_leaves_none_and_says_so(
    java: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "kafka_2.13.jar").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\n{java}\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(kafka, "LIVE_S", 1.0)
    monkeypatch.setattr(kafka, "FORMAT_S", 1.0)
    if why == "not mine":
        monkeypatch.setattr("slicewise.local.servers.health.kafka", lambda _: None)
    (tmp_path / "jars-0.jsa").touch()
    settings = replace(
        Settings.load({"SLICEWISE_STATE": str(tmp_path / "state")}), kafka_jars=tmp_path / "jars"
    )
    with pytest.raises(ServerError, match="no archive of the broker's classes") as error:
        kafka.make_archive(settings)
    assert why in str(error.value)
    assert "none is needed" in str(error.value)
    assert not list(tmp_path.glob("jars[-.]*")), "the old one may not fit"


def test_up_twice_changes_nothing_and_down_leaves_no_process(state: StateFolder) -> None:
    lines: list[str] = []
    settings = Settings.load({"SLICEWISE_STATE": str(state.path)})
    supervisor.up(settings, lines.append, only=["redis", "kafka"])
    before = process.marked(state.path)
    supervisor.up(settings, lines.append, only=["redis", "kafka"])
    assert process.marked(state.path) == before
    assert len(before) == 2
    assert {address.removeprefix("::ffff:") for address, _ in listening(before)} == {"127.0.0.1"}
    rows = {service.name: service.state for service in supervisor.status(settings)}
    assert rows == {
        name: "up" if name in ("redis", "kafka") else "down" for name in services.NAMES
    } | {services.SHADOW: "idle"}

    ports = state.ports()
    supervisor.down(settings, lines.append)
    assert process.marked(state.path) == []
    assert not any(birth.alive() for birth in before)
    assert {service.state for service in supervisor.status(settings)} == {"down", "idle"}

    supervisor.up(settings, lines.append, only=["redis"])
    assert state.ports() == ports, "a restart takes the same ports"


def test_redis_is_all_nodes_of_the_store(state: StateFolder) -> None:
    settings = Settings.load({"SLICEWISE_STATE": str(state.path), "SLICEWISE_STORE_NODES": "2"})
    supervisor.up(settings, print, only=["redis"])
    rows = {service.name: service.state for service in supervisor.status(settings)}
    supervisor.down(settings, print)
    assert (rows["redis"], rows["redis-2"], rows["kafka"]) == ("up", "up", "down")
    addresses = state.addresses()
    for count in ("1", "3"):
        other = Settings.load({"SLICEWISE_STATE": str(state.path), "SLICEWISE_STORE_NODES": count})
        with pytest.raises(SettingsError, match=f"{count} nodes, and the store of .* has 2"):
            supervisor.up(other, print, only=["redis"])
    assert state.addresses() == addresses


def test_a_server_that_lost_its_pid_file_is_found_and_not_started_twice(state: StateFolder) -> None:
    settings = Settings.load({"SLICEWISE_STATE": str(state.path)})
    supervisor.up(settings, print, only=["redis"])
    [before] = process.marked(state.path)
    state.pid_file("redis").unlink()
    supervisor.up(settings, print, only=["redis"])
    assert process.marked(state.path) == [before]


def test_a_pid_file_of_before_a_reboot_names_nothing(state: StateFolder) -> None:
    settings = Settings.load({"SLICEWISE_STATE": str(state.path)})
    state.create()
    # the pid lives (it is this test's), the birth is another boot's
    process.write_pid_file(state.pid_file("redis"), process.Birth(os.getpid(), "another-boot:1"))
    supervisor.up(settings, print, only=["redis"])
    assert supervisor.status(settings)[0].state == "up"
    supervisor.down(settings, print)


def test_up_killed_half_way_is_finished_by_the_next_up(state: StateFolder) -> None:
    program = (
        "from slicewise.local.servers import supervisor; from slicewise.settings import Settings;"
        "supervisor.up(Settings.load(), print, only=['redis', 'kafka'])"
    )
    env = {**os.environ, "SLICEWISE_STATE": str(state.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=env, stdout=subprocess.DEVNULL
    ) as starter:
        deadline = time.monotonic() + 60
        while not process.marked(state.path, "kafka"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        starter.send_signal(signal.SIGKILL)
    settings = Settings.load({"SLICEWISE_STATE": str(state.path)})
    supervisor.up(settings, print, only=["redis", "kafka"])
    assert {service.name for service in supervisor.status(settings) if service.state == "up"} == {
        "redis",
        "kafka",
    }
    assert len(process.marked(state.path)) == 2


def test_orphans_of_a_killed_service_are_ended_by_down(state: StateFolder) -> None:
    """Ends children as Airflow's parts, which outlive the process that started them."""
    settings = Settings.load({"SLICEWISE_STATE": str(state.path)})
    state.create()
    serving = services.build(settings, services.chooser({}), env={}).services["serving"]
    parent = process.spawn(
        ["/bin/sh", "-c", "sleep 300 & sleep 300 & wait"],
        serving.environment(settings),
        Path("/"),
        state.log("serving"),
    )
    deadline = time.monotonic() + 60
    while len(process.marked(state.path)) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    parent.signal(signal.SIGKILL)
    assert not process.wait_gone([parent], 10)
    assert control.running(serving, state) is None, "an orphan is not the service"
    assert len(process.marked(state.path)) == 2
    supervisor.down(settings, print)
    assert process.marked(state.path) == []


def test_clean_forgets_the_state_and_spares_a_folder_of_someone_else(
    state: StateFolder, tmp_path: Path
) -> None:
    settings = Settings.load({"SLICEWISE_STATE": str(state.path)})
    supervisor.up(settings, print, only=["redis"])
    supervisor.clean(settings, print)
    assert not state.path.exists()
    own = tmp_path / "mine"
    own.mkdir()
    (own / "thesis.txt").write_text("years of work")
    with pytest.raises(ServerError):
        supervisor.clean(Settings.load({"SLICEWISE_STATE": str(own)}), print)
    assert (own / "thesis.txt").exists()


def test_a_service_waits_only_for_those_that_it_comes_after(state: StateFolder) -> None:
    lines: list[str] = []
    settings = Settings.load({"SLICEWISE_STATE": str(state.path)})
    supervisor.up(settings, lines.append, only=["redis", "kafka", "serving"])
    order = [line.split()[0] for line in lines if " up after " in line]
    assert order.index("redis") < order.index("serving")
    starts = [line.split()[0] for line in lines if line.endswith("starting")]
    assert set(starts[:2]) == {"redis", "kafka"}


def test_a_server_that_cannot_start_is_told_with_its_log(state: StateFolder) -> None:
    settings = Settings.load(
        {"SLICEWISE_STATE": str(state.path), "SLICEWISE_REDIS_MAXMEMORY": "plenty"}
    )
    with pytest.raises(ServerError) as raised:
        supervisor.up(settings, print, only=["redis"])
    assert "maxmemory" in str(raised.value)
    assert raised.value.next_step
