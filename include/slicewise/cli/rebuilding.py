"""A rebuild is planned from metadata alone, and begins by one change of the metadata, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from slicewise.features import own
from slicewise.features.plan.unit import ListUnit
from slicewise.local import deploy
from slicewise.log import event
from slicewise.names import unknown
from slicewise.settings import Settings
from slicewise.stores.lake import slices
from slicewise.stores.lake.catalog import Catalog, open_catalog
from slicewise.stores.lake.records import built
from slicewise.stores.online.operations.connecting import ReadTime
from slicewise.stores.online.operations.deploying import Deploy, Renewal
from slicewise.stores.online.port import OnlineStore
from slicewise.windows.durations import HOUR_US

Connect = Callable[[Settings], AbstractContextManager[OnlineStore]]


@dataclass(frozen=True)
class UnitPlan:
    """Reads that building a unit again takes."""

    view: str
    unit: str
    ready: bool
    """Tells whether it answers now: it is begun anew then; else what was begun goes on."""
    hours: int
    """Compacted hours that the store keeps."""
    rows: int
    """Slices of entities in them."""
    bytes: int
    """Size of their files."""
    seconds: float | None
    """By the rate of the builds that were measured last; None where none was."""


def plans(
    settings: Settings, view: str | None, connect: Connect = deploy.looked_at
) -> list[UnitPlan]:
    """Per unit of a view, or of all that are not ready. Changes nothing, unless `connect` begins a
    node that was emptied (`deploy.connected`). Raises UnknownName, ServerError,
    StoreUnavailable."""
    with connect(settings) as store:
        current, now_us = deploy.current(store), store.run(ReadTime())
    deployment = deploy.require_units(current)
    own_units = [unit for unit in deployment.units if unit.project != own.PROJECT]
    if view is not None and view not in {unit.view for unit in own_units}:
        raise unknown(
            "view", view, dict.fromkeys(unit.view for unit in own_units), "slicewise rebuild"
        )
    catalog = open_catalog(settings)
    rate = _rate(catalog)
    made = {}
    for unit in own_units:
        name = unit.storage_fingerprint
        ready = name in current.metadata.ready
        if name in made or (unit.view != view if view is not None else ready):
            continue
        table = slices.load(catalog, name)
        kept_from = 0 if unit.lifetime else (now_us - unit.retention_us) // HOUR_US
        hours = (
            [] if table is None else [hour for hour in slices.headers(table) if hour >= kept_from]
        )
        rows, size = (0, 0) if table is None or not hours else slices.bounds(table, hours)
        seconds = None if rate is None or isinstance(unit, ListUnit) else size / rate
        made[name] = UnitPlan(unit.view, name, ready, len(hours), rows, size, seconds)
    return list(made.values())


def begin(settings: Settings, planned: Sequence[UnitPlan]) -> list[str]:
    """Begins a build of their own for the units that are ready, and gives their views. Raises
    DeploymentSuperseded where another deployment came between: plan again."""
    anew = frozenset(plan.unit for plan in planned if plan.ready)
    if not anew:
        return []
    with deploy.connected(settings) as store:
        current = deploy.current(store)
        deployment = deploy.require_units(current)
        metadata = store.run(
            Deploy(
                deployment,
                current.metadata.deployment_version,
                dict(current.metadata.topics),
                renewal=Renewal(anew),
            )
        )
        deploy.register(
            settings, metadata, deployment.digest, current.metadata, by="", how="rebuild"
        )
    event("rebuild_begun", units=len(anew), deployment_version=metadata.deployment_version)
    return [plan.view for plan in planned if plan.ready]


def _rate(catalog: Catalog) -> float | None:
    """Bytes of slices a second, of the builds that were measured last; where there are some, of
    those that computed no rows."""
    measured = built(catalog)
    measured = [one for one in measured if not one.events] or measured
    took_ms, size = sum(one.took_ms for one in measured), sum(one.bytes for one in measured)
    return size * 1000 / took_ms if took_ms and size else None
