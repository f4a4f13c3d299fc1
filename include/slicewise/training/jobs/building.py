"""A requested training set is what `slicewise dataset build` writes of the same spine, to the byte;
a client's spine reads no file and no table but those that it may."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pyarrow.parquet as pq

from slicewise.errors import BadRequest
from slicewise.settings import Settings
from slicewise.stores.jobs.folder import JobFolder
from slicewise.stores.jobs.job import Job
from slicewise.training.api import as_of, open_training_set
from slicewise.training.tables.locations import ICEBERG

STREAM = ".arrows"
"""Ending of a spine in Arrow's stream form."""
MOST_ROWS = 20_000_000
"""Rows of a spine that is uploaded: some kilobytes of Parquet may hold billions."""
MOST_COLUMNS = 1_000
MOST_BYTES = 4 << 30
"""Bytes of a spine in memory."""


def build(
    settings: Settings, folder: JobFolder, job: Job, notify: Callable[[str], None]
) -> dict[str, Any]:
    """Builds the set, writes it into the job's folder, and enters it in `ops.datasets`. Gives the
    members of its result.

    Raises what `sw.training_set` raises.
    """
    wanted = job.request
    offline, built = open_training_set(
        settings,
        spine_of(folder, job),
        wanted.features if isinstance(wanted.features, str) else list(wanted.features),
        wanted.knowledge,
        as_of(settings, None, wanted.as_of_definition),
        known_at=wanted.known_at,
        engine=wanted.engine,
        archive=wanted.archive,
        notify=notify,
        step=notify,
    )
    target = folder.file(job.id, wanted.data)
    with built:
        notify(f"writing {built.manifest.rows:,} rows")
        written = built.write(target)
    offline.record(written, recorded_name(job.id))
    return {
        "dataset": written.name,
        "rows": written.rows,
        "content": written.content,
        "bytes": target.stat().st_size,
        "errors": dict(written.errors),
        "incomplete": dict(written.incomplete),
    }


def recorded_name(job_id: str) -> str:
    """Name of a set in `ops.datasets`: the registry shows it, and who has the id may remove the
    set."""
    return f"training-sets/{hashlib.sha256(job_id.encode()).hexdigest()[:12]}"


def spine_of(folder: JobFolder, job: Job) -> object:
    """The spine as `sw.training_set` takes it. Raises BadRequest."""
    name = job.request.spine
    if name.startswith(ICEBERG):
        from slicewise.stores.lake.named import refuse_own

        refuse_own(name.removeprefix(ICEBERG).partition("@")[0], "spine")
        return name
    path = folder.file(job.id, name)
    if path.suffix == ".msgpack":
        given = msgpack.unpackb(path.read_bytes(), strict_map_key=False)
        if isinstance(given, dict):  # columns; their names are shared here
            _refuse_columns(len(given))
            return [dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True)]
        _refuse_columns(len({name for row in given for name in row}))
        return given
    _refuse_large(path)
    return path


def _refuse_large(path: Path) -> None:
    """Refuses a file that holds more than there is room for, however small it is. What cannot be
    read is left to its reader."""
    rows = size = 0
    try:
        for batch in _batches(path):
            _refuse_columns(batch.num_columns)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > MOST_ROWS or size > MOST_BYTES:
                raise BadRequest(
                    f"a spine of {rows:,} rows and {size:,} bytes or more, as it is in memory",
                    where="spine",
                    expected=f"at most {MOST_ROWS:,} rows and {MOST_BYTES:,} bytes",
                    next_step="request it in several training sets",
                )
    except (OSError, pa.ArrowException):
        return


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Parts of a file, one after another."""
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            _refuse_columns(file.metadata.num_columns)
            yield from file.iter_batches(batch_size=1_024)
    elif path.suffix == STREAM:
        with pa.ipc.open_stream(path) as stream:
            yield from stream
    elif path.suffix == ".arrow":
        with pa.ipc.open_file(path) as reader:
            yield from map(reader.get_batch, range(reader.num_record_batches))


def _refuse_columns(columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise BadRequest(
            f"a spine of {columns:,} columns",
            where="spine",
            expected=f"at most {MOST_COLUMNS:,}",
            next_step="leave out what is no entity, instant or label",
        )
