"""A unit is built from its parts, and stored as JSON; its fingerprints cover all that bears on
stored bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slicewise.aggregates import Aggregate, Span, from_spec
from slicewise.aggregates.kernel.hashing import SEED
from slicewise.codec import CODEC_VERSION, MEMBERS_VERSION, Layout
from slicewise.errors import DefinitionError
from slicewise.features.declare.event_list import EventList
from slicewise.features.plan.fingerprint import ENGINE, fingerprint
from slicewise.features.plan.unit import (
    Emission,
    ListUnit,
    PlannedFeature,
    SliceUnit,
    Source,
    StorageUnit,
    plain,
)
from slicewise.features.rowlogic.expression import ROW_LOGIC_VERSION, RowExpression, canonical
from slicewise.features.rowlogic.row_function import RowFunction
from slicewise.features.schema.dedupe import STEP_BACK_US, EventIds
from slicewise.features.schema.types import arrow_type
from slicewise.windows.window import Window

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Slices:
    """Fields that a unit of slices has and a list has not."""

    slice_us: int
    levels: tuple[int, ...]
    emission: Emission | None = None


def build_unit(
    source: Source,
    *,
    view: str,
    entity: tuple[tuple[str, str], ...],
    per_partition: bool,
    where: RowExpression | None,
    columns: tuple[tuple[str, RowExpression], ...],
    features: tuple[tuple[str, str, Window, Aggregate], ...],
    retention_us: int,
    owner: str | None,
    project: str = "",
    functions: tuple[tuple[str, RowFunction], ...] = (),
    version: int = 1,
    kept: Slices | EventList,
) -> StorageUnit:
    """A unit from its parts; layout, inputs and fingerprints follow from them.

    features: (column, feature, window, unbound aggregate). kept: its slices, or what its event list
    keeps.
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
        *(
            column
            for _, function in functions
            for column in function.reads
            if column not in dict(columns)
        ),
        *(column for e in expressions if e is not None for column in e.columns),
        *(() if source.time_column is None else (source.time_column,)),
        *(() if source.dedupe is None else (source.dedupe.column,)),
    }
    parts: dict[str, Any] = {
        "view": view,
        "source": source.name,
        "entity": tuple(sorted(entity)),
        "per_partition": per_partition,
        "where": where,
        "columns": columns,
        "layout": Layout(tuple(partials[key] for key in order)),
        "features": planned,
        "retention_us": retention_us,
        "input_types": tuple((name, kinds[name]) for name in sorted(inputs)),
        "reads": tuple(sorted(reads)),
        "owner": owner,
        "project": project,
        "functions": functions,
        "dedupe": source.dedupe,
        "version": version,
    }
    unit: StorageUnit = (
        ListUnit(**parts, event_list=kept)
        if isinstance(kept, EventList)
        else SliceUnit(**parts, **plain(kept))
    )
    return fingerprinted(unit, source)


def fingerprinted(unit: StorageUnit, source: Source) -> StorageUnit:
    """The unit with the fingerprints of what it is."""
    unit = replace(unit, storage_fingerprint=fingerprint(storage_payload(unit, source)))
    return replace(unit, definition_fingerprint=fingerprint(definition_payload(unit)))


def storage_payload(unit: StorageUnit, source: Source) -> dict[str, Any]:
    """Content of a unit's storage fingerprint; docs/format.md, "Fingerprints"."""
    # a float's values are other ones than a double's; the range of an integer only judges records
    types = dict(source.columns) | {name: kind for name, kind in source.wire if "float" in kind}
    paths = {name: list(path) for name, path in source.paths if name in unit.reads}
    common = {
        "codec": CODEC_VERSION,
        "columns": {name: types[name] for name in unit.reads},
        "engine": dict(ENGINE),
        "entity": [list(column) for column in unit.entity],
        "event_time": [source.timestamp, source.time_form],
        "row_logic": {
            "version": ROW_LOGIC_VERSION,
            "where": None if unit.where is None else canonical(unit.where.tree),
            "columns": {name: canonical(column.tree) for name, column in unit.columns},
            **(
                {"functions": {name: function.stored() for name, function in unit.functions}}
                if unit.functions
                else {}
            ),
        },
        "source": source.name,
        "spread": unit.per_partition,
        **({"paths": paths} if paths else {}),
        **({"dedupe": _dedupe(unit.dedupe)} if unit.dedupe is not None else {}),
    }
    # of no view, no window and no aggregate: whoever reads these columns shares it; but a version
    # that stands beside the first takes nothing from it, and changes nothing of it
    if isinstance(unit, ListUnit):
        return {
            **common,
            **({"view": unit.stored_view} if unit.version > 1 else {}),
            "events": {
                "columns": [list(column) for column in unit.input_types],
                "version": MEMBERS_VERSION,
            },
        }
    return {
        **common,
        **({"lifetime": True} if unit.lifetime else {}),
        "partials": [json.loads(partial.partial_id()) for partial in unit.layout.partials],
        "slice_us": unit.slice_us,
        "view": unit.stored_view,
    }


def _dedupe(ids: EventIds) -> dict[str, Any]:
    return {
        "column": ids.column,
        "most": ids.most,
        "seed": SEED,
        "step_back_us": STEP_BACK_US,
        "within_us": ids.within_us,
    }


def definition_payload(unit: StorageUnit) -> dict[str, Any]:
    """Content of a unit's definition fingerprint: the features over its stored partials."""
    return {
        "storage": unit.storage_fingerprint,
        "features": [
            {
                "column": feature.column,
                "aggregate": feature.aggregate.meaning(),
                "window": _window(feature.window),
            }
            for feature in sorted(unit.features, key=lambda feature: feature.column)
        ],
    }


def leaderboard_payload(
    unit: StorageUnit, feature: PlannedFeature, k: int, every_us: int
) -> dict[str, Any]:
    """Content of a leaderboard's fingerprint: the meaning of its rows."""
    return {
        "storage": unit.storage_fingerprint,
        "aggregate": feature.aggregate.meaning(),
        "window": _window(feature.window),
        "k": k,
        "every_us": every_us,
    }


def _window(window: Window) -> dict[str, Any]:
    stored = window.stored()
    names = [
        "kind",
        "length_us",
        "hop_us",
        "open",
        *(("closed", "rows") if window.by_events else ()),
    ]
    # These only where there is one, so that what is deployed without keeps its fingerprint.
    names += [name for name in ("offset_us", "gap_us") if stored[name]]
    return {name: stored[name] for name in names}


def unit_to_json(unit: StorageUnit) -> dict[str, Any]:
    """JSON from which `unit_from_json` builds an equal unit."""
    listed = {"event_list": plain(unit.event_list)} if isinstance(unit, ListUnit) else {}
    made = (
        {"functions": [[name, function.to_json()] for name, function in unit.functions]}
        if unit.functions
        else {}
    )
    published = {} if unit.emission is None else {"emission": plain(unit.emission)}
    later = {"version": unit.version} if unit.version > 1 else {}
    return (
        listed
        | made
        | published
        | later
        | {
            "view": unit.view,
            "source": unit.source,
            "entity": unit.entity,
            "spread": unit.per_partition,
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
    """The unit; DefinitionError where this version would store other bytes under its
    fingerprints."""
    unit = build_unit(
        source,
        view=raw["view"],
        entity=tuple((column, kind) for column, kind in raw["entity"]),
        per_partition=raw["spread"],
        where=None if raw["where"] is None else RowExpression.from_json(raw["where"]),
        columns=tuple((name, RowExpression.from_json(column)) for name, column in raw["columns"]),
        features=tuple(
            (
                feature["column"],
                feature["feature"],
                Window(**feature["window"]),
                from_spec(feature["aggregate"]),
            )
            for feature in raw["features"]
        ),
        retention_us=raw["retention_us"],
        owner=raw["owner"],
        project=raw["project"],
        version=raw.get("version", 1),
        kept=EventList(**raw["event_list"])
        if "event_list" in raw
        else Slices(
            raw["slice_us"],
            tuple(raw["levels"]),
            Emission(**raw["emission"]) if "emission" in raw else None,
        ),
        functions=tuple(
            (name, RowFunction.from_json(function)) for name, function in raw.get("functions", ())
        ),
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
