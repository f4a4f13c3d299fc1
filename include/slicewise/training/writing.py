"""A data set's files take their names when they are whole, and its manifest comes last.

Where no manifest stands beside a data set's file, nothing says what it is.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

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


def parquet_bytes(table: pa.Table) -> bytes:
    """Parquet bytes of a table: equal tables, equal bytes, under one version of pyarrow."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="zstd") as writer:
        for run in runs_of(table):
            writer.write_table(run, row_group_size=RUN_ROWS)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def runs_of(table: pa.Table) -> Iterator[pa.Table]:
    """The table in runs of rows; one without rows of a table that has none."""
    for begin in range(0, max(1, table.num_rows), RUN_ROWS):
        yield table.slice(begin, RUN_ROWS).combine_chunks()


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
    manifest_path = beside(target, SUFFIX)
    manifest_path.unlink(missing_ok=True)
    with _scratch(target, ".parquet") as path:
        counted = _write_parquet(path, runs, manifest.features if count else ())
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        if as_csv:
            _write_csv(path, target)
        else:
            path.replace(target)
    if spine is not None:
        _put(beside(target, SPINE_SUFFIX), parquet_bytes(spine.table))
    if spine is not None and arrival is not None:
        entries = arrival.table(spine.at_us)
        _put(beside(target, ARRIVAL_SUFFIX), parquet_bytes(entries))
    written = replace(manifest, content=content)
    if count:
        statistics = {name: column.result() for name, column in counted.items()}
        written = replace(written, statistics=statistics)
    _put(manifest_path, written.to_json().encode())
    return written


def _write_parquet(
    path: Path, runs: Iterable[pa.Table], features: Iterable[str]
) -> dict[str, ColumnStatistics]:
    counted: dict[str, ColumnStatistics] = {}
    with ExitStack() as stack:
        writer = None
        for run in runs:
            if writer is None:
                writer = stack.enter_context(pq.ParquetWriter(path, run.schema, compression="zstd"))
                counted = {name: ColumnStatistics(run[name].type) for name in features}
            writer.write_table(run, row_group_size=RUN_ROWS)
            for name, column in counted.items():
                column.add(run[name])
    return counted


def _write_csv(table: Path, target: Path) -> None:
    with _scratch(target, ".csv") as path, pq.ParquetFile(table) as file:
        with path.open("wb") as output:
            for group in range(max(1, file.num_row_groups)):
                run = file.read_row_group(group) if file.num_row_groups else file.read()
                output.write(csv_bytes(run, names=group == 0))
        path.replace(target)


def _put(path: Path, content: bytes) -> None:
    with _scratch(path, "") as scratch:
        scratch.write_bytes(content)
        scratch.replace(path)


@contextmanager
def _scratch(target: Path, suffix: str) -> Iterator[Path]:
    """A file beside the target that is gone afterwards, unless it took another name."""
    path = target.with_name(f".{target.name}.{os.getpid()}{suffix}")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
