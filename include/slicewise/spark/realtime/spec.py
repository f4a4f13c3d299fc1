"""The JVM's real-time writer is told all that it may not guess: one server run, names in keys,
where columns stand.

`jvm/…/RealtimeWriter.java` makes itself of this JSON. It holds the store's address with its
password: no text for logs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from slicewise.codec import ROOM
from slicewise.features.plan.unit import ListUnit, StorageUnit
from slicewise.settings import Settings
from slicewise.spark.microbatch.apply import Placed
from slicewise.spark.microbatch.streaming import StreamPlan
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.redis.scripts import PENDING, PENDING_LIST
from slicewise.stores.online.rules import decisions

QUEUE = 8_192
"""Writes that wait to be sent, per task; beyond it the task waits."""
TIMEOUT_MS = 5_000
"""After which a node that does not answer is connected to again."""
PATIENCE_MS = 60_000
"""For how long; then the query fails, and is planned anew."""


def status_part(source: str, partition: int) -> str:
    """Under which name the real-time lane of a partition says what it does (`PutStatus`); as
    JSON."""
    return f"tail:{source}:{partition}"


def spec_of(
    settings: Settings,
    plan: StreamPlan,
    metadata: StoreMetadata,
    server_run: ServerRun,
    placed: Sequence[Placed],
    after: str | None = None,
) -> str:
    """The text of which `RealtimeWriter.of` makes the writer of a plan's query.

    placed: the units that the real-time lane writes for; after: the run that it takes over from, of
    the same server run."""
    source = plan.source.name
    return json.dumps(
        {
            "redis_url": settings.redis_url,
            "run_id": server_run.run_id,
            "replication_id": server_run.replication_id,
            "generation": metadata.store_id,
            "epoch": plan.deployment_version,
            "run": uuid4().hex,
            "after": after,
            "source": source,
            "topic_id": plan.topic_id,
            "partitions": sorted(plan.start),
            "marks_key": keys.METADATA.decode(),
            "status_key": keys.status_key(f"tail:{source}").decode(),
            "pending_script": PENDING.text.decode(),
            "list_script": PENDING_LIST.text.decode(),
            "bound": settings.realtime_fields,
            "field_events": ROOM.events,
            "field_bytes": ROOM.bytes,
            "ahead": settings.realtime_ahead,
            "queue": QUEUE,
            "timeout_ms": TIMEOUT_MS,
            "patience_ms": PATIENCE_MS,
            "units": [_unit(plan, metadata, unit) for unit in placed],
        }
    )


def _unit(plan: StreamPlan, metadata: StoreMetadata, placed: Placed) -> dict[str, Any]:
    unit = plan.deployment.unit(placed.unit)
    build = decisions.build_of(metadata, placed.unit)
    start = {
        str(p): offset
        for (topic, p), offset in build.start.offsets.items()
        if topic == plan.topic_id
    }
    return {
        "name": build.name,
        "keep": placed.keep,
        "start": start,
        "slice_us": unit.slice_us,
        "retention_us": 0 if unit.lifetime else unit.retention_us,
        "spread": unit.per_partition,
        "entity": [
            {"name": name, "type": kind, "column": column}
            for (name, kind), column in zip(unit.entity, placed.entity, strict=True)
        ],
        "inputs": [
            {"name": name, "type": kind, "column": placed.inputs[name]}
            for name, kind in unit.input_types
        ],
        "list": _kept(unit),
    }


def _kept(unit: StorageUnit) -> dict[str, int] | None:
    if not isinstance(unit, ListUnit):
        return None
    kept = unit.event_list
    return {
        "range_us": kept.range_us,
        "rows": kept.rows,
        "late_us": kept.late_us,
        "most": kept.most,
    }
