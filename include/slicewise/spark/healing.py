"""The stream's driver knows what its store lost, says so there, and brings back what only copies
still hold.

Committed offsets that fell back are marked until they have come again. A store that lost its
deployment gets it again; where all is gone, or the log no longer reaches back to the committed
offsets, the committed offsets go on where the archive ends, and all that lies before that is the
backfill's: docs/adr/0059, docs/adr/0060.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from slicewise.errors import DeploymentSuperseded, NotReady, SlicewiseError
from slicewise.features import own
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import Source
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.runtime.log import event, warning
from slicewise.stores import metadata_backup
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.metadata_backup import MetadataBackup, MetadataBackupFile
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.operations.committed import MarkLostOffsets
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, ReadManifest, Renewal
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.recovery.beginning import (
    Archived,
    archived_by,
    beginnings,
    of_topic,
    with_probes_ready,
)


class Healing(Protocol):
    """Questions of a driver about its store."""

    def look(self, store: OnlineStore) -> StoreMetadata:
        """The metadata, after what it lacks was told and brought back. NotReady where nothing is
        known of the store."""
        ...

    def bridged(
        self, store: OnlineStore, deployment: Deployment, metadata: StoreMetadata
    ) -> StoreMetadata:
        """The metadata, after the committed offsets were moved that the log no longer reaches back
        to, where the archive does; the same object where none were."""
        ...

    def lost_of(self, topic_id: str, metadata: StoreMetadata) -> int:
        """Events of a topic that the store had applied and lost."""
        ...


class Onlooker:
    """Healing of a driver beside the stream's, which heals nothing."""

    def look(self, store: OnlineStore) -> StoreMetadata:
        return store.run(ReadMetadata())

    def bridged(
        self,
        store: OnlineStore,  # noqa: ARG002
        deployment: Deployment,  # noqa: ARG002
        metadata: StoreMetadata,
    ) -> StoreMetadata:
        return metadata

    def lost_of(self, topic_id: str, metadata: StoreMetadata) -> int:  # noqa: ARG002
        return 0


@dataclass
class Healer:
    """Healing of the stream's driver; it holds the copy of the metadata."""

    settings: Settings
    file: MetadataBackupFile = field(init=False)
    archived: Archived = field(init=False)
    entered: Callable[[], MetadataBackup | None] = field(init=False)
    """Last entry of the hourly archive, for a driver that has lost its own copy."""
    lost: OffsetVector = field(default_factory=OffsetVector)
    """Earlier committed offsets of partitions where they stand before that. It is marked on the
    store too (`StoreMetadata.lost_offsets`), where readers see it."""
    _backup: MetadataBackup | None = None
    _manifest: str | None = None
    _looked_up: bool = False
    _realtime_marked: tuple[ServerRun, int] | None = None
    """Server run of which was told how far a real-time lane may have come before it."""

    def __post_init__(self) -> None:
        self.file = MetadataBackupFile(self.settings.state_dir / "stream")
        self.archived = archived_by(self.settings)
        self.entered = self._entered

    def look(self, store: OnlineStore) -> StoreMetadata:
        backup = self._read_backup()
        try:
            metadata = store.run(ReadMetadata())
        except NotReady:
            if backup is None or not backup.units:
                raise
            warning(
                "store_emptied",
                store_id=backup.store_id,
                deployment_version=backup.deployment_version,
            )
            metadata = store.run(Initialise())
        if metadata.behind:
            metadata = self._finished(store, metadata)
        if backup is not None:
            metadata = self._mark_lost(store, metadata, backup)
            if backup.to_be_deployed(metadata):
                metadata = self._deployed(store, metadata, backup)
        self._keep(store, metadata)
        return metadata

    def bridged(
        self, store: OnlineStore, deployment: Deployment, metadata: StoreMetadata
    ) -> StoreMetadata:
        anew: set[str] = set()
        resume_at, first_of_all = OffsetVector(), OffsetVector()
        topics = dict(metadata.topics)
        with KafkaLog(self.settings.kafka_bootstrap) as log:
            for source in deployment.sources:
                topic_id = metadata.topics.get(source.topic, "")
                first = of_topic(log.earliest(source.topic), topic_id)
                if metadata.committed.dominates(first):
                    continue
                archived = of_topic(self.archived(source.name).offset_vector, topic_id)
                if archived.dominates(first):
                    resume_at = resume_at.join(archived)
                    anew |= _units_of(deployment, source)
        for source in deployment.sources:
            history = self._lost_history(source, metadata)
            if history is not None:
                topic_id, offsets = history
                topics[own.history_topic(source.topic, source.name)] = topic_id
                first_of_all = first_of_all.join(offsets)
                anew |= _units_of(deployment, source)
        if not anew:
            return metadata
        moved = len(resume_at.offsets) + len(first_of_all.offsets)
        warning("committed_moved", units=len(anew), topic_partitions=moved)
        renewal = Renewal(frozenset(anew), resume_at)
        return store.run(
            Deploy(deployment, metadata.deployment_version, topics, first_of_all, renewal=renewal)
        )

    def _lost_history(
        self, source: Source, metadata: StoreMetadata
    ) -> tuple[str, OffsetVector] | None:
        """Topic id and end of a history that the store contained and lost: no log brings it again,
        its archive does."""
        topics = {} if self._backup is None else self._backup.topics
        topic_id = topics.get(own.history_topic(source.topic, source.name))
        lost = OffsetVector() if topic_id is None else of_topic(self.lost, topic_id)
        if topic_id is None or metadata.committed.dominates(lost):
            return None
        archived = of_topic(self.archived(source.name).offset_vector, topic_id)
        if not archived.dominates(lost):
            warning("history_not_archived", source=source.name)  # a person's
            return None
        return topic_id, archived

    def lost_of(self, topic_id: str, metadata: StoreMetadata) -> int:
        return sum(
            max(0, o - metadata.committed.get(at))
            for at, o in self.lost.offsets.items()
            if at[0] == topic_id
        )

    def _read_backup(self) -> MetadataBackup | None:
        if self._backup is None and not self._looked_up:
            self._looked_up = True
            self._backup = self.file.read() or self.entered()
            self._manifest = (
                None if self._backup is None else self.file.manifest(self._backup.units)
            )
        return self._backup

    def _entered(self) -> MetadataBackup | None:
        try:
            from slicewise.stores.lake.catalog import open_catalog
            from slicewise.stores.lake.committed import high_water

            return high_water(open_catalog(self.settings))
        except Exception as error:  # noqa: BLE001
            warning("committed_not_read", kind=type(error).__name__, error=str(error))
            return None

    def _mark_lost(
        self, store: OnlineStore, metadata: StoreMetadata, backup: MetadataBackup
    ) -> StoreMetadata:
        lost = backup.lost(metadata)
        if lost or metadata.lost_offsets:
            metadata = store.run(
                MarkLostOffsets(lost.join(self._recovered(store, metadata, backup)))
            )
        if bool(lost) != bool(self.lost):
            events = sum(
                offset - metadata.committed.get(topic_partition)
                for topic_partition, offset in lost.offsets.items()
            )
            warning("store_lost", events=events) if lost else event("store_recovered")
        self.lost = lost
        return metadata

    def _recovered(
        self, store: OnlineStore, metadata: StoreMetadata, backup: MetadataBackup
    ) -> OffsetVector:
        """Finds how far a real-time lane may have come in topics of which the store lost what was
        applied. The part of the real-time lane's that it lost was in answers too, and lies below
        the log's end of now. Asked once in a server run: later the log ends elsewhere."""
        lost, run = backup.lost(metadata), (store.server_run, metadata.store_id)
        if (
            not lost
            or not (metadata.realtime_starts or self.settings.realtime == "on")
            or self._realtime_marked == run
        ):
            return OffsetVector()
        named = {topic_id: name for name, topic_id in {**backup.topics, **metadata.topics}.items()}
        vector = OffsetVector()
        try:
            for topic_id in {topic_id for topic_id, _ in lost} & named.keys():
                if own.is_history_topic(named[topic_id]):
                    continue  # its rows stand in the archive alone
                vector = vector.join(of_topic(self._log_end(named[topic_id]), topic_id))
        except SlicewiseError as error:  # asked again at the next look
            warning("log_end_unknown", error=str(error))
            return OffsetVector()
        self._realtime_marked = run
        return vector

    def _log_end(self, topic: str) -> OffsetVector:
        with KafkaLog(self.settings.kafka_bootstrap) as log:
            return log.latest(topic)

    def _deployed(
        self, store: OnlineStore, metadata: StoreMetadata, backup: MetadataBackup
    ) -> StoreMetadata:
        if self._manifest is None:
            warning("deployment_unknown", units=backup.units)
            return metadata
        deployment = Deployment.from_json(self._manifest)
        with KafkaLog(self.settings.kafka_bootstrap) as log:
            topics, first = beginnings(deployment, log, None if metadata.units else self.archived)
        try:
            metadata = store.run(Deploy(deployment, metadata.deployment_version, topics, first))
        except DeploymentSuperseded:
            return store.run(ReadMetadata())  # a person was quicker
        warning(
            "deployed_again", deployment_version=metadata.deployment_version, units=metadata.units
        )
        return with_probes_ready(store, deployment, metadata)

    def _finished(self, store: OnlineStore, metadata: StoreMetadata) -> StoreMetadata:
        """A node of several was emptied or lost its newest deployment, or who deployed stopped
        between two nodes: it gets what the others have."""
        manifest = store.run(ReadManifest(metadata.units)) if metadata.units else None
        if manifest is None:
            return metadata
        deployment = Deployment.from_json(manifest)
        with KafkaLog(self.settings.kafka_bootstrap) as log:
            topics, first = beginnings(deployment, log, self.archived)
        try:
            deployed = store.run(Deploy(deployment, metadata.deployment_version, topics, first))
        except DeploymentSuperseded:
            return store.run(ReadMetadata())  # somebody was quicker
        warning(
            "nodes_deployed_again",
            nodes=[number + 1 for number in metadata.behind],
            deployment_version=deployed.deployment_version,
        )
        return with_probes_ready(store, deployment, deployed)

    def _keep(self, store: OnlineStore, metadata: StoreMetadata) -> None:
        before = self._backup
        now = metadata_backup.of(metadata) if before is None else before.after(metadata)
        if now == before:
            return
        manifest = None
        if before is None or now.units != before.units or self._manifest is None:
            manifest = self._manifest = store.run(ReadManifest(now.units)) if now.units else None
        try:
            self.file.write(now, manifest)
        except OSError as error:  # a full disk: what is known is known while this process lives
            warning("metadata_backup_not_kept", error=str(error))
        self._backup = now


def _units_of(deployment: Deployment, source: Source) -> set[str]:
    """Storage fingerprints of the source's units."""
    return {unit.storage_fingerprint for unit in deployment.units if unit.source == source.name}
