"""A link to the documentation is absolute wherever it stands, and leads to a page that Airflow
itself can show."""

from __future__ import annotations

import re
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.errors import SettingsError
from slicewise.lifecycle.health.alerts import RUNBOOK
from slicewise.log import warning
from slicewise.settings import Settings

if TYPE_CHECKING:
    from markdown_it.token import Token

_NAME = re.compile(r"(?:[\w-]+/)?[\w-]+\.md")
_FRAME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
  :root {{ color-scheme: light dark; --line: #8884; --soft: #8881; }}
  body {{ font: 15px/1.55 system-ui, sans-serif; margin: 0 auto; padding: 24px; max-width: 1080px; }}
  table {{ border-collapse: collapse; width: 100%; }}
  th, td {{ text-align: left; padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }}
  code {{ font: 13px ui-monospace, monospace; }}
  pre {{ padding: 10px 12px; background: var(--soft); overflow-x: auto; }}
  :target {{ background: var(--soft); }}
</style></head><body>
{body}
</body></html>
"""


def base() -> str:
    """The address below which docs/ can be read; nothing where the settings cannot be read: an
    alert goes out."""
    try:
        return Settings.load().runbook_url
    except SettingsError as error:
        warning("settings_not_read", error=error.what)
        return ""


def page_of(docstring: str | None) -> str:
    """A DAG's page: its docstring, with links into docs/ made absolute."""
    text = textwrap.dedent(docstring or "")
    root = base()
    return text.replace(f"]({RUNBOOK}", f"]({root.rstrip('/')}/{RUNBOOK}") if root else text


def rendered(folder: Path, name: str) -> str | None:
    """The page of docs/ of this name (`runbook.md`, `adr/0050-the-tail.md`) as HTML; None where
    there is none.

    Headings have the anchors that links to them name. HTML within a page is shown as text.
    """
    file = folder / name
    if not _NAME.fullmatch(name) or not file.is_file():
        return None
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(file.read_text(encoding="utf-8"))
    title = _anchored(tokens)
    body = parser.renderer.render(tokens, parser.options, {})
    return _FRAME.format(title=title or name, body=body)


def anchor_of(heading: str) -> str:
    """The anchor of a heading, as repositories' pages make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _anchored(tokens: list[Token]) -> str:
    """Gives each heading its anchor; the text of the first one."""
    title = ""
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(child.content for child in inline.children or ())
            opening.attrSet("id", anchor_of(text))
            title = title or text
    return title
