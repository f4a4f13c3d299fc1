"""A data set is a function of its manifest and spine: built twice, it is the same bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from slicewise import log
from slicewise.aggregates import Finished
from slicewise.errors import BadRequest, DataLoss
from slicewise.features.plan.deployment import Deployment
from slicewise.settings import Settings
from slicewise.training.answering.spines import answer_spine, incomplete, reach
from slicewise.training.archive import Archive, Archived
from slicewise.training.arrival import Arrival, refuse_changed
from slicewise.training.csv_form import is_csv
from slicewise.training.manifest import Manifest, described
from slicewise.training.ranges import Ints
from slicewise.training.requests.questions import refuse_questions
from slicewise.training.requests.training_request import TrainingRequest, training_request
from slicewise.training.requests.unit_requests import (
    ARRIVAL,
    UnitRequest,
    entity_types,
    questions_of,
    resolve,
)
from slicewise.training.snapshots import answer_snapshot
from slicewise.training.statistics import statistics_of
from slicewise.training.tables.spine import AT, Spine, TokenColumns, read_spine
from slicewise.training.writing import parquet_bytes, runs_of, write_runs, write_table
from slicewise.windows.bounds import Mode

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@dataclass(frozen=True)
class DataSet:
    """A training set or a snapshot: its table, its manifest, the spine that was asked for, and what
    its rows knew by arrival.

    Feature columns are named by their refs, "view:column", as requests name them.
    """

    table: pa.Table
    manifest: Manifest
    spine: Spine | None = None
    arrival: Arrival | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Frees nothing: all of it is in memory."""

    def to_arrow(self) -> pa.Table:
        """The table."""
        return self.table

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas frame; integers with nulls keep their type (Int64)."""
        import pandas as pd

        nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
        frame: pd.DataFrame = self.table.to_pandas(types_mapper=nullable.get)
        return frame

    def to_parquet(self, path: str | Path) -> Manifest:
        """Write the table, and beside it its manifest and spine; the manifest that was written."""
        return self._write(Path(path), as_csv=False)

    def to_csv(self, path: str | Path) -> Manifest:
        """The same as CSV: lists and structs as JSON, doubles with the digits that give the same
        double again.

        The manifest's `content` stays that of the table as Parquet.
        """
        return self._write(Path(path), as_csv=True)

    def write(self, path: str | Path) -> Manifest:
        """`to_csv` where the name ends in .csv, else `to_parquet`."""
        return self._write(Path(path), as_csv=is_csv(Path(path)))

    def to_polars(self) -> pl.DataFrame:
        """The table as a frame of polars, which has to be installed."""
        import polars as pl

        frame = pl.from_arrow(self.table)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_iceberg(
        self,
        name: str,
        settings: Settings | None = None,
        *,
        instants: Sequence[int] = (),
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> Manifest:
        """Write the table as `namespace.table` of the platform's Iceberg catalog.

        One commit puts it in place of what that held, with the manifest as its property
        `slicewise.manifest`. Lists of structs are right in its files, and to Spark and DuckDB;
        PyIceberg 0.12 reads a null of these as an empty list. instants: of `at`, microseconds: rows
        of these alone are replaced. properties: further ones of the table.

        Raises BadRequest for a name of the platform's own tables, for other columns than it has and
        for a type that Iceberg lacks; CommitConflict where another writer came first.
        """
        settings = settings or Settings.load()
        runs = runs_of(self.table)
        return write_table(
            settings, name, runs, self.manifest, instants=instants, properties=properties
        )

    def _write(self, target: Path, *, as_csv: bool) -> Manifest:
        runs = runs_of(self.table)
        return write_runs(target, runs, self.manifest, self.spine, self.arrival, as_csv=as_csv)


def build_training_set(
    deployment: Deployment,
    archive: Archive,
    spine: object,
    features: object,
    knowledge: str,
    archived: Mapping[str, Archived] | None = None,
    mode: Mode = "event_time",
    arrival: Arrival | None = None,
) -> DataSet:
    """The spine's rows with the values of the features, in the spine's order.

    archived: how far each source is read; None reads all that is archived now. mode: of bounds by
    event time; "row" is for a query's rows alone, which no manifest rebuilds. arrival: what rows
    know, of knowledge by arrival.
    """
    if knowledge == ARRIVAL and arrival is None:
        raise BadRequest(
            "nothing says what was known at these instants",
            where="knowledge",
            expected="entries of ops.ledger",
            next_step="ask sw.training_set, which reads them",
        )
    question = training_request(deployment, spine, features, knowledge)
    refs, requested, rows = question.refs, question.requested, question.spine
    reaches = archived or reach_of(question, archive, knowledge)
    finished = answer_spine(deployment, archive, reaches, requested, rows, knowledge, mode, arrival)
    table = rows.table
    for ref in refs:
        table = table.append_column(ref, finished[ref].values)
    manifest = replace(
        manifest_of(question, knowledge, reaches, arrival),
        errors=_errors(refs, finished),
        # a query's rows are looked at, and no manifest of them is kept
        statistics={} if mode == "row" else statistics_of(table, refs),
    )
    return DataSet(table, manifest, rows, arrival)


def reach_of(question: TrainingRequest, archive: Archive, knowledge: str) -> dict[str, Archived]:
    """The reach of each source's read, for the rows of a training set. Raises NothingArchived."""
    rows = question.spine
    timely = knowledge == "event_time" and len(rows) > 0
    latest_us = int(rows.at_us.max()) if timely else None
    return reach(question.deployment, archive, question.requested, latest_us)


def manifest_of(
    question: TrainingRequest,
    knowledge: str,
    reaches: Mapping[str, Archived],
    arrival: Arrival | None,
) -> Manifest:
    """The manifest of a training set before its values are there: without errors and statistics."""
    rows, requested = question.spine, question.requested
    return Manifest(
        "training_set",
        knowledge,
        question.refs,
        question.deployment.to_json(),
        described(reaches),
        _units(requested),
        spine=rows.digest(),
        rows=len(rows),
        incomplete=_lacking(
            requested, reaches, rows.at_us, rows.tokens if knowledge == "token" else None
        ),
        **_arrived(arrival, rows.at_us),
    )


def _arrived(arrival: Arrival | None, at_us: Ints) -> dict[str, Any]:
    """Knowledge by arrival, as a manifest keeps it; nothing without it."""
    if arrival is None:
        return {}
    entries = {name: arrival.of(name, at_us) for name in sorted(arrival.times)}
    return {
        "arrival": {
            source: {"entries": len(arrived.base), "digest": arrived.digest}
            for source, arrived in entries.items()
        },
        "known_at_us": arrival.known_at_us or 0,
    }


def build_snapshot(
    deployment: Deployment,
    archive: Archive,
    features: object,
    ats_us: Sequence[int],
    archived: Mapping[str, Archived] | None = None,
    arrival: Arrival | None = None,
) -> DataSet:
    """All entities that have an event in some window of the features, at each of the instants.

    Rows are ordered by instant, then by entity. Views must share one entity key; a global view's
    features stand in every row. arrival: what was applied by the one instant at which all rows
    know; an entity whose events came later has no row.
    """
    refs, requested = resolve(deployment, features)
    refuse_questions(questions_of(requested))
    ats = tuple(sorted(set(ats_us)))
    reaches = archived or snapshot_reach(deployment, archive, requested, ats, arrival)
    table, finished = answer_snapshot(deployment, archive, reaches, requested, ats, arrival)
    for ref in refs:
        table = table.append_column(ref, finished[ref].values)
    manifest = replace(
        snapshot_manifest(deployment, refs, requested, ats, reaches, table, arrival),
        errors=_errors(refs, finished),
        statistics=statistics_of(table, refs),
    )
    return DataSet(table, manifest, arrival=arrival)


def snapshot_reach(
    deployment: Deployment,
    archive: Archive,
    requested: Sequence[UnitRequest],
    ats_us: Sequence[int],
    arrival: Arrival | None,
) -> dict[str, Archived]:
    """The reach of each source's read, for a snapshot at these instants. Raises NothingArchived."""
    latest_us = max(ats_us) if len(ats_us) and arrival is None else None
    return reach(deployment, archive, requested, latest_us)


def snapshot_manifest(
    deployment: Deployment,
    refs: tuple[str, ...],
    requested: Sequence[UnitRequest],
    ats: tuple[int, ...],
    reaches: Mapping[str, Archived],
    rows: pa.Table,
    arrival: Arrival | None = None,
) -> Manifest:
    """The manifest of a snapshot of these rows, without errors and statistics."""
    at_us = np.asarray(rows[AT].cast(pa.int64()), np.int64)
    return Manifest(
        "snapshot",
        "event_time" if arrival is None else ARRIVAL,
        refs,
        deployment.to_json(),
        described(reaches),
        _units(requested),
        ats_us=ats,
        rows=rows.num_rows,
        incomplete=_lacking(requested, reaches, at_us, None),
        **_arrived(arrival, np.array(ats, np.int64)),
    )


def rebuild(
    archive: Archive,
    manifest: Manifest,
    spine: object | None,
    where: str,
    arrival: Arrival | None = None,
) -> DataSet:
    """The data set of a manifest, once more from the archive.

    arrival: what rows know, of knowledge by arrival. Raises BadRequest if the spine is not the
    manifest's, DataLoss if the archive no longer gives what it gave.
    """
    deployment = manifest.deployed()
    if manifest.kind == "snapshot":
        _refuse_changed(manifest, arrival, np.array(manifest.ats_us, np.int64), where)
        again = build_snapshot(
            deployment,
            archive,
            list(manifest.features),
            manifest.ats_us,
            manifest.archived(),
            arrival if manifest.arrival else None,
        )
    else:
        _, requested = resolve(deployment, list(manifest.features))
        rows = read_spine(spine, entity_types(requested), questions_of(requested))
        if rows.digest() != manifest.spine:
            raise BadRequest(
                "the spine is not the one that the data set was built for",
                where=where,
                expected=f"a spine of SHA-256 {manifest.spine}",
                next_step="give the spine file that was written beside the data set",
            )
        _refuse_changed(manifest, arrival, rows.at_us, where)
        again = build_training_set(
            deployment,
            archive,
            rows,
            list(manifest.features),
            manifest.knowledge,
            manifest.archived(),
            arrival=arrival,
        )
    digest = hashlib.sha256(parquet_bytes(again.table)).hexdigest()
    if manifest.content and digest != manifest.content:
        same = manifest.pyarrow == pa.__version__
        raise DataLoss(
            f"the data set is {digest} now and was {manifest.content}",
            where=where,
            expected="the same bytes",
            next_step="see whether archived rows were deleted"
            if same
            else f"rebuild with pyarrow {manifest.pyarrow}; this is {pa.__version__}",
        )
    if not manifest.statistics:  # one of an earlier version stays as that wrote it
        again = replace(again, manifest=replace(again.manifest, statistics={}))
    return again


def _refuse_changed(manifest: Manifest, arrival: Arrival | None, at_us: Ints, where: str) -> None:
    """Raises DataLoss where the entries are not those that the manifest has digests of."""
    for source, before in manifest.arrival.items():
        digest = "nothing"
        if arrival is not None and source in arrival.times:
            digest = arrival.of(source, at_us).digest
        refuse_changed(source, digest, before["digest"], where)


def _lacking(
    requested: Sequence[UnitRequest],
    archived: Mapping[str, Archived],
    at_us: Ints,
    tokens: TokenColumns | None,
) -> dict[str, int]:
    rows_by_ref = incomplete(requested, archived, at_us, tokens)
    for ref, rows in rows_by_ref.items():
        log.warning("data_set_incomplete", feature=ref, rows=rows)
    return rows_by_ref


def _units(requested: Sequence[UnitRequest]) -> dict[str, str]:
    return {
        unit_request.unit.storage_fingerprint: unit_request.unit.definition_fingerprint
        for unit_request in requested
    }


def _errors(refs: Sequence[str], finished: Mapping[str, Finished]) -> dict[str, int]:
    return {ref: len(finished[ref].errors) for ref in refs if finished[ref].errors}
