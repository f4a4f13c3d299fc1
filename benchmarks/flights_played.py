"""Flights request their risk at the scheduled departure, and are labelled once they have left.

A request goes out at the scheduled departure, its prediction right after its answer. The label goes
out when the flight's event stands in the topic: none is taken from anywhere else. A flight that was
cancelled never left, and has no label.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from confluent_kafka import Consumer, TopicPartition

import slicewise as sw
from slicewise.errors import SlicewiseError
from slicewise.replay.run import NewestEvent, resume
from slicewise.replay.schedule import Pace, Schedule
from slicewise.stores.log.producer import last_records
from slicewise.stores.log.topics import KafkaLog

TOPIC = "flights"
LATE_MINUTES = 15
LONGEST_FLIGHT_US = 180_000_000
"""Longest that an event comes behind its scheduled departure: 32 hours of 2013, and more."""
REQUESTERS = 8
SENT_EVERY_S = 0.1
AT_ONCE = 1_000

Score = Callable[[Mapping[str, Any]], float]
"""From the values of an answer to a probability."""


@dataclass(frozen=True)
class Departure:
    """A flight that asks: its number in the replay, its scheduled instant and its entity."""

    number: int
    event_us: int
    entity: Mapping[str, str]


@dataclass
class Played:
    """Counts of what was played."""

    requests: int = 0
    failed: int = 0
    predictions: int = 0
    labels: int = 0
    late_us: list[int] = field(default_factory=list)
    """By how much each request was answered behind its flight's scheduled instant."""


def schedule_of(bootstrap: str, partitions: int, pace: Pace) -> Schedule:
    """The schedule that the topic follows."""
    newest = last_records(bootstrap, TOPIC, range(partitions))
    events = {p: NewestEvent(record.value, record.time_ms) for p, record in newest.items()}
    return resume(pace, events, time.time_ns() // 1000)[0]


def departures(schedule: Schedule, start_us: int, end_us: int) -> list[Departure]:
    """Flights that should leave in [start_us, end_us), by their instants.

    Without those whose event came before it: they were diverted, and left early.
    """
    planned = []
    for number in range(schedule.due(start_us), schedule.due(end_us + LONGEST_FLIGHT_US)):
        event = schedule.event(number)
        if start_us <= event.event_us < end_us and event.arrival_us >= event.event_us:
            flight = json.loads(event.value)
            entity = {name: flight[name] for name in ("carrier", "origin", "dest")}
            planned.append(Departure(number, event.event_us, entity))
    return sorted(planned, key=lambda one: (one.event_us, one.number))


def play(
    url: str,
    bootstrap: str,
    planned: Sequence[Departure],
    feature_set: str,
    model: str,
    score: Score,
    mature_s: float,
) -> Played:
    """Plays these departures in real time, and waits mature_s for labels after the last one."""
    played, outcomes = Played(), SimpleQueue[tuple[str, dict[str, Any]]]()
    scores = dict[int, float]()
    over, counting = threading.Event(), threading.Lock()

    def request_risk(departure: Departure) -> None:
        name = str(departure.number)
        try:
            answer = client.get(feature_set, departure.entity, request_id=name)
        except SlicewiseError:
            with counting:
                played.failed += 1
            return
        value = score(answer.values())
        scores[departure.number] = value
        prediction = {"prediction_id": name, "model": model, "score": value, "request_id": name}
        outcomes.put(("predictions", {**prediction, "entity": dict(departure.entity)}))
        with counting:
            played.requests += 1
            played.late_us.append(time.time_ns() // 1000 - departure.event_us)

    def label() -> None:
        """Labels flights as their events come."""
        with _events(bootstrap) as events:
            ready.set()
            while not over.is_set():
                for flight in events():
                    value = scores.get(flight["number"])
                    if value is None or flight["dep_delay"] is None:
                        continue
                    matured = {
                        "prediction_id": str(flight["number"]),
                        "model": model,
                        "value": float(flight["dep_delay"] > LATE_MINUTES),
                        "score": value,
                    }
                    outcomes.put(("labels", matured))

    def send() -> None:
        while not over.wait(SENT_EVERY_S) or not outcomes.empty():
            ready_now: dict[str, list[dict[str, Any]]] = {"predictions": [], "labels": []}
            for kind, event in _taken(outcomes):
                ready_now[kind].append(event)
            if any(ready_now.values()):
                taken = client.send_outcomes(**ready_now)
                played.predictions += taken["predictions"]
                played.labels += taken["labels"]

    ready = threading.Event()
    with (
        sw.HttpClient(url, timeout_s=30.0, connections=REQUESTERS + 2) as client,
        ThreadPoolExecutor(2) as beside,
    ):
        working = [beside.submit(label), beside.submit(send)]
        try:
            ready.wait(60)
            requested = []
            with ThreadPoolExecutor(REQUESTERS) as pool:
                for departure in planned:
                    time.sleep(max(0.0, departure.event_us / 1e6 - time.time()))
                    requested.append(pool.submit(request_risk, departure))
            for request in requested:
                request.result()
            time.sleep(mature_s)
        finally:
            over.set()
        for one in working:
            one.result(60)
    return played


def _taken(outcomes: SimpleQueue[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, Any]]:
    for _ in range(AT_ONCE):
        try:
            yield outcomes.get_nowait()
        except Empty:
            return


@contextmanager
def _events(bootstrap: str) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Flights that come from now on, a few at a time."""
    with KafkaLog(bootstrap) as log:
        ends = log.latest(TOPIC).offsets
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(TOPIC, p, end) for (_, p), end in ends.items()])

    def some() -> list[dict[str, Any]]:
        values = [message.value() for message in consumer.consume(500, 0.1) if not message.error()]
        return [json.loads(value) for value in values if value is not None]

    try:
        yield some
    finally:
        consumer.close()
