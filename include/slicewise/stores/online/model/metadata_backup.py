"""A copy of the store's claims is kept beside it, so that a loss is known: a file of the stream's, and Iceberg's rows.

A copy never decides what is read or applied: it says how far the ledger had come, and what was deployed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slicewise.errors import CodecError
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.rules.decisions import still_lost

FILE, MANIFEST = "witness.json", "manifest-{}.json"


@dataclass(frozen=True)
class MetadataBackup:
    """Marks as they were once seen. ledger: of all marks seen, per place the largest."""

    generation: int
    """`StoreMetadata.life`."""
    epoch: int
    units: str
    """Digest of the deployment."""
    ledger: OffsetVector
    topics: Mapping[str, str]

    def after(self, marks: StoreMetadata) -> MetadataBackup:
        """With newer marks. Of an older life of the store the deployment that stood last is kept."""
        ledger = self.ledger.join(marks.ledger)
        if self.is_ahead_of(marks) or not marks.units:
            return self if ledger == self.ledger else replace(self, ledger=ledger)
        seen = MetadataBackup(marks.life, marks.epoch, marks.units, ledger, marks.topics)
        return self if seen == self else seen

    def is_ahead_of(self, marks: StoreMetadata) -> bool:
        """Tells whether the store lost a deployment: generations are times of the store, epochs count in one."""
        return (self.generation, self.epoch) > (marks.life, marks.epoch)

    def lost(self, marks: StoreMetadata) -> OffsetVector:
        """The earlier ledger of places where the store's stands before it."""
        return still_lost(marks.ledger, self.ledger, (marks.topics or self.topics).values())

    def to_be_deployed(self, marks: StoreMetadata) -> bool:
        """Tells whether the store lost the deployment that stood last."""
        return bool(self.units) and self.units != marks.units and (not marks.units or self.is_ahead_of(marks))

    def to_json(self) -> str:
        places: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in self.ledger.offsets.items():
            places.setdefault(topic, {})[str(partition)] = offset
        return json.dumps(
            {
                "generation": self.generation,
                "epoch": self.epoch,
                "units": self.units,
                "ledger": places,
                "topics": dict(self.topics),
            }
        )

    @staticmethod
    def parse(text: str) -> MetadataBackup:
        """Raises CodecError where it is none."""
        try:
            raw = json.loads(text)
            ledger: dict[TopicPartition, int] = {
                (topic, int(partition)): int(offset)
                for topic, places in raw["ledger"].items()
                for partition, offset in places.items()
            }
            topics = {str(name): str(topic_id) for name, topic_id in raw["topics"].items()}
            return MetadataBackup(
                int(raw["generation"]), int(raw["epoch"]), str(raw["units"]), OffsetVector(ledger), topics
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CodecError(f"a copy of the marks cannot be read: {error}", expected="what to_json wrote") from error


def of(marks: StoreMetadata) -> MetadataBackup:
    """The first: what stands now."""
    return MetadataBackup(marks.life, marks.epoch, marks.units, marks.ledger, marks.topics)


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

    def write(self, witness: MetadataBackup, manifest: str | None) -> None:
        """Replaces the copy in one step. manifest: of its deployment, where it is another than before."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if manifest is not None:
            self._put(MANIFEST.format(witness.units), manifest)
        self._put(FILE, witness.to_json())
        if manifest is not None:
            for old in self._folder.glob(MANIFEST.format("*")):
                if old.name != MANIFEST.format(witness.units):
                    old.unlink(missing_ok=True)

    def _put(self, name: str, text: str) -> None:
        part = self._folder / f"{name}.part"
        part.write_text(text)
        os.replace(part, self._folder / name)  # noqa: PTH105
