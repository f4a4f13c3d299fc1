"""A requested training set is what `slicewise dataset build` writes of the same spine, to the byte;
a client's spine reads no file and no table but those that it may."""

from __future__ import annotations

from collections.abc import Callable
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
    offline.record(written, f"training-sets/{job.id}")
    return {
        "dataset": written.name,
        "rows": written.rows,
        "content": written.content,
        "bytes": target.stat().st_size,
        "errors": dict(written.errors),
        "incomplete": dict(written.incomplete),
    }


def spine_of(folder: JobFolder, job: Job) -> object:
    """The spine as `sw.training_set` takes it. Raises BadRequest."""
    name = job.request.spine
    if name.startswith(ICEBERG):
        from slicewise.stores.lake.named import refuse_own

        refuse_own(name.removeprefix(ICEBERG).partition("@")[0], "spine")
        return name
    path = folder.file(job.id, name)
    if path.suffix == ".msgpack":
        return msgpack.unpackb(path.read_bytes())
    _refuse_rows(_rows_of(path))
    return path


def _rows_of(path: Path) -> int:
    """Number of a file's rows; 0 where nothing says it, or it cannot be read, which its reader
    refuses."""
    try:
        if path.suffix == ".parquet":
            return int(pq.read_metadata(path).num_rows)
        if path.suffix == STREAM:
            with pa.ipc.open_stream(path) as stream:
                return sum(batch.num_rows for batch in stream)
    except (OSError, pa.ArrowException):
        return 0
    return 0


def _refuse_rows(rows: int) -> None:
    if rows > MOST_ROWS:
        raise BadRequest(
            f"a spine of {rows:,} rows or more",
            where="spine",
            expected=f"at most {MOST_ROWS:,} rows",
            next_step="request it in several training sets",
        )
