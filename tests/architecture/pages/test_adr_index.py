"""The list of decision records is made of the records as they stand."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(scope="module")
def index() -> ModuleType:
    spec = importlib.util.spec_from_file_location("adr_index", DOCS / "adr_index.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_index_is_current(index: ModuleType) -> None:
    assert index.PAGE.read_text(encoding="utf-8") == index.page(index.records()), (
        "python docs/adr_index.py"
    )


def test_a_number_is_given_once(index: ModuleType) -> None:
    numbers = [record.number for record in index.records()]
    assert len(numbers) == len(set(numbers))


def test_a_successor_is_a_later_record_of_the_folder(index: ModuleType) -> None:
    there = {record.number: record.file for record in index.records()}
    for record in index.records():
        for number, file in record.superseded_by:
            assert (record.number < number, there.get(number)) == (True, file), record


def test_the_index_links_to_every_record(index: ModuleType) -> None:
    text = index.PAGE.read_text(encoding="utf-8")
    assert [record.file for record in index.records() if f"]({record.file})" not in text] == []


def test_a_record_says_what_took_its_place(index: ModuleType) -> None:
    text = (
        "# 7. One claim\n\nStatus: partly superseded by [0009](0009-a.md), "
        "[0012](0012-b.md)\n\n## Context\n"
    )
    result = index.parse("0007-one.md", text)
    assert (result.claim, result.status) == ("One claim", "partly superseded")
    assert result.superseded_by == ((9, "0009-a.md"), (12, "0012-b.md"))


@pytest.mark.parametrize(
    "text",
    [
        "# One claim\n\nStatus: accepted\n\n",
        "# 7. One claim\n\n## Context\n",
        "# 8. One claim\n\nStatus: accepted\n\n",
        "# 7. One claim\n\nStatus: proposed\n\n",
        "# 7. One claim\n\nStatus: superseded\n\n",
        "# 7. One claim\n\nStatus: superseded by 0009\n\n",
        "# 7. One claim\n\nStatus: accepted by [0009](0009-a.md)\n\n",
    ],
)
def test_a_record_of_another_form_is_refused(index: ModuleType, text: str) -> None:
    with pytest.raises(index.RecordError, match=r"0007-one\.md"):
        index.parse("0007-one.md", text)
