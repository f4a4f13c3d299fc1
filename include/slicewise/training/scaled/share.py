"""A share is answered by the rules of the local engine, from the events of its entities alone.

Values leave it as Arrow streams, cut by runs of rows: no engine between reads them, so that none
can change a bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from slicewise.features.schema.types import arrow_type
from slicewise.training.answering.spines import answer_spine
from slicewise.training.queries import GivenArchive
from slicewise.training.requests.unit_requests import entity_types
from slicewise.training.scaled.request import ROW, RUN, SPINE, ScaledRequest
from slicewise.training.snapshots import (
    in_order,
    instants_of,
    key_of,
    read_present,
)
from slicewise.training.tables.spine import AT, Spine
from slicewise.training.writing import RUN_ROWS

PART = "part"
PARTS = pa.schema([(RUN, pa.int64()), (PART, pa.binary())])
PART_ROWS = 1 << 16
"""Most rows of a part: what passes an engine at once stays small, however many features there
are."""
NO_RUN = -1
_IDENTITY = {
    "event_time": pa.int64(),
    "kafka_time": pa.int64(),
    "partition": pa.int32(),
    "offset": pa.int64(),
}


def answer_share(folder: str, position: int, spine: pa.Table, events: pa.Table) -> pa.Table:
    """Values of one unit's features for rows of the spine, as `parts_of` gives them.

    position: of the unit in the request. spine: the unit's columns and the rows' numbers; events:
    all of the rows' entities, and maybe more.
    """
    request = ScaledRequest.read(Path(folder))
    if not spine.num_rows:
        return PARTS.empty_table()
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
    return parts_of(values, errors)


def present_share(folder: str, position: int, events: pa.Table) -> pa.Table:
    """Rows that the events of a share give a snapshot, as parts."""
    request = ScaledRequest.read(Path(folder))
    rows = read_present(
        request.deployed,
        GivenArchive(_typed(request, position, events)),
        request.archived,
        request.requested[position],
        instants_of(request.ats_us),
    )
    # a table's rows are counted by its columns, and these have at least their instant
    numbered = rows.append_column(ROW, pa.array(np.zeros(rows.num_rows, np.int64)))
    return parts_of(numbered, {})


def present_spine(request: ScaledRequest) -> pa.Table:
    """The rows of a snapshot, of what all shares of all units gave."""
    names = key_of(request.requested)
    kinds = entity_types(request.requested)
    schema = pa.schema([(name, arrow_type(kinds[name])) for name in names])
    schema = schema.append(pa.field(AT, pa.timestamp("us", "UTC")))
    tables = [schema.empty_table()]
    for position in request.presenting:
        parts = read_parts(request.present(position), 0)
        tables += [joined_values(parts).select(schema.names).cast(schema)] if parts else []
    return in_order(tables, names)


def read_parts(folder: Path, run: int) -> list[bytes]:
    """Parts of a run in a folder that Spark wrote."""
    own = folder / f"{RUN}={run}"
    if not own.exists():
        return []
    parts: list[bytes] = ds.dataset(own, format="parquet").to_table([PART])[PART].to_pylist()
    return parts


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


def parts_of(values: pa.Table, errors: Mapping[str, int]) -> pa.Table:
    """Values cut by the runs of their rows: `run` and `part`, an Arrow stream of rows with their
    numbers. errors: ref -> failed values, which stand as JSON in a part of no run."""
    values = values.sort_by(ROW)
    run = np.asarray(values[ROW].to_numpy()) // RUN_ROWS
    runs = [NO_RUN] if errors else []
    parts = [json.dumps(errors).encode()] if errors else []
    for number in np.unique(run).tolist():
        first, beyond = np.searchsorted(run, [number, number + 1]).tolist()
        for begin in range(first, beyond, PART_ROWS):
            some = values.slice(begin, min(PART_ROWS, beyond - begin)).combine_chunks()
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, some.schema) as stream:
                stream.write_table(some)
            runs.append(number)
            parts.append(sink.getvalue().to_pybytes())
    return pa.table([pa.array(runs, pa.int64()), pa.array(parts, pa.binary())], schema=PARTS)


def joined_values(parts: Sequence[bytes]) -> pa.Table:
    """Rows of some parts with their numbers, in the order of the spine."""
    tables = []
    for part in parts:
        with pa.ipc.open_stream(part) as stream:
            tables.append(stream.read_all())
    return pa.concat_tables(tables).sort_by(ROW)


def joined_errors(parts: Sequence[bytes]) -> dict[str, int]:
    """Counts of failed values by ref, of parts of no run."""
    counted: dict[str, int] = {}
    for part in parts:
        for ref, count in json.loads(part).items():
            counted[ref] = counted.get(ref, 0) + count
    return counted
