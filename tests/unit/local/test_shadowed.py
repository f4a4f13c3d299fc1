"""The process beside the API is wanted where the file says `shadow`, whatever version is live."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewise.local.servers import supervisor
from slicewise.local.servers.services import SHADOW, build, shadow_summary, shadowed
from slicewise.models.versions.folder import ModelFolder
from slicewise.settings import MODELS_FILE, Settings
from tests.unit.models.test_versions import published

TRAINED = """
[models.delay]
features = "delay_risk"
{shadow}
[models.delay.training]
code = "train.py:fit"
spine = "spine.csv"
label = "late"
"""


def settings(folder: Path, text: str | None) -> Settings:
    if text is not None:
        (folder / MODELS_FILE).write_text(text)
    given = {"SLICEWISE_PROJECT": str(folder), "SLICEWISE_STATE": str(folder / "state")}
    return Settings.load(given)


def state_of(given: Settings) -> tuple[str, str]:
    [row] = [row for row in supervisor.status(given) if row.name == SHADOW]
    return row.state, row.detail


def test_it_is_wanted_while_the_newest_version_is_the_live_one(tmp_path: Path) -> None:
    """A later training makes a newer version, and nobody starts the process then."""
    given = settings(tmp_path, TRAINED.format(shadow="shadow = 0.5"))
    folder = ModelFolder(given.models_folder, "delay")
    assert shadowed(given), "no version is trained yet"
    published(folder)
    folder.promote(1, "ann", 1)
    assert shadowed(given), "the newest version is live"
    assert build(given).services[SHADOW].always_on
    assert state_of(given)[0] == "down", "it is wanted, and does not run"


@pytest.mark.parametrize("text", [None, TRAINED.format(shadow=""), "[models]\n"])
def test_it_is_idle_where_no_model_has_shadow(tmp_path: Path, text: str | None) -> None:
    given = settings(tmp_path, text)
    assert not shadowed(given)
    assert not build(given).services[SHADOW].always_on
    assert state_of(given) == ("idle", "no model has shadow")


def test_a_file_that_is_wrong_is_the_process_matter(tmp_path: Path) -> None:
    assert shadowed(settings(tmp_path, "[models"))


def test_a_process_without_a_model_to_answer_by_says_so() -> None:
    assert shadow_summary({"models": {}}) == "no model answers beside a live one now"
    assert shadow_summary({"models": {"b": {"scored": 1200}}}) == "b: 1,200 scores"
