"""A share is answered by the rules of the local engine, from the events of its entities alone.

Its task writes the values itself, as an Arrow file for each run of rows that it has some of: no
engine between reads them, so that none can change a bit, or has to have room for them. A task that
is tried again writes the same files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slicewise.features.schema.types import arrow_type
from slicewise.training.answering.spines import answer_spine
from slicewise.training.queries import GivenArchive
from slicewise.training.requests.unit_requests import entity_types
from slicewise.training.scaled.request import ERRORS, ROW, SPINE, ScaledRequest
from slicewise.training.snapshots import (
    in_order,
    instants_of,
    key_of,
    read_present,
)
from slicewise.training.tables.spine import AT, Spine
from slicewise.training.writing import RUN_ROWS

BATCH_ROWS = 1 << 16
"""Rows of a batch of a file."""
_IDENTITY = {
    "event_time": pa.int64(),
    "kafka_time": pa.int64(),
    "partition": pa.int32(),
    "offset": pa.int64(),
}


def answer_share(folder: str, position: int, share: int, spine: pa.Table, events: pa.Table) -> int:
    """Writes the values of one unit's features for a share's rows of the spine; how many rows.

    position: of the unit in the request. spine: the unit's columns and the rows' numbers; events:
    all of the rows' entities, and maybe more.
    """
    request = ScaledRequest.read(Path(folder))
    if not spine.num_rows:
        return 0
    unit_request, numbers = request.requested[position], spine[ROW]
    names = list(request.columns(position))
    schema = pa.schema([_schema(request.folder).field(name) for name in names])
    table = spine.select(names).cast(schema).combine_chunks()
    finished = answer_spine(
        request.deployed,
        GivenArchive(_typed(request, position, events)),
        request.archived,
        (unit_request,),
        Spine(table, np.asarray(table[AT].cast(pa.int64()).to_numpy(), np.int64)),
        request.knowledge,
        arrival=request.arrival,
    )
    errors = {ref: len(one.errors) for ref, one in finished.items() if one.errors}
    values = pa.table({ROW: numbers, **{ref: one.values for ref, one in finished.items()}})
    write_share(request.values(position), share, values, errors)
    return int(values.num_rows)


def present_share(folder: str, position: int, share: int, events: pa.Table) -> int:
    """Writes the rows that the events of a share give a snapshot; how many."""
    request = ScaledRequest.read(Path(folder))
    rows = read_present(
        request.deployed,
        GivenArchive(_typed(request, position, events)),
        request.archived,
        request.requested[position],
        instants_of(request.ats_us),
        request.arrival,
    )
    # a table's rows are counted by its columns, and these have at least their instant
    numbered = rows.append_column(ROW, pa.array(np.zeros(rows.num_rows, np.int64)))
    write_share(request.present(position), share, numbered, {})
    return int(rows.num_rows)


def present_spine(request: ScaledRequest) -> pa.Table:
    """The rows of a snapshot, of what all shares of all units gave."""
    names = key_of(request.requested)
    kinds = entity_types(request.requested)
    schema = pa.schema([(name, arrow_type(kinds[name])) for name in names])
    schema = schema.append(pa.field(AT, pa.timestamp("us", "UTC")))
    tables = [schema.empty_table()]
    for position in request.presenting:
        rows = read_run(request.present(position), 0)
        tables += [] if rows is None else [rows.select(schema.names).cast(schema)]
    return in_order(tables, names)


@lru_cache(maxsize=2)
def _schema(folder: Path) -> pa.Schema:
    return pq.read_schema(folder / SPINE).remove_metadata()


def _typed(request: ScaledRequest, position: int, events: pa.Table) -> pa.Table:
    """The events in the types that the archive's reader gives; a column that no archive has yet is
    null, and so is a time that nothing is known by."""
    unit = request.requested[position].unit
    kinds = dict(request.deployed.source(unit.source).columns)
    types = {name: arrow_type(kinds[name]) for name in unit.reads} | _IDENTITY
    columns = {
        name: events[name].cast(kind)
        if name in events.column_names
        else pa.nulls(events.num_rows, kind)
        for name, kind in types.items()
    }
    names = pa.array(request.topics(unit.source))
    index = events["topic_id"].combine_chunks()
    columns["topic_id"] = pa.chunked_array([pa.DictionaryArray.from_arrays(index, names)])
    return pa.table(columns)


def write_share(folder: Path, share: int, values: pa.Table, errors: Mapping[str, int]) -> None:
    """Writes what a share gave: of each run a file of its rows, with their numbers. errors: ref ->
    failed values."""
    values = values.sort_by(ROW)
    run = np.asarray(values[ROW].to_numpy()) // RUN_ROWS
    for number in np.unique(run).tolist():
        first, beyond = np.searchsorted(run, [number, number + 1]).tolist()
        some = values.slice(first, beyond - first)
        name = folder / str(number) / f"{share}.arrow"
        with _whole(name) as path, pa.ipc.new_file(path, some.schema) as file:
            file.write_table(some, max_chunksize=BATCH_ROWS)
    if errors:
        with _whole(folder / ERRORS / f"{share}.json") as path:
            path.write_text(json.dumps(errors), encoding="utf-8")


def read_run(folder: Path, run: int) -> pa.Table | None:
    """Rows of a run, of all shares, in the order of the spine; None where no share has any."""
    tables = []
    for path in sorted((folder / str(run)).glob("*.arrow")):
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
            tables.append(file.read_all())
    return pa.concat_tables(tables).sort_by(ROW) if tables else None


def read_errors(folder: Path) -> dict[str, int]:
    """Ref -> failed values, of all shares."""
    counted: dict[str, int] = {}
    for path in (folder / ERRORS).glob("*.json"):
        for ref, count in json.loads(path.read_text(encoding="utf-8")).items():
            counted[ref] = counted.get(ref, 0) + count
    return counted


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A file that takes its name when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{uuid4()}.partial")
    yield scratch
    scratch.replace(path)
