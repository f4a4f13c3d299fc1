"""An archive that is extended by its log answers what the archive of both would."""

from __future__ import annotations

import json
from typing import Any

import pytest

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.log.reading import Record
from slicewise.training.archive import Archived
from slicewise.training.dataset import build_training_set
from slicewise.training.queries import GivenArchive
from slicewise.training.recent.extended import ExtendedArchive, LogEvents
from slicewise.training.tables.given.events import typed_events
from slicewise.training.tables.given.records import NotPlain, plain_event
from slicewise.training.tables.instants import text_of
from slicewise.windows.durations import HOUR_US, MINUTE_US

TOPIC, START = "0" * 32, 1_767_225_600_000_000
PLAYS = sw.KafkaSource(
    "plays",
    schema={
        "user": "string",
        "stars": "int64",
        "seconds": "double",
        "born": "date",
        "price": "decimal(6,2)",
        "tags": "array<string>",
        "skipped": "boolean",
        "at_home": "timestamp_us",
    },
    timestamp="at_home",
    paths={"born": "$.about.born"},
    max_lateness="1h",
    max_ahead="1h",
)
VIEW = sw.FeatureView(
    "listening",
    source=PLAYS,
    entity=["user"],
    features=[
        sw.Feature("n", sw.count(), ["1h"]),
        sw.Feature("seconds", sw.sum("seconds"), ["1h"]),
        sw.Feature("born", sw.last("born"), ["1h"]),
        sw.Feature("price", sw.max("price"), ["1h"]),
        sw.Feature("tagged", sw.count(where="array_contains(tags, 'a')"), ["1h"]),
        sw.Feature("liked", sw.count(where="not skipped"), ["1h"]),
    ],
)
DEPLOYMENT = plan(Project.of("plays", [VIEW]))
SOURCE = DEPLOYMENT.source("plays")


def given(n: int) -> dict[str, Any]:
    return {
        "user": f"user {n % 3}",
        "stars": n,
        "seconds": n / 7 if n % 4 else n,
        "born": f"2020-01-{n % 28 + 1:02d}",
        "price": n / 4,
        "tags": ["a"] * (n % 3),
        "skipped": n % 2 == 0,
        "at_home": START + n * MINUTE_US,
    }


def record(n: int) -> Record:
    event = given(n)
    event["about"] = {"born": event.pop("born")}
    return Record(0, n, event["at_home"] + 1_000, json.dumps(event).encode())


def test_the_archive_and_the_log_beyond_it_answer_as_one() -> None:
    every = [given(n) | {"partition": 0, "offset": n} for n in range(50)]
    every = [e | {"kafka_time": e["at_home"] + 1_000} for e in every]
    whole = GivenArchive(typed_events(SOURCE, every)[0])
    archived = Archived(1, OffsetVector({(TOPIC, 0): 30}), START, 1)
    log = LogEvents(SOURCE, TOPIC, archived.offset_vector)
    log.add((record(n) for n in range(30, 40)), OffsetVector({(TOPIC, 0): 40}))
    bad = [
        record(50)._replace(value=value)
        for value in (b"{", None, b'{"user": 7}', b'{"stars": 1.5}')
    ]
    late = record(51)._replace(time_us=START + 9 * HOUR_US)
    log.add([*map(record, range(40, 50)), *bad, late], OffsetVector({(TOPIC, 0): 52}))
    extended = ExtendedArchive(GivenArchive(typed_events(SOURCE, every[:30])[0]), archived, log)
    refs = [f"listening:{column}" for f in VIEW.features for column in f.columns()]
    at = text_of(START + 55 * MINUTE_US)
    spine = [{"user": f"user {n}", "at": at} for n in range(4)]
    tables = [
        build_training_set(DEPLOYMENT, archive, spine, refs, "event_time").table
        for archive in (whole, extended)
    ]
    assert tables[0].equals(tables[1])
    assert tables[0].column("listening:n_1h").to_pylist() == [17, 17, 16, 0]
    assert log.not_plain == len(bad)


def test_without_an_archive_the_log_answers_alone() -> None:
    log = LogEvents(SOURCE, TOPIC, OffsetVector())
    log.add([], OffsetVector())
    log.add((record(n) for n in range(6)), OffsetVector({(TOPIC, 0): 6}))
    alone = ExtendedArchive(GivenArchive(typed_events(SOURCE, [])[0]), None, log)
    assert alone.events(SOURCE, ["user"], START, START + 3 * MINUTE_US, 1).num_rows == 3
    assert alone.reaches("plays").offset_vector == OffsetVector({(TOPIC, 0): 6})


@pytest.mark.parametrize(
    "text",
    [
        "", "nothing", "[]", "7", '{"user": "a", "user": "b"}', '{"user": 7}', '{"stars": 1.0}',
        '{"stars": true}', '{"stars": 9223372036854775808}', '{"seconds": NaN}',
        '{"seconds": "1"}', '{"skipped": 0}', '{"about": {"born": "2020-1-1"}}',
        '{"about": 7}', '{"tags": "a"}', '{"tags": [1]}', '{"at_home": "2026-01-01T00:00:00Z"}',
        '{"price": "1.50"}',
    ],
)  # fmt: skip
def test_a_record_that_might_be_read_in_two_ways_is_left_to_the_platform(text: str) -> None:
    with pytest.raises(NotPlain):
        plain_event(SOURCE, text.encode())
