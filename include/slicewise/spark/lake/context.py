"""A job works on the deployment that stands, for one server run, with archives that it read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from slicewise.clock import Clock
from slicewise.errors import NotReady
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import Source, StorageUnit
from slicewise.lifecycle.compaction import UnitHours
from slicewise.lifecycle.hours import first_kept, unit_hours
from slicewise.lifecycle.lifetime import TotalsClaim, totals_claim
from slicewise.settings import Settings
from slicewise.spark.lake.archive import Archived, Archiver
from slicewise.spark.lake.compaction import UnitTable
from slicewise.spark.lake.publish_hours import StoreRef
from slicewise.stores.lake.archive import ArchiveState, load, newest_by_hour
from slicewise.stores.lake.catalog import Catalog
from slicewise.stores.lake.imported.history import taken_in
from slicewise.stores.lake.slices import Header
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.archive_versions import (
    CountArchiveVersions,
    PutArchiveVersion,
    TrimArchiveVersions,
)
from slicewise.stores.online.operations.connecting import HoldBuilds, ReadMetadata, ReadTime
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.stores.online.operations.publish_days import ReadHours
from slicewise.stores.online.operations.publish_total import ReadTotalVersions, first_total_until
from slicewise.stores.online.operations.status import publish_gaps
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis import open_store
from slicewise.stores.online.rules.decisions import check_clock
from slicewise.stores.recovery.beginning import of_topic
from slicewise.stores.recovery.schema_offsets import settled


@dataclass
class Context:
    """Context of every job over the deployed units; bound to one server run."""

    session: SparkSession
    settings: Settings
    catalog: Catalog
    clock: Clock
    store: OnlineStore
    metadata: StoreMetadata
    manifest: str
    deployment: Deployment
    archives: dict[str, ArchiveState] = field(default_factory=dict)

    @staticmethod
    def open(session: SparkSession, settings: Settings, catalog: Catalog, clock: Clock) -> Context:
        """NotReady where nothing is deployed, ClockOff where the job's commits would be dated
        wrong."""
        store = open_store(settings.redis_url)
        check_clock(clock.now_us(), store.run(ReadTime()), clock.now_us())
        metadata = settled(store, settings.kafka_bootstrap, time.sleep)
        manifest = store.run(ReadManifest(metadata.units)) if metadata.units else None
        if manifest is None:
            raise NotReady("nothing is deployed", progress=0.0, next_step="slicewise apply")
        deployment = Deployment.from_json(manifest)
        store.run(HoldBuilds(_builds(deployment, metadata)))
        return Context(session, settings, catalog, clock, store, metadata, manifest, deployment)

    @property
    def ref(self) -> StoreRef:
        return StoreRef(
            self.settings.redis_url,
            self.store.server_run,
            self.store.store_id,
            _builds(self.deployment, self.metadata),
        )

    def archive(self, source: str) -> Archived:
        """Archives a source up to now, and registers what its newest archive version stands for."""
        declared = self.deployment.source(source)
        fingerprints = [
            unit.storage_fingerprint for unit in self.deployment.units if unit.source == source
        ]
        starts = tuple(self.metadata.starts_of(fingerprints))
        deployed = partial(self._deployed, source)
        done = Archiver(
            self.session, self.settings, self.catalog, declared, self.clock, starts, deployed
        ).run()
        state = self.archives[source] = self._without_uncounted_history(source, done.state)
        if state.archive_version:
            self.store.run(PutArchiveVersion(source, state.archive_version, state.offset_vector))
        # a store that was emptied learns again what its answers will lack, before any view is ready
        publish_gaps(self.store, source, done.accepted_gaps)
        return done

    def _without_uncounted_history(self, source: str, state: ArchiveState) -> ArchiveState:
        """The archive as it was before a history that the store does not count yet: its views are
        built anew with it, and until then no hour has a part of it."""
        taken = taken_in(self.catalog, source)
        if taken is None:
            return state
        history = of_topic(state.offset_vector, taken.topic_id)
        counted = self.metadata.committed.dominates(history)
        return state if counted else state.below(taken.archive_version)

    def _deployed(self, source: str) -> Source | None:
        """The source as it is deployed now."""
        units = self.store.run(ReadMetadata()).units
        if units == self.metadata.units:
            return self.deployment.source(source)
        text = self.store.run(ReadManifest(units))
        sources = () if text is None else Deployment.from_json(text).sources
        return next((candidate for candidate in sources if candidate.name == source), None)

    def unit_table(self, unit: StorageUnit) -> UnitTable:
        return UnitTable(
            self.session,
            self.settings,
            self.catalog,
            self.deployment,
            unit,
            self.archives[unit.source],
            self.ref,
            self.manifest,
        )

    def hours(self, unit: StorageUnit, headers: Mapping[int, Header]) -> UnitHours:
        """The facts that decide about the unit's hours."""
        table = load(self.catalog, unit.source)
        archive = self.archives[unit.source]
        starts = self.metadata.starts_of([unit.storage_fingerprint])
        published = self.store.run(ReadHours(unit))
        compacted = {
            hour: (header.archive_version, header.offset_vector) for hour, header in headers.items()
        }
        newest = newest_by_hour(table, archive.snapshot_id) if table is not None else {}
        totals = self.store.run(ReadTotalVersions(unit)) if unit.lifetime else ()
        return unit_hours(
            newest, compacted, starts, archive.contained, published, self.kept_from(unit), totals
        )

    def trim_versions(self, source: str) -> int:
        """Lets the store forget which offset vectors no hour of the source's units names; how
        many."""
        count = self.store.run(CountArchiveVersions(source))
        units = [unit for unit in self.deployment.sliced if unit.source == source]
        hours = [self.hours(unit, self.unit_table(unit).headers()) for unit in units]
        live = [span for hour in hours for span in hour.named()]
        return self.store.run(
            TrimArchiveVersions(source, count, self.metadata.deployment_version, live)
        )

    def totals_claim(self, unit: StorageUnit) -> TotalsClaim | None:
        """The reach of the totals of a unit with a lifetime, by the metadata of now."""
        return totals_claim(
            self.store.run(ReadMetadata()),
            unit.storage_fingerprint,
            self.archives[unit.source].contained,
        )

    def total_until_due(self, unit: StorageUnit) -> int:
        """The hour before which the hours of a unit with a lifetime are to be in its totals."""
        return first_total_until(self.store.run(ReadTime()), unit.retention_us)

    def kept_from(self, unit: StorageUnit) -> int:
        """First hour of which the store still keeps anything by itself."""
        return first_kept(unit, self.store.run(ReadMetadata()), self.store.run(ReadTime()))


def _builds(deployment: Deployment, metadata: StoreMetadata) -> dict[str, int]:
    names = [unit.storage_fingerprint for unit in deployment.units]
    return {name: metadata.builds.get(name, 0) for name in names}
