"""Every table of the platform is described here alone; Spark and PyIceberg read what this makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from slicewise.features.plan.unit import Source, StorageUnit
from slicewise.features.schema.types import decimal_parts, element_type

LOG, EVENTS, SLICES, OPS = "log", "events", "slices", "ops"
NAMESPACES = (LOG, EVENTS, SLICES, OPS)

GOOD, BAD, OFFSET_VECTOR, ACCEPTED_GAP = "good", "bad", "cover", "hole"
"""Kinds of rows of a log table."""

_FIRST_NESTED_ID = 10_000
_PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.retry.num-retries": "20",
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
}


@dataclass(frozen=True)
class Column:
    """A column of a table. Only what no row can lack is required."""

    name: str
    type: IcebergType
    required: bool = False
    doc: str | None = None


@dataclass(frozen=True)
class Table:
    """A table: (namespace, name), its columns, and what it is partitioned by (as it is)."""

    namespace: str
    name: str
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=lambda: dict(_PROPERTIES))

    @property
    def identifier(self) -> tuple[str, str]:
        return (self.namespace, self.name)

    def schema(self) -> Schema:
        """Field ids follow the order of the columns; those of list elements lie far above."""
        fields = [
            NestedField(i, column.name, _numbered(column.type, i), column.required, column.doc)
            for i, column in enumerate(self.columns, 1)
        ]
        return Schema(*fields)

    def spec(self) -> PartitionSpec:
        ids = {column.name: i for i, column in enumerate(self.columns, 1)}
        return PartitionSpec(
            *(
                PartitionField(ids[name], 1000 + i, IdentityTransform(), name)
                for i, name in enumerate(self.partition_by)
            )
        )


def _numbered(kind: IcebergType, field_id: int) -> IcebergType:
    if isinstance(kind, ListType):
        element = _FIRST_NESTED_ID + field_id
        return ListType(element, kind.element_type, element_required=kind.element_required)
    return kind


def iceberg_type(kind: str) -> IcebergType:
    """The Iceberg type of a declared column type."""
    parts, element = decimal_parts(kind), element_type(kind)
    if parts:
        return DecimalType(*parts)
    if element is not None:
        return ListType(0, iceberg_type(element), element_required=False)
    return {
        "string": StringType(),
        "long": LongType(),
        "double": DoubleType(),
        "boolean": BooleanType(),
        "date": DateType(),
        "timestamp_us": TimestamptzType(),
    }[kind]


def log_table(source: Source) -> Table:
    """All records of a source: good ones typed, bad ones as they came, and the offset vectors of
    both. Columns of earlier schemas of the source are the last."""
    return Table(
        LOG,
        source.name,
        (
            Column("archive_seq", LongType(), True, "the commit that brought it, from 1"),
            Column("kind", StringType(), True, "good, bad, cover or hole"),
            Column("topic_id", StringType(), True, "32 hex digits"),
            Column("partition", IntegerType(), True),
            Column("offset", LongType(), True, "of a cover: first offset not contained"),
            Column("kafka_time", TimestamptzType()),
            Column("archive_time", TimestamptzType(), True),
            Column("event_time", TimestamptzType(), False, "of good rows"),
            Column("hour", IntegerType(), False, "of event_time, since 1970; null unless good"),
            Column(
                "reason",
                StringType(),
                False,
                "why a bad row is bad; of a hole: what is lost, accepted by whom",
            ),
            Column("raw", BinaryType(), False, "the Kafka value of a bad row"),
            *(
                Column(name, iceberg_type(kind))
                for name, kind in (*source.columns, *source.removed_columns)
            ),
        ),
        ("hour",),
    )


def unit_table(fingerprint: str) -> str:
    """Name of a unit's table in `slices`."""
    return f"u_{fingerprint}"


def unit_entity(unit: StorageUnit) -> tuple[tuple[str, str], ...]:
    """(column, type) that name an entity of a unit's table: of a per-partition unit, also the Kafka
    partition, because its keys in the online store are one set per partition."""
    return (*unit.entity, *((("partition", "int"),) if unit.per_partition else ()))


def slices_table(unit: StorageUnit) -> Table:
    """Partials of a unit: a row per (entity, slice), and per hour a header row without a slice,
    which holds the hour's archive version (0: the unit's start offsets) and offset vector."""
    entity = (
        Column(n, IntegerType() if t == "int" else iceberg_type(t)) for n, t in unit_entity(unit)
    )
    partials = (Column(f.name, _from_arrow(f.type)) for f in unit.layout.arrow_fields())
    return Table(
        SLICES,
        unit_table(unit.storage_fingerprint),
        (
            Column("hour", IntegerType(), True, "since 1970"),
            Column("slice", LongType(), False, "since 1970, in units of the slice"),
            *entity,
            *partials,
            Column("events", LongType(), False, "that the row holds"),
            Column("late", LongType(), False, "of them: in Kafka after their hour was over"),
            Column("seq", LongType(), False, "header: archive seq"),
            Column("cover", BinaryType(), False, "header: packed cover"),
        ),
        ("hour",),
        # whole, so that an hour's header is read from metadata; of columns beyond the hundredth
        # Iceberg keeps no bounds that are not asked for by name
        {
            **_PROPERTIES,
            **{f"write.metadata.metrics.column.{name}": "full" for name in ("seq", "cover")},
        },
    )


def _from_arrow(kind: pa.DataType) -> IcebergType:
    if pa.types.is_list(kind):
        return ListType(0, _from_arrow(kind.value_type), element_required=False)
    return {
        pa.int64(): LongType(),
        pa.int32(): IntegerType(),
        pa.float64(): DoubleType(),
        pa.binary(): BinaryType(),
    }[kind]


def _texts(names: str) -> Iterable[Column]:
    return (Column(name, StringType()) for name in names.split())


def _longs(names: str) -> Iterable[Column]:
    return (Column(name, LongType()) for name in names.split())


RUNS = Table(
    OPS,
    "runs",
    (
        Column("run_id", StringType(), True),
        Column("job", StringType(), True, "archive, compact, backfill, check, maintain"),
        Column("time", TimestamptzType(), True, "when it ended"),
        *_texts("source view unit outcome"),
        Column("hour", IntegerType()),
        *_longs("slice seq events entities late bytes left_over took_ms"),
    ),
)
# Written by the hourly compaction: a row per source whenever its committed offsets are others than
# in the row before, with what the stream entered since.
COMMITTED = Table(
    OPS,
    "ledger",
    (
        Column("source", StringType(), True),
        Column(
            "time",
            TimestamptzType(),
            True,
            "by the store's clock: all of the cover was applied by then",
        ),
        Column("cover", BinaryType(), True, "packed, all places of the source"),
        Column("epoch", LongType()),
        Column("generation", LongType()),
        Column(
            "entered_us",
            ListType(0, LongType(), element_required=False),
            False,
            "instants since the row before, ascending, in microseconds by the store's clock",
        ),
        Column(
            "entered",
            ListType(0, BinaryType(), element_required=False),
            False,
            "packed covers that were applied by these instants",
        ),
    ),
)
CHECKS = Table(
    OPS,
    "checks",
    (
        Column("run_id", StringType(), True),
        Column("time", TimestamptzType(), True),
        *_texts("view unit feature entity token online offline result kind"),
        # of expectations; what was made before them has none of these
        *_texts("suite source severity"),
        Column("hour", IntegerType(), False, "since 1970: of the events that were judged"),
    ),
)
DATASETS = Table(
    OPS,
    "datasets",
    (
        Column("dataset_id", StringType(), True),
        Column("time", TimestamptzType(), True),
        *_texts("name knowledge manifest"),
        Column("rows", LongType()),
    ),
)
# Written by the hourly compaction: a row per deployment, with its definitions.
DEPLOYMENTS = Table(
    OPS,
    "deployments",
    (
        Column("generation", LongType(), True),
        Column("epoch", LongType(), True, "the deployment's version"),
        Column(
            "time",
            TimestamptzType(),
            True,
            "when it was made, by the clock of who made it; when it was entered where nobody said",
        ),
        *_texts("deployed_by command"),
        Column("digest", StringType(), True, "of the manifest"),
        Column("manifest", StringType(), True, "the deployment's JSON"),
    ),
)
