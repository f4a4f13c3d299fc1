"""`ops.ledger` says of instants what the stream had applied by then: never more than it had.

The metadata is read first and the store's time after them, so that a row's offset vector was
applied by its time. A run that finds the committed offsets where the newest row has it writes
nothing: a rerun changes nothing.
"""

from __future__ import annotations

import pyarrow as pa

from slicewise.log import event
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.lake.catalog import Catalog, ensure
from slicewise.stores.lake.records import append
from slicewise.stores.lake.schemas import COMMITTED
from slicewise.stores.metadata_backup import MetadataBackup
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.connecting import ReadMetadata, ReadTime
from slicewise.stores.online.port import OnlineStore


def record_committed(catalog: Catalog, store: OnlineStore, source: str, topic: str) -> bool:
    """Enters the committed offsets of a source as it stands now; was it another than the one
    entered last.

    Two runs at once may enter the same offset vector twice, which says the same. Raises
    CommitConflict.
    """
    metadata = store.run(ReadMetadata())
    now_us = store.run(ReadTime())
    current = (
        committed_of(metadata, topic).pack(),
        metadata.deployment_version,
        metadata.set_or_store_id,
    )
    if current == newest(catalog, source):
        return False
    offset_vector, deployment_version, store_id = current
    row = {
        "source": source,
        "time": now_us,
        "cover": offset_vector,
        "epoch": deployment_version,
        "generation": store_id,
    }
    append(catalog, COMMITTED, [row])
    event("committed_recorded", source=source, deployment_version=deployment_version)
    return True


def committed_of(metadata: StoreMetadata, topic: str) -> OffsetVector:
    """The committed offsets of one topic's partitions, earlier lives of the topic included."""
    foreign = {id_ for name, id_ in metadata.topics.items() if name != topic}
    return OffsetVector(
        {
            topic_partition: offset
            for topic_partition, offset in metadata.committed.offsets.items()
            if topic_partition[0] not in foreign
        }
    )


def newest(catalog: Catalog, source: str) -> tuple[bytes, int, int] | None:
    """(offset vector, deployment version, store id) of the newest row of a source."""
    rows = ensure(catalog, COMMITTED).scan(row_filter=f"source = '{source}'").to_arrow()
    if not rows.num_rows:
        return None
    times = rows["time"].cast(pa.int64()).to_pylist()
    last = rows.slice(times.index(max(times)), 1).to_pylist()[0]
    return bytes(last["cover"]), int(last["epoch"]), int(last["generation"])


def high_water(catalog: Catalog) -> MetadataBackup | None:
    """The largest committed offsets that were ever entered, with the newest store id and deployment
    version; None where none was. What was deployed then is not said."""
    rows = ensure(catalog, COMMITTED).scan().to_arrow().to_pylist()
    if not rows:
        return None
    committed = OffsetVector()
    for row in rows:
        committed = committed.join(OffsetVector.unpack(bytes(row["cover"])))
    store_id, deployment_version = max(
        (int(row["generation"] or 0), int(row["epoch"] or 0)) for row in rows
    )
    return MetadataBackup(store_id, deployment_version, "", committed, {})
