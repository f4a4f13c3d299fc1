"""Data docs are pages that Great Expectations writes below the state folder; files of that folder
alone are shown.

The library's pages take layout and scripts from other hosts, which are asked for nothing. They are
shown with its own styles and a small layout of ours. Its index is a script's, so the index is ours
too.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException
from fastapi.responses import FileResponse, HTMLResponse, Response
from jinja2 import Environment

from slicewise_airflow.pages.frames import environment

ROUTE = "/data-docs"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".png": "image/png",
    ".gif": "image/gif",
    ".svg": "image/svg+xml",
    ".ico": "image/x-icon",
    ".otf": "font/otf",
}
"""Kinds of files that are shown."""
_POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; "
    "frame-ancestors 'self'"
)
"""Pages name styles and scripts of other hosts: none is asked, and nothing in a value runs."""
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
MOST = 300
"""Pages that the index lists, of all suites."""
_SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)
_REMOTE = re.compile(r"<link\b[^>]*https?://[^>]*>", re.IGNORECASE)
_TEMPLATES = Path(__file__).with_name("templates")


def mount(app: FastAPI, signed_in: list[Any]) -> None:
    """Adds the route; signed_in: what a request must be."""

    @app.get(ROUTE + "/{name:path}", dependencies=signed_in)
    def data_docs(name: str) -> Response:
        from slicewise.settings import Settings
        from slicewise_airflow.expect import data_docs as folder

        root = folder(Settings.load())
        if name in ("", "index.html"):
            return HTMLResponse(index(root), headers=_HEADERS)
        file = file_of(root, name)
        if file is None:
            raise HTTPException(404, "no such page of the data docs")
        if file.suffix == ".html":
            text = file.read_text(encoding="utf-8", errors="replace")
            return HTMLResponse(local(text), headers=_HEADERS)
        return FileResponse(file, media_type=_TYPES[file.suffix], headers=_HEADERS)


def file_of(root: Path, name: str) -> Path | None:
    """The file of this name below the root; None where there is none, or it lies elsewhere."""
    try:
        file, whole = (root / name).resolve(), root.resolve()
        if not file.is_relative_to(whole) or not file.is_file():
            return None
    except (OSError, ValueError):  # a NUL, or a name that is too long
        return None
    return file if file.suffix in _TYPES else None


def local(page: str) -> str:
    """A page of the library without what other hosts and scripts would have brought, in our layout.
    Its own styles stay."""
    plain = _REMOTE.sub("", _SCRIPT.sub("", page))
    style = f"<style>{(_TEMPLATES / 'data_docs.css').read_text(encoding='utf-8')}</style>"
    head, end, rest = plain.partition("</head>")
    return f"{head}{style}{end}{rest}" if end else style + plain


def index(root: Path) -> str:
    """The pages of the runs that are kept, newest first, with whether all was met; and those of the
    suites."""
    pages = sorted((root / "validations").glob("*/*/*/*/*.html"), key=_written, reverse=True)
    runs = [
        {
            "page": path.relative_to(root).as_posix(),
            "suite": ".".join(path.relative_to(root).parts[1:3]),
            "run": path.relative_to(root).parts[3],
            "met": _met(root, path),
        }
        for path in pages[:MOST]
    ]
    suites = [
        {"page": path.relative_to(root).as_posix(), "suite": f"{path.parent.name}.{path.stem}"}
        for path in sorted((root / "expectations").glob("*/*.html"))
    ]
    return (
        _environment()
        .get_template("data_docs.html")
        .render(runs=runs, suites=suites, hidden=max(0, len(pages) - MOST))
    )


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it went meanwhile
        return 0.0


def _met(root: Path, page: Path) -> bool | None:
    """Tells whether the run of a page met all, by its result beside the pages; None where that is
    gone."""
    results = root.parent / "expectation-results"
    file = (results / page.relative_to(root / "validations")).with_suffix(".json")
    try:
        return bool(json.loads(file.read_text(encoding="utf-8"))["success"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


@cache
def _environment() -> Environment:
    return environment(_TEMPLATES)
