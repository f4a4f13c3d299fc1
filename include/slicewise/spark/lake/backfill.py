"""A unit is ready when every hour that holds events below its start offsets is in the online store.

Exactly the archived events below the start offsets are brought, from compacted rows as far as these
hold no others: no running partial can straddle it, because micro-batches bring nothing from below
it. What was brought is not brought again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise

from slicewise.features import own
from slicewise.features.plan.unit import ListUnit, StorageUnit
from slicewise.lifecycle.pacing import shares
from slicewise.spark.lake.context import Context
from slicewise.spark.lake.pace import Pace, look_of
from slicewise.spark.lake.report import Report
from slicewise.spark.lake.totals import filling_of
from slicewise.spark.lake.unit_build import ListBuild, UnitBuild, put_phase
from slicewise.stores.lake.archive import load, records_by_hour


def backfill(context: Context, view: str | None) -> Report:
    """Builds the units of a view (of all by default) that are not ready yet."""
    report = Report("backfill")
    some = context.deployment.view(view) if view else context.deployment.declared.units
    wanted = {unit.storage_fingerprint: unit for unit in some}  # views may share an event list
    units = [unit for name, unit in wanted.items() if name not in context.metadata.ready]
    for source in dict.fromkeys(unit.source for unit in units):
        put_phase(context, units, f"the archive takes in what the log of source {source} holds")
        report.add_archive(context.archive(source))
    # what is built soonest answers soonest
    units.sort(key=lambda unit: (unit.lifetime, unit.retention_us))
    for before, unit in pairwise(units):
        put_phase(context, [unit], f"its turn comes after view {before.view}")
    # rests end before the executor is waited for: what fails ends at once
    with _computing() as executor, _paced(context) as pace:
        builds = _begun(context, units, report, executor, pace)
        while pending := [build for build in builds if build.result is None]:
            # the first that has rows to write: Spark computes those of the others meanwhile
            next((build for build in pending if not build.waits), pending[0]).go_on()
    built = [build.result for build in builds if build.result is not None]
    paced = {
        "bound_ms": pace.bound_ms,
        "slowest": pace.slowest,
        "rested_s": round(pace.rested_s, 1),
        "unmeasured": pace.unmeasured,
    }
    report.more = {"units": built, "ready": all(unit["ready"] for unit in built), "pace": paced}
    return report


def _begun(
    context: Context,
    units: Sequence[StorageUnit],
    report: Report,
    executor: Executor,
    pace: Pace,
) -> list[UnitBuild | ListBuild]:
    """The builds of these units, in their order."""
    events: dict[str, Mapping[int, int]] = {}
    builds: list[UnitBuild | ListBuild] = []
    for unit in units:
        if isinstance(unit, ListUnit):
            start = context.metadata.starts[unit.storage_fingerprint]
            builds.append(ListBuild(context, unit, start))
            continue
        if unit.source not in events:
            log = load(context.catalog, unit.source)
            snapshot_id = context.archives[unit.source].snapshot_id
            events[unit.source] = {} if log is None else records_by_hour(log, snapshot_id)
        filling = filling_of(context, unit)
        of_source = events[unit.source]
        builds.append(UnitBuild(context, unit, report, filling, of_source, executor, pace))
    return builds


@contextmanager
def _computing() -> Iterator[Executor]:
    """An executor of one thread, whose tasks that were not begun are gone where this one fails."""
    executor = ThreadPoolExecutor(1)
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


@contextmanager
def _paced(context: Context) -> Iterator[Pace]:
    """The pace of a build beside views that answer. Where none does, everybody waits for the build
    alone, and it is not slowed."""
    ready = context.metadata.ready
    declared = [unit for unit in context.deployment.units if unit.project != own.PROJECT]
    answers = any(unit.storage_fingerprint in ready for unit in declared)
    bound_ms = context.settings.build_freshness_ms if answers else 0
    if not bound_ms:
        yield Pace(0, lambda: shares.UNMEASURED)
        return
    redis_url = context.settings.redis_url
    with Pace(bound_ms, lambda: look_of(redis_url)).looking() as pace:
        yield pace
