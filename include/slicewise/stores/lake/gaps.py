"""An accepted gap is part of the archive: one commit brings what is lost, who accepted it, and the
offset vector beyond it.

Its rows have the kind `hole`, the lost range's first offset, and all of it as JSON in `reason`. The
offset vector's archive time stays that of the archive before: nothing new was taken from the log.
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
from slicewise.stores.lake.schemas import ACCEPTED_GAP, OFFSET_VECTOR


def accepted(table: IcebergTable, archive_version: int | None = None) -> tuple[AcceptedGap, ...]:
    """The accepted gaps of a source's log, of archives up to `archive_version`, in the order in
    which they were accepted."""
    if table.current_snapshot() is None:
        return ()
    rows = table.scan(
        row_filter=f"kind = '{ACCEPTED_GAP}' and hour is null",
        selected_fields=("archive_seq", "reason"),
    ).to_arrow()
    gaps = [
        gap
        for archive, text in sorted(
            zip(rows["archive_seq"].to_pylist(), rows["reason"].to_pylist(), strict=True)
        )
        if archive_version is None or archive <= archive_version
        for gap in from_json(text, ".".join(table.name()))
    ]
    return tuple(
        sorted(
            gaps,
            key=lambda accepted_gap: (
                accepted_gap.at_us,
                accepted_gap.topic_partition,
                accepted_gap.first,
            ),
        )
    )


def accept(
    catalog: SqlCatalog,
    table: IcebergTable,
    state: ArchiveState,
    accepted_gaps: Sequence[AcceptedGap],
    offset_vector: OffsetVector,
) -> int:
    """Enters accepted gaps as the archive after `state`, whose offset vector is `offset_vector`;
    its archive version.

    table: as loaded when `state` was read. Raises CommitConflict when another archive came first.
    """
    conflict = CommitConflict(
        "another archive came first",
        where=".".join(table.name()),
        next_step="look at the plan again",
    )
    snapshot = table.current_snapshot()
    if (None if snapshot is None else snapshot.snapshot_id) != state.snapshot_id:
        raise conflict
    archive_version = state.archive_version + 1
    taken = archived_until_us(catalog, accepted_gaps[0].source, state.archive_version) or 0
    begin: dict[str, Any] = {"archive_seq": archive_version, "archive_time": taken}
    rows = [
        begin
        | {
            "kind": ACCEPTED_GAP,
            "topic_id": h.topic_id,
            "partition": h.partition,
            "offset": h.first,
            "reason": to_json([h]),
        }
        for h in accepted_gaps
    ]
    for (topic, partition), offset in offset_vector.offsets.items():
        rows.append(
            begin
            | {"kind": OFFSET_VECTOR, "topic_id": topic, "partition": partition, "offset": offset}
        )
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    try:
        # bound to the snapshot that `table` was loaded at: of two writers the later fails
        once(table).append(
            as_table(rows, schema),
            snapshot_properties={"slicewise.archive-seq": str(archive_version)},
        )
    except CommitFailedException as error:
        raise conflict from error
    return archive_version


def once(table: IcebergTable) -> IcebergTable:
    """The table as it was loaded, whose commit is tried once: PyIceberg's next attempt would take
    the other writer's snapshot for the one that it was bound to."""
    properties = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    metadata = table.metadata.model_copy(update={"properties": properties})
    return IcebergTable(
        table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config
    )


def last_archived_us(table: IcebergTable) -> dict[tuple[str, int], int]:
    """Partition -> Kafka timestamp (microseconds) of the archived record with its highest
    offset."""
    rows = table.scan(
        row_filter="kind in ('good', 'bad')",
        selected_fields=("topic_id", "partition", "offset", "kafka_time"),
    ).to_arrow()
    if not rows.num_rows:
        return {}
    rows = rows.set_column(
        rows.schema.get_field_index("kafka_time"), "kafka_time", rows["kafka_time"].cast(pa.int64())
    )
    newest = rows.group_by(["topic_id", "partition"]).aggregate([("offset", "max")])
    joined = newest.join(
        rows.rename_columns({"offset": "offset_max"}),
        ["topic_id", "partition", "offset_max"],
        join_type="inner",
    )
    return {(row["topic_id"], row["partition"]): row["kafka_time"] for row in joined.to_pylist()}
