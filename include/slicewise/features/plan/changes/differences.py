"""Differences between two units of one view that store other bytes, in the words of who wrote
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slicewise.aggregates import Behind
from slicewise.features.plan.build import storage_payload
from slicewise.features.plan.fingerprint import canonical_json
from slicewise.features.plan.unit import ListUnit, PlannedFeature, SliceUnit, Source, StorageUnit
from slicewise.features.rowlogic.expression import RowExpression, canonical
from slicewise.features.schema.dedupe import EventIds
from slicewise.windows.durations import format_duration

_CONDITION = "_where_"
"""Begins the column of a feature's condition."""


def differences(
    now: StorageUnit, source: Source, then: StorageUnit, source_then: Source
) -> tuple[str, ...]:
    """Everything that the unit stores otherwise than the one that is deployed, the largest first.

    source, source_then: those of the two units.
    """
    after, before = storage_payload(now, source), storage_payload(then, source_then)
    if after == before:
        return ()
    reasons = [
        *_whole(now, source, then, source_then),
        *_expressions(now, then),
        *_aggregates(now, then),
        *_types(after["columns"], before["columns"]),
        *_paths(after.get("paths", {}), before.get("paths", {})),
        *_platform(after, before),
    ]
    return (
        tuple(reasons)
        or tuple(_reads(after["columns"], before["columns"]))
        or ("it stores other bytes",)
    )


def _whole(
    now: StorageUnit, source: Source, then: StorageUnit, source_then: Source
) -> Iterator[str]:
    """Differences that hold for the view as a whole."""
    if now.source != then.source:
        yield f"the source is {now.source}, was {then.source}"
    if now.entity != then.entity:
        yield f"the entity is {_entity(now)}, was {_entity(then)}"
    if isinstance(now, SliceUnit) and now.slice_us != then.slice_us:
        yield f"the slice of `{now.view}` goes from {then.step_text} to {now.step_text}"
    if now.per_partition != then.per_partition:
        yield f"spread is {now.per_partition}, was {then.per_partition}"
    if isinstance(now, SliceUnit) and now.lifetime != then.lifetime:
        yield (
            "a lifetime is added, and all events are kept"
            if now.lifetime
            else "the last lifetime is removed"
        )
    time, time_then = ((version.timestamp, version.time_form) for version in (source, source_then))
    if time != time_then:
        yield f"the event time is {time[0]} in {time[1]}, was {time_then[0]} in {time_then[1]}"
    if now.dedupe != then.dedupe:
        yield f"events {_ids(now.dedupe)}; until now they {_ids(then.dedupe)}"


def _entity(unit: StorageUnit) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in unit.entity) or "none"


def _ids(ids: EventIds | None) -> str:
    if ids is None:
        return "count whenever they come"
    return (
        f"count once by {ids.column}, within {format_duration(ids.within_us)} and {ids.most} events"
    )


def _expressions(now: StorageUnit, then: StorageUnit) -> Iterator[str]:
    """Row logic that an event goes through."""
    after, before = (
        None if feature.where is None else canonical(feature.where.tree) for feature in (now, then)
    )
    if after != before:
        yield f"where is {_text(now.where)}, was {_text(then.where)}"
    columns, columns_then = dict(now.columns), dict(then.columns)
    for name in sorted({*columns, *columns_then}):
        own, own_then = columns.get(name), columns_then.get(name)
        if name.startswith(_CONDITION):
            continue  # told with its aggregate
        if own is None:
            yield f"column `{name}` is not computed any more"
        elif own_then is None:
            yield f"column `{name}` is computed: {_text(own)}"
        elif canonical(own.tree) != canonical(own_then.tree):
            if own.text == own_then.text:
                yield f"column `{name}` computes {_text(own)} of a column that changed"
            else:
                yield f"column `{name}` computes {_text(own)}, was {_text(own_then)}"
    functions, functions_then = dict(now.functions), dict(then.functions)
    for name in sorted({*functions, *functions_then}):
        made, made_then = functions.get(name), functions_then.get(name)
        if made is None or made_then is None:
            yield (
                f"column `{name}` is "
                f"{'computed by a row function' if made else 'not computed any more'}"
            )
        elif made.stored() != made_then.stored():
            yield f"column `{name}` is computed by a row function whose text changed"


def _text(expression: RowExpression | None) -> str:
    return "none" if expression is None else f"`{expression.text.strip()}`"


def _aggregates(now: StorageUnit, then: StorageUnit) -> Iterator[str]:
    """Partials, by the features that they are for."""
    if isinstance(now, ListUnit):
        return
    stored, stored_then = _partials(now), _partials(then)
    reported: set[str] = set()
    features = {feature.column: feature for feature in now.features}
    for column, was in sorted((feature.column, feature) for feature in then.features):
        own = features.get(column)
        if own is None:
            continue
        key, key_then = _partial(now, own), _partial(then, was)
        if key != key_then:
            reported |= {key, key_then}
            now_text, then_text = own.aggregate.describe(), was.aggregate.describe()
            # else it reads a column that changed, which is told of the column
            if now_text != then_text:
                yield f"the aggregate of {column} is {now_text}, was {then_text}"
            elif old := Behind.of(was.aggregate.spec()):
                versions = ", ".join(
                    f"semantic version {one.stored} of {one.kind}, this code has {one.now}"
                    for one in old
                )
                yield f"{column} is stored by {versions}; a version is needed"
    for key in sorted({*stored} - {*stored_then} - reported):
        yield f"partial added: {stored[key]}{_used(now, key)}"
    for key in sorted({*stored_then} - {*stored} - reported):
        yield f"partial removed: {stored_then[key]}{_used(then, key)}"


def _partials(unit: StorageUnit) -> dict[str, str]:
    return {partial.partial_id(): partial.describe() for partial in unit.layout.partials}


def _partial(unit: StorageUnit, feature: PlannedFeature) -> str:
    return unit.layout.partials[feature.partial].partial_id()


def _used(unit: StorageUnit, partial: str) -> str:
    columns = [feature.column for feature in unit.features if _partial(unit, feature) == partial]
    sessions = [feature.column for feature in unit.features if feature.window.session_gap_us]
    return f", for {_first_names(columns or sessions)}" if columns or sessions else ""


def _first_names(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _types(now: Mapping[str, str], then: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*now} & {*then}):
        if now[name] != then[name]:
            yield f"column `{name}` of the source is {now[name]}, was {then[name]}"


def _reads(now: Mapping[str, str], then: Mapping[str, str]) -> Iterator[str]:
    """Columns that are read, where nothing else says why."""
    if added := sorted({*now} - {*then}):
        yield f"it reads {', '.join(added)} too"
    if gone := sorted({*then} - {*now}):
        yield f"it does not read {', '.join(gone)} any more"


def _paths(now: Mapping[str, Iterable[str]], then: Mapping[str, Iterable[str]]) -> Iterator[str]:
    for name in sorted({*now, *then}):
        if now.get(name) != then.get(name):
            yield (
                f"column `{name}` stands at {_path(name, now)} of a record, was at "
                f"{_path(name, then)}"
            )


def _path(name: str, paths: Mapping[str, Iterable[str]]) -> str:
    return "$." + ".".join(paths.get(name, (name,)))


def _platform(now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[str]:
    """Differences that a version of slicewise made by itself."""
    versions = {"codec": (now["codec"], then["codec"]), "engine": (now["engine"], then["engine"])}
    versions["row logic"] = (now["row_logic"]["version"], then["row_logic"]["version"])
    for name, (after, before) in versions.items():
        if after != before:
            what = f"{name} {canonical_json(after)}, was {canonical_json(before)}"
            yield f"this version of slicewise stores otherwise: {what}"
    events, events_then = now.get("events"), then.get("events")
    if events and events_then and events != events_then:
        kinds, kinds_then = (dict(map(tuple, log["columns"])) for log in (events, events_then))
        if kinds == kinds_then:
            yield "this version of slicewise stores events otherwise"
        yield from _types(kinds, kinds_then)
        yield from _reads(kinds, kinds_then)
