"""A training set is built by Spark from a folder of its own, which is gone afterwards."""

from __future__ import annotations

import math
import os
import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Protocol, Self

import numpy as np
import psutil
import pyarrow as pa

from slicewise.errors import SettingsError
from slicewise.settings import Settings
from slicewise.training.answering.spines import spans
from slicewise.training.archive import Archive, Archived
from slicewise.training.arrival import Arrival
from slicewise.training.csv_form import is_csv
from slicewise.training.dataset import DataSet, build_training_set, manifest_of, reach_of
from slicewise.training.manifest import Manifest, described
from slicewise.training.requests.training_request import SPARK, TrainingRequest
from slicewise.training.scaled.choosing import Load, choose
from slicewise.training.scaled.request import ROW, ScaledRequest
from slicewise.training.scaled.values import ScaledValues
from slicewise.training.spark_job import SparkJob
from slicewise.training.statistics import statistics_of
from slicewise.training.tables.spine import Spine
from slicewise.training.writing import write_runs, write_table

SHARE_EVENTS = 500_000
"""Events, or rows, of a share: a task holds one at a time."""
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


class Scratch:
    """A folder that is gone when nobody holds this any more, or with the process."""

    def __init__(self, parent: Path) -> None:
        """Makes it; folders of processes that were killed are removed."""
        parent.mkdir(parents=True, exist_ok=True)
        for left in parent.iterdir():
            pid = left.name.partition("-")[0]
            if pid.isdigit() and not psutil.pid_exists(int(pid)):
                shutil.rmtree(left, ignore_errors=True)
        self.path = Path(mkdtemp(prefix=f"{os.getpid()}-", dir=parent))
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class Counted(Archive, Protocol):
    """An archive that says its size."""

    def count(self, source: str, start_us: int, end_us: int) -> int:
        """Gives the number of events with times in [start, end), about."""
        ...


@dataclass(frozen=True)
class ScaledSet:
    """A training set whose values stand in a folder."""

    manifest: Manifest
    spine: Spine
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
        return self.values.runs(self.spine.table)

    def write(self, path: Path) -> Manifest:
        """Writes it as `DataSet.write` does, a run at a time."""
        runs, as_csv = self.runs(), is_csv(path)
        return write_runs(
            path, runs, self.manifest, self.spine, self.arrival, as_csv=as_csv, count=True
        )

    def to_iceberg(self, name: str, settings: Settings) -> Manifest:
        """Writes it as `DataSet.to_iceberg` does, a run at a time."""
        return write_table(settings, name, self.runs(), self.manifest, count=True)

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
) -> DataSet | ScaledSet:
    """A training set by the engine that is wanted, or by the one that has room.

    notify: is given Spark's progress; step: the engine and why. Raises BadRequest where the spine
    asks for more than is archived, SettingsError where there is no Spark, ServerError where it
    fails.
    """
    reaches = reach_of(question, archive, knowledge)
    load = _load_of(question, archive, reaches, knowledge, arrival)
    free_bytes = psutil.virtual_memory().available
    choice = choose(engine, load, free_bytes, has_spark=_has_spark(settings))
    step(f"building {len(question.refs)} features by {choice.why}")
    if choice.engine == SPARK:
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
    events = (
        archive.count(unit_request.unit.source, *span)
        for unit_request, span in zip(question.requested, own, strict=True)
    )
    return Load(max(events, default=0), len(question.spine), len(question.refs), own)


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
    JOB.check(settings)
    rows = question.spine
    scratch = Scratch(settings.state_dir / "datasets")
    request = ScaledRequest(
        question.deployment.to_json(),
        question.refs,
        knowledge,
        described(reaches),
        load.spans,
        len(rows),
        max(2, math.ceil(max(load.events, load.rows) / SHARE_EVENTS)),
        0 if arrival is None else arrival.known_at_us or 0,
        scratch.path,
    )
    arrived = None if arrival is None else arrival.table(rows.at_us)
    request.write(staged(request, rows), arrived)
    views = [unit_request.view for unit_request in question.requested]

    def progress(seconds: float) -> None:
        done = sum((request.values(i) / "_SUCCESS").exists() for i in range(len(views)))
        current = f", view {views[done]}" if done < len(views) else ""
        notify(f"Spark answered {done} of {len(views)} units{current}, {seconds:.0f} s")

    notify(f"Spark answers {len(views)} units in {request.shares} shares of entities each")
    try:
        replace(JOB, arguments=(str(scratch.path),)).run(settings, progress, PATIENCE_S)
    except BaseException:
        scratch.remove()
        raise
    values = ScaledValues(request)
    manifest = replace(manifest_of(question, knowledge, reaches, arrival), errors=values.errors())
    return ScaledSet(manifest, rows, arrival, values, scratch)


def staged(request: ScaledRequest, rows: Spine) -> pa.Table:
    """The columns of the spine that something is asked by, and the rows' numbers."""
    names = dict.fromkeys(
        name for i in range(len(request.requested)) for name in request.columns(i)
    )
    number = pa.array(np.arange(len(rows), dtype=np.int64))
    return rows.table.select(list(names)).append_column(ROW, number)
