"""An event list is ready when every archived event below its start offsets was added, or lies below
low water.

It is filled from `events.<source>` alone, newest events first, so that what a list has no room for
is known to be old before it is sent. To fill twice adds nothing.
"""

from __future__ import annotations

import json

from pyspark.sql import functions as F  # noqa: N812

from slicewise.features.plan.unit import ListUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.compaction import below, inputs_of, selected_events
from slicewise.spark.lake.context import Context
from slicewise.spark.lake.listing import Fill
from slicewise.spark.lake.partials import UnitRef
from slicewise.spark.runtime.log import event
from slicewise.stores.online.operations.apply_batch import MicroBatchOutcome
from slicewise.stores.online.operations.connecting import ReadTime
from slicewise.windows.durations import HOUR_US

_TASKS = 2


def fill(context: Context, unit: ListUnit, start: OffsetVector) -> MicroBatchOutcome:
    """Adds the archived events below the start offsets that the list can hold."""
    keeps, archive = unit.event_list, context.archives[unit.source]
    if archive.snapshot_id is None:
        return MicroBatchOutcome()
    source = context.deployment.source(unit.source)
    wanted = f"({below(start)})"
    if keeps.expires:
        oldest = context.store.run(ReadTime()) - keeps.range_us
        wanted += f" AND hour >= {oldest // HOUR_US} AND event_time >= timestamp_micros({oldest})"
    frame = selected_events(
        context.session, context.settings, archive.snapshot_id, source, unit, wanted
    )
    newest_first = frame.coalesce(_TASKS).sortWithinPartitions(F.desc("event_time"))
    task = Fill(
        UnitRef(context.manifest, unit.storage_fingerprint), context.ref, inputs_of(unit), start
    )
    done = [
        json.loads(row.outcome) for row in newest_first.mapInArrow(task, "outcome string").collect()
    ]
    total = MicroBatchOutcome()
    for outcome in done:
        total += MicroBatchOutcome(**outcome)
    event(
        "list_filled",
        unit=unit.storage_fingerprint,
        view=unit.view,
        rows=total.rows,
        applied=total.applied,
    )
    return total
