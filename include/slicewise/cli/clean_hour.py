"""An hour is clean when all that the log had at the request is archived, and nothing is dirty.

All is read from the catalog's and the store's own records, without Spark. Where they do not say it,
the hour is not called clean: a job then looks, and writes what is missing (docs/adr/0076).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from uuid import uuid4

from slicewise.clock import Clock
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import StorageUnit
from slicewise.lifecycle.compaction import UnitHours
from slicewise.lifecycle.healing.record import PART, Healing
from slicewise.lifecycle.hours import first_kept, unit_hours
from slicewise.settings import Settings
from slicewise.stores.lake import slices
from slicewise.stores.lake.archive import (
    ArchiveState,
    archive_state,
    archived_until_us,
    load,
    newest_by_hour,
)
from slicewise.stores.lake.catalog import Catalog, IcebergTable, open_catalog
from slicewise.stores.lake.records import append
from slicewise.stores.lake.registry import enter_if_possible
from slicewise.stores.lake.schemas import RUNS
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.connecting import HoldBuilds, ReadMetadata, ReadTime
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.stores.online.operations.publish_days import ReadHours
from slicewise.stores.online.operations.publish_total import ReadTotalVersions
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis import open_store
from slicewise.stores.online.redis.status import read_part
from slicewise.stores.online.rules.decisions import CLOCK_OFF_US


class Records(NamedTuple):
    """Records of the store and of the catalog, from which the hours of units are known."""

    store: OnlineStore
    metadata: StoreMetadata
    deployment: Deployment
    catalog: Catalog
    now_us: int
    """By the store's clock."""

    def table(self, unit: StorageUnit) -> IcebergTable | None:
        """The unit's compacted slices; None before the first."""
        return slices.load(self.catalog, unit.storage_fingerprint)

    def hours(
        self,
        unit: StorageUnit,
        table: IcebergTable | None,
        archive: ArchiveState,
        newest: dict[int, int],
    ) -> UnitHours:
        """Knowledge of a unit's hours. archive, newest: of its source."""
        headers = (
            {}
            if table is None
            else {
                hour: (header.archive_version, header.offset_vector)
                for hour, header in slices.headers(table).items()
            }
        )
        starts = self.metadata.starts_of([unit.storage_fingerprint])
        totals = self.store.run(ReadTotalVersions(unit)) if unit.lifetime else ()
        kept = first_kept(unit, self.metadata, self.now_us)
        published = self.store.run(ReadHours(unit))
        return unit_hours(newest, headers, starts, archive.contained, published, kept, totals)


@contextmanager
def records(settings: Settings) -> Iterator[Records | None]:
    """The records as they are now; None where nothing is deployed."""
    store = open_store(settings.redis_url)
    try:
        metadata = store.run(ReadMetadata())
        manifest = store.run(ReadManifest(metadata.units)) if metadata.units else None
        if manifest is None:
            yield None
            return
        deployment = Deployment.from_json(manifest)
        units = (unit.storage_fingerprint for unit in deployment.units)
        store.run(HoldBuilds({name: metadata.builds.get(name, 0) for name in units}))
        yield Records(store, metadata, deployment, open_catalog(settings), store.run(ReadTime()))
    finally:
        store.close()


def why_not_clean(settings: Settings, hour: int, requested_us: int) -> str | None:
    """Tells why a compaction of the hour may find something to do; None where it would find
    nothing.

    requested_us: all events that the log had by then count.
    """
    with records(settings) as of:
        if of is None:
            return "nothing is deployed"
        deployment = of.deployment
        for mark in Healing.of(read_part(settings.redis_url, PART)).marked:
            if mark.includes(hour) and not mark.recomputed_us:
                return f"a check that is red marked it, of view {mark.view!r}"
        for source in dict.fromkeys(unit.source for unit in deployment.declared.units):
            log = load(of.catalog, source)
            state = archive_state(log) if log is not None else ArchiveState(None, {})
            if log is None or not (
                archived_until_us(log) >= requested_us + _margin_us(settings)
                or _is_at_the_end(settings, deployment.source(source).topic, state)
            ):
                return f"source {source!r} was not archived since it was asked for"
            newest = newest_by_hour(log)
            for unit in deployment.declared.sliced:
                if unit.source == source:
                    hours = of.hours(unit, of.table(unit), state, newest)
                    if (finding := hours.dirty(hour)) is not None:
                        return f"{finding.why.value} of view {unit.view!r}"
        return None


def recorded(settings: Settings, clock: Clock) -> str:
    """Enters a run that found nothing to do among all others, and deployments as a run does; its
    id."""
    run_id = uuid4().hex
    catalog = open_catalog(settings)
    append(
        catalog,
        RUNS,
        [{"run_id": run_id, "job": "compact", "time": clock.now_us(), "outcome": "clean"}],
    )
    store = open_store(settings.redis_url)
    try:
        enter_if_possible(catalog, store, settings.redis_url, clock.now_us())
    finally:
        store.close()
    return run_id


def _is_at_the_end(settings: Settings, topic: str, state: ArchiveState) -> bool:
    """Tells whether nothing is in the log that the archive lacks: of a topic that rests nothing is
    archived any more."""
    with KafkaLog(settings.kafka_bootstrap) as log:
        return state.offset_vector.dominates(log.latest(topic))


def _margin_us(settings: Settings) -> int:
    """By how much the clock that dates archives may be ahead of the one that dates questions: on
    one machine they are the same."""
    local = any(f"//{host}" in settings.airflow_url for host in ("127.0.0.1", "localhost"))
    return 0 if local and settings.spark_master.startswith("local") else 2 * CLOCK_OFF_US
