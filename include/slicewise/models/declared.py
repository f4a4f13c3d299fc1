"""Models stand in a TOML file: features of each, and where it is read, requested or trained.

A model that slicewise trains has versions: its name is the live one, `name@2` the second.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slicewise.errors import BadRequest, DataLoss, DefinitionError, SettingsError
from slicewise.log import warning
from slicewise.models.versions.folder import ModelFolder, is_name, split_version
from slicewise.models.versions.manifest import MANIFEST
from slicewise.names import nearest
from slicewise.settings import MODELS_FILE, Settings, is_finite
from slicewise.windows.durations import parse_duration

TRAINED = "trained"
"""Kind of a model that slicewise trains, until one of its versions is meant."""
DAMAGED = "damaged"
"""Kind of a version whose manifest cannot be read."""
KINDS = ("onnx", "skops", "url")
PROMOTIONS = ("approval", "better", "no worse")
"""Rules by which a trained version becomes the live one."""
_FIELDS = frozenset(
    (
        "features",
        *KINDS,
        "training",
        "missing",
        "threshold",
        "positive",
        "trusted",
        "shadow",
        "requests",
    )
)
_TEXTS = ("code", "spine", "label")
_OPTIONS = ("days", "matured", "seed", "promotion", "schedule", "knowledge")
_PRESETS = frozenset(f"@{one}" for one in ("hourly", "daily", "weekly", "monthly", "yearly"))


@dataclass(frozen=True)
class Training:
    """Settings by which slicewise trains a model.

    file, function: code that fits it. spine: as of `dataset build`. label: the spine's column that
    is the label. days: newest days of the spine; None for all. matured: duration whose newest rows
    are left out, "" for none. knowledge: of the features. promotion: one of PROMOTIONS. schedule: a
    cron expression or a preset; "" for none.
    """

    file: Path
    function: str
    spine: str
    label: str
    days: float | None = None
    matured: str = ""
    seed: int = 0
    knowledge: str = "event_time"
    promotion: str = "approval"
    schedule: str = ""


@dataclass(frozen=True)
class DeclaredModel:
    """A model that a project names.

    features: a feature set's name, or refs in the order of the model's inputs. kind: "onnx" or
    "skops", files that hold no code, "url", an HTTP endpoint, or "trained", a model none of whose
    versions is live yet. location: the file, or the address. missing: number in place of a null.
    threshold: score from which a class is predicted. positive: the label that a score of 1 stands
    for; "" where labels are numbers. trusted: types of a skops file that the project's owner
    trusts. training: of a model that slicewise trains. version: the version that is meant, as
    delay@3; "" of other models. shadow: share of the entities whose logged requests it answers
    beside the live model; 0: none. requests: the feature set whose requests these are; "" where it
    follows from `features`. trained_on: refs of a version's inputs, in their order; what
    `features` names may be others since.
    """

    name: str
    features: str | tuple[str, ...]
    kind: str
    location: str
    missing: float = math.nan
    threshold: float = 0.5
    positive: str = ""
    trusted: tuple[str, ...] = ()
    training: Training | None = None
    version: str = ""
    shadow: float = 0.0
    requests: str = ""
    trained_on: tuple[str, ...] = ()


def load_models(settings: Settings) -> dict[str, DeclaredModel]:
    """Models of the file that the settings name, and all versions of those that are trained, by
    name. A version that is damaged keeps no other back: whoever names it is told. Raises
    SettingsError, DataLoss."""
    models = declared_models(settings)
    for name, model in tuple(models.items()):
        if model.training is not None:
            folder = ModelFolder(settings.models_folder, name)
            numbers, live = folder.numbers(), folder.live()
            versions = {number: _version(model, folder, number) for number in numbers}
            newest = max(numbers, default=live)
            if newest is not None and newest != live and versions[newest].kind != DAMAGED:
                # the candidate is what answers beside
                versions[newest] = replace(versions[newest], shadow=model.shadow)
            models |= {folder.title(number): one for number, one in versions.items()}
            # a name of no version answers nothing
            nothing = replace(model, shadow=0.0)
            models[name] = replace(versions[live], name=name) if live in versions else nothing
    return models


def declared_models(settings: Settings) -> dict[str, DeclaredModel]:
    """Models as the file has them, without a look at versions. Raises SettingsError."""
    file = settings.models
    try:
        document: Mapping[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"no models can be read: {error}",
            where=str(file),
            expected="a TOML file with tables [models.<name>], as docs/guides/models.md shows",
            next_step=f"write it beside the definitions, as {MODELS_FILE}",
        ) from error
    entries = document.get("models", {})
    if set(document) - {"models"} or not isinstance(entries, Mapping):
        raise _refused(file, "it", "tables [models.<name>] alone")
    models = {name: _declared(file, name, entry) for name, entry in entries.items()}
    for name in models:
        of = models.get(split_version(name)[0])
        if of is not None and of.name != name and of.training is not None:
            raise _refused(file, f"[models.{name}]", f"a name that is no version of {of.name}")
    return models


def chosen(models: Mapping[str, DeclaredModel], name: str, where: str) -> DeclaredModel:
    """The model of this name, which can score. Raises BadRequest, with the names that are near."""
    return require_live(named_model(models, name, where), where)


def named_model(models: Mapping[str, DeclaredModel], name: str, where: str) -> DeclaredModel:
    """The model of this name, live or not. Raises BadRequest."""
    if name not in models:
        raise BadRequest(
            f"there is no model {name!r}",
            where=where,
            expected="one of " + (", ".join(sorted(models)) or f"{MODELS_FILE}, which lists none"),
            next_step=nearest(name, models),
        )
    return models[name]


def require_live(model: DeclaredModel, where: str) -> DeclaredModel:
    """The model, unless it is a trained one of which no version is live, or one that is damaged.
    Raises BadRequest, DataLoss."""
    if model.kind == DAMAGED:
        raise DataLoss(
            f"the manifest of model {model.version} cannot be read",
            where=model.location,
            expected="the manifest that its training wrote",
            next_step="bring the file back, or name another version (slicewise promote-model)",
        )
    if model.kind == TRAINED:
        raise BadRequest(
            f"no version of model {model.name!r} is live",
            where=where,
            expected=f"a version by its number, as {model.name}@1, or one that was promoted",
            next_step=f"slicewise models {model.name} lists them; slicewise promote-model makes "
            "one live",
        )
    return model


def _version(model: DeclaredModel, folder: ModelFolder, number: int) -> DeclaredModel:
    """A version, with the inputs that it was trained on."""
    title = folder.title(number)
    try:
        manifest = folder.manifest(number)
    except DataLoss as error:
        warning("model_damaged", model=title, error=str(error))
        return replace(
            model,
            name=title,
            kind=DAMAGED,
            location=str(folder.file(number, MANIFEST).absolute()),
            version=title,
            shadow=0.0,
        )
    recipe = manifest.recipe
    return replace(
        model,
        name=title,
        features=recipe.features,
        kind="skops",
        location=str(folder.file(number).absolute()),
        missing=math.nan if recipe.missing is None else recipe.missing,
        positive=recipe.positive,
        version=title,
        shadow=0.0,
        trained_on=manifest.refs,
    )


def _declared(file: Path, name: str, entry: object) -> DeclaredModel:
    where = f"[models.{name}]"
    if not isinstance(entry, Mapping) or set(entry) - _FIELDS or "features" not in entry:
        raise _refused(file, where, f"features, and of these: {', '.join(sorted(_FIELDS))}")
    given: Mapping[str, Any] = entry
    kinds = [kind for kind in (*KINDS, "training") if kind in given]
    is_text = len(kinds) == 1 and isinstance(given[kinds[0]], str) and given[kinds[0]]
    if not is_text and kinds != ["training"]:
        expected = f"one of onnx, skops (a file), url (an address) and [models.{name}.training]"
        raise _refused(file, where, expected)
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
    share, requests = given.get("shadow", 0.0), given.get("requests", "")
    if not is_finite(share) or not 0 <= share <= 1:
        raise _refused(file, f"{where} shadow", "a share of the entities, from 0 to 1")
    if not isinstance(requests, str):
        raise _refused(file, f"{where} requests", "the name of a feature set that logs")
    training = None
    if kinds == ["training"]:
        training = _training(file, name, given["training"])
        kinds, given = [TRAINED], {**given, TRAINED: ""}
    kind = kinds[0]
    location = given[kind]
    if kind in ("onnx", "skops"):
        location = str((file.parent / location).absolute())
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
        training,
        shadow=float(share),
        requests=requests,
    )


def _training(file: Path, name: str, entry: object) -> Training:
    where = f"[models.{name}.training]"
    if not isinstance(entry, Mapping) or set(entry) - {*_TEXTS, *_OPTIONS}:
        raise _refused(file, where, f"{', '.join(_TEXTS)}; and of these: {', '.join(_OPTIONS)}")
    given: Mapping[str, Any] = entry
    if not is_name(name):
        raise _refused(file, where, "a name of letters, digits, _, - and . for its folder")
    for field in _TEXTS:
        if not isinstance(given.get(field), str) or not given[field]:
            raise _refused(file, f"{where} {field}", "a text")
    code, _, function = given["code"].rpartition(":")
    if not code.endswith(".py") or not function.isidentifier():
        raise _refused(file, f"{where} code", 'a file and a function of it, as "train.py:fit"')
    days, seed = given.get("days"), given.get("seed", 0)
    if days is not None and not (is_finite(days) and 0 < days <= 100_000):
        raise _refused(file, f"{where} days", "a number of days above 0")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise _refused(file, f"{where} seed", "a whole number from 0 to below 2**32")
    matured = given.get("matured", "")
    try:
        if matured != "":
            parse_duration(matured)
    except DefinitionError as error:
        raise _refused(file, f"{where} matured", str(error.expected)) from error
    knowledge, promotion = given.get("knowledge", "event_time"), given.get("promotion", "approval")
    if knowledge not in ("event_time", "arrival"):
        raise _refused(file, f"{where} knowledge", '"event_time" or "arrival"')
    if promotion not in PROMOTIONS:
        raise _refused(file, f"{where} promotion", ", ".join(f'"{one}"' for one in PROMOTIONS))
    schedule = given.get("schedule", "")
    if not isinstance(schedule, str) or not (
        schedule == "" or schedule in _PRESETS or len(schedule.split()) == 5
    ):
        raise _refused(file, f"{where} schedule", '"@daily" and the like, or five fields of cron')
    return Training(
        (file.parent / code).absolute(),
        function,
        given["spine"],
        given["label"],
        None if days is None else float(days),
        matured,
        seed,
        knowledge,
        promotion,
        schedule,
    )


def _refused(file: Path, what: str, expected: str) -> SettingsError:
    return SettingsError(
        f"{what} cannot be taken",
        where=str(file),
        expected=expected,
        next_step="correct it: docs/guides/models.md",
    )
