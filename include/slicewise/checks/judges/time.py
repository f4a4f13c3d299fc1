"""Values that depend on when events happened alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slicewise.checks.judges import Row, judge


@judge("span")
def span(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:  # noqa: ARG001
    """Microseconds between the first row and the last, which come sorted by time."""
    return rows[-1].t - rows[0].t if rows else None
