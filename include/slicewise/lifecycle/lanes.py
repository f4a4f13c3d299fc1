"""A unit alone decides whether the real-time lane writes it: the JVM must make its rows.

All of row logic is SQL that Spark's real-time mode runs
(tests/parity/spark/test_realtime_rowlogic.py holds every operator of it to that); Python it
refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slicewise.features.plan.deployment import Deployment
    from slicewise.features.plan.unit import StorageUnit


def no_realtime(unit: StorageUnit) -> str | None:
    """Tells why events of the unit are visible only when the micro-batch lane has them; None where
    the real-time lane brings them."""
    id_column = None if unit.dedupe is None else unit.dedupe.column
    return _no_realtime(id_column, [name for name, _ in unit.functions])


def realtime_sources(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Names of the sources of which the real-time lane writes at least one unit, from a
    deployment's JSON.

    By the rule of `no_realtime`, for whoever reads the JSON alone: Airflow's triggerer and its
    page.
    """
    ids = {
        source["name"]: source["dedupe"]["column"]
        for source in manifest.get("sources", ())
        if source.get("dedupe")
    }
    return frozenset(
        str(unit.get("source"))
        for unit in manifest.get("units", ())
        if _no_realtime(
            ids.get(unit.get("source")), [name for name, _ in unit.get("functions", ())]
        )
        is None
    )


def _no_realtime(id_column: str | None, functions: Sequence[str]) -> str | None:
    if id_column is not None:
        return (
            f"{id_column}: whether an event has come before, by its id, the micro-batch lane "
            "alone knows"
        )
    if not functions:
        return None
    return (
        f"{', '.join(functions)}: row functions are Python, which Spark's real-time mode does not "
        "run"
    )


def realtime_units(deployment: Deployment, source: str) -> tuple[StorageUnit, ...]:
    """The source's units that the real-time lane writes, each once: views may share an event
    list."""
    us = {
        u.storage_fingerprint: u
        for u in deployment.units
        if u.source == source and no_realtime(u) is None
    }
    return tuple(us.values())


def microbatch_only(deployment: Deployment, nodes: int = 1) -> tuple[tuple[str, str], ...]:
    """Names of the views with a unit that stays on the micro-batch lane alone, and the reasons.
    nodes: of the store."""
    if nodes > 1:
        why = f"the real-time lane does not write to a store of {nodes} nodes yet"
        return tuple((view, why) for view in deployment.views)
    reasons = {unit.view: no_realtime(unit) for unit in deployment.units}
    return tuple((view, why) for view, why in reasons.items() if why is not None)
