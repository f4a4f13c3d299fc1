"""Answers are held to the oracle over the raw log at their token, and to training by it, as bytes.

A record's meaning follows from the schema of its offset; the oracle reads it by a function of its
own.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from typing import Any

import pyarrow as pa

from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import Source
from slicewise.offsets.token import decode_all
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.training.archive import Archive
from slicewise.training.dataset import build_training_set
from tests.drills.judging.watch import Answer
from tests.e2e.compare import Count, by_entity, check_result, spine
from tests.e2e.payments import BAD, parse
from tests.support.oracles.answers import OracleEvent
from tests.support.stores.logged import LoggedArchive, typed_of

Record = tuple[str, int, int, int, bytes]
"""(topic id, partition, offset, Kafka time in milliseconds, value), as `Stack.records` reads
them."""
_FOR_EVER_US = 1 << 60


def source_of(deployment: Deployment) -> Source:
    """The one whose payments are judged."""
    (source,) = [source for source in deployment.sources if source.name == "payments"]
    return source


def schema_at(source: Source, topic: str, partition: int, offset: int) -> Source:
    """The schema that holds at an offset, by the offsets that were recorded."""
    for version in source.earlier:
        assert version.until is not None, "a schema has no recorded offsets yet"
        if offset < version.until.offsets.get((topic, partition), 0):
            return version.source
    return source


def read(source: Source, record: Record) -> OracleEvent | str:
    """The event that a record is by the schema of its offset; why it is none: it is wrong in one
    thing at most."""
    topic, partition, offset, _, value = record
    if value in BAD:
        return "no payment"
    given = json.loads(value)
    fee, born = given.pop("fee", None), given.pop("born", None)
    schema = schema_at(source, topic, partition, offset)
    declared = dict(schema.columns) | dict(schema.wire)
    if declared.get("fee") not in (None, "float", "double") or declared.get("born") not in (
        None,
        "date",
    ):
        raise AssertionError(f"the oracle knows no fee or born of {declared}")
    if "fee" in declared and fee is not None:
        if isinstance(fee, bool | str):
            return "wrong_type:fee"
        if declared["fee"] == "float":
            try:
                fee = struct.unpack("<f", struct.pack("<f", fee))[0]
            except OverflowError:
                return "out_of_range:fee"
    if "born" in declared and born is not None:
        if not isinstance(born, str):
            return "wrong_type:born"
        try:
            date.fromisoformat(born)
        except ValueError:
            return "bad_date:born"
    event = parse(topic, partition, offset, json.dumps({**given, "fee": None}).encode())
    assert event is not None
    now = {"fee": fee if "fee" in declared else None, "born": born if "born" in declared else None}
    return replace(event, columns={**event.columns, **now})


def logged_archive(
    source: Source, records: Sequence[Record], events: Sequence[OracleEvent]
) -> LoggedArchive:
    """The archive of these records, all of them archived; events: what they say."""
    judged_already = replace(source, wire=())  # by the schema of each's offset, which may be wider
    names = [name for name, _ in source.columns]
    of_topic: dict[str, list[dict[str, Any]]] = {record[0]: [] for record in records}
    for e in events:
        given = {name: e.columns.get(name) for name in names} | {
            "partition": e.partition,
            "offset": e.offset,
        }
        of_topic[e.topic].append(given)
    tables = [typed_of(judged_already, topic, some) for topic, some in of_topic.items()]
    ends: dict[TopicPartition, int] = {}
    for topic, partition, offset, *_ in records:
        ends[topic, partition] = max(ends.get((topic, partition), 0), offset + 1)
    return LoggedArchive(pa.concat_tables(tables), OffsetVector(ends), _FOR_EVER_US)


def judged(
    deployments: Sequence[Deployment], records: Sequence[Record], answers: Sequence[Answer]
) -> Count:
    """Every value of every answer, twice: with the oracle and with training, by the definition that
    it was made by.

    deployments: all by which any was made, of one source, the last with the offsets of all its
    schemas. records: all that the log ever had.
    """
    count = Count()
    if answers:
        last = source_of(deployments[-1])
        results = (read(last, record) for record in records)
        events = sorted(
            (event for event in results if not isinstance(event, str)), key=lambda e: e.time
        )
        with_oracle(answers, events, count)

        @cache
        def archive(schema: str) -> LoggedArchive:
            return logged_archive(sources[schema], records, events)

        sources = {
            source_of(deployment).schema_fingerprint: source_of(deployment)
            for deployment in deployments
        }
        with_training(
            deployments,
            lambda deployment: archive(source_of(deployment).schema_fingerprint),
            answers,
            count,
        )
    return count


def with_oracle(answers: Sequence[Answer], events: Sequence[OracleEvent], count: Count) -> None:
    """events: by time."""
    groups: dict[str, Mapping[tuple[Any, ...], list[OracleEvent]]] = {}
    times: dict[tuple[str, tuple[Any, ...]], list[int]] = {}
    for answer in answers:
        unit, key = answer.question.unit, answer.key
        name = f"{unit.view}/{unit.storage_fingerprint}"
        if name not in groups:
            groups[name] = by_entity(unit, events)
        own = groups[name].get(key, [])
        if (name, key) not in times:
            times[name, key] = [e.time for e in own]
        first = bisect_left(times[name, key], _earliest_us(answer))
        when = f"at {answer.at}"
        check_result(
            unit, answer.question.features, f"{key}", when, answer.result, own[first:], count
        )


def _earliest_us(answer: Answer) -> int:
    """Before which no event is in the answer: a session is looked for further back than it
    begins."""
    (token,) = decode_all(answer.result["token"])
    results = []
    for feature in answer.question.features:
        start, end = token.bounds[feature.column]
        results.append(
            min(start, end - feature.window.length_us) if feature.window.session_gap_us else start
        )
    return min(results)


def with_training(
    deployments: Sequence[Deployment],
    archive: Callable[[Deployment], Archive],
    answers: Sequence[Answer],
    count: Count,
) -> None:
    """After the oracle, which makes numbers of what JSON writes as text. archive: as a deployment
    reads it."""
    of_unit = {
        (unit.definition_fingerprint, unit.view): deployment
        for deployment in deployments
        for unit in deployment.units
    }
    by_question: dict[tuple[str, ...], list[Answer]] = defaultdict(list)
    for answer in answers:
        question = answer.question
        by_question[question.unit.definition_fingerprint, *question.refs].append(answer)
    for (definition, *refs), some in by_question.items():
        unit = some[0].question.unit
        rows = [{"unit": unit, "key": a.key, "at": a.at, "token": a.result["token"]} for a in some]
        made_by = of_unit[definition, unit.view]
        built = build_training_set(
            made_by, archive(made_by), spine(unit, rows), refs, "token"
        ).table
        for ref in refs:
            for answer, value in zip(some, built.column(ref).to_pylist(), strict=True):
                count.check(
                    f"training {ref} {answer.key} at {answer.at}",
                    answer.result["values"][ref],
                    value,
                )
