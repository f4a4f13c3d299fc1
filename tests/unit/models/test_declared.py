"""A file of models says where each stands, and what is wrong in it is named."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.errors import BadRequest, DataLoss, SettingsError
from slicewise.models.declared import DeclaredModel, chosen, load_models
from slicewise.models.versions.folder import ModelFolder
from slicewise.settings import Settings
from tests.unit.models.test_versions import published


def settings(folder: Path, text: str | None) -> Settings:
    file = folder / "models.toml"
    if text is not None:
        file.write_text(text)
    return replace(Settings.load({"SLICEWISE_STATE": str(folder)}), models=file)


def test_a_model_is_a_file_beside_the_list_or_an_address(tmp_path: Path) -> None:
    text = """
[models.a]
features = "churn_v1"
skops = "files/a.skops"
positive = "left"
threshold = 0.3
missing = 0
trusted = ["x.Y"]
[models.b]
features = ["v:x", "v:y"]
url = "http://models:80/b"
"""
    models = load_models(settings(tmp_path, text))
    location = str(tmp_path / "files" / "a.skops")
    assert models["a"] == DeclaredModel(
        "a", "churn_v1", "skops", location, 0.0, 0.3, "left", ("x.Y",)
    )
    b = models["b"]
    assert (b.features, b.kind, b.location) == (("v:x", "v:y"), "url", "http://models:80/b")
    assert math.isnan(b.missing)
    with pytest.raises(BadRequest, match="no model 'c'"):
        chosen(models, "c", "model")


@pytest.mark.parametrize(
    "text",
    [
        "models = 1",
        "[model.a]\nfeatures = 'x'",
        "[models.a]\nfeatures = 'x'",
        "[models.a]\nskops = 'x'",
        "[models.a]\nfeatures = 'x'\nskops = 'a'\nonnx = 'b'",
        "[models.a]\nfeatures = []\nskops = 'a'",
        "[models.a]\nfeatures = 'x'\nurl = 'models:80'",
        "[models.a]\nfeatures = 'x'\nskops = 'a'\nthreshold = true",
        "[models.a]\nfeatures = 'x'\nskops = 'a'\ncolour = 1",
        "[models.a]\nfeatures = 'x'\nskops = 'a'\ntrusted = 'x'",
        "[models.a]\nfeatures = 'x'\nskops = 'a'\npositive = 1",
        "[models.a",
        None,
    ],
)
def test_what_is_wrong_in_the_file_is_said(tmp_path: Path, text: str | None) -> None:
    with pytest.raises(SettingsError) as refused:
        load_models(settings(tmp_path, text))
    assert str(tmp_path) in str(refused.value.where)


TRAINED = """
[models.delay]
features = "delay_risk"
shadow = 0.5
[models.delay.training]
code = "train.py:fit"
spine = "spine.csv"
label = "late"
"""


def test_the_newest_version_answers_beside_the_live_one_and_the_live_one_beside_none(
    tmp_path: Path,
) -> None:
    given, folder = settings(tmp_path, TRAINED), ModelFolder(tmp_path / "models", "delay")
    assert given.models_folder == tmp_path / "models"

    def shadows() -> dict[str, float]:
        return {name: one.shadow for name, one in load_models(given).items() if one.version}

    published(folder)
    assert shadows() == {"delay@1": 0.5}, "no version is live: it is compared with others"
    folder.promote(1, "ann", 1)
    assert shadows() == {"delay": 0.0, "delay@1": 0.0}
    published(folder)
    published(folder)
    assert shadows() == {"delay": 0.0, "delay@1": 0.0, "delay@2": 0.0, "delay@3": 0.5}
    folder.promote(3, "ann", 2)
    assert set(shadows().values()) == {0.0}
    folder.promote(2, "ann", 3)
    assert {name for name, share in shadows().items() if share} == {"delay@3"}
    assert load_models(given)["delay"].version == "delay@2"


def test_a_name_none_of_whose_versions_is_live_answers_beside_none(tmp_path: Path) -> None:
    models = load_models(settings(tmp_path, TRAINED))
    assert (models["delay"].kind, models["delay"].shadow) == ("trained", 0.0)


def test_a_damaged_version_keeps_no_other_back_and_is_an_error_to_whoever_names_it(
    tmp_path: Path,
) -> None:
    given, folder = settings(tmp_path, TRAINED), ModelFolder(tmp_path / "models", "delay")
    published(folder)
    published(folder)
    folder.promote(1, "ann", 1)
    folder.file(2, "manifest.json").write_text("{")
    models = load_models(given)
    assert chosen(models, "delay", "--model").version == "delay@1"
    with pytest.raises(DataLoss, match="delay@2") as refused:
        chosen(models, "delay@2", "--model")
    assert refused.value.where == str(folder.file(2, "manifest.json").absolute())
    assert not models["delay@2"].shadow


def test_a_manifest_that_is_another_file_now_is_read_again(tmp_path: Path) -> None:
    given, folder = settings(tmp_path, TRAINED), ModelFolder(tmp_path / "models", "delay")
    published(folder)
    assert load_models(given)["delay@1"].trained_on == ("v:x",)
    file = folder.file(1, "manifest.json")
    file.write_text(file.read_text().replace('"v:x"', '"v:longer"'))
    assert load_models(given)["delay@1"].trained_on == ("v:longer",)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (('code = "train.py:fit"', 'code = "train.py"'), "code"),
        (('label = "late"', "label = 3"), "label"),
        (('label = "late"', 'label = "late"\ndays = 0'), "days"),
        (('label = "late"', 'label = "late"\nseed = -1'), "seed"),
        (('label = "late"', 'label = "late"\nmatured = "soon"'), "matured"),
        (('label = "late"', 'label = "late"\npromotion = "always"'), "promotion"),
        (('label = "late"', 'label = "late"\nschedule = "now"'), "schedule"),
        (('label = "late"', 'label = "late"\nrandom = 1'), "training"),
        (("shadow = 0.5", "shadow = 1.5"), "shadow"),
        (("shadow = 0.5", 'skops = "a.skops"'), "one of onnx"),
    ],
)
def test_what_is_wrong_in_a_training_is_named(
    tmp_path: Path, change: tuple[str, str], where: str
) -> None:
    with pytest.raises(SettingsError, match=where):
        load_models(settings(tmp_path, TRAINED.replace(*change)))
