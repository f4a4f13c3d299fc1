"""A source is a topic whose records have typed columns, one of which is the event time; checked as
it is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicewise.calls import checked_class, shown
from slicewise.errors import DefinitionError
from slicewise.features.expectations import (
    Expectation,
    expectations_of,
    refuse_lacking,
    refuse_unknown,
)
from slicewise.features.naming import (
    Location,
    check_mapping,
    check_name,
    check_words,
    frozen,
    placed,
    refuse_cases,
    refuse_reserved,
    subject_of,
    texts,
    written_at,
)
from slicewise.features.schema.dedupe import Dedupe
from slicewise.features.schema.paths import Path, column_paths
from slicewise.features.schema.types import (
    KAFKA_TIME,
    TIME_FORMS,
    TIMESTAMP,
    column_type,
    parse_instant,
    time_form,
)
from slicewise.names import nearest
from slicewise.windows.durations import parse_duration

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
FORMATS = ("json", "avro", "protobuf")
HISTORIES = ("parquet:", "iceberg:", "sql:")
"""Beginnings of texts that name the table of a source's history."""
_REGISTRY = re.compile(r"https?://[^\s@?#/]+(/[^\s@?#]*)?")


def check_column(name: object, where: str) -> None:
    """Refuse what is no name of a source's column."""
    check_name(name, "a column", where)
    refuse_reserved(str(name), where)


@checked_class
@dataclass(frozen=True)
class KafkaSource:
    """Events of a topic: JSON objects with these columns, or format="avro" or "protobuf" with the
    URL of the schema registry whose ids stand before each value, as Confluent's serializers write
    them.

    schema: column -> string, int64 (or long), double, boolean, decimal(p,s), date ("2024-02-29"),
    or for instants timestamp_us, timestamp_ms, timestamp_s (integers) or timestamp_rfc3339 (text
    with zone); all instants of a source have one form. int8, int16, int32, uint8, uint16 and uint32
    are longs in that range (a value outside makes the record bad), float is the double nearest to a
    float; array<…> of any that is no instant. paths: where a column stands that is no member of its
    own name, as {"user_id": "$.user.id"}. timestamp: the column that is the event time, or "kafka"
    for the time of the Kafka record. max_lateness,
    max_ahead: how far an event's time may lie before and after the time of its Kafka record;
    beyond, the record is kept aside with its reason. required: columns that may not be null (the
    timestamp never may). allow_nan: double columns in which NaN and infinities are values, which
    sw.count counts and row logic reads; no other aggregate reads such a column, since no sum of
    them could be checked. topic: the source's name by default. dedupe: sw.dedupe("event_id") where
    a producer may send an event again. expect: what its events are to be like, as sw.expect(…) or
    Great Expectations' JSON; each hour of the archive is checked by it, and no record is refused.
    history, history_until: a table that holds what happened before the topic began, as
    "parquet:/data/payments/*.parquet" (or iceberg:…, sql:…), and the instant up to which events
    come from it alone: `slicewise import-history` takes it in, and the topic's records of earlier
    events are refused. description, tags: words for people, which slicewise show and search read.
    """

    name: str
    schema: Mapping[str, str]
    timestamp: str
    max_lateness: str = "1d"
    max_ahead: str = "1m"
    topic: str | None = None
    required: Sequence[str] = ()
    allow_nan: Sequence[str] = ()
    history: str | None = None
    history_until: str | None = None
    owner: str | None = None
    paths: Mapping[str, str] = field(default_factory=dict)
    format: str = "json"
    registry: str | None = None
    dedupe: Dedupe | None = None
    expect: Sequence[Expectation | Mapping[str, Any]] = ()
    description: str | None = None
    tags: Sequence[str] = ()
    location: Location | None = field(default_factory=written_at, compare=False, repr=False)

    @property
    def where(self) -> str:
        return subject_of("source", self.name, self.location)

    def column_paths(self) -> dict[str, Path]:
        """Names of members from the record down to each column. DefinitionError for what is no
        path."""
        return column_paths(self.schema, self.paths, self.where)

    def __post_init__(self) -> None:
        where = self.where
        check_name(self.name, "a source", where)
        check_words(self, where)
        self._check_schema(where)
        self._check_time(where)
        object.__setattr__(self, "schema", frozen(self.schema))
        self._check_format()
        check_mapping(self.paths, "paths", where, '{"user_id": "$.user.id"}')
        self.column_paths()
        object.__setattr__(self, "paths", frozen(self.paths))
        for option in ("required", "allow_nan"):
            object.__setattr__(self, option, self._columns_of(option, where))
        for option in ("max_lateness", "max_ahead"):
            with placed(f"{option} of {where}"):
                parse_duration(getattr(self, option))
        self._check_dedupe(where)
        self._check_expectations(where)
        topic = self.name if self.topic is None else self.topic
        if not isinstance(topic, str) or not TOPIC_NAME.fullmatch(topic):
            raise DefinitionError(
                f"{self.topic!r} is no topic name",
                where=where,
                expected="letters, digits, '.', '_' and '-', at most 200",
                next_step="correct it, or leave it out where the topic has the source's name",
            )
        self._check_history(where)

    @property
    def history_until_us(self) -> int | None:
        """The instant up to which events come from a table; None: none does."""
        return None if self.history_until is None else parse_instant(self.history_until)

    def _check_history(self, where: str) -> None:
        if (self.history is None) != (self.history_until is None):
            raise DefinitionError(
                f"history is {self.history!r}, history_until {self.history_until!r}",
                where=where,
                expected="both: the table, and the instant up to which events come from it",
                next_step='write history_until="2026-11-01T00:00:00Z" beside history=',
            )
        if self.history is None:
            return
        if not isinstance(self.history, str) or not self.history.startswith(HISTORIES):
            raise DefinitionError(
                f"history is {shown(self.history)}",
                where=where,
                expected="a text that begins with " + ", ".join(HISTORIES),
                next_step='name files as history="parquet:/data/payments/*.parquet"',
            )
        with placed(f"history_until of {where}"):
            parse_instant(str(self.history_until))

    def _check_schema(self, where: str) -> None:
        if not isinstance(self.schema, Mapping):
            raise DefinitionError(
                f"schema is {shown(self.schema)}",
                where=where,
                expected='a dict of columns and their types: schema={"user_id": "string", …}',
                next_step="write it as a dict: dict(…) makes one of pairs",
            )
        if not self.schema:
            raise DefinitionError(
                "a source has no columns",
                where=where,
                expected='schema={"user_id": "string", …}',
                next_step="declare each column that a record has, with its type",
            )
        for column, declared in self.schema.items():
            check_column(column, where)
            with placed(f"column {column!r} of {where}"):
                column_type(declared)
        refuse_cases(self.schema, "column", where)

    def _check_time(self, where: str) -> None:
        if not isinstance(self.timestamp, str):
            raise DefinitionError(
                f"timestamp is {self.timestamp!r}",
                where=where,
                expected='the name of a column, or "kafka"',
                next_step=(
                    'write timestamp="played_at", or timestamp="kafka" for the time of the Kafka '
                    "record"
                ),
            )
        if self.timestamp == KAFKA_TIME and KAFKA_TIME in self.schema:
            raise DefinitionError(
                "timestamp='kafka' is the time of the Kafka record, and a column has that name too",
                where=where,
                expected="a schema without a column named kafka, or another column as timestamp",
                next_step='give the column another name, with paths={"…": "$.kafka"}',
            )
        if (
            self.timestamp != KAFKA_TIME
            and self.schema.get(self.timestamp, "").strip().lower() not in TIME_FORMS
        ):
            raise DefinitionError(
                f"the timestamp {self.timestamp!r} is "
                + (self.schema.get(self.timestamp) or "no column of the schema"),
                where=where,
                expected="a column of type " + ", ".join(TIME_FORMS) + ', or "kafka"',
                next_step="declare it so in the schema",
            )
        forms = {time_form(t) for t in self.schema.values() if column_type(t) == TIMESTAMP}
        if len(forms) > 1:
            raise DefinitionError(
                f"instants in different forms: {', '.join(sorted(forms))}",
                where=where,
                expected="one form for all instants of a source",
                next_step="declare the others as long or string",
            )

    def _columns_of(self, option: str, where: str) -> tuple[str, ...]:
        """The columns that an option names, sorted."""
        names = texts(getattr(self, option), option, where)
        for column in names:
            if column not in self.schema:
                raise DefinitionError(
                    f"{option} names {column!r}, which is no column",
                    where=where,
                    expected="one of " + ", ".join(self.schema),
                    next_step=nearest(column, self.schema),
                )
            if option == "allow_nan" and column_type(self.schema[column]) != "double":
                raise DefinitionError(
                    f"allow_nan names {column!r}, which is {self.schema[column]}",
                    where=where,
                    expected="a double column",
                    next_step="leave it out: only doubles can be NaN",
                )
        return tuple(sorted(set(names)))

    def _check_expectations(self, where: str) -> None:
        expect = expectations_of(self.expect, where)
        for expectation in expect:
            refuse_lacking(expectation, where)
            refuse_unknown(expectation, self.schema, where)
        object.__setattr__(self, "expect", expect)

    def _check_dedupe(self, where: str) -> None:
        if self.dedupe is None:
            return
        if not isinstance(self.dedupe, Dedupe):
            raise DefinitionError(
                f"dedupe is {self.dedupe!r}",
                where=where,
                expected='dedupe=sw.dedupe("event_id", within="1h")',
                next_step="name the column that holds an event's id, with sw.dedupe",
            )
        with placed(f"dedupe of {where}"):
            self.dedupe.planned(self.schema, where)

    def _check_format(self) -> None:
        if self.format not in FORMATS:
            raise DefinitionError(
                f"{self.format!r} is no format",
                where=self.where,
                expected="one of " + ", ".join(FORMATS),
                next_step="leave format= out for JSON",
            )
        if (self.format == "json") != (self.registry is None):
            raise DefinitionError(
                f"format is {self.format!r}, registry {self.registry!r}",
                where=self.where,
                expected='both, as format="avro", registry="http://registry:8081", or neither',
                next_step="name the schema registry of the producers",
            )
        if self.registry is not None and not (
            isinstance(self.registry, str) and _REGISTRY.fullmatch(self.registry)
        ):
            raise DefinitionError(
                "the registry's URL is none, or holds a user or a query",
                where=self.where,
                expected="http://host:port or https://host/path",
                next_step="a registry that asks for a password needs a proxy that adds it",
            )
