"""An event is a duplicate by the events before it alone: whoever judges, from wherever, in whatever
pieces."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from slicewise.features.schema.dedupe import STEP_BACK_US, EventIds, duplicates_among, hashed, judge
from tests.support.oracles.repeats import Sent, duplicates

MINUTE_US = 60_000_000
SEED = 20_261_122


def history(rng: random.Random, count: int, groups: int, *, steps_back: bool = True) -> list[Sent]:
    """Events of some groups in one order: new ids, old ones, none; Kafka times forward, back, far
    back, far ahead."""
    sent: list[Sent] = []
    clock = 10**15
    for number in range(count):
        clock += rng.choice((0, 0, 1, 10, 40)) * MINUTE_US
        kafka_us = clock
        if steps_back and rng.random() < 0.2:
            kafka_us += rng.choice((-20, -60, -61, -300, 240)) * MINUTE_US
        event_id = (
            f"e{number}" if rng.random() < 0.5 or not sent else rng.choice(sent[-12:]).event_id
        )
        sent.append(Sent(rng.randrange(groups), None if rng.random() < 0.1 else event_id, kafka_us))
    return sent


def duplicates_of(sent: list[Sent], rule: EventIds) -> list[bool]:
    group = np.array([event.group for event in sent], np.int64)
    kafka_us = np.array([event.kafka_us for event in sent], np.int64)
    ids = pa.array([event.event_id for event in sent], pa.string())
    return list(map(bool, duplicates_among(group, np.arange(len(sent)), ids, kafka_us, rule)))


def test_whole_columns_say_what_the_rule_says_event_by_event() -> None:
    rng = random.Random(SEED)
    result = 0
    for _ in range(300):
        rule = EventIds(
            "event_id", rng.choice((1, 10, 60, 600)) * MINUTE_US, rng.choice((1, 2, 5, 100))
        )
        sent = history(rng, rng.randrange(60), rng.choice((1, 3)))
        want = duplicates(sent, rule.within_us, rule.most)
        assert duplicates_of(sent, rule) == want
        result += sum(want)
    assert result > 500


def test_in_any_order_of_rows_the_offsets_decide() -> None:
    rng = random.Random(SEED)
    rule = EventIds("event_id", 60 * MINUTE_US, 5)
    sent = history(rng, 80, 2)
    order = list(range(80))
    rng.shuffle(order)
    mixed = [sent[i] for i in order]
    group = np.array([event.group for event in mixed], np.int64)
    kafka_us = np.array([event.kafka_us for event in mixed], np.int64)
    ids = pa.array([event.event_id for event in mixed])
    got = duplicates_among(group, np.array(order), ids, kafka_us, rule)
    want = duplicates(sent, rule.within_us, rule.most)
    assert [bool(got[order.index(i)]) for i in range(80)] == want


def test_who_remembers_and_goes_on_says_what_one_says_who_saw_all() -> None:
    # what is remembered after any event stands for all events before it
    rng = random.Random(SEED)
    for _ in range(100):
        rule = EventIds("event_id", rng.choice((10, 60, 600)) * MINUTE_US, rng.choice((1, 3, 50)))
        sent = [record for record in history(rng, 60, 1) if record.event_id is not None]
        ids = hashed(pa.array([event.event_id for event in sent], pa.string()))[0]
        times = np.array([event.kafka_us for event in sent], np.int64)
        got: list[bool] = []
        stored_ids, clocks = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        while len(got) < len(sent):
            end = min(len(sent), len(got) + rng.randrange(1, 9))
            some_ids = np.concatenate([stored_ids, ids[len(got) : end]])
            some_times = np.concatenate([clocks, times[len(got) : end]])
            judged = judge(np.zeros(len(some_ids), np.int64), some_ids, some_times, rule)
            got += judged.duplicate[len(stored_ids) :].tolist()
            stored_ids, clocks = some_ids[judged.remembered], judged.clock[judged.remembered]
            assert len(stored_ids) <= rule.most
        assert got == duplicates(sent, rule.within_us, rule.most)


def test_events_older_than_the_look_back_decide_nothing() -> None:
    # An archive is read from the oldest event in question less the look-back, by Kafka's time; also
    # with times that step back, or lie far ahead.
    rng = random.Random(SEED)
    for _ in range(200):
        rule = EventIds("event_id", rng.choice((10, 60, 600)) * MINUTE_US, rng.choice((1, 3, 50)))
        sent = history(rng, 60, 2)
        first = rng.randrange(60)
        requested = range(first, 60)
        since = min(sent[i].kafka_us for i in requested) - rule.look_back_us
        read = [i for i in range(60) if sent[i].kafka_us >= since]
        some = duplicates_of([sent[i] for i in read], rule)
        want = duplicates(sent, rule.within_us, rule.most)
        assert [some[read.index(i)] for i in requested] == want[first:]


def test_without_the_step_back_in_it_the_look_back_is_too_short() -> None:
    # a   -10 h ahead of the rest: b lies out of place behind it, and its repetition counts
    # read without a, b would seem to be in place
    hour = STEP_BACK_US
    rule = EventIds("event_id", hour, 10)
    sent = [Sent(0, "a", 5 * hour), Sent(0, "b", 3 * hour), Sent(0, "b", 3 * hour)]
    assert duplicates(sent, hour, 10) == duplicates_of(sent, rule) == [False, False, False]
    assert duplicates_of(sent[1:], rule) == [False, True]


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32()])
def test_ids_that_are_numbers_are_told_by_their_value(kind: pa.DataType) -> None:
    numbers, present = hashed(pa.array([1, 2, None, 1], kind))
    assert present.tolist() == [True, True, False, True]
    assert numbers[0] == numbers[3] != numbers[1]


def test_ids_that_are_texts_are_told_by_their_bytes() -> None:
    # composed, and not
    numbers, present = hashed(pa.chunked_array([["\u00e9", "e\u0301"], [None, "\u00e9"]]))
    assert present.tolist() == [True, True, False, True]
    assert numbers[0] == numbers[3] != numbers[1]
