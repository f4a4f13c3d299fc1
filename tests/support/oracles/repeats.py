"""Events that count where their ids come again, told event by event: the oracle of
docs/adr/0064."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

HOUR_US, MINUTE_US = 3_600_000_000, 60_000_000
USERS = ("ada", "bob", "eve")


class Sent(NamedTuple):
    """An event as its partition holds it, in the order of offsets."""

    group: Hashable
    """Entity and partition."""
    event_id: Hashable | None
    kafka_us: int


def duplicates(events: Sequence[Sent], within_us: int, most: int) -> list[bool]:
    """Tells of each event, in the order of its partition's offsets, whether its id came before."""
    clocks: dict[Hashable, int] = {}
    seen: dict[Hashable, list[tuple[Hashable, int]]] = {}
    results = []
    for group, event_id, kafka_us in events:
        if event_id is None:
            results.append(False)
            continue
        clock = clocks[group] = max(clocks.get(group, kafka_us), kafka_us)
        before = seen.setdefault(group, [])
        if kafka_us < clock - HOUR_US:
            results.append(False)
            continue
        results.append(
            any(
                earlier_id == event_id and clock - then <= within_us
                for earlier_id, then in before[-most:]
            )
        )
        before.append((event_id, clock))
    return results


class Record(NamedTuple):
    """Record of a partition: an event (user_id, song_id, n, event_id, played), and Kafka's time of
    it."""

    partition: int
    offset: int
    event: dict[str, Any]
    kafka_us: int


def history(rng: random.Random, start_us: int, count: int) -> list[Record]:
    """Over five hours of Kafka's time: new events, and those of before again, in one of two
    partitions or the other, some of them changed; some have no id, and some of Kafka's times step
    back."""
    records: list[Record] = []
    ends = [0, 0]
    for number in range(count):
        kafka_us = start_us + number * (5 * HOUR_US // count)
        if rng.random() < 0.1:
            kafka_us -= rng.randrange(30) * MINUTE_US
        kafka_us -= kafka_us % 1_000
        event: dict[str, Any] = {
            "user_id": rng.choice(USERS),
            "song_id": f"s{rng.randrange(3)}",
            "n": number,
            "event_id": f"e{number}" if rng.random() < 0.95 else None,
            "played": kafka_us - rng.randrange(2 * HOUR_US),
        }
        partition = rng.randrange(2)
        if records and rng.random() < 0.45:
            before = rng.choice(records[-rng.choice((3, 30, 150)) :])
            partition = before.partition if rng.random() < 0.9 else 1 - before.partition
            changed = (
                {"n": -number, "played": before.event["played"] - MINUTE_US}
                if rng.random() < 0.1
                else {}
            )
            event = {**before.event, **changed}
        # none lies ahead of Kafka's time
        records.append(
            Record(
                partition,
                ends[partition],
                event,
                max(kafka_us, -(event["played"] // -1_000) * 1_000),
            )
        )
        ends[partition] += 1
    return records


def once(
    records: Sequence[Record], entity: Sequence[str], within_us: int, most: int
) -> list[Record]:
    """The records that count, for a view of these entity columns."""
    own = [
        Sent(
            (record.partition, *(record.event[name] for name in entity)),
            record.event["event_id"],
            record.kafka_us,
        )
        for record in records
    ]
    again = duplicates(own, within_us, most)
    return [record for record, double in zip(records, again, strict=True) if not double]
