"""Pages of runs are listed once they are described, and the oldest go beyond a number of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slicewise.local import run_pages
from slicewise.local.run_pages import Pages


def test_pages_are_listed_newest_first_and_described_anew_by_a_run_that_is_tried_again(
    tmp_path: Path,
) -> None:
    pages = Pages(tmp_path / "pages")
    assert pages.names() == []
    for name in ("b-2", "b-1", "b-2"):
        pages.target(name).write_text("<p>whole</p>")
        pages.describe(name, {"model": name})
    pages.describe("b-2", {"decision": "left"})
    assert pages.names() == ["b-2", "b-1"]
    assert pages.facts("b-2") == {"model": "b-2", "decision": "left"}


def test_a_description_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    pages = Pages(tmp_path)
    (tmp_path / "b-1.json").write_text('{"model": ')
    assert (pages.names(), pages.facts("b-1"), pages.facts("b-2")) == (["b-1"], {}, {})


def test_the_oldest_go_with_their_descriptions_and_so_do_parts_of_killed_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_pages, "MOST", 2)
    pages = Pages(tmp_path)
    killed, at_work = tmp_path / ".b-0.html.17", tmp_path / ".b-9.html.18"
    for part in (killed, at_work):
        part.write_text("half")
    os.utime(killed, (0, 0))
    for name in ("b-1", "b-2", "b-3"):
        pages.target(name).write_text("")
        pages.describe(name, {})
    assert pages.names() == ["b-3", "b-2"]
    assert {file.name for file in tmp_path.iterdir()} == {
        *("b-2.html", "b-2.json", "b-3.html", "b-3.json", at_work.name),
    }
