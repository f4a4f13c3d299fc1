"""An accepted hole is part of the archive: one commit brings what is lost, who accepted it, and the cover beyond it.

Its rows have the kind `hole`, the lost range's first offset, and all of it as JSON in `reason`. The cover's archive
time stays that of the archive before: nothing new was taken from the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import TableProperties

from slicewise.errors import CommitConflict
from slicewise.offsets.gaps import AcceptedGap, from_json, to_json
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.lake.archive import ArchiveState
from slicewise.stores.lake.records import archived_until_us, as_table
from slicewise.stores.lake.schemas import COVER, HOLE


def accepted(table: IcebergTable, seq: int | None = None) -> tuple[AcceptedGap, ...]:
    """The holes of a source's log, of archives up to `seq`, in the order in which they were accepted."""
    if table.current_snapshot() is None:
        return ()
    rows = table.scan(row_filter=f"kind = '{HOLE}'", selected_fields=("archive_seq", "reason")).to_arrow()
    found = [
        each
        for archive, text in sorted(zip(rows["archive_seq"].to_pylist(), rows["reason"].to_pylist(), strict=True))
        if seq is None or archive <= seq
        for each in from_json(text, ".".join(table.name()))
    ]
    return tuple(sorted(found, key=lambda hole: (hole.at_us, hole.place, hole.first)))


def accept(
    catalog: SqlCatalog, table: IcebergTable, state: ArchiveState, holes: Sequence[AcceptedGap], cover: OffsetVector
) -> int:
    """Enters holes as the archive after `state`, whose cover is `cover`; its seq.

    table: as loaded when `state` was read. Raises CommitConflict when another archive came first.
    """
    conflict = CommitConflict(
        "another archive came first", where=".".join(table.name()), next_step="look at the plan again"
    )
    snapshot = table.current_snapshot()
    if (None if snapshot is None else snapshot.snapshot_id) != state.snapshot_id:
        raise conflict
    seq = state.seq + 1
    taken = archived_until_us(catalog, holes[0].source, state.seq) or 0
    begin: dict[str, Any] = {"archive_seq": seq, "archive_time": taken}
    rows = [
        begin
        | {"kind": HOLE, "topic_id": h.topic_id, "partition": h.partition, "offset": h.first, "reason": to_json([h])}
        for h in holes
    ]
    for (topic, partition), offset in cover.offsets.items():
        rows.append(begin | {"kind": COVER, "topic_id": topic, "partition": partition, "offset": offset})
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    try:
        # bound to the snapshot that `table` was loaded at: of two writers the later fails
        _once(table).append(as_table(rows, schema), snapshot_properties={"slicewise.archive-seq": str(seq)})
    except CommitFailedException as error:
        raise conflict from error
    return seq


def _once(table: IcebergTable) -> IcebergTable:
    """The table as it was loaded, whose commit is tried once: PyIceberg's next attempt would take the other writer's
    snapshot for the one that it was bound to."""
    properties = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    metadata = table.metadata.model_copy(update={"properties": properties})
    return IcebergTable(table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config)


def last_archived_us(table: IcebergTable) -> dict[tuple[str, int], int]:
    """Place -> Kafka timestamp (microseconds) of the archived record with its highest offset."""
    rows = table.scan(
        row_filter="kind in ('good', 'bad')", selected_fields=("topic_id", "partition", "offset", "kafka_time")
    ).to_arrow()
    if not rows.num_rows:
        return {}
    rows = rows.set_column(rows.schema.get_field_index("kafka_time"), "kafka_time", rows["kafka_time"].cast(pa.int64()))
    newest = rows.group_by(["topic_id", "partition"]).aggregate([("offset", "max")])
    joined = newest.join(
        rows.rename_columns({"offset": "offset_max"}), ["topic_id", "partition", "offset_max"], join_type="inner"
    )
    return {(row["topic_id"], row["partition"]): row["kafka_time"] for row in joined.to_pylist()}
