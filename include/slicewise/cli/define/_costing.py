"""The work that a plan would begin is counted from the archive's metadata, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from slicewise.clock import SystemClock
from slicewise.errors import SlicewiseError
from slicewise.features.plan.changes.explain import NUMBER, Change, row_bytes
from slicewise.features.plan.deployment import Deployment, base_of
from slicewise.features.plan.unit import ListUnit, StorageUnit, nearest
from slicewise.settings import Settings
from slicewise.windows.durations import HOUR_US

if TYPE_CHECKING:  # imported where something is to be built: two seconds
    from slicewise.stores.lake.catalog import Catalog


@dataclass(frozen=True)
class BuildCost:
    """Work of building the history of a view's new units."""

    view: str
    hours: int
    """Archived hours that its windows reach back to."""
    events: int
    """Archived events in them."""
    rows: int | None
    """Slices of entities that the live version has of them; None where nothing of it is
    compacted."""
    bytes: int | None
    """Bytes of as many rows in the store, whose lists and texts are empty."""
    seconds: float | None
    """By the rate of the builds that were measured last; None where none was."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def costs_of(
    settings: Settings, after: Deployment, running: Deployment | None, changes: Sequence[Change]
) -> tuple[list[BuildCost], str]:
    """Costs of what is to be built, or why they are not known. running: what is deployed; None:
    nothing, or nothing that has an archive here."""
    if running is None:
        return [], ""
    try:
        return build_costs(settings, after, running, changes, SystemClock().now_us()), ""
    except SlicewiseError as error:
        return [], error.what


def build_costs(
    settings: Settings,
    after: Deployment,
    running: Deployment,
    changes: Sequence[Change],
    now_us: int,
) -> list[BuildCost]:
    """Costs of the new units of a plan, by view; empty where nothing is to be built. Raises
    StoreUnavailable where the archive cannot be read."""
    new = {(change.view, change.unit) for change in changes if change.kind == "new"}
    units = [unit for unit in after.units if (unit.view, unit.storage_fingerprint) in new]
    if not units:
        return []
    from slicewise.stores.lake import archive
    from slicewise.stores.lake.catalog import open_catalog
    from slicewise.stores.lake.records import built

    catalog = open_catalog(settings)
    measured = [one for one in built(catalog) if one.events]
    took_ms = sum(one.took_ms for one in measured)
    rate = sum(one.events for one in measured) * 1000 / took_ms if took_ms else None
    counts = {
        source: {} if table is None else archive.records_by_hour(table)
        for source in {unit.source for unit in units}
        for table in [archive.load(catalog, source)]
    }
    views = dict.fromkeys(unit.view for unit in units)
    return [
        _cost([unit for unit in units if unit.view == view], catalog, running, counts, rate, now_us)
        for view in views
    ]


def _cost(
    units: Sequence[StorageUnit],
    catalog: Catalog,
    running: Deployment,
    counts: dict[str, dict[int, int]],
    rate: float | None,
    now_us: int,
) -> BuildCost:
    from slicewise.stores.lake import slices

    view, of_source = units[0].view, counts[units[0].source]
    hours: set[int] = set()
    events, rows, size = 0, 0, 0
    measured = False
    for unit in units:
        kept_from = 0 if unit.lifetime else (now_us - unit.retention_us) // HOUR_US
        own = {hour for hour in of_source if hour >= kept_from}
        hours |= own
        events += sum(of_source[hour] for hour in own)
        table = _table_of_live(unit, catalog, running)
        if table is not None and own:
            compacted = [hour for hour in slices.headers(table) if hour in own]
            unit_rows = slices.bounds(table, compacted)[0] if compacted else 0
            rows += unit_rows
            size += unit_rows * (row_bytes(unit.layout) + NUMBER)
            measured = measured or bool(compacted)
    return BuildCost(
        view,
        len(hours),
        events,
        rows if measured else None,
        size if measured else None,
        events / rate if rate else None,
    )


def _table_of_live(unit: StorageUnit, catalog: Catalog, running: Deployment) -> Any:
    """Compacted hours of the live version's unit that is nearest; None where there are none."""
    from slicewise.stores.lake import slices

    live = base_of(unit.view)
    if isinstance(unit, ListUnit) or live not in running.views:
        return None
    other = nearest(unit, running.view(live))
    return None if other is None else slices.load(catalog, other.storage_fingerprint)


def cost_rows(costs: Sequence[BuildCost]) -> list[tuple[str, ...]]:
    """The costs as cells of a table."""
    return [
        (
            cost.view,
            f"{cost.hours:,}",
            f"{cost.events:,}",
            "-" if cost.rows is None else f"{cost.rows:,}",
            "-" if cost.bytes is None else f"{cost.bytes:,}",
            "not measured yet" if cost.seconds is None else f"{max(1.0, cost.seconds):,.0f} s",
        )
        for cost in costs
    ]


COST_HEAD = ("to build", "hours", "events", "rows as live", "bytes as live", "about")
