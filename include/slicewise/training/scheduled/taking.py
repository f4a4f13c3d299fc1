"""A scheduled snapshot is taken once for each instant: its table says up to which it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slicewise.settings import Settings
from slicewise.training.api import open_snapshot
from slicewise.training.scheduled.planned import ScheduledSnapshot
from slicewise.training.tables.instants import text_of

UNTIL = "slicewise.snapshots-until-us"
"""Property of a table: the newest instant that it has."""
Notify = Callable[[str], None]


def newest_of(settings: Settings, planned: Sequence[ScheduledSnapshot]) -> dict[str, int | None]:
    """Name -> newest instant that the snapshot's table has; None before the first."""
    from slicewise.stores.lake.catalog import open_catalog
    from slicewise.stores.lake.named import properties_of

    catalog = open_catalog(settings)
    until = {one.name: properties_of(catalog, one.table).get(UNTIL) for one in planned}
    return {name: None if text is None else int(text) for name, text in until.items()}


def take(
    settings: Settings, snapshot: ScheduledSnapshot, ats_us: Sequence[int], notify: Notify
) -> dict[str, Any]:
    """Takes a snapshot at these instants, in one commit; what was written, as plain values.

    Raises what `sw.snapshot` raises, and CommitConflict where another run took them meanwhile.
    """
    notify(f"{snapshot.name}: {len(ats_us)} instants up to {text_of(max(ats_us))}")
    wanted = snapshot.features if isinstance(snapshot.features, str) else list(snapshot.features)
    offline, built = open_snapshot(
        settings, wanted, ats_us, archive=True, notify=notify, step=notify
    )
    with built:
        written = built.to_iceberg(
            snapshot.table, settings, instants=tuple(ats_us), properties={UNTIL: str(max(ats_us))}
        )
    offline.record(written, snapshot.table)
    return {
        "name": snapshot.name,
        "table": snapshot.table,
        "ats": [text_of(at) for at in ats_us],
        "rows": written.rows,
        "dataset": written.name,
    }
