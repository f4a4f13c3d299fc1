"""A model that a monitor has trained is one that slicewise trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewise.errors import SettingsError, SlicewiseError
from slicewise.local.monitors.looking import load_monitors, require_models
from slicewise.settings import MODELS_FILE, MONITORS_FILE, Settings

MODELS = """
[models.fraud]
features = "s"
onnx = "fraud.onnx"
[models.delay]
features = "s"
[models.delay.training]
code = "train.py:fit"
spine = "spine.csv"
label = "late"
"""
MONITOR = """
[monitors.drift]
feature = "labels:right_1h"
below = 0.9
"""


def settings(folder: Path, retrain: str, models: str | None = MODELS) -> Settings:
    (folder / MONITORS_FILE).write_text(f"{MONITOR}{retrain}\n")
    if models is not None:
        (folder / MODELS_FILE).write_text(models)
    return Settings.load({"SLICEWISE_PROJECT": str(folder)})


def checked(given: Settings) -> None:
    require_models(load_monitors(given), given)


def test_a_model_that_is_trained_is_taken(tmp_path: Path) -> None:
    checked(settings(tmp_path, 'retrain = "delay"'))
    checked(settings(tmp_path, "", None))


@pytest.mark.parametrize(
    ("model", "what", "next_step"),
    [
        ("delya", "no model 'delya'", "delay"),
        ("fraud", "does not train model 'fraud'", "docs/guides/models.md"),
        ("delay@1", "no model 'delay@1'", "delay"),
    ],
)
def test_another_is_refused_with_the_monitor_and_a_step(
    tmp_path: Path, model: str, what: str, next_step: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        checked(settings(tmp_path, f'retrain = "{model}"'))
    assert what in refused.value.what
    assert "[monitors.drift] retrain" in str(refused.value.where)
    assert next_step in str(refused.value.next_step)


def test_without_a_file_of_models_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SlicewiseError, match=MODELS_FILE):
        checked(settings(tmp_path, 'retrain = "delay"', None))
