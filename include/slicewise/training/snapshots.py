"""A snapshot has a row for exactly the entities with an event in some window asked for, at each
instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from slicewise.aggregates import Finished
from slicewise.errors import BadRequest
from slicewise.features.plan.deployment import Deployment
from slicewise.features.schema.types import arrow_type
from slicewise.training.answering.local import Bounds, Question, answer
from slicewise.training.answering.sessions import settled
from slicewise.training.answering.spines import read_unit, span_of
from slicewise.training.archive import Archive, Archived, refuse_beyond, refuse_unapplied
from slicewise.training.arrival import Arrival
from slicewise.training.events.entities import Entities, entities_of
from slicewise.training.events.rows import Span
from slicewise.training.events.unit_events import UnitEvents
from slicewise.training.ranges import Ints
from slicewise.training.requests.unit_requests import UnitRequest, entity_types
from slicewise.training.tables.instants import as_timestamps
from slicewise.training.tables.spine import AT

MAX_INSTANTS = 10_000
MAX_ROWS = 50_000_000


def instants(start_us: int, end_us: int, every_us: int) -> tuple[int, ...]:
    """The instants start, start + every, … before `end`. Raises BadRequest for none or too many."""
    count = -(-(end_us - start_us) // every_us)
    if not 0 < count <= MAX_INSTANTS:
        raise BadRequest(
            f"{max(count, 0)} instants between start and end",
            where="snapshot",
            expected=f"1 to {MAX_INSTANTS}",
            next_step="change start, end or every",
        )
    return tuple(range(start_us, end_us, every_us))


def answer_snapshot(
    deployment: Deployment,
    archive: Archive,
    archived: Mapping[str, Archived],
    requested: Sequence[UnitRequest],
    ats_us: tuple[int, ...],
    arrival: Arrival | None = None,
) -> tuple[pa.Table, dict[str, Finished]]:
    """Entity columns and `at` of every row, and the finished values by ref.

    arrival: what was applied by the one instant at which all rows know; None: all that is archived.
    """
    ats = instants_of(ats_us)
    refuse_late(archived, requested, ats, arrival)
    views = [(part, _read(deployment, archive, archived, part, ats, arrival)) for part in requested]
    table = present_rows(views, ats)
    at = np.asarray(table[AT].cast(pa.int64()).to_numpy(), np.int64)
    finished: dict[str, Finished] = {}
    for part, events in views:
        numbers = events.entities.numbers(table)
        question = Question(numbers, settled(events, part.features, numbers, _bounds(part, at)))
        some = answer(events, part.features, question)
        finished |= {part.ref(feature): some[feature.column] for feature in part.features}
    return table, finished


def instants_of(ats_us: Sequence[int]) -> Ints:
    """The instants as a column. Raises BadRequest for none."""
    if not len(ats_us):
        raise BadRequest(
            "no instants",
            where="snapshot",
            expected="at, or start, end and every",
            next_step="widen the span, or shorten every=",
        )
    return np.array(ats_us, np.int64)


def refuse_late(
    archived: Mapping[str, Archived],
    requested: Sequence[UnitRequest],
    ats: Ints,
    arrival: Arrival | None = None,
) -> None:
    """Raises BadRequest for instants that the archive does not reach, and for views of several
    entity keys."""
    key_of(requested)
    for part in requested:
        source = part.unit.source
        if arrival is not None:
            refuse_unapplied(source, archived[source], arrival.of(source, ats).joined())
        else:
            refuse_beyond(source, archived[source], int(ats.max()))


def spans_of(requested: Sequence[UnitRequest], ats: Ints) -> tuple[Span, ...]:
    """Per unit the span of event times that its windows reach at these instants."""
    return tuple(span_of(_bounds(part, ats)) for part in requested)


def read_present(
    deployment: Deployment,
    archive: Archive,
    archived: Mapping[str, Archived],
    part: UnitRequest,
    ats: Ints,
    arrival: Arrival | None = None,
) -> pa.Table:
    """Rows that one unit gives a snapshot: its entities with an event in some window, at each of
    the instants."""
    events = _read(deployment, archive, archived, part, ats, arrival)
    return present_rows([(part, events)], ats)


def present_rows(views: Sequence[tuple[UnitRequest, UnitEvents]], ats: Ints) -> pa.Table:
    """Entity columns and `at` of the rows of these views, by instant and then by entity. Raises
    BadRequest for more than MAX_ROWS."""
    requested = [part for part, _ in views]
    names = key_of(requested)
    entities = _all(names, views, entity_types(requested))
    entity, at = _present(entities, views, ats)
    values = entities.values.take(pa.array(entity)) if names else pa.table({})
    instants = as_timestamps(at)
    return values.append_column(AT, instants) if names else pa.table({AT: instants})


def in_order(parts: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    """Rows of several parts as one: each once, by instant and then by entity. Raises BadRequest for
    more than MAX_ROWS."""
    keys = [AT, *names]
    rows = pa.concat_tables(parts).group_by(keys, use_threads=False).aggregate([])
    _refuse_many(rows.num_rows)
    return rows.sort_by([(key, "ascending") for key in keys]).select([*names, AT])


def presenting(requested: Sequence[UnitRequest]) -> tuple[int, ...]:
    """Positions of the units whose entities are a snapshot's: beside views with entities, a global
    view has none of its own."""
    own = bool(key_of(requested))
    return tuple(i for i, part in enumerate(requested) if bool(part.unit.entity) == own)


def _read(
    deployment: Deployment,
    archive: Archive,
    archived: Mapping[str, Archived],
    part: UnitRequest,
    ats: Ints,
    arrival: Arrival | None,
) -> UnitEvents:
    source, bounds = part.unit.source, _bounds(part, ats)
    archive_version = archived[source].archive_version
    arrived = None if arrival is None else arrival.of(source, ats)
    return read_unit(deployment, archive, part.unit, bounds, archive_version, None, arrived)


def key_of(requested: Sequence[UnitRequest]) -> tuple[str, ...]:
    """Entity columns of a snapshot; none of global views. Raises BadRequest for several keys."""
    keys = {tuple(name for name, _ in unit_request.unit.entity) for unit_request in requested} - {
        ()
    }
    if len(keys) > 1:
        raise BadRequest(
            f"views of different entities: {', '.join(sorted(' + '.join(key) for key in keys))}",
            where="features",
            expected="one entity key, and global views beside it",
            next_step="take one snapshot per entity key",
        )
    return keys.pop() if keys else ()


def _bounds(request: UnitRequest, at_us: Ints) -> dict[str, Bounds]:
    slice_us = request.unit.slice_us
    return {
        feature.column: feature.window.bounds_columns("event_time", at_us, slice_us)
        for feature in request.features
    }


def _all(
    names: tuple[str, ...],
    views: Sequence[tuple[UnitRequest, UnitEvents]],
    types: Mapping[str, str],
) -> Entities:
    """The entities of all views, in the order of their values, so that rows have one order."""
    if not names:
        return Entities((), pa.table({}))
    schema = pa.schema([(name, arrow_type(types[name])) for name in names])
    own = [events.entities.values.cast(schema) for _, events in views if events.entities.columns]
    distinct = entities_of(pa.concat_tables(own), names).values
    return Entities(names, distinct.sort_by([(name, "ascending") for name in names]))


def _present(
    entities: Entities, views: Sequence[tuple[UnitRequest, UnitEvents]], ats: Ints
) -> tuple[Ints, Ints]:
    """(entity number, instant) of every row, ordered by instant and entity."""
    # Beside views with entities, a global view has none of its own.
    own = [view for view in views if bool(view[1].entities.columns) == bool(entities.columns)]
    one = np.zeros(1, np.int64)
    numbers = [e.entities.numbers(entities.values) if entities.columns else one for _, e in own]
    entity, at = [], []
    rows = 0
    for instant in ats:
        present = np.zeros(len(entities), np.bool_)
        for (part, events), number in zip(own, numbers, strict=True):
            bounds = _bounds(part, np.full(len(entities), instant, np.int64))
            for start, end in settled(events, part.features, number, bounds).values():
                first, beyond = events.source.between(number, start, end)
                present |= first < beyond
        entity.append(np.flatnonzero(present).astype(np.int64))
        at.append(np.full(len(entity[-1]), instant, np.int64))
        rows += len(entity[-1])
        _refuse_many(rows)
    return np.concatenate(entity), np.concatenate(at)


def _refuse_many(rows: int) -> None:
    if rows > MAX_ROWS:
        raise BadRequest(
            f"more than {MAX_ROWS} rows",
            where="snapshot",
            expected="fewer instants",
            next_step="take several snapshots",
        )
