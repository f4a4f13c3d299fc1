"""A unit is what is stored together: partials of slices, or the events themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from slicewise.aggregates import Aggregate
from slicewise.aggregates.sketches.membership import membership_of
from slicewise.codec import Layout, Members
from slicewise.errors import DeploymentSuperseded
from slicewise.features.declare.event_list import EventList
from slicewise.features.logs import kind_of
from slicewise.features.naming import at_version, base_of
from slicewise.features.plan.fingerprint import canonical_json, fingerprint
from slicewise.features.rowlogic.expression import RowExpression
from slicewise.features.rowlogic.row_function import RowFunction
from slicewise.features.schema.dedupe import EventIds
from slicewise.features.schema.types import KAFKA_TIME, arrow_type
from slicewise.offsets.vector import OffsetVector
from slicewise.windows.durations import format_duration
from slicewise.windows.window import Window


@dataclass(frozen=True)
class Source:
    """A topic's schema. columns: (name, type of its values); types as in
    `slicewise.features.schema.types`.

    timestamp: the column of the event time, or "kafka". time_form: how all its instants stand on
    the wire: "s", "ms", "us" or "rfc3339". wire: (column, declared type) of those that a record
    holds narrower than their values are. paths: (column, names of members from the record down) of
    those that are no member of their own name. format: json, avro or protobuf, these with the URL
    of a registry. dedupe: how an event that comes again is known, if it is. earlier: the schemas
    that records below an offset of the log are read by, oldest first (docs/adr/0057).
    """

    name: str
    topic: str
    columns: tuple[tuple[str, str], ...]
    timestamp: str
    time_form: str
    max_lateness_us: int
    max_ahead_us: int
    required: tuple[str, ...] = ()
    allow_nan: tuple[str, ...] = ()
    owner: str | None = None
    wire: tuple[tuple[str, str], ...] = ()
    paths: tuple[tuple[str, tuple[str, ...]], ...] = ()
    format: str = "json"
    registry: str | None = None
    dedupe: EventIds | None = None
    earlier: tuple[SchemaVersion, ...] = ()
    history_until_us: int | None = None
    """Instant up to which its events come from a table: a record of an earlier one is refused."""

    @cached_property
    def schema_fingerprint(self) -> str:
        """Fingerprint of what decides whether a record is good, and how it is read (16 hex); not
        where a registry stands, which good records count once, nor what held before."""
        payload = {
            **source_to_json(replace(self, registry=None, dedupe=None, earlier=())),
            "owner": None,
        }
        return fingerprint(payload)

    @property
    def log_kind(self) -> str | None:
        """The log that it is: "answers", "predictions" or "labels"; None of any other source."""
        return kind_of(dict(self.columns))

    @property
    def is_opening(self) -> bool:
        """Tells whether its schema has no recorded offsets yet: until then nobody may judge a
        record."""
        return bool(self.earlier) and self.earlier[-1].until is None

    @property
    def most_ahead_us(self) -> int:
        """The longest time ahead of Kafka's at which an event may lie that any of its schemas
        takes."""
        return max([self.max_ahead_us, *(version.source.max_ahead_us for version in self.earlier)])

    @property
    def most_lateness_us(self) -> int:
        """The longest time behind Kafka's at which an event may lie that any of its schemas
        takes."""
        return max(
            [self.max_lateness_us, *(version.source.max_lateness_us for version in self.earlier)]
        )

    @property
    def time_column(self) -> str | None:
        """The column of the event time; None where that is the Kafka record's."""
        return None if self.timestamp == KAFKA_TIME else self.timestamp

    def type_of(self, column: str) -> str:
        """The declared type of a column."""
        return dict(self.columns)[column]

    def with_until(self, until: OffsetVector) -> Source:
        """The source whose schema holds from there on."""
        *before, last = self.earlier
        return replace(self, earlier=(*before, replace(last, until=until)))

    @property
    def removed_columns(self) -> tuple[tuple[str, str], ...]:
        """Columns of earlier schemas that its own has not, with their last types. They come in the
        order in which they came: records below an offset have values of them, which the archive
        keeps."""
        own = dict(self.columns)
        removed: dict[str, str] = {}
        for version in self.earlier:
            removed |= {name: kind for name, kind in version.source.columns if name not in own}
        return tuple(removed.items())

    @property
    def history_text(self) -> str:
        """By which schemas and offsets records are judged, as an archive keeps it beside what it
        judged; "[]": by one."""
        return canonical_json(
            [
                [version.source.schema_fingerprint, offsets_to_json(version.until)]
                for version in self.earlier
            ]
        )

    def goes_on(self, text: str) -> bool:
        """Tells whether the history of this text is the beginning of the source's, so that what it
        judged goes on."""
        then, now = json.loads(text), json.loads(self.history_text)
        return bool(now[: len(then)] == then)

    def judged_by(self, topic_id: str) -> tuple[tuple[Source, Mapping[int, int]], ...]:
        """The schemas that judge the records of a topic, oldest first. Each has the first offset
        per partition that it does not judge; the source's own is last, and judges the rest. The
        offsets of another topic of that name say nothing of this one. DeploymentSuperseded while
        the last offsets are not recorded."""
        versions: list[tuple[Source, Mapping[int, int]]] = []
        for version in self.earlier:
            if version.until is None:
                raise DeploymentSuperseded(
                    f"the schema of source {self.name!r} has no recorded offsets yet",
                    next_step=(
                        "the stream's driver records it within seconds, and so does slicewise apply"
                    ),
                )
            ends = {
                partition: offset
                for (topic, partition), offset in version.until.offsets.items()
                if topic == topic_id
            }
            versions.append((version.source, ends))
        return (*versions, (self, {}))


@dataclass(frozen=True)
class SchemaVersion:
    """A source as it was, and the first offsets that it does not judge any more; None while these
    are not recorded."""

    source: Source
    until: OffsetVector | None = None


@dataclass(frozen=True)
class Emission:
    """Emission of a unit: where its results go; times in microseconds."""

    topic: str
    wait_us: int
    corrections_us: int


@dataclass(frozen=True)
class PlannedFeature:
    """A feature column: `partial` is the position of what it finishes in its unit's layout."""

    column: str
    feature: str
    window: Window
    aggregate: Aggregate
    partial: int

    @property
    def needs_values(self) -> bool:
        """Tells whether it is about values that a request gives, beside the entity."""
        return membership_of(self.aggregate) is not None


@dataclass(frozen=True, kw_only=True)
class _Unit:
    """Unit the two kinds of unit have alike.

    entity: (column, type) sorted by name. columns: computed columns, in an order in which each is
    over the source alone; functions: those by row functions, over these and the source.
    input_types: (column, type) of what the aggregates read, sorted. reads: the source's columns
    that all of this needs, sorted.
    """

    view: str
    source: str
    entity: tuple[tuple[str, str], ...]
    per_partition: bool
    where: RowExpression | None
    columns: tuple[tuple[str, RowExpression], ...]
    functions: tuple[tuple[str, RowFunction], ...] = ()
    layout: Layout
    features: tuple[PlannedFeature, ...]
    retention_us: int
    input_types: tuple[tuple[str, str], ...]
    reads: tuple[str, ...]
    owner: str | None = None
    project: str = ""
    storage_fingerprint: str = ""
    definition_fingerprint: str = ""
    dedupe: EventIds | None = None
    """Declaration of the source for events that come again; None: it has none."""
    version: int = 1
    """Number of the view's version that it is of (docs/adr/0121)."""

    @property
    def stored_view(self) -> str:
        """Name of the view in what is stored: the same whether the version is live or not."""
        base = base_of(self.view)
        return base if self.version == 1 else at_version(base, self.version)

    @cached_property
    def given_types(self) -> tuple[tuple[str, str], ...]:
        """(column, type) of what row logic has to give, sorted: what aggregates and row functions
        read."""
        made = dict(self.functions)
        read = {(n, kind) for f in made.values() for n, kind in zip(f.reads, f.types, strict=True)}
        return tuple(
            sorted(read | {(name, kind) for name, kind in self.input_types if name not in made})
        )

    @cached_property
    def members(self) -> Members:
        """The form of an event of it: a member of its list, or of a pending field."""
        return Members(tuple((name, arrow_type(kind)) for name, kind in self.input_types))


@dataclass(frozen=True, kw_only=True)
class SliceUnit(_Unit):
    """The partials of a view at one slice size.

    levels: resolutions kept in compacted hours besides slice and hour total. emission: where its
    results are published; bears on nothing that is stored or answered.
    """

    slice_us: int
    levels: tuple[int, ...]
    emission: Emission | None = None
    event_list: ClassVar[None] = None
    """No list is kept; the store asks for this field (`stores/online/stored_unit.py`)."""

    @cached_property
    def five_day_totals(self) -> bool:
        """Tells whether five-day totals are kept: a window is read by them."""
        return any(feature.window.reads_five_days for feature in self.features)

    @cached_property
    def lifetime(self) -> bool:
        """Tells whether a feature holds all events: what is stored has no expiry then, and hours go
        into a total."""
        return any(feature.window.unbounded for feature in self.features)

    @property
    def step_text(self) -> str:
        """Step by which answers move, for people."""
        return format_duration(self.slice_us)

    @property
    def emitted_features(self) -> tuple[PlannedFeature, ...]:
        """Features that are published: their windows end complete, and their values are no filters
        that readers ask."""
        return tuple(f for f in self.features if f.window.ends_complete and not f.needs_values)


@dataclass(frozen=True, kw_only=True)
class ListUnit(_Unit):
    """The events themselves, for exact windows; views with the same source, entity, row logic and
    columns share one list. event_list: what is kept of an entity's."""

    event_list: EventList
    slice_us: ClassVar[int] = 1
    """Answers move with each microsecond."""
    levels: ClassVar[tuple[int, ...]] = ()
    emission: ClassVar[None] = None
    five_day_totals: ClassVar[bool] = False
    lifetime: ClassVar[bool] = False
    step_text: ClassVar[str] = "events"


StorageUnit = SliceUnit | ListUnit
"""Features of a view that are stored together: as slices, or as an event list."""


def nearest(unit: StorageUnit, others: Iterable[StorageUnit]) -> StorageUnit | None:
    """The unit of the same kind whose slice is nearest; None where none is of its kind."""
    alike = [other for other in others if type(other) is type(unit)]
    return min(alike, key=lambda other: abs(other.slice_us - unit.slice_us), default=None)


def shared(units: Iterable[StorageUnit]) -> tuple[StorageUnit, ...]:
    """The same units; those of one list keep what all of them need."""
    units = tuple(units)
    lists: dict[str, EventList] = {}
    for unit in units:
        if isinstance(unit, ListUnit):
            joined = lists.get(unit.storage_fingerprint)
            lists[unit.storage_fingerprint] = (
                unit.event_list if joined is None else joined.join(unit.event_list)
            )
    return tuple(
        replace(
            unit,
            event_list=lists[unit.storage_fingerprint],
            retention_us=lists[unit.storage_fingerprint].reach_us,
        )
        if isinstance(unit, ListUnit)
        else unit
        for unit in units
    )


def plain(value: Any) -> dict[str, Any]:
    """A dataclass's fields, as they are."""
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}


_WHERE_GIVEN = {
    "wire": (),
    "paths": (),
    "format": "json",
    "registry": None,
    "dedupe": None,
    "earlier": (),
    "history_until_us": None,
}


def source_to_json(source: Source) -> dict[str, Any]:
    """JSON from which `source_from_json` builds an equal source; fields added later stand where
    they are given."""
    given = {
        name: v
        for name, v in plain(source).items()
        if name not in _WHERE_GIVEN or v != _WHERE_GIVEN[name]
    }
    if source.dedupe is not None:
        given["dedupe"] = plain(source.dedupe)
    if source.earlier:
        given["earlier"] = [
            {"source": source_to_json(version.source), "until": offsets_to_json(version.until)}
            for version in source.earlier
        ]
    return given


def offsets_to_json(until: OffsetVector | None) -> list[list[Any]] | None:
    """Topic id, partition and offset of each offset; None where they are not recorded."""
    return (
        None
        if until is None
        else [[*topic_partition, offset] for topic_partition, offset in until.offsets.items()]
    )


def source_from_json(raw: Mapping[str, Any]) -> Source:
    """Inverse of `source_to_json`."""
    pairs = {
        name: tuple((column, kind) for column, kind in raw.get(name, ()))
        for name in ("columns", "wire")
    }
    lists = {name: tuple(raw[name]) for name in ("required", "allow_nan")}
    paths = tuple((column, tuple(path)) for column, path in raw.get("paths", ()))
    dedupe = EventIds(**raw["dedupe"]) if "dedupe" in raw else None
    earlier = tuple(_version_from_json(version) for version in raw.get("earlier", ()))
    return Source(**{**raw, **pairs, **lists, "paths": paths, "dedupe": dedupe, "earlier": earlier})


def _version_from_json(raw: Mapping[str, Any]) -> SchemaVersion:
    until = raw["until"]
    until = (
        None
        if until is None
        else OffsetVector({(topic, partition): offset for topic, partition, offset in until})
    )
    return SchemaVersion(source_from_json(raw["source"]), until)
