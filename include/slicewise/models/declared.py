"""Models stand in a TOML file: what each is given, and where it is read or asked."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slicewise.errors import BadRequest, SettingsError
from slicewise.names import nearest
from slicewise.settings import MODELS_FILE, Settings, is_finite

KINDS = ("onnx", "skops", "url")
_FIELDS = frozenset(("features", *KINDS, "missing", "threshold", "positive", "trusted"))


@dataclass(frozen=True)
class DeclaredModel:
    """A model that a project names.

    features: a feature set's name, or refs in the order of the model's inputs. kind: "onnx" or
    "skops", files that hold no code, or "url", an HTTP endpoint. location: the file, or the
    address. missing: number in place of a null. threshold: score from which a class is predicted.
    positive: the label that a score of 1 stands for; "" where labels are numbers. trusted: types of
    a skops file that the project's owner trusts.
    """

    name: str
    features: str | tuple[str, ...]
    kind: str
    location: str
    missing: float = math.nan
    threshold: float = 0.5
    positive: str = ""
    trusted: tuple[str, ...] = ()


def load_models(settings: Settings) -> dict[str, DeclaredModel]:
    """Models of the file that the settings name, by name. Raises SettingsError."""
    file = settings.models
    try:
        document: Mapping[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"no models can be read: {error}",
            where=str(file),
            expected="a TOML file with tables [models.<name>], as docs/guides/backtest.md shows",
            next_step=f"write it beside the definitions, as {MODELS_FILE}",
        ) from error
    entries = document.get("models", {})
    if set(document) - {"models"} or not isinstance(entries, Mapping):
        raise _refused(file, "it", "tables [models.<name>] alone")
    return {name: _declared(file, name, entry) for name, entry in entries.items()}


def chosen(models: Mapping[str, DeclaredModel], name: str, where: str) -> DeclaredModel:
    """The model of this name. Raises BadRequest, with the names that are near."""
    if name not in models:
        raise BadRequest(
            f"there is no model {name!r}",
            where=where,
            expected="one of " + (", ".join(sorted(models)) or f"{MODELS_FILE}, which lists none"),
            next_step=nearest(name, models),
        )
    return models[name]


def _declared(file: Path, name: str, entry: object) -> DeclaredModel:
    where = f"[models.{name}]"
    if not isinstance(entry, Mapping) or set(entry) - _FIELDS or "features" not in entry:
        raise _refused(file, where, f"features, and of these: {', '.join(sorted(_FIELDS))}")
    given: Mapping[str, Any] = entry
    kinds = [kind for kind in KINDS if kind in given]
    if len(kinds) != 1 or not isinstance(given[kinds[0]], str) or not given[kinds[0]]:
        raise _refused(file, where, "one of onnx, skops (a file) and url (an address)")
    features = given["features"]
    is_list = isinstance(features, list) and features and all(isinstance(f, str) for f in features)
    if not is_list and not (isinstance(features, str) and features):
        raise _refused(file, f"{where} features", 'a feature set, or a list of "view:column"')
    for field in ("missing", "threshold"):
        value = given.get(field, 0.0)
        if not is_finite(value) and not (field == "missing" and value != value):
            raise _refused(file, f"{where} {field}", "a number")
    trusted, positive = given.get("trusted", []), given.get("positive", "")
    if not isinstance(trusted, list) or not all(isinstance(one, str) for one in trusted):
        raise _refused(file, f"{where} trusted", "a list of names of types")
    if not isinstance(positive, str):
        raise _refused(file, f"{where} positive", "a label, in quotes")
    kind = kinds[0]
    location = given[kind] if kind == "url" else str((file.parent / given[kind]).absolute())
    if kind == "url" and not location.startswith(("http://", "https://")):
        raise _refused(file, f"{where} url", "http://… or https://…")
    return DeclaredModel(
        name,
        tuple(features) if is_list else str(features),
        kind,
        location,
        float(given.get("missing", math.nan)),
        float(given.get("threshold", 0.5)),
        positive,
        tuple(trusted),
    )


def _refused(file: Path, what: str, expected: str) -> SettingsError:
    return SettingsError(
        f"{what} cannot be taken",
        where=str(file),
        expected=expected,
        next_step="correct it: docs/guides/backtest.md, 'Models'",
    )
