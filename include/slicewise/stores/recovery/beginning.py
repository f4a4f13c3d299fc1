"""Beginnings of topics for a store that knows nothing of them: what the archive holds is left to
the backfill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slicewise.features import own
from slicewise.features.plan.deployment import Deployment
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.port import OnlineStore


@dataclass(frozen=True)
class ArchivedSource:
    """Content of a source's archive. history: topic id of the table that was taken in."""

    offset_vector: OffsetVector
    history: str | None = None


Archived = Callable[[str], ArchivedSource]
"""Source -> what its archive holds."""


def archived_by(settings: Settings) -> Archived:
    """By the archive's own rows; opened when it is first asked for, since it takes a second."""

    def archived(source: str) -> ArchivedSource:
        from slicewise.stores.lake.archive import archive_state, load
        from slicewise.stores.lake.catalog import open_catalog
        from slicewise.stores.lake.imported.history import taken_into

        table = load(open_catalog(settings), source)
        if table is None:
            return ArchivedSource(OffsetVector())
        taken = taken_into(table)
        return ArchivedSource(
            archive_state(table).offset_vector, None if taken is None else taken.topic_id
        )

    return archived


def beginnings(
    deployment: Deployment, log: KafkaLog, archived: Archived | None
) -> tuple[dict[str, str], OffsetVector]:
    """(topic -> id, first offsets that new committed offsets do not contain). archived: None where
    nothing can be."""
    topics: dict[str, str] = {}
    first = OffsetVector()
    for source in deployment.sources:
        topic_id = topics[source.topic] = log.topic_id(source.topic)
        first = first.join(log.earliest(source.topic))
        if archived is None:
            continue
        if source.name == own.SOURCE:  # probes have no archive, and nobody asks for old ones
            first = first.join(log.latest(source.topic))
        else:
            of_source = archived(source.name)
            first = first.join(of_topic(of_source.offset_vector, topic_id))
            # what was taken in counts, whatever the definitions say of it since
            if of_source.history is not None:
                topics[own.history_topic(source.topic, source.name)] = of_source.history
                first = first.join(of_topic(of_source.offset_vector, of_source.history))
    return topics, first


def of_topic(offset_vector: OffsetVector, topic_id: str) -> OffsetVector:
    """The partitions of one topic."""
    return OffsetVector(
        {
            topic_partition: offset
            for topic_partition, offset in offset_vector.offsets.items()
            if topic_partition[0] == topic_id
        }
    )


def with_probes_ready(
    store: OnlineStore, deployment: Deployment, metadata: StoreMetadata
) -> StoreMetadata:
    """Probes that come back have no history to build: none of theirs is ever asked for again."""
    late = [unit for unit in deployment.units if unit.project == own.PROJECT]
    late = [unit for unit in late if unit.storage_fingerprint not in metadata.ready]
    for unit in late:
        store.run(
            MarkReady(
                unit,
                metadata.starts[unit.storage_fingerprint],
                {unit.view: [unit.storage_fingerprint]},
            )
        )
    return store.run(ReadMetadata()) if late else metadata
