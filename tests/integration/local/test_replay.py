"""A replay stands in its topic once and in order, whatever kills it."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from slicewise.errors import ServerError, StoreUnavailable
from slicewise.replay.run import NewestEvent, resume
from slicewise.replay.schedule import Pace, partition_of
from slicewise.replay.songs import Plays
from slicewise.stores.log.producer import Record, TransactionalWriter, last_records
from slicewise.stores.log.topics import KafkaLog
from tests.support.platform.servers import KafkaBroker

PARTITIONS = 3
Logged = tuple[int, int, int, bytes]
"""(number, partition, time_ms, value) of an event that stands in the topic."""


def start(broker: KafkaBroker, topic: str, *options: str) -> subprocess.Popen[str]:
    command = [str(Path(sys.executable).with_name("slicewise")), "replay", "--topic", topic]
    env = {**os.environ, "SLICEWISE_KAFKA_BOOTSTRAP": broker.bootstrap}
    return subprocess.Popen(
        [*command, "--partitions", str(PARTITIONS), *options],
        env=env,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(broker: KafkaBroker, topic: str, *options: str) -> None:
    replay = start(broker, topic, "--history-only", *options)
    _, output = replay.communicate(timeout=120)
    assert replay.returncode == 0, output


def read(broker: KafkaBroker, topic: str) -> list[Logged]:
    """All committed events, in log order per partition."""
    return [
        (json.loads(value)["number"], partition, time_ms, value)
        for partition, time_ms, value in records(broker, topic)
    ]


def records(broker: KafkaBroker, topic: str) -> list[tuple[int, int, bytes]]:
    """(partition, time_ms, value) of all that is committed, in log order per partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    results: list[tuple[int, int, bytes]] = []
    ends = 0
    while ends < PARTITIONS:
        message = consumer.poll(20)
        assert message is not None, "the broker stopped answering"
        if message.error():
            ends += 1
            continue
        value, partition = message.value(), message.partition()
        assert value is not None
        assert partition is not None
        results.append((partition, message.timestamp()[1], value))
    consumer.close()
    return results


def count_of(log: KafkaLog, topic: str) -> int:
    return sum(log.latest(topic).offsets.values())


def created(broker: KafkaBroker) -> tuple[str, KafkaLog]:
    """A topic of its own, whose partitions have their leaders."""
    topic, log = f"replay-{uuid.uuid4().hex[:8]}", KafkaLog(broker.bootstrap)
    log.create(topic, PARTITIONS)
    deadline = time.monotonic() + 30
    while True:
        try:
            assert count_of(log, topic) == 0
            return topic, log
        except StoreUnavailable:
            assert time.monotonic() < deadline, "the topic did not come up"
            time.sleep(0.05)


def once_and_in_order(actual: list[Logged]) -> None:
    numbers = [number for number, *_ in actual]
    assert sorted(numbers) == list(range(len(numbers))), "each event once, none left out"
    for partition in range(PARTITIONS):
        own = [number for number, p, *_ in actual if p == partition]
        assert own == sorted(own), "the log's order is the order of arrival"


def test_history_is_all_that_arrived_before_the_start_and_a_second_run_adds_nothing(
    kafka_broker: KafkaBroker,
) -> None:
    topic = f"replay-{uuid.uuid4().hex[:8]}"
    run(kafka_broker, topic, "--share", "0.02")
    result = read(kafka_broker, topic)
    once_and_in_order(result)
    pace = Pace(share=0.02)
    newest = {p: NewestEvent(value, at) for _, p, at, value in result}
    schedule, following = resume(pace, newest, now_us=0)
    assert following == len(result) == schedule.due(schedule.live_from_us)
    assert abs(schedule.live_from_us / 1e6 - time.time()) < 60, "the start is when it was started"
    for number, partition, at, value in result:
        event = schedule.event(number)
        assert (value, at) == (event.value, event.arrival_us // 1000)
        assert partition == partition_of(event.carrier, PARTITIONS)

    run(kafka_broker, topic, "--share", "0.02")
    assert read(kafka_broker, topic) == result


def test_a_replay_killed_while_it_writes_goes_on_without_loss_or_repetition(
    kafka_broker: KafkaBroker,
) -> None:
    topic, log = created(kafka_broker)
    for kill in range(2):
        before = count_of(log, topic)
        replay = start(kafka_broker, topic, "--history-only", "--share", "0.3")
        deadline = time.monotonic() + 60
        while count_of(log, topic) == before:  # at least one batch, others on their way
            assert time.monotonic() < deadline, "nothing was written"
        replay.send_signal(signal.SIGKILL)
        replay.communicate()
        assert len(read(kafka_broker, topic)) < 90_000, (
            f"kill {kill} came too late to show anything"
        )
    run(kafka_broker, topic, "--share", "0.3")
    result = read(kafka_broker, topic)
    once_and_in_order(result)
    assert len(result) > 90_000


def test_a_live_replay_goes_on_at_its_pace_and_stops_when_told(kafka_broker: KafkaBroker) -> None:
    topic, log = created(kafka_broker)
    # 30 times the default: some 100 events a second
    options = ("--live", "--speed", "10950", "--share", "0.001", "--offset", "90d12h")
    replay = start(kafka_broker, topic, *options)
    deadline = time.monotonic() + 60
    while count_of(log, topic) < 700 and time.monotonic() < deadline:
        time.sleep(0.1)
    replay.terminate()
    _, output = replay.communicate(timeout=30)
    assert replay.returncode == 0, output
    result = read(kafka_broker, topic)
    once_and_in_order(result)
    assert len(result) > 400
    newest = max(at for _, _, at, _ in result)
    assert newest <= time.time() * 1000, "nothing is produced before it is due"


def test_a_live_replay_survives_a_restart_of_its_broker(own_kafka: KafkaBroker) -> None:
    topic, log = created(own_kafka)
    replay = start(
        own_kafka, topic, "--live", "--speed", "10950", "--share", "0.001", "--offset", "90d12h"
    )
    deadline = time.monotonic() + 120
    while count_of(log, topic) < 300:
        assert time.monotonic() < deadline, "nothing was written"
        time.sleep(0.1)
    own_kafka.kill()
    own_kafka.start()
    before = len(read(own_kafka, topic))
    assert before > 0
    while len(read(own_kafka, topic)) < before + 200:
        assert replay.poll() is None, "it ended"
        assert time.monotonic() < deadline + 120, "it did not go on"
    replay.terminate()
    _, output = replay.communicate(timeout=60)
    assert replay.returncode == 0, output
    once_and_in_order(read(own_kafka, topic))


def test_a_second_writer_fences_the_first(kafka_broker: KafkaBroker) -> None:
    topic, _ = created(kafka_broker)
    first = TransactionalWriter(kafka_broker.bootstrap, topic, topic)
    first.append([Record(0, b"k", b"1", 1)])
    second = TransactionalWriter(kafka_broker.bootstrap, topic, topic)
    second.append([Record(0, b"k", b"2", 2)])
    with pytest.raises(ServerError, match="took over"):
        first.append([Record(0, b"k", b"3", 3)])
    assert last_records(kafka_broker.bootstrap, topic, range(PARTITIONS)) == {
        0: Record(0, b"k", b"2", 2)
    }


def test_the_last_record_is_found_behind_many_commit_markers(kafka_broker: KafkaBroker) -> None:
    topic, _ = created(kafka_broker)
    writer = TransactionalWriter(kafka_broker.bootstrap, topic, topic)
    writer.append([Record(1, b"k", b"here", 5)])
    for _ in range(3):
        # an aborted transaction leaves a marker and records that no committed read sees
        writer._producer.begin_transaction()
        for _ in range(10):
            writer._producer.produce(topic, b"gone", partition=1)
        writer._producer.flush()
        writer._producer.abort_transaction()
    assert last_records(kafka_broker.bootstrap, topic, range(PARTITIONS)) == {
        1: Record(1, b"k", b"here", 5)
    }


def test_a_load_is_what_its_seed_says(kafka_broker: KafkaBroker) -> None:
    topic, _ = created(kafka_broker)
    command = [
        str(Path(sys.executable).with_name("slicewise")),
        "load",
        "--topic",
        topic,
        "--rate",
        "0",
        "--seconds",
        "2",
    ]
    env = {**os.environ, "SLICEWISE_KAFKA_BOOTSTRAP": kafka_broker.bootstrap}
    output = subprocess.run(
        [*command, "--seed", "11"], env=env, capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(output)["events"] == 4_000
    ends = last_records(kafka_broker.bootstrap, topic, range(PARTITIONS))
    assert len(ends) == PARTITIONS, "users are spread over the partitions"
    wanted = {
        (row["user_id"], row["song_id"], row["seconds"])
        for row in Plays(seed=11).batch(0, 4_000).to_pylist()
    }
    for record in ends.values():
        row = json.loads(record.value)
        assert (row["user_id"], row["song_id"], row["seconds"]) in wanted
        assert row["played_at"] <= record.time_ms * 1000 + 1_000_000, "a backlog lies in the past"


@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGKILL])
def test_a_live_load_goes_on_with_the_plays_that_are_due_however_it_ended(
    kafka_broker: KafkaBroker, ended_by: signal.Signals
) -> None:
    topic, log = created(kafka_broker)
    options = ("--live", "--rate", "200", "--users", "50", "--songs", "9", "--seed", "11")
    command = [str(Path(sys.executable).with_name("slicewise")), "load", "--topic", topic, *options]
    env = {**os.environ, "SLICEWISE_KAFKA_BOOTSTRAP": kafka_broker.bootstrap}
    firsts, ends = [], [0]
    for _ in range(2):
        with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as load:
            try:
                assert load.stderr is not None
                firsts.append(int(load.stderr.readline().rpartition("first=")[2]))
                deadline = time.monotonic() + 60
                while sum(log.latest(topic).offsets.values()) < ends[-1] + 20:
                    assert time.monotonic() < deadline, "no play came"
                    time.sleep(0.1)
            finally:
                load.send_signal(ended_by)
                _, output = load.communicate(timeout=60)
        assert load.returncode == (0 if ended_by == signal.SIGTERM else -ended_by), output
        ends.append(sum(log.latest(topic).offsets.values()))
    plays = Plays(seed=11, users=50, songs=9, rate=200.0, start_us=0)
    due = int(time.time() * plays.rate) + 1
    numbers = {
        value: number
        for number, value in enumerate(plays.json(firsts[0], due - firsts[0]), firsts[0])
    }
    written = sorted(numbers[value] for *_, value in records(kafka_broker, topic))
    assert len(written) == len(set(written)) == ends[-1], "no play comes twice"
    gap = next(number for number in written if number >= firsts[1])
    assert gap == firsts[1]
    users = {number: json.loads(value)["user_id"] for value, number in numbers.items()}
    before, after = [n for n in written if n < gap], [n for n in written if n >= gap]
    for some in (before, after):
        sent = range(some[0], some[-1] + 1)
        if ended_by == signal.SIGTERM:
            assert some == list(sent)
        # what is on its way is lost with its process: of one partition more than of another
        for user in {users[n] for n in some}:
            own = [n for n in some if users[n] == user]
            assert own == [n for n in sent if users[n] == user][: len(own)]
    assert before[0] == firsts[0]


def test_a_live_load_needs_a_rate(kafka_broker: KafkaBroker) -> None:
    command = [str(Path(sys.executable).with_name("slicewise")), "load", "--live", "--rate", "0"]
    env = {**os.environ, "SLICEWISE_KAFKA_BOOTSTRAP": kafka_broker.bootstrap}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "--rate 20 --live" in done.stderr
