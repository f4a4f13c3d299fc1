"""A version's manifest holds all that the model depends on: from it the same bytes are trained
again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from slicewise.errors import DataLoss

FORMAT = 1
MANIFEST, MODEL = "manifest.json", "model.skops"
DATA = "data"
"""Name of the training set beside a model, without its ending."""


@dataclass(frozen=True)
class Recipe:
    """Settings that a model was trained with, as models.toml had them.

    features: a feature set's name, or refs. missing: number in place of a null; None for NaN.
    code: file and function, relative to models.toml. days: newest days of the spine; None for all.
    matured: duration whose newest rows are left out; "" for none.
    """

    features: str | tuple[str, ...]
    positive: str
    missing: float | None
    code: str
    spine: str
    label: str
    seed: int
    knowledge: str = "event_time"
    days: float | None = None
    matured: str = ""


@dataclass(frozen=True)
class VersionManifest:
    """Record of a training.

    model: its name without a number. recipe: settings of then. refs: the model's inputs, in their
    order. data: name and content (SHA-256) of the training set, whose own manifest stands beside.
    code_sha256: of the file of the code. sha256: of the model's file. versions: library -> its
    version. first_us, last_us: instants of the oldest and the newest row. left_out: reason -> rows.
    measures: of the newest part, by a model of all older rows; empty where nothing could be
    measured, and split says why. deployment: digest. trained_us: when.
    """

    model: str
    recipe: Recipe
    refs: tuple[str, ...]
    data: Mapping[str, str]
    code_sha256: str
    sha256: str
    versions: Mapping[str, str]
    rows: int
    positives: int | None
    label_rate: float
    first_us: int
    last_us: int
    left_out: Mapping[str, int]
    split: str
    measures: Mapping[str, float | None]
    deployment: str
    trained_us: int
    seconds: float
    measured_rows: int = 0

    def to_json(self) -> str:
        """JSON with sorted keys."""
        values = asdict(self) | {"format": FORMAT}
        return json.dumps(values, sort_keys=True, indent=1, ensure_ascii=False) + "\n"

    @staticmethod
    def read(path: Path) -> VersionManifest:
        """The manifest in a file. Raises DataLoss."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            version = raw.pop("format")
            if version != FORMAT:
                raise ValueError(f"format {version!r}")
            recipe = raw["recipe"]
            if isinstance(recipe["features"], list):
                recipe["features"] = tuple(recipe["features"])
            raw["recipe"], raw["refs"] = Recipe(**recipe), tuple(raw["refs"])
            return VersionManifest(**raw)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataLoss(
                f"the manifest of a model's version cannot be read: {error}",
                where=str(path),
                expected=f"a manifest that training wrote, format {FORMAT}",
                next_step="bring the file back, or remove its folder",
            ) from error
