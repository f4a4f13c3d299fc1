"""The whole path in one process: what `evaluate` answers is what the platform serves for these
events.

Row logic, canonical values, slices, accumulate, encode, decode, combine, finish: all by the code
that the platform runs, without a server.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slicewise.aggregates import Columns, Finished
from slicewise.aggregates.custom.raised import Raised, listening
from slicewise.calls import checked_arguments, shown
from slicewise.errors import BadRequest, DefinitionError, FunctionRaised
from slicewise.features.declare.definitions import FeatureView
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import PlannedFeature, SliceUnit, StorageUnit
from slicewise.training.answering.local import Bounds, Question, answer
from slicewise.training.answering.sessions import settled
from slicewise.training.capacity import beyond_capacity
from slicewise.training.events.entities import entities_of
from slicewise.training.events.rows import unit_events
from slicewise.training.events.unit_events import SortedRows, UnitEvents
from slicewise.training.ranges import Ints
from slicewise.training.requests.questions import answered, question_types
from slicewise.training.tables.given.events import typed_events
from slicewise.training.tables.spine import AT, Spine, read_spine
from slicewise.windows.bounds import Mode

MODES: tuple[Mode, ...] = ("event_time", "at", "live")
MODE = "mode"
REFUSED = b"slicewise.refused"
ERRORS = b"slicewise.errors"
CAPACITY = b"slicewise.beyond_capacity"
RAISED = b"slicewise.raised"
BEYOND_CAPACITY = "beyond_capacity"
"""Error code: the window reaches events that the view's `capacity` leaves out of what is kept
online."""


@checked_arguments
def evaluate(view: FeatureView, events: object, queries: object) -> pa.Table:
    """Evaluates the view for each query, given these events in log order.

    events: an Arrow table, a pandas frame or a list of dicts with the source's columns, and
    optionally `partition`, `offset` and `kafka_time` (see typed_events). queries: likewise with the
    entity columns, `at` (aware) and optionally `mode`: "event_time" (default), "at" or "live".
    All events are known to every query, whenever they came.

    A query also has the columns that features are asked by (`sw.bloom("song_id", …)` by `song_id`):
    a value, or a list of values.

    Exact windows see what an online read would: of an entity's events the latest `capacity`. A
    window that reaches before them is null in the modes "at" and "live", where serving refuses it;
    by event time it is answered, as a training set does from the archive. Either way it is named in
    the metadata.

    Returns one row per query: entity columns, what was asked, `at`, and a column per feature and
    window. Schema metadata: `slicewise.refused`, records and values that the platform would refuse,
    by reason; `slicewise.errors`, features whose value is null because of an error;
    `slicewise.beyond_capacity`, features with the number of queries whose window reaches before
    what the view's `capacity` keeps; `slicewise.raised`, what functions of the user's own raised
    and where, as JSON. Each of these is a warning, too (FunctionRaised). Raises DefinitionError and
    BadRequest.
    """
    table, raised = evaluated(view, events, queries)
    for text in raised:
        warnings.warn(text, FunctionRaised, stacklevel=3)
    return table


def evaluated(view: FeatureView, events: object, queries: object) -> tuple[pa.Table, Sequence[str]]:
    """The result of evaluate, and what functions of the user's own raised, for people."""
    with listening() as raised_counts:
        table = _evaluated(view, events, queries)
    raised = _messages(raised_counts)
    notes = {
        **(table.schema.metadata or {}),
        RAISED: json.dumps(raised, ensure_ascii=False).encode(),
    }
    return table.replace_schema_metadata(notes), raised


def _messages(raised: Counter[Raised]) -> list[str]:
    return sorted(error.message(times) for error, times in raised.items())


def _evaluated(view: FeatureView, events: object, queries: object) -> pa.Table:
    if not isinstance(view, FeatureView):
        raise DefinitionError(
            f"{shown(view)} is no view",
            where="sw.evaluate",
            expected="a sw.FeatureView",
            next_step="give the view itself",
        )
    deployment = plan(Project.of("evaluate", [view]))
    units = deployment.view(view.name)
    typed, refused = typed_events(deployment.source(units[0].source), events)
    questions = question_types((unit, unit.features) for unit in units)
    spine = read_spine(queries, dict(units[0].entity), questions, "queries")
    modes = _modes(spine.table)
    finished: dict[str, Finished] = {}
    online = np.array([mode != "event_time" for mode in modes], np.bool_)
    beyond: dict[str, int] = {}
    refusals = dict(refused)
    for unit in units:
        entities = entities_of(spine.table, [name for name, _ in unit.entity])
        own = unit_events(unit, typed, entities)
        for reason, count in own.refused.items():  # of the view: the same in each of its units
            refusals[reason] = max(refusals.get(reason, 0), count)
        numbers = own.entities.numbers(spine.table)
        bounds = {feature.column: _bounds(unit, feature, modes, spine) for feature in unit.features}
        question = Question(numbers, settled(own, unit.features, numbers, bounds))
        if isinstance(unit, SliceUnit):
            some = answer(own, unit.features, question, _Transit(unit))
        else:
            some = answer(_listed(own), unit.features, question)
            for column, rows in beyond_capacity(own, unit.features, question).items():
                beyond[column] = int(rows.sum())
                some[column] = _without(some[column], rows & online)
        finished |= {f.column: answered(f, some[f.column], spine.table) for f in unit.features}
    return _table(view, spine, (*dict(units[0].entity), *questions), finished, refusals, beyond)


@dataclass(frozen=True)
class _Transit:
    """Encode and decode: the bytes that would stand in a store."""

    unit: StorageUnit

    def __call__(self, columns: list[Columns], n: int) -> list[Columns]:
        layout = self.unit.layout
        return layout.decode_blocks([layout.encode_block(columns)], [n])


def _listed(own: UnitEvents) -> UnitEvents:
    """The events as they would come out of an event list."""
    members = own.unit.members
    rows = members.decode(members.encode(own.source.rows))
    return replace(own, source=SortedRows(own.source.entity, rows))


def _without(finished: Finished, rows: NDArray[np.bool_]) -> Finished:
    """With null, and the error, in these rows."""
    kept = pc.if_else(pa.array(~rows), finished.values, pa.scalar(None, finished.values.type))
    return Finished(
        kept, {**finished.errors, **dict.fromkeys(np.flatnonzero(rows).tolist(), BEYOND_CAPACITY)}
    )


def _modes(table: pa.Table) -> list[Mode]:
    if MODE not in table.column_names:
        return ["event_time"] * int(table.num_rows)
    modes: list[Mode] = []
    for row, value in enumerate(table[MODE].to_pylist()):
        if value is not None and value not in MODES:
            raise BadRequest(
                f"{value!r} is no mode",
                where=f"queries, column {MODE!r}, row {row}",
                expected="event_time, at or live",
                next_step="correct the row, or leave the column out for event_time",
            )
        modes.append(value or "event_time")
    return modes


def _bounds(
    unit: StorageUnit, feature: PlannedFeature, modes: Sequence[Mode], spine: Spine
) -> Bounds:
    start, end = np.zeros(len(spine), np.int64), np.zeros(len(spine), np.int64)
    wanted = np.array(modes, dtype=object)
    for mode in MODES:
        rows: Ints = np.flatnonzero(wanted == mode).astype(np.int64)
        if len(rows):
            start[rows], end[rows] = feature.window.bounds_columns(
                mode, spine.at_us[rows], unit.slice_us
            )
    return start, end


def _table(
    view: FeatureView,
    spine: Spine,
    names: Sequence[str],
    finished: Mapping[str, Finished],
    refused: Mapping[str, int],
    beyond: Mapping[str, int],
) -> pa.Table:
    columns: dict[str, Any] = {name: spine.table[name] for name in (*names, AT)}
    order = [column for feature in view.features for column in feature.columns()]
    columns |= {column: finished[column].values for column in order}
    errors = sorted({f"{c}: {code}" for c in order for code in finished[c].errors.values()})
    notes = {
        REFUSED: ", ".join(f"{reason}={refused[reason]}" for reason in sorted(refused)).encode(),
        ERRORS: ", ".join(errors).encode(),
        CAPACITY: ", ".join(f"{column}={beyond[column]}" for column in sorted(beyond)).encode(),
    }
    return pa.table(columns).replace_schema_metadata(notes)
