"""Servers that die come back by themselves, where they were and with what they had; what was
stopped stays down."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import redis
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from slicewise.lifecycle import restarts
from slicewise.local.servers import process, services, supervisor, watch
from slicewise.local.servers.process import Birth
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings

SERVERS = ("redis", "kafka", "serving")
WITHIN_S = 120.0


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    loaded = Settings.load({"SLICEWISE_STATE": str(tmp_path / "state")})
    yield loaded
    supervisor.down(loaded, print)
    assert process.marked(loaded.state_dir) == []


def wait(reason: Callable[[], str | None]) -> float:
    begun = time.monotonic()
    while (why := reason()) is not None:
        assert time.monotonic() - begun < WITHIN_S, why
        time.sleep(0.05)
    return time.monotonic() - begun


def row(settings: Settings, name: str) -> supervisor.ServiceStatus:
    [results] = [service for service in supervisor.status(settings) if service.name == name]
    return results


def kill(settings: Settings, name: str) -> Birth:
    """The process that it was."""
    birth = Birth.of(row(settings, name).pid or 0)
    assert birth is not None
    birth.signal(signal.SIGKILL)
    assert not process.wait_gone([birth], 20)
    return birth


def back(settings: Settings, name: str, before: Birth) -> Callable[[], str | None]:
    """The reason why it is not up again, as another process."""

    def reason() -> str | None:
        result = row(settings, name)
        fresh = result.state == "up" and result.pid != before.pid
        return (
            None
            if fresh
            else f"{name}: {result}\n{StateFolder(settings.state_dir).last_lines(watch.NAME)}"
        )

    return reason


def test_each_server_that_is_killed_is_well_again_where_it_was_with_what_it_had(
    settings: Settings,
) -> None:
    running = supervisor.up(settings, print, only=(*SERVERS, services.WATCH))
    ports = StateFolder(settings.state_dir).ports()
    with redis.Redis.from_url(running.redis_url) as client:
        client.set("kept", "yes")
    admin = AdminClient({"bootstrap.servers": running.kafka_bootstrap})
    admin.create_topics([NewTopic("kept", num_partitions=1, replication_factor=1)])["kept"].result(
        30
    )
    producer = Producer({"bootstrap.servers": running.kafka_bootstrap, "acks": "all"})
    for number in range(1000):
        producer.produce("kept", value=str(number).encode())
    assert producer.flush(30) == 0
    time.sleep(1.5)  # Redis brings its appends to the disk every second
    for name in SERVERS:
        seconds = wait(back(settings, name, kill(settings, name)))
        print(f"{name}: well again after {seconds:.1f} s")
        assert row(settings, name).detail.startswith("restarted once in the last day, last at ")
    with redis.Redis.from_url(running.redis_url) as client:
        assert client.get("kept") == b"yes"
    consumer = Consumer(
        {"bootstrap.servers": running.kafka_bootstrap, "group.id": "x", "enable.auto.commit": False}
    )
    assert consumer.get_watermark_offsets(TopicPartition("kept", 0), timeout=30) == (0, 1000)
    consumer.close()

    at_once = [(name, kill(settings, name)) for name in SERVERS]
    for name, before in at_once:
        wait(back(settings, name, before))
    assert StateFolder(settings.state_dir).ports() == ports
    assert len(process.marked(settings.state_dir)) == len(SERVERS) + 1, "each runs once"


def test_what_was_stopped_on_purpose_stays_down_and_what_up_starts_is_watched_again(
    settings: Settings,
) -> None:
    lines: list[str] = []
    supervisor.up(settings, lines.append, only=("redis", services.WATCH))
    watcher = row(settings, services.WATCH).pid
    supervisor.down(settings, lines.append, only=["redis"])
    log = StateFolder(settings.state_dir).log(watch.NAME)
    time.sleep(4 * watch.EVERY_S)  # looks that find nothing to do leave no trace
    assert row(settings, "redis").state == "down"
    assert "server_died" not in log.read_text()
    supervisor.up(settings, lines.append, only=["redis"])
    wait(back(settings, "redis", kill(settings, "redis")))
    assert row(settings, services.WATCH).pid == watcher


def test_a_server_whose_port_was_taken_is_brought_back_where_it_went(settings: Settings) -> None:
    supervisor.up(settings, print, only=("redis", "watch"))
    supervisor.down(settings, print, only=("redis",))
    state = StateFolder(settings.state_dir)
    port = state.ports()["redis"]
    with socket.create_server(("127.0.0.1", port)):
        supervisor.up(settings, print, only=("redis",))
        moved = state.ports()["redis"]
        assert moved != port
        before = kill(settings, "redis")
        wait(back(settings, "redis", before))
    assert state.ports()["redis"] == moved


def test_a_watcher_that_was_killed_goes_on_with_the_next_up_by_what_it_had_kept(
    settings: Settings,
) -> None:
    supervisor.up(settings, print, only=("redis", services.WATCH))
    wait(back(settings, "redis", kill(settings, "redis")))
    before = kill(settings, services.WATCH)
    lost = kill(settings, "redis")
    assert row(settings, services.WATCH).state == "down"
    supervisor.up(settings, print, only=[services.WATCH])
    wait(back(settings, services.WATCH, before))
    wait(back(settings, "redis", lost))
    assert "restarted 2 times in the last day" in row(settings, "redis").detail


def test_a_server_that_cannot_live_is_tried_ever_later_and_told_once(settings: Settings) -> None:
    supervisor.up(settings, print, only=("redis", services.WATCH))
    state = StateFolder(settings.state_dir)
    data = state.path / "redis" / "appendonlydir"
    manifest = next(data.glob("*.manifest"))
    whole = manifest.read_text()
    manifest.write_text("no manifest\n")  # what it cannot read, Redis ends over
    before = kill(settings, "redis")

    def looped() -> str | None:
        kept = watch.read(state).get("redis", restarts.Restarts())
        return None if kept.loops else str(kept)

    seconds = wait(looped)
    assert seconds > sum(restarts.wait_us(number) for number in range(restarts.LOOP)) / 1e6
    detail = row(settings, "redis").detail
    assert "restarted 5 times in the last day" in detail
    assert "it dies again and again" in detail
    wait(
        lambda: (
            None
            if "next try in" in row(settings, "redis").detail
            else row(settings, "redis").detail
        )
    )
    manifest.write_text(whole)
    wait(back(settings, "redis", before))
    assert state.log(watch.NAME).read_text().count("dies_again_and_again") == 1


def test_up_and_down_are_never_fought(settings: Settings) -> None:
    """Down, with servers that died just before."""
    for _ in range(3):
        supervisor.up(settings, print, only=("redis", services.WATCH))
        birth = Birth.of(row(settings, "redis").pid or 0)
        assert birth is not None
        birth.signal(signal.SIGKILL)
        supervisor.down(settings, print)
        assert process.marked(settings.state_dir) == []
    time.sleep(4 * watch.EVERY_S)
    assert process.marked(settings.state_dir) == []


def test_a_watcher_whose_state_is_gone_ends_by_itself(settings: Settings, tmp_path: Path) -> None:
    supervisor.up(settings, print, only=[services.WATCH])
    birth = Birth.of(row(settings, services.WATCH).pid or 0)
    assert birth is not None
    settings.state_dir.rename(tmp_path / "elsewhere")
    assert not process.wait_gone([birth], 20)


def test_it_costs_next_to_nothing(settings: Settings) -> None:
    supervisor.up(settings, print, only=("redis", services.WATCH))
    result = psutil.Process(row(settings, services.WATCH).pid)
    log = StateFolder(settings.state_dir).log(watch.NAME)
    wait(lambda: None if "watching" in log.read_text() else "it has not begun")
    begun, used = time.monotonic(), sum(result.cpu_times()[:2])
    time.sleep(10)
    share = (sum(result.cpu_times()[:2]) - used) / (time.monotonic() - begun)
    memory = result.memory_full_info().uss / 2**20
    print(f"idle: {share:.2%} of a core, {memory:.0f} MiB")
    assert share < 0.02
    assert memory < 40


def test_where_it_is_off_nobody_watches(tmp_path: Path) -> None:
    env = {"SLICEWISE_STATE": str(tmp_path / "state"), "SLICEWISE_WATCH": "off"}
    settings = Settings.load(env)
    supervisor.up(settings, print, only=("redis", services.WATCH))
    result = row(settings, services.WATCH)
    supervisor.down(settings, print)
    assert (result.state, result.detail) == ("idle", "off (SLICEWISE_WATCH)")
    assert not list((settings.state_dir / "pids").iterdir())
