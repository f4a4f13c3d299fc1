"""Output in docs/reference/sql.md is what its commands print, and every statement on it is one."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

import slicewise as sw
from slicewise.cli import main

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs" / "reference" / "sql.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"<!-- (output|error) of: ([^\n]+?) -->\n```text\n(.*?)\n```", PAGE, re.DOTALL)


def render() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render_pages", ROOT / "docs" / "render.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("index", range(len(SHOWN)))
def test_the_page_is_current(
    index: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    kind, command, text = SHOWN[index]
    assert main(shlex.split(command)[1:]) == (kind == "error")
    captured = capsys.readouterr()
    scrubbed = render().scrubbed(captured.err if kind == "error" else captured.out)
    if "--definition" not in command:  # sizes are the planner's, and no page's business
        assert scrubbed == text, (
            f"make it anew: python docs/render.py docs/reference/sql.md  ({command})"
        )


def test_the_page_has_what_it_should() -> None:
    assert len(SHOWN) == 10
    assert {kind for kind, _, _ in SHOWN} == {"output", "error"}


def test_its_statements_are_accepted() -> None:
    view, source = (text for text in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL))
    (made,) = sw.sql_views(source + view)
    assert [column for feature in made.features for column in feature.columns()] == [
        "basket_3h",
        "purchases_3h",
    ]
