"""A definition is frozen data, checked as soon as its author writes it; nothing here runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slicewise.errors import DefinitionError
from slicewise.features.emission import Emit
from slicewise.features.event_list import CAPACITY, check_capacity
from slicewise.features.leaderboard import Leaderboard
from slicewise.features.naming import (
    OF_QUESTIONS,
    Location,
    at_place,
    check_mapping,
    check_name,
    frozen,
    placed,
    refuse_reserved,
    refuse_twice,
    texts,
    written_at,
)
from slicewise.features.paths import column_paths
from slicewise.features.types import KAFKA_TIME, TIME_FORMS, TIMESTAMP, column_type, time_form
from slicewise.slices import Window, as_window, parse_duration

if TYPE_CHECKING:
    from slicewise.aggregates import Aggregate
    from slicewise.features.row_function import RowFunction

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
Scalar = str | int | float | bool | None
FORMATS = ("json", "avro", "protobuf")
_REGISTRY = re.compile(r"https?://[^\s@?#/]+(/[^\s@?#]*)?")
ON_FAILURE = ("error", "stale", "default")


@dataclass(frozen=True)
class KafkaSource:
    """Events of a topic: JSON objects with these columns, or format="avro" or "protobuf" with the URL of the
    schema registry whose ids stand before each value, as Confluent's serializers write them.

    schema: column -> string, int64 (or long), double, boolean, decimal(p,s), date ("2024-02-29"), or for
    instants timestamp_us, timestamp_ms, timestamp_s (integers) or timestamp_rfc3339 (text with zone);
    all instants of a source have one form. int8, int16, int32, uint8, uint16 and uint32 are longs in
    that range (a value outside makes the record bad), float is the double nearest to a float;
    array<…> of any that is no instant. paths: where a column stands that is no member of its own name,
    as {"user_id": "$.user.id"}. timestamp: the column that is the event time, or "kafka" for the time
    of the Kafka record. max_lateness,
    max_ahead: how far an event's time may lie before and after the time of its Kafka record;
    beyond, the record is kept aside with its reason. required: columns that may not be null (the
    timestamp never may). allow_nan: double columns in which NaN and infinities are values.
    topic: the source's name by default.
    """

    name: str
    schema: Mapping[str, str]
    timestamp: str
    max_lateness: str = "1d"
    max_ahead: str = "1m"
    topic: str | None = None
    required: Sequence[str] = ()
    allow_nan: Sequence[str] = ()
    history: None = None
    owner: str | None = None
    paths: Mapping[str, str] = field(default_factory=dict)
    format: str = "json"
    registry: str | None = None
    location: Location | None = field(default_factory=written_at, compare=False, repr=False)

    @property
    def where(self) -> str:
        return at_place("source", self.name, self.location)

    def __post_init__(self) -> None:
        where = self.where
        check_name(self.name, "a source", where)
        if not isinstance(self.schema, Mapping) or not self.schema:
            raise DefinitionError("a source has no columns", where=where, expected='schema={"user_id": "string", …}')
        seen: dict[str, str] = {}
        for column, declared in self.schema.items():
            check_name(column, "a column", where)
            refuse_reserved(column, where)
            if column.lower() in seen:
                raise DefinitionError(
                    f"columns {seen[column.lower()]!r} and {column!r} differ in case only",
                    where=where,
                    expected="names that differ in more, since SQL does not see case",
                    next_step="rename one",
                )
            seen[column.lower()] = column
            with placed(f"column {column!r} of {where}"):
                column_type(declared)
        if self.timestamp == KAFKA_TIME and KAFKA_TIME in self.schema:
            raise DefinitionError(
                "timestamp='kafka' is the time of the Kafka record, and a column has that name too",
                where=where,
                expected="a schema without a column named kafka, or another column as timestamp",
                next_step='give the column another name, with paths={"…": "$.kafka"}',
            )
        if self.timestamp != KAFKA_TIME and self.schema.get(self.timestamp, "").strip().lower() not in TIME_FORMS:
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
        object.__setattr__(self, "schema", frozen(self.schema))
        self._check_format()
        column_paths(self.schema, self.paths, where)
        object.__setattr__(self, "paths", frozen(self.paths))
        for option in ("required", "allow_nan"):
            names = texts(getattr(self, option), option, where)
            for column in names:
                if column not in self.schema:
                    raise DefinitionError(
                        f"{option} names {column!r}, which is no column",
                        where=where,
                        expected="one of " + ", ".join(self.schema),
                    )
                if option == "allow_nan" and column_type(self.schema[column]) != "double":
                    raise DefinitionError(
                        f"allow_nan names {column!r}, which is {self.schema[column]}",
                        where=where,
                        expected="a double column",
                    )
            object.__setattr__(self, option, tuple(sorted(set(names))))
        for option in ("max_lateness", "max_ahead"):
            with placed(f"{option} of {where}"):
                parse_duration(getattr(self, option))
        topic = self.name if self.topic is None else self.topic
        if not isinstance(topic, str) or not TOPIC_NAME.fullmatch(topic):
            raise DefinitionError(
                f"{self.topic!r} is no topic name",
                where=where,
                expected="letters, digits, '.', '_' and '-', at most 200",
                next_step="correct it, or leave it out where the topic has the source's name",
            )
        if self.history is not None:
            raise DefinitionError(
                "history= cannot be imported yet",
                where=where,
                expected="history=None",
                next_step="produce the history to the topic, with its own Kafka timestamps",
            )

    def _check_format(self) -> None:
        if self.format not in FORMATS:
            raise DefinitionError(
                f"{self.format!r} is no format", where=self.where, expected="one of " + ", ".join(FORMATS)
            )
        if (self.format == "json") != (self.registry is None):
            raise DefinitionError(
                f"format is {self.format!r}, registry {self.registry!r}",
                where=self.where,
                expected='both, as format="avro", registry="http://registry:8081", or neither',
                next_step="name the schema registry of the producers",
            )
        if self.registry is not None and not _REGISTRY.fullmatch(self.registry):
            raise DefinitionError(
                "the registry's URL is none, or holds a user or a query",
                where=self.where,
                expected="http://host:port or https://host/path",
                next_step="a registry that asks for a password needs a proxy that adds it",
            )


@dataclass(frozen=True)
class Feature:
    """An aggregate over windows: `<feature>_<window>` are its columns."""

    name: str
    aggregate: Aggregate
    windows: Sequence[Window | str]
    location: Location | None = field(default_factory=written_at, compare=False, repr=False)

    def __post_init__(self) -> None:
        from slicewise.aggregates import Aggregate

        where = at_place("feature", self.name, self.location)
        check_name(self.name, "a feature", where)
        if not isinstance(self.aggregate, Aggregate):
            raise DefinitionError(
                f"{self.aggregate!r} is no aggregate",
                where=where,
                expected='an aggregate such as sw.count() or sw.sum("column")',
            )
        if isinstance(self.windows, str) or not isinstance(self.windows, Sequence) or not self.windows:
            raise DefinitionError(
                f"windows are {self.windows!r}",
                where=where,
                expected='a list with at least one window: windows=["10m", sw.tumbling("1h")]',
            )
        with placed(where):
            windows = tuple(as_window(window) for window in self.windows)
        object.__setattr__(self, "windows", windows)
        refuse_twice([w.column_suffix() for w in windows], "window", where)

    def columns(self) -> tuple[str, ...]:
        """Names of the columns that it answers."""
        return tuple(f"{self.name}_{as_window(w).column_suffix()}" for w in self.windows)


@dataclass(frozen=True)
class Case:
    """A test of a view: after these events, a read at `at` answers `expect`.

    events: dicts in log order with the source's columns (and optionally partition, offset,
    kafka_time). at: RFC 3339 text with zone, or integer microseconds. entity: the entity's columns
    (may be left out where the events hold one entity). expect: feature column -> value.
    """

    events: tuple[Mapping[str, Any], ...]
    at: str | int
    expect: Mapping[str, Any]
    entity: Mapping[str, Scalar] | None = None
    mode: str = "event_time"
    name: str | None = None
    location: Location | None = field(default_factory=written_at, compare=False, repr=False)


def case(
    *,
    events: Sequence[Mapping[str, Any]],
    at: str | int,
    expect: Mapping[str, Any],
    entity: Mapping[str, Scalar] | None = None,
    mode: str = "event_time",
    name: str | None = None,
) -> Case:
    """A test of a view, run by `slicewise check` through the whole path of `sw.evaluate`."""
    location = written_at()
    if not expect:
        raise DefinitionError("a case expects nothing", where=str(location), expected='expect={"plays_10m": 3}')
    if mode not in ("event_time", "at", "live"):
        raise DefinitionError(f"{mode!r} is no mode", where=str(location), expected="event_time, at or live")
    return Case(
        tuple(frozen(event) for event in events),
        at,
        frozen(expect),
        None if entity is None else frozen(entity),
        mode,
        name,
        location,
    )


def _is_row_function(value: object) -> bool:
    from slicewise.features.row_function import RowFunction

    return isinstance(value, RowFunction)


@dataclass(frozen=True)
class FeatureView:
    """Features over one source and one entity key.

    entity: columns of the source that are the key; none for a global view. where: row logic that
    an event must satisfy. columns: computed columns, name -> row logic, or a function of `sw.row_function`.
    slice: declared slice
    (the planner's choice by default). spread: one set of keys per partition, for few hot entities.
    capacity: how many of an entity's latest events its exact windows can reach at most. emit: the
    Kafka topic to which results of sliding, tumbling and hopping windows are published as they end,
    or a sw.Emit.
    """

    name: str
    source: KafkaSource
    entity: Sequence[str]
    features: Sequence[Feature]
    where: str | None = None
    columns: Mapping[str, str | RowFunction] = field(default_factory=dict)
    slice: str | None = None
    spread: bool = False
    owner: str | None = None
    tests: Sequence[Case] = ()
    capacity: int = CAPACITY
    emit: str | Emit | None = None
    location: Location | None = field(default_factory=written_at, compare=False, repr=False)

    @property
    def place(self) -> str:
        """The view and where it was written, for messages."""
        return at_place("view", self.name, self.location)

    def __post_init__(self) -> None:
        where = self.place
        check_name(self.name, "a view", where)
        if not isinstance(self.source, KafkaSource):
            raise DefinitionError(f"source is {self.source!r}", where=where, expected="a sw.KafkaSource")
        object.__setattr__(self, "entity", texts(self.entity, "entity", where))
        refuse_twice(self.entity, "entity column", where)
        if not isinstance(self.features, Sequence) or not all(isinstance(f, Feature) for f in self.features):
            raise DefinitionError("features are no list of them", where=where, expected="features=[sw.Feature(…), …]")
        if not self.features:
            raise DefinitionError("a view has no features", where=where, expected="features=[sw.Feature(…), …]")
        object.__setattr__(self, "features", tuple(self.features))
        refuse_twice([f.name for f in self.features], "feature", where)
        self._check_columns([c for f in self.features for c in f.columns()])
        check_mapping(self.columns, "columns", where, '{"minutes": "seconds / 60"}')
        for column in self.columns:
            check_name(column, "a computed column", where)
            refuse_reserved(column, where)
            if column.lower() in {name.lower() for name in self.source.schema}:
                raise DefinitionError(
                    f"the computed column {column!r} has the name of a column of the source",
                    where=where,
                    expected="a name of its own",
                    next_step="rename it",
                )
            if not isinstance(self.columns[column], str) and not _is_row_function(self.columns[column]):
                raise DefinitionError(
                    f"the computed column {column!r} is {self.columns[column]!r}",
                    where=where,
                    expected='row logic as text ("seconds / 60"), or a function of sw.row_function',
                )
        refuse_twice([c.lower() for c in self.columns], "computed column", where)
        object.__setattr__(self, "columns", frozen(self.columns))
        if self.slice is not None:
            with placed(f"slice of {where}"):
                parse_duration(self.slice)
        check_capacity(self.capacity, where)
        if self.emit is not None:
            emit = self.emit if isinstance(self.emit, Emit) else Emit(self.emit)
            with placed(f"emit of {where}"):
                emit.planned(where)
            if emit.topic == (self.source.topic or self.source.name):
                raise DefinitionError(
                    f"emit names {emit.topic!r}, the topic that the view reads", where=where, expected="another topic"
                )
            object.__setattr__(self, "emit", emit)
        if not isinstance(self.tests, Sequence) or not all(isinstance(test, Case) for test in self.tests):
            raise DefinitionError("tests are cases", where=where, expected="tests=[sw.case(…)]")
        object.__setattr__(self, "tests", tuple(self.tests))

    def _check_columns(self, names: Sequence[str]) -> None:
        """An answer has a column for each feature and window, and those of the entity: each under a name of its own."""
        refuse_twice(names, "feature column", self.place)
        seen = {column.lower(): f"entity column {column!r}" for column in self.entity}
        for name in names:
            other = seen.setdefault(name.lower(), f"feature column {name!r}")
            if other != f"feature column {name!r}":
                raise DefinitionError(
                    f"the feature column {name!r} has the name of the {other}",
                    where=self.place,
                    expected="names that differ in more than case, since SQL does not see it",
                    next_step="rename the feature",
                )
        for word in sorted({*self.entity} & OF_QUESTIONS):
            raise DefinitionError(
                f"an entity column named {word!r}",
                where=self.place,
                expected=f"another name: in sw.evaluate and in spines the column {word!r} says how a row is read",
                next_step=f'give the column another name, with paths={{"…": "$.{word}"}}',
            )


@dataclass(frozen=True)
class FeatureSet:
    """Named features of many views, read together: features=["listening:plays_7d", …].

    defaults: values to answer instead of null, by ref or, where that is unambiguous, by column.
    on_failure: what a live read answers while the online store does not: "error" (status 503),
    "stale" (the last known values, flagged, no older than max_staleness) or "default" (the
    defaults, flagged).
    """

    name: str
    features: Sequence[str]
    defaults: Mapping[str, Scalar] = field(default_factory=dict)
    owner: str | None = None
    on_failure: str = "error"
    max_staleness: str | None = None
    location: Location | None = field(default_factory=written_at, compare=False, repr=False)

    @property
    def where(self) -> str:
        return at_place("feature set", self.name, self.location)

    def __post_init__(self) -> None:
        where = self.where
        check_name(self.name, "a feature set", where)
        check_mapping(self.defaults, "defaults", where, '{"plays_7d": 0}')
        refs = texts(self.features, "features", where)
        if not refs:
            raise DefinitionError("a feature set is empty", where=where, expected='["view:column"]')
        for ref in refs:
            if ref.count(":") != 1:
                raise DefinitionError(
                    f"{ref!r} is no feature", where=where, expected='"view:column", as in "listening:plays_7d"'
                )
        refuse_twice(refs, "feature", where)
        object.__setattr__(self, "features", refs)
        object.__setattr__(self, "defaults", frozen(self.defaults))
        if self.on_failure not in ON_FAILURE:
            raise DefinitionError(
                f"on_failure is {self.on_failure!r}", where=where, expected="one of " + ", ".join(ON_FAILURE)
            )
        if (self.on_failure == "stale") != (self.max_staleness is not None):
            raise DefinitionError(
                f"on_failure is {self.on_failure!r}, max_staleness {self.max_staleness!r}",
                where=where,
                expected='both, as on_failure="stale", max_staleness="5m", or neither',
                next_step="say how old a last known value may be",
            )
        if self.max_staleness is not None:
            with placed(f"max_staleness of {where}"):
                parse_duration(self.max_staleness)


@dataclass(frozen=True)
class Project:
    """Everything that a project's module declares. sources: what SQL may name, those of the views among them."""

    name: str
    views: tuple[FeatureView, ...]
    feature_sets: tuple[FeatureSet, ...] = ()
    sources: tuple[KafkaSource, ...] = ()
    leaderboards: tuple[Leaderboard, ...] = ()

    @staticmethod
    def of(name: str, definitions: Iterable[object]) -> Project:
        """A project of whatever is a view, a feature set, a leaderboard or a source among these objects, or in a tuple
        of them."""
        views: dict[int, FeatureView] = {}
        sets: dict[int, FeatureSet] = {}
        sources: dict[int, KafkaSource] = {}
        boards: dict[int, Leaderboard] = {}
        for given in definitions:
            for value in given if isinstance(given, tuple | list) else (given,):
                if isinstance(value, FeatureView):
                    views[id(value)] = value
                    sources[id(value.source)] = value.source
                elif isinstance(value, FeatureSet):
                    sets[id(value)] = value
                elif isinstance(value, Leaderboard):
                    boards[id(value)] = value
                elif isinstance(value, KafkaSource):
                    sources[id(value)] = value
        return Project(
            name,
            tuple(views.values()),
            tuple(sets.values()),
            tuple(sources.values()),
            tuple(boards.values()),
        )
