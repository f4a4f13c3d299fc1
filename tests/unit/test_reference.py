"""The page of aggregates and windows is what the code makes of itself now, and leaves none out."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from slicewise.aggregates import REGISTRY

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(reference: ModuleType) -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "python docs/reference.py writes it anew"


def test_every_maker_of_an_aggregate_shows_an_example(reference: ModuleType) -> None:
    assert reference.undocumented() == []


def test_every_aggregate_has_a_maker(reference: ModuleType) -> None:
    made = {reference.example(maker).kind for _, maker in reference.makers()}
    assert made >= set(REGISTRY) - {"where", "own"}  # docs/guides/own_aggregates.md says how a class is written
