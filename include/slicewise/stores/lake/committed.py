"""`ops.ledger` says of instants what the stream had applied by then: never more than it had.

The metadata is read first and the store's time after them, so that a row's offset vector was
applied by its time. What the stream entered since the row before goes into the same row. A run that
has nothing new to say writes nothing: a rerun changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import NoSuchTableError

from slicewise.log import event
from slicewise.offsets.vector import OffsetVector
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
_UTC_US = pa.timestamp("us", "UTC")


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
    if last is not None and current == last[1:] and not _new(entered, last[0]):
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


def _new(entered: Sequence[Entered], after_us: int) -> bool:
    return any(one.at_us > after_us for one in entered)


def newest(catalog: Catalog, source: str) -> tuple[int, bytes, int, int] | None:
    """(time, offset vector, deployment version, store id) of the newest row of a source."""
    scan = ensure(catalog, COMMITTED).scan(
        row_filter=f"source = '{source}'",
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


def committed_between(
    catalog: Catalog, store: OnlineStore, source: str, first_us: int, last_us: int
) -> pa.Table:
    """Reads what a source's committed offsets were.

    Gives `at_us` (int64) and `packed` (binary) of every entry from the last before `first_us` to
    `last_us`, and maybe some around, in any order.

    The store is read first: what leaves it meanwhile is in the table. Raises StoreUnavailable.
    """
    fresh = store.run(ReadEntered(source, first_us - OVERLAP_US, last_us))
    parts = [
        pa.table(
            {
                "at_us": pa.array([one.at_us for one in fresh], pa.int64()),
                "packed": pa.array([one.packed for one in fresh], pa.binary()),
            }
        )
    ]
    own = f"source = '{source}'"
    try:
        table = catalog.load_table(COMMITTED.identifier)
    except NoSuchTableError:
        return parts[0]
    # metadata alone would do, were each row a file; a row is an hour, and this reads its time only
    times = table.scan(row_filter=own, selected_fields=("time",)).to_arrow()["time"]
    span = _rows_of(np.sort(np.asarray(times.cast(pa.int64()).to_numpy())), first_us, last_us)
    if span is None:
        return parts[0]
    first, last = map(_text, span)
    chosen = f"{own} and time >= '{first}' and time <= '{last}'"
    rows = table.scan(row_filter=chosen).to_arrow()
    parts.append(_pairs(rows["time"].cast(_UTC_US).cast(pa.int64()), rows["cover"]))
    if "entered" in rows.column_names:  # of an hour before entries were made it says its end alone
        instants, entered = (pc.list_flatten(rows[name]) for name in ("entered_us", "entered"))
        parts.append(_pairs(instants, entered))
    return pa.concat_tables(parts)


def _rows_of(times: npt.NDArray[np.int64], first_us: int, last_us: int) -> tuple[int, int] | None:
    """Times of the first and the last row to read: the last before the span says how it began, and
    the second after it may have an entry of its end."""
    if not len(times):
        return None
    first = max(0, int(np.searchsorted(times, first_us, "right")) - 1)
    last = min(len(times) - 1, int(np.searchsorted(times, last_us, "left")) + 1)
    return int(times[first]), int(times[last])


def _pairs(at_us: pa.ChunkedArray, packed: pa.ChunkedArray) -> pa.Table:
    return pa.table({"at_us": at_us.cast(pa.int64()), "packed": packed.cast(pa.binary())})


def _text(us: int) -> str:
    return str(pa.scalar(us, pa.int64()).cast(_UTC_US).as_py().isoformat(timespec="microseconds"))
