"""The real-time lane: units that it writes, its begin, its queries' ends, its slots, and the
micro-batch lane's longest wait. Pure functions of what was seen.

A unit alone decides whether the lane writes it: the JVM must make its rows. All of row logic is SQL
that Spark's real-time mode runs (tests/parity/spark/test_realtime_rowlogic.py holds every operator
of it to that); Python it refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.model.status import Status

if TYPE_CHECKING:
    from slicewise.features.plan.deployment import Deployment
    from slicewise.features.plan.unit import StorageUnit

SILENT_US = 60_000_000
"""Age of a driver's last sign of life beyond which it is not there."""
SPARE_SLOTS = 32
"""Least slots of a local session: they cost nothing while they are not used, and a partition more
needs no new one."""
_SHARE = 0.5
"""Share of a real-time lane that one wait of the micro-batch lane may fill: a batch takes time
too."""

_QUIET_S = 10.0
"""After which a query that began and has said nothing may have nothing to say."""


@dataclass(frozen=True)
class Pace:
    """Bounds of the micro-batch lane's waits: between the starts of batches, events of an entity's
    pending events, records of a batch."""

    longest_s: float
    bound: int
    most_records: int


def behind(latest: OffsetVector, committed: OffsetVector) -> int:
    """Events in the log that are not applied yet, over all of its partitions."""
    return sum(
        max(0, end - committed.get(topic_partition))
        for topic_partition, end in latest.offsets.items()
    )


def waits_for(
    latest: OffsetVector,
    committed: OffsetVector,
    microbatch: Status | None,
    limit: int,
    now_us: int,
) -> str | None:
    """Tells why the real-time lane may not begin yet; None: it may. The micro-batch lane must be
    near the end of the log, else the real-time lane would write row by row what is about to be
    applied in bulk; and one that runs must know of the real-time lane, else nobody would remove
    what it writes. limit: events that the micro-batch lane may be behind."""
    here = (
        microbatch is not None
        and microbatch.state == "running"
        and now_us - microbatch.heartbeat_us < SILENT_US
    )
    if microbatch is not None and here and microbatch.realtime == "off":
        return "the stream's driver runs without the real-time lane: slicewise stream ensure"
    lag = behind(latest, committed)
    return (
        f"the micro-batch lane is {lag} events behind, more than {limit}" if lag > limit else None
    )


def slots(partitions: Mapping[str, int]) -> int:
    """Slots of a local session for these partitions of sources: one for each for ever, and one more
    while a query takes over from another."""
    return max(SPARE_SLOTS, 2 * sum(partitions.values()))


def speaks(has_status: bool, age_s: float) -> bool:
    """Tells whether a query that began can be judged: its writers were heard, or so long was time
    for it."""
    return has_status or age_s >= _QUIET_S


def relieved(
    ends: Mapping[int, int], acknowledged: Mapping[int, int], applied: Mapping[int, int]
) -> bool:
    """Tells whether a query that began beside another has caught up, so that the other may end.

    By partition: where the log ended when it could be judged first; what it has acknowledged; the
    committed offsets."""
    return all(max(acknowledged.get(p, 0), applied.get(p, 0)) >= end for p, end in ends.items())


def microbatch_wait_s(most: int, records: int, took_s: float, over_s: float, pace: Pace) -> float:
    """Seconds that the micro-batch lane waits after a batch while the real-time lane lives.

    most: rows of its hottest entity; records: of the batch; took_s: what it took; over_s: since the
    start of the one before it. So short that at this rate an entity's pending events stay within
    half of its bound; none after a batch that was half as large as one may be: the micro-batch lane
    is behind.
    """
    if 2 * records >= pace.most_records:
        return 0.0
    interval_s = (
        pace.longest_s if most <= 0 else min(pace.longest_s, pace.bound * _SHARE * over_s / most)
    )
    return max(0.0, interval_s - took_s)


def no_realtime(unit: StorageUnit) -> str | None:
    """Tells why events of the unit are visible only when the micro-batch lane has them; None where
    the real-time lane brings them."""
    id_column = None if unit.dedupe is None else unit.dedupe.column
    return _no_realtime(id_column, [name for name, _ in unit.functions])


_Unit = Mapping[str, Any]
"""A unit of a deployment's JSON."""


def realtime_sources(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Names of the sources of which the real-time lane writes at least one unit, from a
    deployment's JSON.

    By the rule of `no_realtime`, for whoever reads the JSON alone: Airflow's triggerer and its
    page.
    """
    return frozenset(str(unit.get("source")) for unit in _by_lane(manifest)[0])


def realtime_views(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Names of the views that the real-time lane writes all units of, from a deployment's JSON."""
    written, left = ({str(unit.get("view")) for unit in of} for of in _by_lane(manifest))
    return frozenset(written - left)


def _by_lane(manifest: Mapping[str, Any]) -> tuple[list[_Unit], list[_Unit]]:
    """Units that the real-time lane writes, and those that are left to the micro-batch lane."""
    ids = {
        source["name"]: source["dedupe"]["column"]
        for source in manifest.get("sources", ())
        if source.get("dedupe")
    }
    lanes: tuple[list[_Unit], list[_Unit]] = ([], [])
    for unit in manifest.get("units", ()):
        functions = [name for name, _ in unit.get("functions", ())]
        lanes[_no_realtime(ids.get(unit.get("source")), functions) is not None].append(unit)
    return lanes


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
