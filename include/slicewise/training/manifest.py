"""A manifest holds all that a data set depends on: from it and its spine the same bytes are built
again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from slicewise.errors import BadRequest
from slicewise.features.plan.deployment import Deployment
from slicewise.offsets.gaps import from_json, to_json
from slicewise.offsets.vector import OffsetVector
from slicewise.training.archive import Archived
from slicewise.training.statistics import Statistics

FORMAT = 1
SUFFIX = ".manifest.json"
SPINE_SUFFIX = ".spine.parquet"
ARRIVAL_SUFFIX = ".arrival.parquet"


@dataclass(frozen=True)
class Manifest:
    """Record of a question and of what it was answered from.

    kind: "training_set" or "snapshot". deployment: its canonical JSON. sources: name -> archive
    version, snapshot id, offset vector (hex) and the instant that the archive reached. ats_us: of a
    snapshot. errors: ref -> number of values that are null because of an error. incomplete: ref ->
    number of rows whose window may lack events that are lost for good. arrival: by knowledge of
    arrival, source -> number and digest of the entries that counted; known_at_us: the
    instant at which all rows know, 0 where each has its own. statistics: ref -> statistics of its
    column. content: SHA-256 of the Parquet bytes, empty until they are written.
    """

    kind: str
    knowledge: str
    features: tuple[str, ...]
    deployment: str
    sources: Mapping[str, Mapping[str, Any]]
    units: Mapping[str, str]
    spine: str = ""
    ats_us: tuple[int, ...] = ()
    rows: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    incomplete: Mapping[str, int] = field(default_factory=dict)
    arrival: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    known_at_us: int = 0
    statistics: Mapping[str, Statistics] = field(default_factory=dict)
    pyarrow: str = pa.__version__
    content: str = ""

    @property
    def name(self) -> str:
        """The name that tells this data set from all others: 16 hex digits of all but where it was
        written."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, so that equal manifests are equal bytes."""
        values = asdict(self) | {"format": FORMAT}
        # as manifests were before there was any of it
        for name in ("incomplete", "arrival", "known_at_us", "statistics"):
            if not values[name]:
                del values[name]
        return json.dumps(values, sort_keys=True, indent=1, ensure_ascii=False) + "\n"

    @staticmethod
    def from_json(text: str, where: str) -> Manifest:
        """The manifest of this JSON. Raises BadRequest."""
        try:
            raw = json.loads(text)
            version = raw.pop("format")
            if version != FORMAT:
                raise ValueError(f"format {version!r}")
            raw["features"], raw["ats_us"] = tuple(raw["features"]), tuple(raw["ats_us"])
            return Manifest(**raw)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadRequest(
                f"this is no manifest: {error}",
                where=where,
                expected=f"what to_parquet wrote beside a data set, format {FORMAT}",
                next_step="name the manifest that stands beside the data set",
            ) from error

    @staticmethod
    def read(path: Path) -> Manifest:
        """The manifest in a file. Raises BadRequest."""
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise BadRequest(
                f"cannot read it: {error}",
                where=str(path),
                next_step="name the manifest that stands beside the data set",
            ) from error
        return Manifest.from_json(text, str(path))

    def deployed(self) -> Deployment:
        """The deployment that the data set was built with."""
        return Deployment.from_json(self.deployment)

    def archived(self) -> dict[str, Archived]:
        """The reach of each source's read."""
        return archived_of(self.sources)


def archived_of(sources: Mapping[str, Mapping[str, Any]]) -> dict[str, Archived]:
    """Inverse of `described`."""
    return {
        name: Archived(
            source["seq"],
            OffsetVector.unpack(bytes.fromhex(source["cover"])),
            source["until_us"],
            source["snapshot_id"],
            from_json(source["holes"], "manifest") if "holes" in source else (),
        )
        for name, source in sources.items()
    }


def described(archived: Mapping[str, Archived]) -> dict[str, dict[str, Any]]:
    """The reach of each source's read, as a manifest keeps it."""
    return {
        name: {
            "seq": source.archive_version,
            "cover": source.offset_vector.pack().hex(),
            "until_us": source.until_us,
            "snapshot_id": source.snapshot_id,
            **({"holes": to_json(source.accepted_gaps)} if source.accepted_gaps else {}),
        }
        for name, source in sorted(archived.items())
    }


def beside(path: Path, suffix: str) -> Path:
    """The file that belongs to a data set's file: churn.parquet, or churn.csv ->
    churn.manifest.json."""
    return path.with_name(path.name.removesuffix(".parquet").removesuffix(".csv") + suffix)
