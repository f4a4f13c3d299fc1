"""Deployment and archive as training reads them: the store's manifest and Iceberg's tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from slicewise import log
from slicewise.clock import Clock, SystemClock
from slicewise.errors import BadRequest, DataLoss, NotReady, StoreUnavailable
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import Source
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.training.archive import ARCHIVE_NOW, Archived, NothingArchived
from slicewise.training.manifest import Manifest
from slicewise.training.tables.instants import text_of

_LOG_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class IcebergArchive:
    """The archive's port over `log.<source>`. bootstrap: the Kafka brokers that it was taken
    from."""

    catalog: Any
    bootstrap: str
    clock: Clock

    def reaches(self, source: str) -> Archived:
        """See Archive."""
        from slicewise.stores.lake.archive import archive_state, load
        from slicewise.stores.lake.gaps import accepted
        from slicewise.stores.lake.records import archived_until_us

        table = load(self.catalog, source)
        state = archive_state(table) if table is not None else None
        if state is None or state.snapshot_id is None or not state.archive_version:
            raise NothingArchived(
                f"nothing of {source!r} is archived",
                where=f"log.{source}",
                expected="at least one archive",
                next_step=ARCHIVE_NOW,
            )
        until = archived_until_us(self.catalog, source, state.archive_version)
        assert until is not None, "an archive version comes from its offset vector rows"
        assert table is not None
        return Archived(
            state.archive_version,
            state.offset_vector,
            until,
            state.snapshot_id,
            accepted(table, state.archive_version),
        )

    def confirmed(self, source: Source, archived: Archived) -> Archived:
        """See Archive. Where the log does not answer, nothing is confirmed."""
        from slicewise.stores.log.topics import KafkaLog

        now = self.clock.now_us()
        try:
            latest = KafkaLog(self.bootstrap, timeout_s=_LOG_TIMEOUT_S).latest(source.topic)
        except StoreUnavailable as error:
            log.warning("archive_not_confirmed", source=source.name, error=error.what)
            return archived
        return (
            replace(archived, until_us=now)
            if archived.offset_vector.dominates(latest)
            else archived
        )

    def by_hour(self, source: str) -> dict[int, int]:
        """Hour -> number of its events, from the table's metadata."""
        from slicewise.stores.lake.archive import load, records_by_hour

        table = load(self.catalog, source)
        return {} if table is None else records_by_hour(table)

    def pending(self, source: Source) -> int:
        """Offsets that the log holds and the archive does not. Raises StoreUnavailable,
        TopicGone."""
        from slicewise.stores.lake.archive import archive_state, load
        from slicewise.stores.log.topics import KafkaLog

        table = load(self.catalog, source.name)
        archived = archive_state(table).offset_vector if table is not None else OffsetVector()
        log = KafkaLog(self.bootstrap, timeout_s=_LOG_TIMEOUT_S)
        first, end = log.earliest(source.topic), log.latest(source.topic)
        return sum(
            max(0, offset - max(first.get(topic_partition), archived.get(topic_partition)))
            for topic_partition, offset in end.offsets.items()
        )

    def events(
        self,
        source: Source,
        columns: Sequence[str],
        start_us: int,
        end_us: int,
        archive_version: int,
    ) -> pa.Table:
        """See Archive."""
        from slicewise.stores.lake.archive import scan_events

        table = self._table(source)
        return scan_events(
            table,
            source,
            columns=columns,
            start_us=start_us,
            end_us=end_us,
            archive_version=archive_version,
            as_read=True,
        )

    def below(
        self,
        source: Source,
        columns: Sequence[str],
        offset_vector: OffsetVector,
        kafka_us: int,
        archive_version: int,
    ) -> pa.Table:
        """See Archive."""
        from slicewise.stores.lake.archive import scan_below

        return scan_below(
            self._table(source), source, columns, offset_vector, kafka_us, archive_version
        )

    def _table(self, source: Source) -> Any:
        from slicewise.stores.lake.archive import load

        table = load(self.catalog, source.name)
        if table is None:
            raise DataLoss(
                f"the archive of {source.name!r} is gone",
                where=f"log.{source.name}",
                expected="the table that the data set was built from",
                next_step="build the data set again from what is archived now",
            )
        return table


@dataclass(frozen=True)
class Offline:
    """A platform's offline side."""

    deployment: Deployment
    archive: IcebergArchive
    clock: Clock

    @staticmethod
    def open(
        settings: Settings, deployment: Deployment | None = None, clock: Clock | None = None
    ) -> Offline:
        """By these settings; `deployment` in place of the one that the store runs.

        Raises StoreUnavailable, and NotReady where nothing is deployed.
        """
        from slicewise.stores.lake.catalog import open_catalog

        clock = clock or SystemClock()
        archive = IcebergArchive(open_catalog(settings), settings.kafka_bootstrap, clock)
        return Offline(deployment or deployed(settings), archive, clock)

    def record(self, manifest: Manifest, name: str) -> None:
        """Enter a data set in `ops.datasets`."""
        from slicewise.stores.lake.records import append
        from slicewise.stores.lake.schemas import DATASETS

        row = {
            "dataset_id": manifest.name,
            "time": self.clock.now_us(),
            "name": name,
            "knowledge": manifest.knowledge,
            "manifest": manifest.to_json(),
            "rows": manifest.rows,
        }
        append(self.archive.catalog, DATASETS, [row])


def deployed_at(settings: Settings, instant_us: int) -> Deployment:
    """The deployment that stood at an instant, by the registry. Raises BadRequest where none is
    known, NotReady where it cannot be read, StoreUnavailable."""
    from slicewise.stores.lake.stood import read_registry
    from slicewise.stores.online.redis.adapter import open_store

    with closing(open_store(settings.redis_url)) as store:
        registry = read_registry(settings, store)
    where = "as_of_definition"
    if registry.gaps:
        raise NotReady(
            f"not every deployment is known: {'; '.join(registry.gaps)}",
            where=where,
            progress=0.0,
            next_step="bring it back, or give the deployment itself (deployment=, --deployment)",
        )
    chosen = registry.at(instant_us)
    if chosen is None:
        first = registry.stood[0] if registry.stood else None
        raise BadRequest(
            f"nothing is known to have been deployed at {text_of(instant_us)}",
            where=where,
            expected="an instant at which a deployment stood"
            + (f": from {text_of(first.at_us)} on" if first else ""),
            next_step="slicewise history shows the deployments and their times",
        )
    later = min(
        (one.version for one in registry.stood if one.at_us > instant_us), default=sys.maxsize
    )
    for version, why in registry.unread:
        if chosen.version < version < later:
            raise NotReady(
                f"deployment {version} may have stood at {text_of(instant_us)}, and {why}",
                where=where,
                progress=0.0,
                next_step="give the deployment itself (deployment=, --deployment)",
            )
    return chosen.deployment


def deployed(settings: Settings) -> Deployment:
    """The deployment that the online store runs. Raises StoreUnavailable, NotReady."""
    from slicewise.stores.online.redis.adapter import open_store

    with closing(open_store(settings.redis_url)) as store:
        digest = store.run(ReadMetadata()).units
        text = store.run(ReadManifest(digest)) if digest else None
    if text is None:
        raise NotReady(
            "nothing is deployed on this store",
            progress=0.0,
            next_step="deploy the project: slicewise apply",
        )
    return Deployment.from_json(text)
