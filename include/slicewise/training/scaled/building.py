"""A training set is built by Spark from a folder of its own, which is gone afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, Self

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from slicewise.errors import SettingsError
from slicewise.features.plan.deployment import Deployment
from slicewise.settings import Settings
from slicewise.training.answering.spines import spans
from slicewise.training.archive import Archive, Archived
from slicewise.training.arrival import Arrival
from slicewise.training.csv_form import is_csv
from slicewise.training.dataset import (
    DataSet,
    build_snapshot,
    build_training_set,
    manifest_of,
    reach_of,
    snapshot_manifest,
    snapshot_reach,
)
from slicewise.training.events.rows import Span
from slicewise.training.manifest import Manifest, described
from slicewise.training.requests.questions import refuse_questions
from slicewise.training.requests.training_request import LOCAL, SPARK, TrainingRequest
from slicewise.training.requests.unit_requests import (
    ARRIVAL,
    UnitRequest,
    questions_of,
    resolve,
)
from slicewise.training.scaled.choosing import Load, choose, value_bytes
from slicewise.training.scaled.request import DONE, ROW, SPINE, ScaledRequest
from slicewise.training.scaled.scratch import Scratch
from slicewise.training.scaled.values import ScaledValues
from slicewise.training.snapshots import instants_of, key_of, refuse_late, spans_of
from slicewise.training.spark_job import SparkJob
from slicewise.training.statistics import statistics_of
from slicewise.training.tables.spine import AT, Spine
from slicewise.training.writing import write_runs, write_table
from slicewise.windows.durations import HOUR_US

SHARE_EVENTS, SHARE_BYTES = 500_000, 256 << 20
"""Events, or rows, of a share, and about the bytes of its values: a task holds one at a time."""
PATIENCE_S = 12 * 3600.0
JOB = SparkJob(
    "dataset.py",
    (),
    work="building the data set",
    expected="values of every row",
    again="build it again",
    without="or build it by the local engine",
)
Notify = Callable[[str], None]


class Counted(Archive, Protocol):
    """An archive that says its size."""

    def by_hour(self, source: str) -> Mapping[int, int]:
        """Gives hour -> number of its events, from metadata."""
        ...


@dataclass(frozen=True)
class ScaledSet:
    """A training set whose values stand in a folder."""

    manifest: Manifest
    rows: pa.Table
    """The rows, before their values."""
    spine: Spine | None
    arrival: Arrival | None
    values: ScaledValues
    folder: Scratch | None = None
    """Folder of the values, which is there as long as this is, or until its `with` ends."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.folder is not None:
            self.folder.remove()

    def runs(self) -> Iterator[pa.Table]:
        """The table run by run, in the order of the spine. Raises DataLoss."""
        return self.values.runs(self.rows)

    def write(self, path: Path) -> Manifest:
        """Writes it as `DataSet.write` does, a run at a time."""
        runs, as_csv = self.runs(), is_csv(path)
        return write_runs(
            path, runs, self.manifest, self.spine, self.arrival, as_csv=as_csv, count=True
        )

    def to_iceberg(
        self,
        name: str,
        settings: Settings,
        *,
        instants: Sequence[int] = (),
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> Manifest:
        """Writes it as `DataSet.to_iceberg` does, a run at a time."""
        runs = self.runs()
        return write_table(
            settings,
            name,
            runs,
            self.manifest,
            count=True,
            instants=instants,
            properties=properties,
        )

    def whole(self) -> DataSet:
        """All of it in memory."""
        table = pa.concat_tables(self.runs())
        statistics = statistics_of(table, self.manifest.features)
        manifest = replace(self.manifest, statistics=statistics)
        return DataSet(table, manifest, self.spine, self.arrival)


def build_set(
    settings: Settings,
    archive: Counted,
    question: TrainingRequest,
    knowledge: str,
    arrival: Arrival | None,
    engine: str,
    notify: Notify,
    step: Notify,
    *,
    in_memory: bool = False,
) -> DataSet | ScaledSet:
    """A training set by the engine that is wanted, or by the one that has room. in_memory: whether
    the values are held here whatever builds them.

    notify: is given Spark's progress; step: the engine and why. Raises BadRequest where the spine
    asks for more than is archived, SettingsError where there is no Spark, ServerError where it
    fails.
    """
    reaches = reach_of(question, archive, knowledge)
    load = None
    if engine != LOCAL:  # whose size nobody needs
        load = _load_of(question, archive, reaches, knowledge, arrival)
        engine = _chosen(settings, engine, load, len(question.refs), step, in_memory=in_memory)
    if engine == SPARK and load is not None:
        return build_by_spark(settings, question, knowledge, reaches, arrival, load, notify)
    return build_training_set(
        question.deployment,
        archive,
        question.spine,
        list(question.refs),
        knowledge,
        reaches,
        arrival=arrival,
    )


def _chosen(
    settings: Settings, engine: str, load: Load, features: int, step: Notify, *, in_memory: bool
) -> str:
    """The engine that is taken, which `step` is given with the reason."""
    free_bytes = psutil.virtual_memory().available
    weighed = replace(load, rows=0) if in_memory else load
    choice = choose(engine, weighed, free_bytes, has_spark=_has_spark(settings))
    step(f"building {features} features by {choice.why}")
    return choice.engine


def _has_spark(settings: Settings) -> bool:
    """Tells whether there is a Spark to build with."""
    try:
        JOB.check(settings)
    except SettingsError:
        return False
    return True


def _load_of(
    question: TrainingRequest,
    archive: Counted,
    reaches: Mapping[str, Archived],
    knowledge: str,
    arrival: Arrival | None,
) -> Load:
    own = spans(reaches, question.requested, question.spine, knowledge, arrival)
    events = _most(archive, question.requested, own)
    return Load(events, len(question.spine), _value_bytes(question.requested), own)


def build_by_spark(
    settings: Settings,
    question: TrainingRequest,
    knowledge: str,
    reaches: Mapping[str, Archived],
    arrival: Arrival | None,
    load: Load,
    notify: Notify,
) -> ScaledSet:
    """A training set with the bits that the local engine gives, built by Spark.

    load: of this question, by which entities are cut into shares. Raises SettingsError where there
    is no Spark, and ServerError where it fails.
    """
    scratch = Scratch(settings.state_dir / "datasets")
    request = request_of(
        question, knowledge, reaches, load.spans, arrival, _shares(load), scratch.path
    )
    _run(settings, request, scratch, notify)
    return set_of(request, question, reaches, arrival, scratch)


def request_of(
    question: TrainingRequest,
    knowledge: str,
    reaches: Mapping[str, Archived],
    own: tuple[Span, ...],
    arrival: Arrival | None,
    shares: int,
    folder: Path,
) -> ScaledRequest:
    """The request for a training set, written into its folder. own: spans of its units."""
    rows = question.spine
    request = ScaledRequest(
        question.deployment.to_json(),
        question.refs,
        knowledge,
        described(reaches),
        own,
        shares,
        0 if arrival is None else arrival.known_at_us or 0,
        folder=folder,
    )
    request.write(rows.table, None if arrival is None else arrival.table(rows.at_us))
    return request


def set_of(
    request: ScaledRequest,
    question: TrainingRequest,
    reaches: Mapping[str, Archived],
    arrival: Arrival | None,
    scratch: Scratch | None = None,
) -> ScaledSet:
    """The training set of a request that was answered. scratch: its folder, where it is one."""
    rows, values = question.spine, ScaledValues(request)
    manifest = manifest_of(question, request.knowledge, reaches, arrival)
    manifest = replace(manifest, errors=values.errors())
    return ScaledSet(manifest, rows.table, rows, arrival, values, scratch)


def build_snapshot_set(
    settings: Settings,
    archive: Counted,
    deployment: Deployment,
    features: object,
    ats_us: Sequence[int],
    engine: str,
    notify: Notify,
    step: Notify,
    *,
    arrival: Arrival | None = None,
    in_memory: bool = False,
) -> DataSet | ScaledSet:
    """A snapshot by the engine that is wanted, or by the one that has room; as `build_set`."""
    refs, requested = resolve(deployment, features)
    refuse_questions(questions_of(requested))
    ats = instants_of(sorted(set(ats_us)))
    reaches = snapshot_reach(deployment, archive, requested, ats.tolist(), arrival)
    refuse_late(reaches, requested, ats, arrival)
    own = spans_of(requested, ats)
    load = Load(0, 0, 0)
    if engine != LOCAL:
        # at most as many entities as events of the windows of an instant
        rows = len(ats) * _most(archive, requested, spans_of(requested, ats[-1:]))
        load = Load(_most(archive, requested, own), rows, _value_bytes(requested), own)
        engine = _chosen(settings, engine, load, len(refs), step, in_memory=in_memory)
    if engine != SPARK:
        return build_snapshot(deployment, archive, list(refs), ats.tolist(), reaches, arrival)
    scratch = Scratch(settings.state_dir / "datasets")
    request = snapshot_request_of(
        deployment, refs, reaches, own, tuple(ats.tolist()), _shares(load), scratch.path, arrival
    )
    _run(settings, request, scratch, notify)
    return snapshot_of(request, reaches, scratch)


def snapshot_request_of(
    deployment: Deployment,
    refs: tuple[str, ...],
    reaches: Mapping[str, Archived],
    own: tuple[Span, ...],
    ats_us: tuple[int, ...],
    shares: int,
    folder: Path,
    arrival: Arrival | None = None,
) -> ScaledRequest:
    """The request for a snapshot, written into its folder: its rows are for the shares to list."""
    request = ScaledRequest(
        deployment.to_json(),
        refs,
        "event_time" if arrival is None else ARRIVAL,
        described(reaches),
        own,
        shares,
        0 if arrival is None else arrival.known_at_us or 0,
        ats_us=ats_us,
        folder=folder,
    )
    arrived = None if arrival is None else arrival.table(np.array(ats_us, np.int64))
    request.write(None, arrived)
    return request


def snapshot_of(
    request: ScaledRequest, reaches: Mapping[str, Archived], scratch: Scratch | None = None
) -> ScaledSet:
    """The snapshot of a request that was answered. scratch: its folder, where it is one."""
    values, requested = ScaledValues(request), request.requested
    rows = pq.read_table(request.folder / SPINE).drop_columns([ROW])
    rows = rows.select([*key_of(requested), AT]).replace_schema_metadata(None)
    manifest = snapshot_manifest(
        request.deployed,
        request.features,
        requested,
        request.ats_us,
        reaches,
        rows,
        request.arrival,
    )
    manifest = replace(manifest, errors=values.errors())
    return ScaledSet(manifest, rows, None, request.arrival, values, scratch)


def _shares(load: Load) -> int:
    by_values = load.rows * load.value_bytes / SHARE_BYTES
    return max(2, math.ceil(max(load.events / SHARE_EVENTS, load.rows / SHARE_EVENTS, by_values)))


def _most(
    archive: Counted, requested: Sequence[UnitRequest], own: Sequence[tuple[int, int]]
) -> int:
    """Events of the unit that reads most of them, about: of whole hours."""
    sources = {part.unit.source for part in requested}
    by_hour = {source: archive.by_hour(source) for source in sources}
    return max(
        (
            sum(
                count
                for hour, count in by_hour[part.unit.source].items()
                if start // HOUR_US <= hour <= (end - 1) // HOUR_US
            )
            for part, (start, end) in zip(requested, own, strict=True)
        ),
        default=0,
    )


def _value_bytes(requested: Sequence[UnitRequest]) -> int:
    """Memory of a row's values, about."""
    return sum(value_bytes(feature.aggregate) for part in requested for feature in part.features)


def _run(settings: Settings, request: ScaledRequest, scratch: Scratch, notify: Notify) -> None:
    """Has Spark answer a request whose folder is written."""
    views = [unit_request.view for unit_request in request.requested]

    def progress(seconds: float) -> None:
        done = sum((request.values(i) / DONE).exists() for i in range(len(views)))
        current = f", view {views[done]}" if done < len(views) else ""
        notify(f"Spark answered {done} of {len(views)} units{current}, {seconds:.0f} s")

    try:
        JOB.check(settings)
        notify(f"Spark answers {len(views)} units in {request.shares} shares of entities each")
        replace(JOB, arguments=(str(request.folder), "--watched")).run(
            settings, progress, PATIENCE_S
        )
    except BaseException:
        scratch.remove()
        raise
