"""The rows that SQL has of a view are questions to it: they are answered as a training set and a
snapshot are.

A frame that ends at the current row holds the event itself and those of the same microsecond, as in
SQL: windows over slices, which end before the instant of the question, are asked for one
microsecond after each event. Complete windows side by side are asked for at their ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.errors import BadRequest
from slicewise.features.declare.definitions import FeatureView
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan, plan_source
from slicewise.features.plan.unit import Source, StorageUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.training.archive import Archive, Archived
from slicewise.training.dataset import DataSet, build_snapshot, build_training_set
from slicewise.training.events.entities import entities_of
from slicewise.training.events.rows import IDENTITY_COLUMNS, KAFKA_TIME, events_of, row_logic
from slicewise.training.snapshots import MAX_ROWS
from slicewise.training.tables.given.events import typed_events
from slicewise.training.tables.instants import as_timestamps
from slicewise.training.tables.spine import AT, Given, given_spine
from slicewise.windows.kinds import as_window
from slicewise.windows.periodic import Periodic

WINDOW_END = "window_end"
_FOR_EVER = 2**62


@dataclass(frozen=True)
class GivenArchive:
    """The archive's port over events at hand: typed, with event_time, topic_id, partition and
    offset."""

    table: pa.Table

    @staticmethod
    def of(view: FeatureView, given: pa.Table) -> tuple[GivenArchive, Mapping[str, int]]:
        """The archive of a table's events, and how many the source or the view leaves out, by
        reason. Raises BadRequest."""
        typed, refused = typed_events(plan_source(view.source), given)
        left = dict(refused)
        for unit in deployment_of(view).units:
            # of the view: the same in each of its units
            for reason, count in row_logic(unit, typed)[1].items():
                left[reason] = max(left.get(reason, 0), count)
        return GivenArchive(typed), left

    def reaches(self, source: str) -> Archived:  # noqa: ARG002
        """All of them, for ever."""
        return Archived(1, OffsetVector({}), _FOR_EVER, 0)

    def confirmed(self, source: Source, archived: Archived) -> Archived:  # noqa: ARG002
        """See Archive."""
        return archived

    def events(
        self,
        source: Source,  # noqa: ARG002
        columns: Sequence[str],
        start_us: int,
        end_us: int,
        archive_version: int,  # noqa: ARG002
    ) -> pa.Table:
        """See Archive."""
        time = self.table["event_time"]
        within = pc.and_(pc.greater_equal(time, start_us), pc.less(time, end_us))
        return self._selected(self.table.filter(within), columns)

    def below(
        self,
        source: Source,  # noqa: ARG002
        columns: Sequence[str],
        offset_vector: OffsetVector,
        kafka_us: int,
        archive_version: int,  # noqa: ARG002
    ) -> pa.Table:
        """See Archive."""
        topic_partitions = zip(
            self.table["topic_id"].to_pylist(), self.table["partition"].to_pylist(), strict=True
        )
        ends = np.array(
            [offset_vector.get(topic_partition) for topic_partition in topic_partitions], np.int64
        )
        below = pa.array(np.asarray(self.table["offset"].to_numpy()) < ends)
        since = pc.greater_equal(self.table[KAFKA_TIME], kafka_us)
        return self._selected(self.table.filter(pc.and_(below, since)), columns)

    def _selected(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        return table.select(list(dict.fromkeys((*columns, *IDENTITY_COLUMNS, KAFKA_TIME))))


@dataclass(frozen=True)
class QueryRows:
    """Rows: the entity's columns, the time that they are of, and the features. errors: column ->
    failed values."""

    table: pa.Table
    time: str
    errors: Mapping[str, int]


def deployment_of(view: FeatureView) -> Deployment:
    """The view by itself, planned."""
    return plan(Project(view.name, (view,)))


def query_rows(
    view: FeatureView,
    archive: Archive,
    *,
    at_us: int | None = None,
    start_us: int | None = None,
    end_us: int | None = None,
) -> QueryRows:
    """The view's rows over an archive.

    at_us: one row per entity at this instant. Else a row per event of [start, end), or per window
    that ends in (start, end]; None: from the first, to the last. Raises BadRequest, and DataLoss
    where nothing is archived.
    """
    deployment = deployment_of(view)
    source = deployment.source(view.source.name)
    refs = [f"{view.name}:{column}" for feature in view.features for column in feature.columns()]
    archived = archive.reaches(source.name)
    if at_us is not None:
        return _rows(view, AT, build_snapshot(deployment, archive, refs, [at_us]))
    if end_us is not None and end_us > archived.until_us:
        archived = archive.confirmed(source, archived)
    unit = deployment.units[0]
    begin = -_FOR_EVER if start_us is None else start_us
    end = _FOR_EVER if end_us is None else end_us
    windows = [as_window(window) for feature in view.features for window in feature.windows]
    periodic = [window for window in windows if isinstance(window, Periodic) and not window.open]
    complete = len(periodic) == len(windows)
    reach = max(window.length_us + window.offset_us for window in windows) if complete else 0
    first = begin - reach if start_us is not None else begin
    span = first, min(end, archived.until_us)
    events = events_of(archive, source, unit, *span, archived.archive_version)
    kept = _in_log_order(row_logic(unit, events, span)[0])
    archived_until = {source.name: archived}
    if complete:
        ends = _spine(_ends(unit, kept, periodic, begin, min(end, archived.until_us)))
        return _rows(
            view,
            WINDOW_END,
            build_training_set(deployment, archive, ends, refs, "event_time", archived_until),
        )
    ends = _spine(_per_event(unit, kept))
    built = build_training_set(
        deployment, archive, ends, refs, "event_time", archived_until, mode="row"
    )
    return _rows(view, source.timestamp, built)


def _in_log_order(events: pa.Table) -> pa.Table:
    """The events in an order that does not depend on how the archive's files lie."""
    keys = pa.table(
        {
            "topic_id": events["topic_id"].cast(pa.string()),
            "partition": events["partition"],
            "offset": events["offset"],
        }
    )
    return events.take(
        pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    )


def _spine(ends: pa.Table) -> Given:
    """The rows as a spine that may be empty: a query without rows is no mistake of its reader's."""
    return given_spine(ends)


def _per_event(unit: StorageUnit, kept: pa.Table) -> pa.Table:
    """A question per event, in the order of their times."""
    time = np.asarray(kept["event_time"].to_numpy(), np.int64)
    order = np.argsort(time, kind="stable")
    _refuse_many(len(order))
    at = as_timestamps(time[order])
    if not unit.entity:  # a table without columns has no rows that a column could stand beside
        return pa.table({AT: at})
    return (
        kept.select([name for name, _ in unit.entity]).take(pa.array(order)).append_column(AT, at)
    )


def _ends(
    unit: StorageUnit, kept: pa.Table, windows: Sequence[Periodic], begin: int, end: int
) -> pa.Table:
    """A question per entity and end of a window that holds an event, ends in (begin, end]."""
    names = [name for name, _ in unit.entity]
    distinct = entities_of(kept, names)
    number = distinct.numbers(kept)
    time = np.asarray(kept["event_time"].to_numpy(), np.int64)
    pairs = [np.zeros((0, 2), np.int64)]
    count = 0
    for window in {(w.length_us, w.hop_us, w.offset_us): w for w in windows}.values():
        for step in range(1, -(-window.length_us // window.hop_us) + 1):
            ends = time // window.hop_us * window.hop_us + step * window.hop_us
            end_us = ends + window.offset_us
            holds = (ends - window.length_us <= time) & (end_us > begin) & (end_us <= end)
            pairs.append(np.unique(np.stack([end_us[holds], number[holds]], axis=1), axis=0))
            count += len(pairs[-1])
            _refuse_many(count)
    rows = np.unique(np.concatenate(pairs), axis=0)
    entity = distinct.values.take(pa.array(rows[:, 1])) if names else pa.table({})
    at = as_timestamps(rows[:, 0])
    return entity.append_column(AT, at) if names else pa.table({AT: at})


def _refuse_many(count: int) -> None:
    if count > MAX_ROWS:
        raise BadRequest(
            f"more than {MAX_ROWS} rows",
            where="the query",
            expected="fewer events",
            next_step="narrow --start and --end",
        )


def _rows(view: FeatureView, time: str, built: DataSet) -> QueryRows:
    prefix = f"{view.name}:"
    names = [time if name == AT else name.removeprefix(prefix) for name in built.table.column_names]
    errors = {ref.removeprefix(prefix): count for ref, count in built.manifest.errors.items()}
    return QueryRows(built.table.rename_columns(names), time, errors)
