"""What runs is a Deployment: plain frozen data, equal JSON for equal definitions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slicewise.aggregates import Aggregate, from_spec
from slicewise.codec import Layout
from slicewise.errors import DefinitionError, UnknownName
from slicewise.features.expression import RowExpression
from slicewise.features.fingerprint import (
    canonical_json,
    definition_payload,
    fingerprint,
    storage_payload,
)
from slicewise.features.names import unknown
from slicewise.features.types import arrow_type
from slicewise.slices import Window

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.features.definitions import Project

FORMAT = 1


@dataclass(frozen=True)
class Source:
    """A topic's schema. columns: (name, type) as declared; types as in `slicewise.features.types`.

    time_form: how all its instants stand on the wire: "s", "ms", "us" or "rfc3339".
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

    @cached_property
    def schema_fingerprint(self) -> str:
        """What decides whether a record is good, and how it is read (16 hex)."""
        payload = {**_plain(self), "owner": None}
        return fingerprint(payload)

    def type_of(self, column: str) -> str:
        """The declared type of a column."""
        return dict(self.columns)[column]


@dataclass(frozen=True)
class PlannedFeature:
    """A feature column: `partial` is the position of what it finishes in its unit's layout."""

    column: str
    feature: str
    window: Window
    aggregate: Aggregate
    partial: int


@dataclass(frozen=True)
class Unit:
    """What is stored together: the partials of a view at one slice size.

    entity: (column, type) sorted by name. columns: computed columns, in an order in which each is
    over the source alone. levels: resolutions kept in compacted hours besides slice and hour
    total. input_types: (column, type) of what the aggregates read, sorted. reads: the source's
    columns that all of this needs, sorted.
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

    @cached_property
    def by_column(self) -> Mapping[str, PlannedFeature]:
        """Its features by their column."""
        return {feature.column: feature for feature in self.features}


@dataclass(frozen=True)
class PlannedSet:
    """A feature set. features: refs "view:column"; defaults: (ref, value)."""

    name: str
    features: tuple[str, ...]
    defaults: tuple[tuple[str, Any], ...] = ()
    owner: str | None = None
    project: str = ""
    on_failure: str = "error"
    """What a live read answers while the store does not: "error", "stale" or "default"."""
    max_staleness_us: int | None = None


@dataclass(frozen=True)
class Deployment:
    """What `slicewise apply` deploys, and what every process works from.

    project: the name of the project, of all of them where several stand on one platform.
    """

    project: str
    sources: tuple[Source, ...]
    units: tuple[Unit, ...]
    feature_sets: tuple[PlannedSet, ...]

    def to_json(self) -> str:
        """Canonical JSON; `from_json` gives an equal deployment."""
        return canonical_json(
            {
                "format": FORMAT,
                "project": self.project,
                "sources": [_plain(source) for source in self.sources],
                "units": [_unit_json(unit) for unit in self.units],
                "feature_sets": [_plain(each) for each in self.feature_sets],
            }
        )

    @staticmethod
    def from_json(text: str | bytes) -> Deployment:
        """The deployment of this JSON.

        Raises DefinitionError where this version of slicewise would store other bytes under the
        fingerprints that the JSON names.
        """
        raw = json.loads(text)
        if not isinstance(raw, dict) or raw.get("format") != FORMAT:
            raise DefinitionError(
                "this is no deployment of this version",
                expected=f"JSON of format {FORMAT}",
                next_step="deploy again with the running version: slicewise apply",
            )
        sources = tuple(_source(each) for each in raw["sources"])
        by_name = {source.name: source for source in sources}
        units = tuple(_unit(each, by_name[each["source"]]) for each in raw["units"])
        sets = tuple(
            PlannedSet(
                each["name"],
                tuple(each["features"]),
                tuple((ref, value) for ref, value in each["defaults"]),
                each["owner"],
                each["project"],
                on_failure=each.get("on_failure", "error"),
                max_staleness_us=each.get("max_staleness_us"),
            )
            for each in raw["feature_sets"]
        )
        return Deployment(raw["project"], sources, units, sets)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hex."""
        return hashlib.sha256(self.to_json().encode("ascii")).hexdigest()

    @cached_property
    def _units(self) -> Mapping[str, Unit]:
        return {unit.storage_fingerprint: unit for unit in self.units}

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        return {source.name: source for source in self.sources}

    @cached_property
    def _views(self) -> Mapping[str, tuple[Unit, ...]]:
        views: dict[str, tuple[Unit, ...]] = {}
        for unit in self.units:
            views[unit.view] = (*views.get(unit.view, ()), unit)
        return views

    @cached_property
    def _features(self) -> Mapping[str, tuple[Unit, PlannedFeature]]:
        return {f"{unit.view}:{feature.column}": (unit, feature) for unit in self.units for feature in unit.features}

    @cached_property
    def _sets(self) -> Mapping[str, PlannedSet]:
        return {each.name: each for each in self.feature_sets}

    def unit(self, storage_fingerprint: str) -> Unit:
        """The unit of this storage fingerprint; UnknownName if there is none."""
        if storage_fingerprint not in self._units:
            raise unknown("unit", storage_fingerprint, self._units)
        return self._units[storage_fingerprint]

    def source(self, name: str) -> Source:
        """The source of this name; UnknownName if there is none."""
        if name not in self._sources:
            raise unknown("source", name, self._sources)
        return self._sources[name]

    def topic_of(self, source: str) -> str:
        """The topic's name of a source; UnknownName if there is none."""
        return self.source(source).topic

    def view(self, name: str) -> tuple[Unit, ...]:
        """The units of a view; UnknownName if there is none."""
        if name not in self._views:
            raise unknown("view", name, self._views)
        return self._views[name]

    @property
    def views(self) -> tuple[str, ...]:
        """Names of the views, in the order of their definition."""
        return tuple(self._views)

    def resolve(self, ref: str) -> tuple[Unit, PlannedFeature]:
        """The unit and feature of "view:column"; UnknownName with near names if there is none."""
        found = self._features.get(ref)
        if found is None:
            view, separator, column = ref.partition(":")
            if not separator:
                raise UnknownName(f"{ref!r} is no feature", expected='"view:column"')
            columns = [f.column for unit in self.view(view) for f in unit.features]
            raise unknown("feature", column, columns, f"view {view!r}")
        return found

    def feature_set(self, name: str) -> PlannedSet:
        """The feature set of this name; UnknownName if there is none."""
        if name not in self._sets:
            raise unknown("feature set", name, self._sets)
        return self._sets[name]


def plan(project: Project) -> Deployment:
    """The deployment of a project; DefinitionError for whatever is wrong in it."""
    from slicewise.features.planner import plan_project  # needs the parser; a deployment does not

    return plan_project(project)


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
) -> Unit:
    """A unit from its parts; layout, inputs and fingerprints follow from them.

    features: (column, feature, window, unbound aggregate).
    """
    kinds = {**dict(source.columns), **{name: column.kind for name, column in columns}}
    types: dict[str, pa.DataType] = {name: arrow_type(kind) for name, kind in kinds.items()}
    bound = [aggregate.bind(types) for *_, aggregate in features]
    partials = {aggregate.partial_id(): aggregate for aggregate in reversed(bound)}
    order = sorted(partials)
    planned = tuple(
        PlannedFeature(column, feature, window, aggregate, order.index(aggregate.partial_id()))
        for (column, feature, window, _), aggregate in zip(features, bound, strict=True)
    )
    inputs = {column for aggregate in bound for column in aggregate.inputs}
    expressions = [where, *(expression for _, expression in columns)]
    reads = {
        *(column for column, _ in entity),
        *(column for column in inputs if column not in dict(columns)),
        *(column for e in expressions if e is not None for column in e.columns),
        source.timestamp,
    }
    unit = Unit(
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
    )
    unit = replace(unit, storage_fingerprint=fingerprint(storage_payload(unit, source)))
    return replace(unit, definition_fingerprint=fingerprint(definition_payload(unit)))


def _plain(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}


def _source(raw: Mapping[str, Any]) -> Source:
    pairs = tuple((name, kind) for name, kind in raw["columns"])
    lists = {name: tuple(raw[name]) for name in ("required", "allow_nan")}
    return Source(**{**raw, "columns": pairs, **lists})


def _unit_json(unit: Unit) -> dict[str, Any]:
    return {
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
                "window": _plain(feature.window),
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


def _unit(raw: Mapping[str, Any], source: Source) -> Unit:
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
