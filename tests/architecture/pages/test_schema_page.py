"""Output in docs/guides/schemas.md is what its commands print; sizes are the planner's, and no
page's business."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from slicewise.cli import main

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "guides" / "schemas.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"<!-- (output|error) of: ([^\n]+?) -->\n```text\n(.*?)\n```", PAGE, re.DOTALL)


@pytest.mark.parametrize("index", range(len(SHOWN)))
def test_the_page_is_current(
    index: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    kind, command, text = SHOWN[index]
    assert main(shlex.split(command)[1:]) == (kind == "error")
    captured = capsys.readouterr()
    wanted = without_tables(text)
    assert wanted, f"nothing is told: python docs/render.py docs/guides/schemas.md  ({command})"
    assert without_tables(captured.err if kind == "error" else captured.out) == wanted, (
        f"make it anew: python docs/render.py ({command})"
    )


def without_tables(text: str) -> list[str]:
    """Without the tables."""
    return [line.strip() for line in text.splitlines() if ": " in line]


def test_the_page_shows_what_is_absorbed_what_is_built_again_and_what_is_refused() -> None:
    absorbed, again, refused = (text for _, _, text in SHOWN)
    assert "by_customer: definition; " in absorbed
    assert "column 'note' is removed" in absorbed
    assert (
        "paid: new; the source's price changed: built again from the archive, 503 until then"
        in again
    )
    assert "what is archived of it is decimal(6,2)" in refused
