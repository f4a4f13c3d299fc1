"""The stream's driver knows what its store lost, says so there, and brings back what only copies still hold.

A ledger that fell back is marked until it has come again. A store that lost its deployment gets it again; where all is
gone, or the log no longer reaches back to the ledger, the ledger goes on where the archive ends, and all that lies
before that is the backfill's: docs/adr/0059, docs/adr/0060.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from slicewise.errors import EpochSuperseded, NotReady, SlicewiseError
from slicewise.features.plan.deployment import Deployment
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.runtime.log import event, warning
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.model import metadata_backup as witness
from slicewise.stores.online.model.metadata_backup import MetadataBackup, MetadataBackupFile
from slicewise.stores.online.operations.committed import MarkLostOffsets
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, ReadManifest, Renewal
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.recovery.beginning import Archived, archived_by, beginnings, of_topic, with_probes_ready


class Healing(Protocol):
    """Questions of a driver about its store."""

    def look(self, store: OnlineStore) -> StoreMetadata:
        """The marks, after what they lack was told and brought back. NotReady where nothing is known of the store."""
        ...

    def bridged(self, store: OnlineStore, deployment: Deployment, marks: StoreMetadata) -> StoreMetadata:
        """The marks, after the ledgers were moved that the log no longer reaches back to, where the archive does; the
        same object where none were."""
        ...

    def lost_of(self, topic_id: str, marks: StoreMetadata) -> int:
        """Events of a topic that the store had applied and lost."""
        ...


class Onlooker:
    """Healing of a driver beside the stream's, which heals nothing."""

    def look(self, store: OnlineStore) -> StoreMetadata:
        return store.run(ReadMetadata())

    def bridged(self, store: OnlineStore, deployment: Deployment, marks: StoreMetadata) -> StoreMetadata:  # noqa: ARG002
        return marks

    def lost_of(self, topic_id: str, marks: StoreMetadata) -> int:  # noqa: ARG002
        return 0


@dataclass
class Healer:
    """Healing of the stream's driver; it holds the copy of the marks."""

    settings: Settings
    file: MetadataBackupFile = field(init=False)
    archived: Archived = field(init=False)
    entered: Callable[[], MetadataBackup | None] = field(init=False)
    """What the hourly archive entered last, for a driver that has lost its own copy."""
    lost: OffsetVector = field(default_factory=OffsetVector)
    """Where the ledger had come, of places where it stands before that. It is marked on the store too
    (`StoreMetadata.known`), where readers see it."""
    _witness: MetadataBackup | None = None
    _manifest: str | None = None
    _asked: bool = False
    _tail_told: tuple[ServerRun, int] | None = None
    """Life of the store of which was told how far a tail may have come before it."""

    def __post_init__(self) -> None:
        self.file = MetadataBackupFile(self.settings.state_dir / "stream")
        self.archived = archived_by(self.settings)
        self.entered = self._entered

    def look(self, store: OnlineStore) -> StoreMetadata:
        known = self._known()
        try:
            marks = store.run(ReadMetadata())
        except NotReady:
            if known is None or not known.units:
                raise
            warning("store_emptied", generation=known.generation, epoch=known.epoch)
            marks = store.run(Initialise())
        if marks.behind:
            marks = self._finished(store, marks)
        if known is not None:
            marks = self._told(store, marks, known)
            if known.to_be_deployed(marks):
                marks = self._deployed(store, marks, known)
        self._keep(store, marks)
        return marks

    def bridged(self, store: OnlineStore, deployment: Deployment, marks: StoreMetadata) -> StoreMetadata:
        anew: set[str] = set()
        ahead = OffsetVector()
        with KafkaLog(self.settings.kafka_bootstrap) as log:
            for source in deployment.sources:
                topic_id = marks.topics.get(source.topic, "")
                first = of_topic(log.earliest(source.topic), topic_id)
                if marks.ledger.dominates(first):
                    continue
                held = of_topic(self.archived(source.name), topic_id)
                if held.dominates(first):
                    ahead = ahead.join(held)
                    anew |= {unit.storage_fingerprint for unit in deployment.units if unit.source == source.name}
        if not anew:
            return marks
        warning("ledger_moved", units=len(anew), places=len(ahead.offsets))
        renewal = Renewal(frozenset(anew), ahead)
        return store.run(Deploy(deployment, marks.epoch, dict(marks.topics), renewal=renewal))

    def lost_of(self, topic_id: str, marks: StoreMetadata) -> int:
        return sum(max(0, o - marks.ledger.get(at)) for at, o in self.lost.offsets.items() if at[0] == topic_id)

    def _known(self) -> MetadataBackup | None:
        if self._witness is None and not self._asked:
            self._asked = True
            self._witness = self.file.read() or self.entered()
            self._manifest = None if self._witness is None else self.file.manifest(self._witness.units)
        return self._witness

    def _entered(self) -> MetadataBackup | None:
        try:
            from slicewise.stores.lake.catalog import open_catalog
            from slicewise.stores.lake.committed import reached

            return reached(open_catalog(self.settings))
        except Exception as error:  # noqa: BLE001 - whatever the catalog raises: the stream does not need it
            warning("ledgers_not_read", kind=type(error).__name__, error=str(error))
            return None

    def _told(self, store: OnlineStore, marks: StoreMetadata, known: MetadataBackup) -> StoreMetadata:
        lost = known.lost(marks)
        if lost or marks.known:
            marks = store.run(MarkLostOffsets(lost.join(self._brought(store, marks, known))))
        if bool(lost) != bool(self.lost):
            events = sum(offset - marks.ledger.get(place) for place, offset in lost.offsets.items())
            warning("store_lost", events=events) if lost else event("store_recovered")
        self.lost = lost
        return marks

    def _brought(self, store: OnlineStore, marks: StoreMetadata, known: MetadataBackup) -> OffsetVector:
        """Finds how far a tail may have come in topics of which the store lost what was applied. The part of the tail's that it lost
        was in answers too, and lies below the log's end of now. Asked once in a life: later the log ends elsewhere."""
        lost, life = known.lost(marks), (store.incarnation, marks.generation)
        if not lost or not (marks.tails or self.settings.tail == "on") or self._tail_told == life:
            return OffsetVector()
        named = {topic_id: name for name, topic_id in {**known.topics, **marks.topics}.items()}
        found = OffsetVector()
        try:
            for topic_id in {topic_id for topic_id, _ in lost} & named.keys():
                found = found.join(of_topic(self._log_end(named[topic_id]), topic_id))
        except SlicewiseError as error:  # asked again at the next look
            warning("log_end_unknown", error=str(error))
            return OffsetVector()
        self._tail_told = life
        return found

    def _log_end(self, topic: str) -> OffsetVector:
        with KafkaLog(self.settings.kafka_bootstrap) as log:
            return log.latest(topic)

    def _deployed(self, store: OnlineStore, marks: StoreMetadata, known: MetadataBackup) -> StoreMetadata:
        if self._manifest is None:
            warning("deployment_unknown", units=known.units)
            return marks
        deployment = Deployment.from_json(self._manifest)
        with KafkaLog(self.settings.kafka_bootstrap) as log:
            topics, first = beginnings(deployment, log, None if marks.units else self.archived)
        try:
            marks = store.run(Deploy(deployment, marks.epoch, topics, first))
        except EpochSuperseded:
            return store.run(ReadMetadata())  # a person was quicker
        warning("deployed_again", epoch=marks.epoch, units=marks.units)
        return with_probes_ready(store, deployment, marks)

    def _finished(self, store: OnlineStore, marks: StoreMetadata) -> StoreMetadata:
        """A node of several was emptied or lost its newest deployment, or who deployed stopped between two nodes: it
        gets what the others have."""
        manifest = store.run(ReadManifest(marks.units)) if marks.units else None
        if manifest is None:
            return marks
        deployment = Deployment.from_json(manifest)
        with KafkaLog(self.settings.kafka_bootstrap) as log:
            topics, first = beginnings(deployment, log, self.archived)
        try:
            found = store.run(Deploy(deployment, marks.epoch, topics, first))
        except EpochSuperseded:
            return store.run(ReadMetadata())  # somebody was quicker
        warning("nodes_deployed_again", nodes=[number + 1 for number in marks.behind], epoch=found.epoch)
        return with_probes_ready(store, deployment, found)

    def _keep(self, store: OnlineStore, marks: StoreMetadata) -> None:
        before = self._witness
        now = witness.of(marks) if before is None else before.after(marks)
        if now == before:
            return
        manifest = None
        if before is None or now.units != before.units or self._manifest is None:
            manifest = self._manifest = store.run(ReadManifest(now.units)) if now.units else None
        try:
            self.file.write(now, manifest)
        except OSError as error:  # a full disk: what is known is known while this process lives
            warning("witness_not_kept", error=str(error))
        self._witness = now
