"""The metadata of a store node: a hash that lives and falls with the data."""

from __future__ import annotations

from slicewise.codec.store_fields.forms import (
    NUMBER,
    TEXT,
    TEXTS,
    TRUE,
    VECTOR,
    Field,
    Value,
    Where,
    pair,
)
from slicewise.offsets.vector import OffsetVector


def _pack_start(run_id: str, replication_id: str, start: OffsetVector) -> bytes:
    import msgpack

    return b"\x93" + b"".join(map(msgpack.packb, (run_id, replication_id))) + start.pack()


def _parse_start(raw: bytes) -> tuple[str, str, OffsetVector]:
    import msgpack

    run_id, replication_id, start = msgpack.unpackb(raw, strict_map_key=False)
    return run_id, replication_id, OffsetVector.unpack(msgpack.packb(start))


_METADATA = (Where.METADATA,)

STORE_ID = Field(
    "STORE_ID",
    "generation",
    "store id: the store's time when it was made",
    where=_METADATA,
    value=NUMBER,
    in_jvm=True,
)
DEPLOYMENT_VERSION = Field(
    "DEPLOYMENT_VERSION",
    "epoch",
    "deployment version: counts deployments",
    where=_METADATA,
    value=NUMBER,
    in_jvm=True,
)
DEPLOYMENT = Field(
    "deployment",
    "units",
    "digest of the deployment, empty before the first",
    where=_METADATA,
    value=TEXT,
)
NODE = Field(
    "node",
    "node",
    "of a store of several nodes: which of how many this is (`2/3`); absent in a store of one",
    where=_METADATA,
    value=TEXT,
)
NODE_SET = Field(
    "nodeSet",
    "set",
    (
        "of a store of several nodes: the set, named by the store id of its first node; absent in "
        "a store of one"
    ),
    where=_METADATA,
    value=NUMBER,
)
COMMITTED = Field(
    "committed",
    "g:<topic>:<partition>",
    "committed offset of a partition, absent = 0",
    where=_METADATA,
    value=NUMBER,
    in_jvm=True,
)
PARTITIONS = Field("partitions", "places", "how many `g:` there are", where=_METADATA, value=NUMBER)
LOST = Field(
    "lost",
    "w:<topic>:<partition>",
    "the offset that was committed of a partition, by backups kept elsewhere, while less is: "
    "[ADR 59](adr/0059-a-loss-is-known-by-copies-of-the-committed-offsets.md)",
    where=_METADATA,
    value=NUMBER,
)
START = Field(
    "start",
    "s:<unit>",
    "offset vector at which the unit starts; never moves",
    where=_METADATA,
    value=VECTOR,
)
READY = Field(
    "ready", "y:<unit>", "`1`: all below the start is in the store", where=_METADATA, value=TRUE
)
BUILDING = Field(
    "building", "b:<unit>", "`done/total` hours of its backfill", where=_METADATA, value=pair("/")
)
BUILD = Field(
    "build", "n:<unit>", "number of its build, absent = none", where=_METADATA, value=NUMBER
)
RETIRED = Field(
    "retired",
    "retired",
    "the newest deployment version that left a unit out, absent = none has",
    where=_METADATA,
    value=NUMBER,
)
TOTAL_UNTIL = Field(
    "totalUntil",
    "h:<unit>",
    "`hour/archive version` of a unit with a lifetime: every entity's hours before this hour are "
    "in its total, as far "
    "as this archive version contains them",
    where=_METADATA,
    value=pair("/"),
)
KEPT = Field(
    "kept",
    "k:<unit>",
    "what an event list keeps since its build began, or less",
    where=_METADATA,
    value=TEXT,
)
ALIAS = Field(
    "alias",
    "a:<view>",
    "fingerprints of the units that answer under this name, comma separated",
    where=_METADATA,
    value=TEXTS,
)
TOPIC = Field("topic", "t:<topic name>", "topic id", where=_METADATA, value=TEXT)
REALTIME_START = Field(
    "realtimeStart",
    "e:<source>",
    "start of a source's real-time lane: canonical msgpack `[run id, replication id, start]`, the "
    "start an offset "
    "vector as it is packed elsewhere",
    where=_METADATA,
    value=Value(_pack_start, _parse_start),
)
