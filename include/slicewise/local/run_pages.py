"""Pages of runs stand in a folder, each with a description beside it: both are whole, or not there.

A run that is tried again writes them again under the same names. Beyond a number of them the oldest
go when a newer one is described.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slicewise.log import warning
from slicewise.settings import Settings

MOST = 500
"""Pages of a kind that are kept."""
NOT_DECIDED: Mapping[str, Any] = {
    "backtest": "",
    "outcome": "",
    "decision": "",
    "reasons": (),
    "promoted_by": "",
}
"""Description of a training of which nothing is decided yet, beside what was trained."""
_PARTS_S = 86_400.0
"""Age from which a part of a file is of a writer that was killed."""


def backtests(settings: Settings) -> Pages:
    """Pages on which models were judged."""
    return Pages(settings.state_dir / "reports" / "backtests")


def trainings(settings: Settings) -> Pages:
    """Runs that trained a model; their pages are made of their descriptions."""
    return Pages(settings.state_dir / "reports" / "trainings")


@dataclass(frozen=True)
class Pages:
    """Pages of a kind, by names that begin with an instant: the order of names is that of time."""

    folder: Path

    def target(self, name: str) -> Path:
        """The file that a page is written to, by a writer that gives it its name once it is
        whole."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder / f"{name}.html"

    def describe(self, name: str, facts: Mapping[str, Any]) -> None:
        """Keeps plain values on a page beside it; of an earlier description those stay that are
        named no more. Raises OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps(self.facts(name) | dict(facts), indent=1, sort_keys=True)
        part = self.folder / f".{name}.{os.getpid()}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(self._description(name))
        self._drop()

    def facts(self, name: str) -> dict[str, Any]:
        """Values that describe a page; none where it has no description that can be read."""
        try:
            document = json.loads(self._description(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def names(self) -> list[str]:
        """Names of the pages that are described, newest first."""
        return sorted((file.stem for file in self._descriptions()), reverse=True)

    def _description(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _descriptions(self) -> list[Path]:
        return [file for file in self.folder.glob("*.json") if not file.name.startswith(".")]

    def _drop(self) -> None:
        """Drops the oldest beyond MOST, and parts that a killed writer left."""
        try:
            for name in self.names()[MOST:]:
                self._description(name).unlink(missing_ok=True)
                (self.folder / f"{name}.html").unlink(missing_ok=True)
            before = time.time() - _PARTS_S
            for file in self.folder.glob(".*"):
                if file.stat().st_mtime < before:
                    file.unlink(missing_ok=True)
        except OSError as error:
            warning("pages_not_dropped", folder=str(self.folder), error=str(error))
