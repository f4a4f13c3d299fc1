"""Each answer is held to the oracle over the raw log at its own token, and to training by that token, as bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from slicewise.cover import Cover, Place
from slicewise.features.plan import Deployment
from slicewise.features.unit import Source
from slicewise.token import decode_all
from slicewise.training.archive import Archived
from slicewise.training.dataset import build_training_set
from slicewise.training.given import typed_events
from tests.e2e.compare import Count, by_entity, check_result, spine
from tests.e2e.payments import parse
from tests.faults.real.watch import Answer
from tests.support.oracle import OracleEvent

Record = tuple[str, int, int, int, bytes]
"""(topic id, partition, offset, Kafka time in milliseconds, value), as `Stack.records` reads them."""
_FOR_EVER_US = 1 << 60


class LoggedArchive:
    """The archive's port over the records of one topic, all of them archived."""

    def __init__(self, source: Source, records: Sequence[Record], events: Sequence[OracleEvent]) -> None:
        names = [name for name, _ in source.columns]
        given = [
            {name: e.columns.get(name) for name in names} | {"partition": e.partition, "offset": e.offset}
            for e in events
        ]
        typed, refused = typed_events(source, given)
        assert not refused, refused
        (topic_id,) = {record[0] for record in records}
        where = typed.column_names.index("topic_id")
        self._table = typed.set_column(where, "topic_id", pa.array([topic_id] * typed.num_rows, pa.string()))
        self._times = self._table["event_time"].to_numpy()
        ends: dict[Place, int] = {}
        for _, partition, offset, *_ in records:
            place = (topic_id, partition)
            ends[place] = max(ends.get(place, 0), offset + 1)
        self._archived = Archived(1, Cover(ends), _FOR_EVER_US, 1)

    def reaches(self, source: str) -> Archived:  # noqa: ARG002
        return self._archived

    def confirmed(self, source: Source, archived: Archived) -> Archived:  # noqa: ARG002
        return archived

    def events(self, source: Source, columns: Sequence[str], start_us: int, end_us: int, seq: int) -> pa.Table:  # noqa: ARG002
        kept = self._table.filter(pa.array((self._times >= start_us) & (self._times < end_us)))
        return kept.select([*columns, "event_time", "topic_id", "partition", "offset"])


def judged(deployment: Deployment, records: Sequence[Record], answers: Sequence[Answer]) -> Count:
    """Every value of every answer, twice: with the oracle and with training. records: all that the log has now."""
    count = Count()
    if answers:
        read = (parse(topic, partition, offset, value) for topic, partition, offset, _, value in records)
        events = sorted((event for event in read if event is not None), key=lambda e: e.time)
        with_oracle(answers, events, count)
        (source,) = deployment.sources
        with_training(deployment, LoggedArchive(source, records, events), answers, count)
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
        mine = groups[name].get(key, [])
        if (name, key) not in times:
            times[name, key] = [e.time for e in mine]
        first = bisect_left(times[name, key], _earliest_us(answer))
        when = f"at {answer.at}"
        check_result(unit, answer.question.features, f"{key}", when, answer.result, mine[first:], count)


def _earliest_us(answer: Answer) -> int:
    """Before which no event is in the answer: a session is looked for further back than it begins."""
    (token,) = decode_all(answer.result["token"])
    found = []
    for feature in answer.question.features:
        start, end = token.bounds[feature.column]
        found.append(min(start, end - feature.window.length_us) if feature.window.kind == "session" else start)
    return min(found)


def with_training(deployment: Deployment, archive: LoggedArchive, answers: Sequence[Answer], count: Count) -> None:
    """After the oracle, which makes numbers of what JSON writes as text."""
    by_question: dict[tuple[str, ...], list[Answer]] = defaultdict(list)
    for answer in answers:
        by_question[tuple(answer.question.refs)].append(answer)
    for refs, some in by_question.items():
        unit = some[0].question.unit
        rows = [{"unit": unit, "key": a.key, "at": a.at, "token": a.result["token"]} for a in some]
        built = build_training_set(deployment, archive, spine(unit, rows), list(refs), "token").table
        for ref in refs:
            for answer, value in zip(some, built.column(ref).to_pylist(), strict=True):
                count.check(f"training {ref} {answer.key} at {answer.at}", answer.result["values"][ref], value)
