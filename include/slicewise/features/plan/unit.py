"""A unit is what is stored together; everything that is stored under its fingerprint follows from its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slicewise.aggregates import Aggregate, Span, from_spec
from slicewise.codec import Layout, Members
from slicewise.errors import DefinitionError
from slicewise.features.declare.emission import Emission
from slicewise.features.declare.event_list import EventList
from slicewise.features.plan.fingerprint import definition_payload, fingerprint, storage_payload
from slicewise.features.rowlogic.expression import RowExpression
from slicewise.features.rowlogic.row_function import RowFunction
from slicewise.features.schema.dedupe import EventIds
from slicewise.features.schema.types import KAFKA_TIME, arrow_type
from slicewise.offsets.vector import OffsetVector
from slicewise.windows.durations import format_duration
from slicewise.windows.window import Window

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Source:
    """A topic's schema. columns: (name, type of its values); types as in `slicewise.features.schema.types`.

    timestamp: the column of the event time, or "kafka". time_form: how all its instants stand on the
    wire: "s", "ms", "us" or "rfc3339". wire: (column, declared type) of those that a record holds
    narrower than their values are. paths: (column, names of members from the record down) of those
    that are no member of their own name. format: json, avro or protobuf, these with the URL of a registry. dedupe: how
    an event that comes again is known, if it is. earlier: the schemas that records below a place of the log are read
    by, oldest first (docs/adr/0057).
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

    @cached_property
    def schema_fingerprint(self) -> str:
        """Fingerprint of what decides whether a record is good, and how it is read (16 hex); not where a registry stands,
        which good records count once, nor what held before."""
        payload = {**source_to_json(replace(self, registry=None, dedupe=None, earlier=())), "owner": None}
        return fingerprint(payload)

    @property
    def is_opening(self) -> bool:
        """Tells whether its schema has no place yet from which it holds: until then nobody may judge a record."""
        return bool(self.earlier) and self.earlier[-1].until is None

    @property
    def most_ahead_us(self) -> int:
        """The longest time ahead of Kafka's at which an event may lie that any of its schemas takes."""
        return max([self.max_ahead_us, *(each.source.max_ahead_us for each in self.earlier)])

    @property
    def most_lateness_us(self) -> int:
        """The longest time behind Kafka's at which an event may lie that any of its schemas takes."""
        return max([self.max_lateness_us, *(each.source.max_lateness_us for each in self.earlier)])

    @property
    def time_column(self) -> str | None:
        """The column of the event time; None where that is the Kafka record's."""
        return None if self.timestamp == KAFKA_TIME else self.timestamp

    def type_of(self, column: str) -> str:
        """The declared type of a column."""
        return dict(self.columns)[column]


@dataclass(frozen=True)
class SchemaVersion:
    """A source as it was, and the first offsets that it does not judge any more; None while these are not recorded."""

    source: Source
    until: OffsetVector | None = None


@dataclass(frozen=True)
class PlannedFeature:
    """A feature column: `partial` is the position of what it finishes in its unit's layout."""

    column: str
    feature: str
    window: Window
    aggregate: Aggregate
    partial: int


@dataclass(frozen=True)
class StorageUnit:
    """Unit of storage: the partials of a view at one slice size, or (event_list) the events themselves,
    which views with the same source, entity, row logic and columns share.

    entity: (column, type) sorted by name. columns: computed columns, in an order in which each is
    over the source alone; functions: those by row functions, over these and the source. levels:
    resolutions kept in compacted hours besides slice and hour total. input_types: (column, type) of what
    the aggregates read, sorted. reads: the source's columns that all of this needs, sorted.
    """

    view: str
    source: str
    entity: tuple[tuple[str, str], ...]
    spread: bool
    slice_us: int
    where: RowExpression | None
    columns: tuple[tuple[str, RowExpression], ...]
    layout: Layout
    features: tuple[PlannedFeature, ...]
    levels: tuple[int, ...]
    retention_us: int
    input_types: tuple[tuple[str, str], ...]
    reads: tuple[str, ...]
    owner: str | None = None
    project: str = ""
    storage_fingerprint: str = ""
    definition_fingerprint: str = ""
    event_list: EventList | None = None
    functions: tuple[tuple[str, RowFunction], ...] = ()
    emission: Emission | None = None
    """Where its results are published; bears on nothing that is stored or answered."""
    dedupe: EventIds | None = None
    """Its source's."""

    @cached_property
    def given_types(self) -> tuple[tuple[str, str], ...]:
        """(column, type) of what row logic has to give, sorted: what aggregates and row functions read."""
        made = dict(self.functions)
        read = {(n, kind) for f in made.values() for n, kind in zip(f.reads, f.types, strict=True)}
        return tuple(sorted(read | {(name, kind) for name, kind in self.input_types if name not in made}))

    @cached_property
    def pentads(self) -> bool:
        """Tells whether totals of pentads are kept: where a window is read by them."""
        return any(feature.window.reads_five_days for feature in self.features)

    @property
    def step_text(self) -> str:
        """The step of answers, for reading: the slice, or single events."""
        return format_duration(self.slice_us) if self.event_list is None else "events"

    @cached_property
    def lifetime(self) -> bool:
        """Tells whether a feature holds all events: what is stored has no expiry then, and hours go into a total."""
        return any(feature.window.unbounded for feature in self.features)

    @cached_property
    def members(self) -> Members:
        """The form of the members of its event list."""
        return Members(tuple((name, arrow_type(kind)) for name, kind in self.input_types))


def build_unit(
    source: Source,
    *,
    view: str,
    entity: tuple[tuple[str, str], ...],
    spread: bool,
    slice_us: int,
    where: RowExpression | None,
    columns: tuple[tuple[str, RowExpression], ...],
    features: tuple[tuple[str, str, Window, Aggregate], ...],
    levels: tuple[int, ...],
    retention_us: int,
    owner: str | None,
    project: str = "",
    event_list: EventList | None = None,
    functions: tuple[tuple[str, RowFunction], ...] = (),
    emission: Emission | None = None,
) -> StorageUnit:
    """A unit from its parts; layout, inputs and fingerprints follow from them.

    features: (column, feature, window, unbound aggregate).
    """
    kinds = {**dict(source.columns), **{name: column.kind for name, column in columns}}
    functions = tuple((name, function.bind(kinds)) for name, function in functions)
    kinds |= {name: function.kind for name, function in functions}
    types: dict[str, pa.DataType] = {name: arrow_type(kind) for name, kind in kinds.items()}
    bound = [aggregate.bind(types) for *_, aggregate in features]
    # Where a session starts is read off the first and last event of each slice.
    hidden = [Span().bind({})] if any(window.session_gap_us for _, _, window, _ in features) else []
    partials = {aggregate.partial_id(): aggregate for aggregate in reversed([*bound, *hidden])}
    order = sorted(partials)
    planned = tuple(
        PlannedFeature(column, feature, window, aggregate, order.index(aggregate.partial_id()))
        for (column, feature, window, _), aggregate in zip(features, bound, strict=True)
    )
    inputs = {column for aggregate in bound for column in aggregate.inputs}
    expressions = [where, *(expression for _, expression in columns)]
    reads = {
        *(column for column, _ in entity),
        *(column for column in inputs if column not in dict(columns) | dict(functions)),
        *(column for _, function in functions for column in function.reads if column not in dict(columns)),
        *(column for e in expressions if e is not None for column in e.columns),
        *(() if source.time_column is None else (source.time_column,)),
        *(() if source.dedupe is None else (source.dedupe.column,)),
    }
    unit = StorageUnit(
        view=view,
        source=source.name,
        entity=tuple(sorted(entity)),
        spread=spread,
        slice_us=slice_us,
        where=where,
        columns=columns,
        layout=Layout(tuple(partials[key] for key in order)),
        features=planned,
        levels=levels,
        retention_us=retention_us,
        input_types=tuple((name, kinds[name]) for name in sorted(inputs)),
        reads=tuple(sorted(reads)),
        owner=owner,
        project=project,
        event_list=event_list,
        functions=functions,
        emission=emission,
        dedupe=source.dedupe,
    )
    unit = replace(unit, storage_fingerprint=fingerprint(storage_payload(unit, source)))
    return replace(unit, definition_fingerprint=fingerprint(definition_payload(unit)))


def plain(value: Any) -> dict[str, Any]:
    """A dataclass's fields, as they are."""
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}


_WHERE_GIVEN = {"wire": (), "paths": (), "format": "json", "registry": None, "dedupe": None, "earlier": ()}


def source_to_json(source: Source) -> dict[str, Any]:
    """Plain values from which `source_from_json` builds an equal source; what was added later stands where it is given."""
    given = {name: v for name, v in plain(source).items() if name not in _WHERE_GIVEN or v != _WHERE_GIVEN[name]}
    if source.dedupe is not None:
        given["dedupe"] = plain(source.dedupe)
    if source.earlier:
        given["earlier"] = [
            {"source": source_to_json(each.source), "until": places_to_json(each.until)} for each in source.earlier
        ]
    return given


def places_to_json(until: OffsetVector | None) -> list[list[Any]] | None:
    """Topic id, partition and offset of each place; None where they are not recorded."""
    return None if until is None else [[*place, offset] for place, offset in until.offsets.items()]


def source_from_json(raw: Mapping[str, Any]) -> Source:
    """Inverse of `source_to_json`."""
    pairs = {name: tuple((column, kind) for column, kind in raw.get(name, ())) for name in ("columns", "wire")}
    lists = {name: tuple(raw[name]) for name in ("required", "allow_nan")}
    paths = tuple((column, tuple(path)) for column, path in raw.get("paths", ()))
    dedupe = EventIds(**raw["dedupe"]) if "dedupe" in raw else None
    earlier = tuple(_version_from_json(each) for each in raw.get("earlier", ()))
    return Source(**{**raw, **pairs, **lists, "paths": paths, "dedupe": dedupe, "earlier": earlier})


def _version_from_json(raw: Mapping[str, Any]) -> SchemaVersion:
    places = raw["until"]
    until = (
        None if places is None else OffsetVector({(topic, partition): offset for topic, partition, offset in places})
    )
    return SchemaVersion(source_from_json(raw["source"]), until)


def unit_to_json(unit: StorageUnit) -> dict[str, Any]:
    """Plain values from which `unit_from_json` builds an equal unit."""
    listed = {} if unit.event_list is None else {"event_list": plain(unit.event_list)}
    made = {"functions": [[name, each.to_json()] for name, each in unit.functions]} if unit.functions else {}
    published = {} if unit.emission is None else {"emission": plain(unit.emission)}
    return (
        listed
        | made
        | published
        | {
            "view": unit.view,
            "source": unit.source,
            "entity": unit.entity,
            "spread": unit.spread,
            "slice_us": unit.slice_us,
            "where": None if unit.where is None else unit.where.to_json(),
            "columns": [[name, column.to_json()] for name, column in unit.columns],
            "features": [
                {
                    "column": feature.column,
                    "feature": feature.feature,
                    "window": feature.window.to_json(),
                    "aggregate": feature.aggregate.spec(),
                }
                for feature in unit.features
            ],
            "levels": unit.levels,
            "retention_us": unit.retention_us,
            "owner": unit.owner,
            "project": unit.project,
            "storage_fingerprint": unit.storage_fingerprint,
            "definition_fingerprint": unit.definition_fingerprint,
        }
    )


def unit_from_json(raw: Mapping[str, Any], source: Source) -> StorageUnit:
    """The unit; DefinitionError where this version would store other bytes under its fingerprints."""
    unit = build_unit(
        source,
        view=raw["view"],
        entity=tuple((column, kind) for column, kind in raw["entity"]),
        spread=raw["spread"],
        slice_us=raw["slice_us"],
        where=None if raw["where"] is None else RowExpression.from_json(raw["where"]),
        columns=tuple((name, RowExpression.from_json(column)) for name, column in raw["columns"]),
        features=tuple(
            (
                each["column"],
                each["feature"],
                Window(**each["window"]),
                from_spec(each["aggregate"]),
            )
            for each in raw["features"]
        ),
        levels=tuple(raw["levels"]),
        retention_us=raw["retention_us"],
        owner=raw["owner"],
        project=raw["project"],
        event_list=EventList(**raw["event_list"]) if "event_list" in raw else None,
        emission=Emission(**raw["emission"]) if "emission" in raw else None,
        functions=tuple((name, RowFunction.from_json(each)) for name, each in raw.get("functions", ())),
    )
    for name in ("storage_fingerprint", "definition_fingerprint"):
        if getattr(unit, name) != raw[name]:
            raise DefinitionError(
                f"the {name.replace('_', ' ')} of view {unit.view!r} is {raw[name]} in the "
                f"deployment and {getattr(unit, name)} here",
                expected="the version of slicewise that deployed it, or one that stores alike",
                next_step="run that version, or deploy and build again with this one",
            )
    return unit
