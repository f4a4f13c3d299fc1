"""A file of models says where each stands, and what is wrong in it is named."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.errors import BadRequest, SettingsError
from slicewise.models.declared import DeclaredModel, chosen, load_models
from slicewise.settings import Settings


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
