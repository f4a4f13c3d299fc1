"""States of DAGs, paused or not, are kept beside Airflow too: where its metadata database is lost,
they are made anew as they were."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

_FILE = "paused.json"


def read(state_dir: Path) -> dict[str, bool]:
    """DAG -> whether it was paused when somebody looked last; none where nobody looked, or the file
    is torn."""
    try:
        states = json.loads((state_dir / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(states, dict):
        return {}
    return {str(dag): value for dag, value in states.items() if isinstance(value, bool)}


def keep(state_dir: Path, states: Mapping[str, bool]) -> None:
    """Keeps what was seen now beside what is known of other DAGs: while Airflow reads their files
    again, it names some of them alone. Raises OSError."""
    before = read(state_dir)
    if (after := before | dict(states)) == before:
        return
    part = state_dir / f"{_FILE}.{os.getpid()}.part"
    part.write_text(json.dumps(after, indent=1, sort_keys=True), encoding="utf-8")
    part.replace(state_dir / _FILE)
