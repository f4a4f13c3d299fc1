"""Data docs are Great Expectations' own pages: those of a run are added, and the oldest go."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from slicewise.checks.expectations.validation import Validation

INDEX = "index.html"
KEPT_RUNS = 72
"""Runs of each suite whose results and pages are kept: three days of hours."""
_SITE = "slicewise"


def build(validation: Validation, folder: Path) -> Path:
    """Builds the pages of the run's suites and results, and the index of all that are kept; the
    index."""
    folder.mkdir(parents=True, exist_ok=True)
    forget(validation.results)  # the site drops the pages of what is gone
    context = validation.context
    if _SITE not in context.get_site_names():
        context.add_data_docs_site(site_name=_SITE, site_config=_site(folder))
    context.build_data_docs(site_names=[_SITE], resource_identifiers=validation.resources)
    return folder / INDEX


def forget(results: Path, kept: int = KEPT_RUNS) -> None:
    """Removes all but the newest results of each suite: `<kind>/<name>/<run>/<time>`."""
    for suite in sorted(results.glob("*/*")):
        times = sorted(suite.glob("*/*"), key=lambda path: path.stat().st_mtime)
        for old in times[: max(0, len(times) - kept)]:
            shutil.rmtree(old)


def _site(folder: Path) -> dict[str, Any]:
    return {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(folder),
        },
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
    }
