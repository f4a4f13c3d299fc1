"""A data set's files take their names when they are whole, and its manifest comes last; a table of
Iceberg is written in one commit.

Where no manifest stands beside a data set's file, nothing says what it is.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slicewise.errors import BadRequest
from slicewise.settings import Settings
from slicewise.training.arrival import Arrival
from slicewise.training.csv_form import csv_bytes
from slicewise.training.manifest import (
    ARRIVAL_SUFFIX,
    SPINE_SUFFIX,
    SUFFIX,
    Manifest,
    beside,
)
from slicewise.training.statistics import ColumnStatistics
from slicewise.training.tables.spine import Spine

RUN_ROWS = 1 << 20
"""Rows of a run of a data set, which is a row group of its Parquet form."""
PROPERTY = "slicewise.manifest"
"""Property of a table of Iceberg that is a data set."""


def parquet_bytes(table: pa.Table) -> bytes:
    """Parquet bytes of a table: equal tables, equal bytes, under one version of pyarrow."""
    sink = io.BytesIO()
    for _ in Passing((), sink).runs(runs_of(table)):
        pass
    return sink.getvalue()


def runs_of(table: pa.Table) -> Iterator[pa.Table]:
    """The table in runs of rows; one without rows of a table that has none."""
    for begin in range(0, max(1, table.num_rows), RUN_ROWS):
        yield table.slice(begin, RUN_ROWS).combine_chunks()


class Passing:
    """Runs of a data set on their way: they are written as Parquet, and digested and counted."""

    def __init__(self, features: Iterable[str], file: BinaryIO | None = None) -> None:
        """Takes the columns that statistics are of, and a file; without one the Parquet form is
        digested alone."""
        self._features = tuple(features)
        self._sink = _Sink(file)
        self._counted: dict[str, ColumnStatistics] = {}

    def runs(self, runs: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Gives the runs on."""
        with ExitStack() as stack:
            writer = None
            for run in runs:
                if writer is None:
                    sink = stack.enter_context(pa.PythonFile(self._sink, "w"))
                    try:
                        opened = pq.ParquetWriter(sink, run.schema, compression="zstd")
                    except pa.ArrowNotImplementedError as error:
                        raise BadRequest(
                            f"a column has no form in Parquet: {error}",
                            where="spine",
                            expected="columns of numbers, texts, instants, and lists of these",
                            next_step="cast the column, or leave it out",
                        ) from error
                    writer = stack.enter_context(opened)
                    self._counted = {n: ColumnStatistics(run[n].type) for n in self._features}
                writer.write_table(run, row_group_size=RUN_ROWS)
                for name, column in self._counted.items():
                    column.add(run[name])
                yield run

    def manifest(self, manifest: Manifest) -> Manifest:
        """The manifest of what passed: with its content and, where they were counted, its
        statistics."""
        written = replace(manifest, content=self._sink.digest.hexdigest())
        statistics = {name: column.result() for name, column in self._counted.items()}
        return replace(written, statistics=statistics) if statistics else written


class _Sink(io.RawIOBase):
    """A file that is written through, and digested."""

    def __init__(self, file: BinaryIO | None) -> None:
        super().__init__()
        self.digest = hashlib.sha256()
        self._file, self._length = file, 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.digest.update(content)
        if self._file is not None:
            self._file.write(content)
        self._length += len(content)
        return len(content)

    def tell(self) -> int:
        return self._length


def write_runs(
    target: Path,
    runs: Iterable[pa.Table],
    manifest: Manifest,
    spine: Spine | None,
    arrival: Arrival | None,
    *,
    as_csv: bool,
    count: bool = False,
) -> Manifest:
    """Writes a data set run by run, and beside it its manifest and its spine. Gives the manifest
    that was written.

    The manifest's `content` is of the table as Parquet, whatever is written. count: whether the
    manifest lacks statistics, which are taken from the runs then.
    """
    target = checked_target(target)
    manifest_path = beside(target, SUFFIX)
    with _scratch(target) as path, path.open("wb") as file:
        passing = Passing(manifest.features if count else (), None if as_csv else file)
        for number, run in enumerate(passing.runs(runs)):
            if as_csv:
                file.write(csv_bytes(run, names=number == 0))
        # until here what stood before stands, with its manifest
        manifest_path.unlink(missing_ok=True)
        file.close()
        path.replace(target)
    for suffix in (SPINE_SUFFIX, ARRIVAL_SUFFIX):
        beside(target, suffix).unlink(missing_ok=True)  # of another set
    if spine is not None:
        put(beside(target, SPINE_SUFFIX), parquet_bytes(spine.table))
    if arrival is not None:
        at_us = np.array(manifest.ats_us, np.int64) if spine is None else spine.at_us
        entries = arrival.table(at_us)
        put(beside(target, ARRIVAL_SUFFIX), parquet_bytes(entries))
    written = passing.manifest(manifest)
    put(manifest_path, written.to_json().encode())
    return written


def write_table(
    settings: Settings,
    name: str,
    runs: Iterator[pa.Table],
    manifest: Manifest,
    *,
    count: bool = False,
    instants: Sequence[int] = (),
    properties: Mapping[str, str] = MappingProxyType({}),
) -> Manifest:
    """Writes a data set as a table of the platform's Iceberg catalog, in one commit.

    Its manifest is a property of the table, and is given. instants: whose rows alone are replaced;
    properties: further ones. Raises BadRequest, CommitConflict.
    """
    from slicewise.stores.lake.catalog import open_catalog
    from slicewise.stores.lake.named import write_named

    passing = Passing(manifest.features if count else ())
    write_named(
        open_catalog(settings),
        name,
        passing.runs(runs),
        lambda: {PROPERTY: passing.manifest(manifest).to_json(), **properties},
        f"table {name}",
        instants,
    )
    return passing.manifest(manifest)


def checked_target(target: Path) -> Path:
    """The file that a data set is written to: of a link the one that it leads to. Raises BadRequest
    for what is no file."""
    target = target.resolve()
    if target.exists() and not target.is_file():
        raise BadRequest(
            f"{target} is no file",
            where="out",
            expected="a file, or a name that nothing has yet",
            next_step="name a file in a folder",
        )
    return target


def put(path: Path, content: bytes) -> None:
    """Writes a file, which takes its name when it is whole."""
    with _scratch(path) as scratch:
        scratch.write_bytes(content)
        scratch.replace(path)


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    """A file beside the target that is gone afterwards, unless it took another name."""
    path = target.with_name(f".{target.name[:100]}.{os.getpid()}")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
