"""The page of aggregates and windows is what the code makes of itself now, and leaves none out."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from slicewise.aggregates import REGISTRY
from slicewise.cli import command_names
from tests.support.pages import page_script

DOCS = Path(__file__).resolve().parents[3] / "docs"
surfaces = page_script("surfaces")


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(reference: ModuleType) -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), (
        "python docs/reference.py writes it anew"
    )


def test_every_maker_of_an_aggregate_shows_an_example(reference: ModuleType) -> None:
    assert reference.undocumented() == []


def test_every_aggregate_has_a_maker(reference: ModuleType) -> None:
    made = {reference.example(maker).kind for _, maker in reference.makers()}
    # docs/guides/own_aggregates.md says how a class is written
    assert made >= set(REGISTRY) - {"where", "own"}


@pytest.mark.parametrize("name", sorted(surfaces.PAGES))
def test_a_page_of_settings_metrics_http_or_commands_is_current(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stored = (surfaces.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert stored == surfaces.PAGES[name](), "python docs/surfaces.py writes it anew"


def test_every_setting_is_explained_or_named_by_itself() -> None:
    bare = {
        line.split("|")[1].strip(" `")
        for line in surfaces.settings_page().splitlines()
        if line.endswith("|  |")
    }
    allowed = {
        "KAFKA_BOOTSTRAP",
        "WAREHOUSE",
        "SERVING_URL",
        "AIRFLOW_URL",
        "PLATFORM_PYTHON",
        "SPARK_PYTHON",
    }
    allowed |= {"SPARK_SUBMIT", "AIRFLOW_BIN", "SPARK_JARS", "KAFKA_JARS"}
    assert bare <= {f"SLICEWISE_{name}" for name in allowed}


def test_every_command_has_its_help_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    page = surfaces.cli_page()
    assert [name for name in command_names() if f"\n## slicewise {name}\n" not in page] == []
