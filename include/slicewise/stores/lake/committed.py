"""`ops.ledger` says of instants what the stream had applied by then: never more than it had.

The marks are read first and the store's time after them, so that a row's cover was applied by its time. A run that
finds the ledger where the newest row has it writes nothing: a rerun changes nothing.
"""

from __future__ import annotations

import pyarrow as pa

from slicewise.log import event
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.lake.catalog import Catalog, ensure
from slicewise.stores.lake.records import append
from slicewise.stores.lake.schemas import LEDGER
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model.metadata_backup import MetadataBackup
from slicewise.stores.online.operations.connecting import ReadMetadata, ReadTime
from slicewise.stores.online.port import OnlineStore


def record_ledger(catalog: Catalog, store: OnlineStore, source: str, topic: str) -> bool:
    """Enters the ledger of a source as it stands now; was it another than the one entered last.

    Two runs at once may enter the same cover twice, which says the same. Raises CommitConflict.
    """
    marks = store.run(ReadMetadata())
    now_us = store.run(ReadTime())
    stands = (ledger_of(marks, topic).pack(), marks.epoch, marks.life)
    if stands == newest(catalog, source):
        return False
    cover, epoch, generation = stands
    row = {"source": source, "time": now_us, "cover": cover, "epoch": epoch, "generation": generation}
    append(catalog, LEDGER, [row])
    event("ledger_recorded", source=source, epoch=epoch)
    return True


def ledger_of(marks: StoreMetadata, topic: str) -> OffsetVector:
    """The ledger of one topic's places, earlier lives of the topic included."""
    foreign = {id_ for name, id_ in marks.topics.items() if name != topic}
    return OffsetVector({place: offset for place, offset in marks.ledger.offsets.items() if place[0] not in foreign})


def newest(catalog: Catalog, source: str) -> tuple[bytes, int, int] | None:
    """(cover, epoch, generation) of the newest row of a source."""
    rows = ensure(catalog, LEDGER).scan(row_filter=f"source = '{source}'").to_arrow()
    if not rows.num_rows:
        return None
    times = rows["time"].cast(pa.int64()).to_pylist()
    last = rows.slice(times.index(max(times)), 1).to_pylist()[0]
    return bytes(last["cover"]), int(last["epoch"]), int(last["generation"])


def reached(catalog: Catalog) -> MetadataBackup | None:
    """The largest ledgers that were ever entered, with the newest generation and epoch; None where none was. What was
    deployed then is not said."""
    rows = ensure(catalog, LEDGER).scan().to_arrow().to_pylist()
    if not rows:
        return None
    ledger = OffsetVector()
    for row in rows:
        ledger = ledger.join(OffsetVector.unpack(bytes(row["cover"])))
    generation, epoch = max((int(row["generation"] or 0), int(row["epoch"] or 0)) for row in rows)
    return MetadataBackup(generation, epoch, "", ledger, {})
