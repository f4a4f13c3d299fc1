"""A version of a model is a function of its training set, its code, its seed and the libraries."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.clock import Clock
from slicewise.errors import BadRequest, DataLoss
from slicewise.models.declared import DeclaredModel, Training
from slicewise.models.fitted.code import Code
from slicewise.models.fitted.estimator import fitted, libraries
from slicewise.models.measures import is_binary
from slicewise.models.scoring import matrix_of
from slicewise.models.versions.folder import ModelFolder
from slicewise.models.versions.manifest import DATA, MANIFEST, MODEL, Recipe, VersionManifest
from slicewise.settings import Settings
from slicewise.training.api import open_again, open_training_set, whole
from slicewise.training.archiving.offline import deployed
from slicewise.training.dataset import DataSet
from slicewise.training.fitting.labelled import labelled_rows, labels_of, spine_of
from slicewise.training.fitting.split import Rows, judged, refuse_one_class, scores_of
from slicewise.training.manifest import SUFFIX
from slicewise.training.requests.training_request import looked_through
from slicewise.training.requests.unit_requests import as_answered
from slicewise.training.tables.instants import text_of
from slicewise.training.tables.locations import located

Notify = Callable[[str], None]
_SCORED = 1_000
"""Rows by which a model's file is tried before it becomes a version."""


@dataclass(frozen=True)
class Trained:
    """A version that was trained. path: its manifest."""

    title: str
    path: Path
    manifest: VersionManifest

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        made = self.manifest
        return {
            "model": self.title,
            "rows": made.rows,
            "sha256": made.sha256,
            "manifest": str(self.path),
            "measures": dict(made.measures),
            "split": made.split,
            "left_out": dict(made.left_out),
            "label_rate": made.label_rate,
            "seconds": made.seconds,
        }


@dataclass(frozen=True)
class Again:
    """Outcome of training a version again. sha256: None where its training set is another one now.
    differs: inputs that are not those of then."""

    title: str
    before: str
    sha256: str | None
    data_before: str
    data: str | None
    differs: tuple[str, ...]
    seconds: float

    @property
    def same(self) -> bool:
        """True where training set and model have the same bytes."""
        return self.sha256 == self.before and self.data == self.data_before

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        values = asdict(self)
        values["model"] = values.pop("title")
        return values | {"same": self.same, "differs": list(self.differs)}


def train(
    settings: Settings,
    model: DeclaredModel,
    *,
    until_us: int | None = None,
    clock: Clock,
    notify: Notify,
) -> Trained:
    """Trains the next version of a model.

    until_us: instant from which on no row is taken. Raises BadRequest, DefinitionError, and what
    building a training set raises.
    """
    training, where = _training_of(model), f"[models.{model.name}.training]"
    begun_us, home = clock.now_us(), settings.models.parent
    code = Code.load(training.file, training.function)
    recipe = _recipe(model, training, home)
    features = _named(recipe)
    current = cache(lambda: deployed(settings))
    notify("reading the spine")
    spine = located(settings, spine_of(training.spine, home), current)
    chosen = labelled_rows(
        looked_through(spine, features, recipe.knowledge), recipe, until_us, where
    )
    folder = ModelFolder(settings.models_folder, model.name)
    with folder.aside() as aside:
        offline, built = open_training_set(
            settings,
            chosen.spine,
            features,
            recipe.knowledge,
            current(),
            archive=True,
            notify=notify,
            step=notify,
            in_memory=True,
        )
        data = whole(built)
        table = aside / f"{DATA}.parquet"
        data_manifest = data.write(table)
        table.unlink()  # it comes again from its manifest and its spine
        rows = _rows(data, recipe, where)
        refuse_one_class(rows.labels, where)
        notify(f"fitting {model.name} on {len(rows.labels):,} rows of {len(rows.refs)} features")
        content = _fitted(code, rows, recipe, model)
        file = aside / MODEL
        file.write_bytes(content)
        scores_of(file, model, rows.refs, rows.matrix[-_SCORED:])
        notify("measuring a model of the older rows on the newest tenth")
        measured = judged(code, rows, recipe.seed, model, aside / ".measured.skops")
        is_class = is_binary(rows.labels)
        manifest = VersionManifest(
            model.name,
            recipe,
            rows.refs,
            {
                "manifest": f"{DATA}{SUFFIX}",
                "name": data_manifest.name,
                "sha256": data_manifest.content,
            },
            code.sha256,
            hashlib.sha256(content).hexdigest(),
            libraries(),
            len(rows.labels),
            int(rows.labels.sum()) if is_class else None,
            float(rows.labels.mean()),
            int(rows.at_us[0]),
            int(rows.at_us[-1]),
            dict(chosen.left_out),
            measured.split,
            measured.values,
            offline.deployment.digest,
            begun_us,
            round((clock.now_us() - begun_us) / 1e6, 3),
            measured.rows,
        )
        number = folder.publish(aside, manifest)
    title = folder.title(number)
    offline.record(data_manifest, title)
    notify(f"trained: {title}, rows up to {text_of(manifest.last_us)}")
    return Trained(title, folder.file(number, MANIFEST).absolute(), manifest)


def train_again(
    settings: Settings, model: DeclaredModel, number: int, *, clock: Clock, notify: Notify
) -> Again:
    """Builds a version's training set again, fits it again, and compares; nothing is written.

    Raises BadRequest where there is no such version, DefinitionError where the code fails.
    """
    _training_of(model)
    begun_us = clock.now_us()
    folder = ModelFolder(settings.models_folder, model.name)
    folder.require(number, "--again")
    before = folder.manifest(number)
    recipe, title = before.recipe, folder.title(number)
    file, _, function = recipe.code.rpartition(":")
    code = Code.load(settings.models.parent / file, function)
    now = libraries()
    differs = [
        f"library {name}: {now.get(name, 'none')}, and was {was}"
        for name, was in before.versions.items()
        if now.get(name) != was
    ]
    if code.sha256 != before.code_sha256:
        differs.append(f"code {recipe.code}: {code.sha256}, and was {before.code_sha256}")

    def outcome(sha256: str | None, data: str | None) -> Again:
        seconds = round((clock.now_us() - begun_us) / 1e6, 3)
        was = before.data["sha256"]
        return Again(title, before.sha256, sha256, was, data, tuple(differs), seconds)

    path = folder.file(number, before.data["manifest"])
    try:
        data = open_again(settings, path, None, step=notify)[1]
    except (DataLoss, BadRequest) as error:
        differs.append(f"data: {error.what}")
        return outcome(None, None)
    rows = _rows(data, recipe, title)
    notify(f"fitting {title} again on {len(rows.labels):,} rows")
    content = _fitted(code, rows, recipe, model)
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != before.sha256 and not differs:
        differs.append(
            f"none that is recorded: {recipe.code} gives other models of the same data and seed, "
            "or a module that it imports has changed"
        )
    return outcome(sha256, before.data["sha256"])


def _training_of(model: DeclaredModel) -> Training:
    if model.training is None:
        raise BadRequest(
            f"model {model.name!r} is not trained by slicewise",
            where=f"[models.{model.name}]",
            expected=f"a table [models.{model.name}.training], as docs/guides/models.md shows",
            next_step="write it in place of the model's file or address",
        )
    return model.training


def _recipe(model: DeclaredModel, training: Training, home: Path) -> Recipe:
    return Recipe(
        model.features,
        model.positive,
        None if math.isnan(model.missing) else model.missing,
        f"{Path(os.path.relpath(training.file, home)).as_posix()}:{training.function}",
        training.spine,
        training.label,
        training.seed,
        training.knowledge,
        training.days,
        training.matured,
    )


def _named(recipe: Recipe) -> str | list[str]:
    return recipe.features if isinstance(recipe.features, str) else list(recipe.features)


def _rows(data: DataSet, recipe: Recipe, where: str) -> Rows:
    """Rows of a set as the code has them: features as they are scored, and labels."""
    refs = data.manifest.features
    features = as_answered(data.manifest.deployed(), recipe.features, data.table.select(list(refs)))
    matrix = matrix_of(features, math.nan if recipe.missing is None else recipe.missing)
    at_us = np.asarray(data.table["at"].cast(pa.int64()).to_numpy(), np.int64)
    return Rows(tuple(refs), matrix, labels_of(data.table[recipe.label], recipe, where), at_us)


def _fitted(code: Code, rows: Rows, recipe: Recipe, model: DeclaredModel) -> bytes:
    return fitted(code, rows.refs, rows.matrix, rows.labels, recipe.seed, model.trusted)
