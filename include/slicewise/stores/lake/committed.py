"""`ops.ledger` says of instants what the stream had applied by then: never more than it had.

The metadata is read first and the store's time after them, so that a row's offset vector was
applied by its time. What the stream entered since the row before goes into the same row. A run that
has nothing new to say writes nothing: a rerun changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import NoSuchTableError

from slicewise.log import event
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.lake.archive import instant_literal
from slicewise.stores.lake.catalog import Catalog, ensure
from slicewise.stores.lake.records import append
from slicewise.stores.lake.schemas import COMMITTED
from slicewise.stores.metadata_backup import MetadataBackup
from slicewise.stores.online.operations.committed import Entered, ReadEntered, committed_of
from slicewise.stores.online.operations.connecting import ReadMetadata, ReadTime
from slicewise.stores.online.port import OnlineStore

OVERLAP_US = 60_000_000
"""An entry has its instant before it is written: one that was on its way when a row was made stands
in the next."""
ROWS_AT_ONCE = 48
"""Rows of the table, an hour's entries each, that are held at once."""
_UTC_US = pa.timestamp("us", "UTC")
_ENTERED = ("entered_us", "entered")


def record_committed(catalog: Catalog, store: OnlineStore, source: str, topic: str) -> bool:
    """Enters the committed offsets of a source as it stands now; was there anything new.

    What the stream entered since the row before goes with them. Two runs at once may enter the same
    offset vector twice, which says the same. Raises CommitConflict.
    """
    metadata = store.run(ReadMetadata())
    now_us = store.run(ReadTime())
    current = (
        committed_of(metadata, topic).pack(),
        metadata.deployment_version,
        metadata.set_or_store_id,
    )
    last = newest(catalog, source)
    since_us = 0 if last is None else last[0] - OVERLAP_US
    entered = store.run(ReadEntered(source, since_us))
    if last is not None and current == last[1:] and not _new(catalog, source, last[0], entered):
        return False
    offset_vector, deployment_version, store_id = current
    row = {
        "source": source,
        "time": now_us,
        "cover": offset_vector,
        "epoch": deployment_version,
        "generation": store_id,
        "entered_us": [one.at_us for one in entered],
        "entered": [one.packed for one in entered],
    }
    append(catalog, COMMITTED, [row])
    event(
        "committed_recorded",
        source=source,
        deployment_version=deployment_version,
        entries=len(entered),
    )
    return True


def _new(catalog: Catalog, source: str, time_us: int, entered: Sequence[Entered]) -> bool:
    """Tells whether there are entries that the row of this time lacks: one that was on its way then
    has an earlier instant."""
    if not entered:
        return False
    chosen = f"{_of(source)} and time = '{instant_literal(time_us)}'"
    rows = catalog.load_table(COMMITTED.identifier).scan(row_filter=chosen).to_arrow()
    recorded = set(pc.list_flatten(rows["entered_us"]).to_pylist())
    return any(one.at_us not in recorded for one in entered)


def newest(catalog: Catalog, source: str) -> tuple[int, bytes, int, int] | None:
    """(time, offset vector, deployment version, store id) of the newest row of a source."""
    scan = ensure(catalog, COMMITTED).scan(
        row_filter=_of(source),
        selected_fields=("time", "cover", "epoch", "generation"),
    )
    rows = scan.to_arrow()
    if not rows.num_rows:
        return None
    times = rows["time"].cast(pa.int64()).to_pylist()
    latest = max(times)
    last = rows.slice(times.index(latest), 1).to_pylist()[0]
    return latest, bytes(last["cover"]), int(last["epoch"]), int(last["generation"])


def high_water(catalog: Catalog) -> MetadataBackup | None:
    """The largest committed offsets that were ever entered, with the newest store id and deployment
    version; None where none was. What was deployed then is not said."""
    columns = ("cover", "epoch", "generation")
    rows = ensure(catalog, COMMITTED).scan(selected_fields=columns).to_arrow().to_pylist()
    if not rows:
        return None
    committed = OffsetVector()
    for row in rows:
        committed = committed.join(OffsetVector.unpack(bytes(row["cover"])))
    store_id, deployment_version = max(
        (int(row["generation"] or 0), int(row["epoch"] or 0)) for row in rows
    )
    return MetadataBackup(store_id, deployment_version, "", committed, {})


def committed_at(
    catalog: Catalog, store: OnlineStore, source: str, instants_us: npt.NDArray[np.int64]
) -> pa.Table:
    """Reads what a source's committed offsets were at these instants.

    Gives `at_us` (int64) and `packed` (large binary), ascending: the newest entry at or before each
    of them, and the first that there is. The store is read first, all of it: what leaves it
    meanwhile is in the table. What is held at once follows from the instants, and not from the time
    between them. Raises StoreUnavailable.
    """
    instants = np.unique(instants_us)
    fresh = store.run(ReadEntered(source, 0, int(instants[-1])))
    kept = reduced(
        _pairs(
            pa.array([one.at_us for one in fresh], pa.int64()),
            pa.array([one.packed for one in fresh], pa.large_binary()),
        ),
        instants,
    )
    try:
        table = catalog.load_table(COMMITTED.identifier)
    except NoSuchTableError:
        return kept
    times = table.scan(row_filter=_of(source), selected_fields=("time",)).to_arrow()["time"]
    at_us = np.sort(np.asarray(times.cast(_UTC_US).cast(pa.int64()).to_numpy()))
    for first, last in _runs(at_us, instants):
        chosen = f"{_of(source)} and time >= '{instant_literal(first)}' and time <= '{instant_literal(last)}'"
        rows = table.scan(row_filter=chosen).to_arrow()
        parts = [kept, _pairs(rows["time"].cast(_UTC_US).cast(pa.int64()), rows["cover"])]
        if "entered" in rows.column_names:  # of an hour before entries were made it has its end
            parts.append(_pairs(*(pc.list_flatten(rows[name]) for name in _ENTERED)))
        kept = reduced(pa.concat_tables(parts), instants)
    return kept


def reduced(entries: pa.Table, instants_us: npt.NDArray[np.int64]) -> pa.Table:
    """The entries that are the newest at or before some of these instants, ascending, and the
    first; of one instant the one with the greatest bytes, whatever the order of files.

    instants_us: ascending.
    """
    entries = entries.sort_by([("at_us", "ascending"), ("packed", "ascending")])
    at_us = np.asarray(entries["at_us"].to_numpy(), np.int64)
    begins = np.searchsorted(instants_us, at_us, "left")
    used = begins < np.append(begins[1:], len(instants_us))
    if len(at_us):
        used[np.searchsorted(at_us, at_us[0], "right") - 1] = True
    return entries.filter(pa.array(used)).combine_chunks()


def _runs(
    times: npt.NDArray[np.int64], instants_us: npt.NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    """Runs of rows that may have the entries of these instants: the times of first and last.

    The last row before an instant says how its hour began; the second after it may have an entry
    that was on its way.
    """
    if not len(times):
        return
    wanted = np.zeros(len(times), np.bool_)
    before = np.searchsorted(times, instants_us, "right") - 1
    for step in range(4):
        wanted[np.clip(before + step, 0, len(times) - 1)] = True
    rows = np.flatnonzero(wanted)
    starts = np.flatnonzero(np.append(True, np.diff(rows) > 1))
    for run in np.split(rows, starts[1:]):
        for part in range(0, len(run), ROWS_AT_ONCE):
            some = run[part : part + ROWS_AT_ONCE]
            yield int(times[some[0]]), int(times[some[-1]])


def _of(source: str) -> str:
    return f"source = '{source}'"


def _pairs(at_us: pa.Array | pa.ChunkedArray, packed: pa.Array | pa.ChunkedArray) -> pa.Table:
    return pa.table({"at_us": at_us.cast(pa.int64()), "packed": packed.cast(pa.large_binary())})
