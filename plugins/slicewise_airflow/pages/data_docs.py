"""Data docs are pages that Great Expectations writes below the state folder; files of that folder
alone are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException
from fastapi.responses import FileResponse, HTMLResponse, Response

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
_NONE_YET = (
    "<!doctype html><title>Data docs</title><p>No data docs yet: the DAG check_expectations writes "
    "them after the first compaction.</p>"
)


def mount(app: FastAPI, signed_in: list[Any]) -> None:
    """Adds the route; signed_in: what a request must be."""

    @app.get(ROUTE + "/{name:path}", dependencies=signed_in)
    def data_docs(name: str) -> Response:
        from slicewise.settings import Settings
        from slicewise_airflow.expect import data_docs as folder

        root = folder(Settings.load())
        if not name and not (root / "index.html").is_file():
            return HTMLResponse(_NONE_YET, headers=_HEADERS)
        file = file_of(root, name or "index.html")
        if file is None:
            raise HTTPException(404, "no such page of the data docs")
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
