"""A copy of the store's claims is kept beside it, so that a loss is known: a file of the stream's,
and Iceberg's rows.

A copy never decides what is read or applied: it says how far the committed offsets had come, and
what was deployed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slicewise.errors import CodecError
from slicewise.features import own
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.rules.decisions import still_lost

FILE, MANIFEST = "witness.json", "manifest-{}.json"


@dataclass(frozen=True)
class MetadataBackup:
    """Metadata as it was once seen. committed: of all metadata seen, per partition the largest."""

    store_id: int
    """`StoreMetadata.set_or_store_id`."""
    deployment_version: int
    units: str
    """Digest of the deployment."""
    committed: OffsetVector
    topics: Mapping[str, str]

    def after(self, metadata: StoreMetadata) -> MetadataBackup:
        """With newer metadata. Of an older server run the deployment that stood last is kept."""
        committed = self.committed.join(metadata.committed)
        if self.is_beyond(metadata) or not metadata.units:
            return self if committed == self.committed else replace(self, committed=committed)
        seen = MetadataBackup(
            metadata.set_or_store_id,
            metadata.deployment_version,
            metadata.units,
            committed,
            # a history that was taken in is archived for good
            {**self._histories, **metadata.topics},
        )
        return self if seen == self else seen

    @property
    def _histories(self) -> dict[str, str]:
        return {name: one for name, one in self.topics.items() if own.is_history_topic(name)}

    def is_beyond(self, metadata: StoreMetadata) -> bool:
        """Tells whether the store lost a deployment: store ids are times of the store, deployment
        versions count in one."""
        return (self.store_id, self.deployment_version) > (
            metadata.set_or_store_id,
            metadata.deployment_version,
        )

    def lost(self, metadata: StoreMetadata) -> OffsetVector:
        """The earlier committed offsets of partitions where the store's stand before it."""
        topics = {**self._histories, **metadata.topics} if metadata.topics else self.topics
        return still_lost(metadata.committed, self.committed, topics.values())

    def to_be_deployed(self, metadata: StoreMetadata) -> bool:
        """Tells whether the store lost the deployment that stood last."""
        return (
            bool(self.units)
            and self.units != metadata.units
            and (not metadata.units or self.is_beyond(metadata))
        )

    def to_json(self) -> str:
        return json.dumps(
            {
                "generation": self.store_id,
                "epoch": self.deployment_version,
                "units": self.units,
                "ledger": self.committed.nested(),
                "topics": dict(self.topics),
            }
        )

    @staticmethod
    def parse(text: str) -> MetadataBackup:
        """Raises CodecError where it is none."""
        try:
            raw = json.loads(text)
            committed: dict[TopicPartition, int] = {
                (topic, int(partition)): int(offset)
                for topic, topic_partitions in raw["ledger"].items()
                for partition, offset in topic_partitions.items()
            }
            topics = {str(name): str(topic_id) for name, topic_id in raw["topics"].items()}
            return MetadataBackup(
                int(raw["generation"]),
                int(raw["epoch"]),
                str(raw["units"]),
                OffsetVector(committed),
                topics,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CodecError(
                f"a copy of the metadata cannot be read: {error}", expected="what to_json wrote"
            ) from error


def of(metadata: StoreMetadata) -> MetadataBackup:
    """The first: what stands now."""
    return MetadataBackup(
        metadata.set_or_store_id,
        metadata.deployment_version,
        metadata.units,
        metadata.committed,
        metadata.topics,
    )


class MetadataBackupFile:
    """The stream's copy, below its state folder. One process writes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> MetadataBackup | None:
        """None where there is none, or none that can be read: then other copies are asked."""
        try:
            return MetadataBackup.parse((self._folder / FILE).read_text())
        except (OSError, CodecError):
            return None

    def manifest(self, digest: str) -> str | None:
        """The deployment's JSON."""
        try:
            return (self._folder / MANIFEST.format(digest)).read_text()
        except OSError:
            return None

    def write(self, backup: MetadataBackup, manifest: str | None) -> None:
        """Replaces the copy in one step. manifest: of its deployment, where it is another than
        before."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if manifest is not None:
            self._put(MANIFEST.format(backup.units), manifest)
        self._put(FILE, backup.to_json())
        if manifest is not None:
            for old in self._folder.glob(MANIFEST.format("*")):
                if old.name != MANIFEST.format(backup.units):
                    old.unlink(missing_ok=True)

    def _put(self, name: str, text: str) -> None:
        part = self._folder / f"{name}.part"
        part.write_text(text)
        os.replace(part, self._folder / name)  # noqa: PTH105
