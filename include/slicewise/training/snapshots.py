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
from slicewise.training.answering.spines import read_unit
from slicewise.training.archive import Archive, Archived, refuse_beyond
from slicewise.training.events.entities import Entities, entities_of
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
) -> tuple[pa.Table, dict[str, Finished]]:
    """Entity columns and `at` of every row, and the finished values by ref."""
    names = _one_key(requested)
    ats = np.array(ats_us, np.int64)
    if not len(ats):
        raise BadRequest(
            "no instants",
            where="snapshot",
            expected="at, or start, end and every",
            next_step="widen the span, or shorten every=",
        )
    views: list[tuple[UnitRequest, UnitEvents]] = []
    for unit_request in requested:
        refuse_beyond(unit_request.unit.source, archived[unit_request.unit.source], int(ats.max()))
        archive_version = archived[unit_request.unit.source].archive_version
        views.append(
            (
                unit_request,
                read_unit(
                    deployment,
                    archive,
                    unit_request.unit,
                    _bounds(unit_request, ats),
                    archive_version,
                    None,
                ),
            )
        )
    entities = _all(names, views, entity_types(requested))
    entity, at = _present(entities, views, ats)
    values = entities.values.take(pa.array(entity)) if names else pa.table({})
    table = (
        values.append_column(AT, as_timestamps(at)) if names else pa.table({AT: as_timestamps(at)})
    )
    finished: dict[str, Finished] = {}
    for part, events in views:
        numbers = events.entities.numbers(table)
        question = Question(numbers, settled(events, part.features, numbers, _bounds(part, at)))
        some = answer(events, part.features, question)
        finished |= {part.ref(feature): some[feature.column] for feature in part.features}
    return table, finished


def _one_key(requested: Sequence[UnitRequest]) -> tuple[str, ...]:
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
        if rows > MAX_ROWS:
            raise BadRequest(
                f"more than {MAX_ROWS} rows",
                where="snapshot",
                expected="fewer instants",
                next_step="take several snapshots",
            )
    return np.concatenate(entity), np.concatenate(at)
