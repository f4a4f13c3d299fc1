"""Data sets that were built of a definition are its users, and show the values of its features."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from slicewise.features.plan.changes.explain import descriptions
from slicewise.features.plan.deployment import Deployment

if TYPE_CHECKING:  # whoever shows data sets need not read them: that needs Iceberg
    from slicewise.stores.lake.kept import RecordedSet


@dataclass(frozen=True)
class DataSetUse:
    """A data set that was built of a definition.

    statistics: column of a view -> statistics of its values here; of columns that a newer data set
    has none.
    """

    name: str
    at: datetime
    rows: int
    statistics: Mapping[str, Mapping[str, Any]]


Uses = Mapping[str, tuple[DataSetUse, ...]]
"""Kind of a definition -> the data sets that were built of it, the newest first."""


def uses_of(name: str, deployment: Deployment, sets: Sequence[RecordedSet]) -> Uses:
    """The uses of all definitions of a name. sets: the data sets that were built, the newest
    first."""
    uses = dict[str, tuple[DataSetUse, ...]]()
    for kind in {one.kind for one in descriptions(deployment) if one.name == name}:
        if kind == "view":
            uses[kind] = _uses_of_view(name, sets)
        elif kind == "feature set":
            features = set(deployment.feature_set(name).features)
            own = (made for made in sets if features <= set(made.features))
            uses[kind] = tuple(DataSetUse(made.name, made.at, made.rows, {}) for made in own)
    return uses


def _uses_of_view(name: str, sets: Sequence[RecordedSet]) -> tuple[DataSetUse, ...]:
    uses, counted, prefix = [], set[str](), f"{name}:"
    for made in sets:
        if not any(ref.startswith(prefix) for ref in made.features):
            continue
        statistics = {
            ref.removeprefix(prefix): column
            for ref, column in made.statistics.items()
            if ref.startswith(prefix) and ref not in counted
        }
        counted |= {prefix + column for column in statistics}
        uses.append(DataSetUse(made.name, made.at, made.rows, statistics))
    return tuple(uses)


def packed_uses(uses: Uses) -> bytes:
    """The uses as one process gives them to another."""
    rows = {
        kind: [(one.name, one.at.isoformat(), one.rows, dict(one.statistics)) for one in some]
        for kind, some in uses.items()
    }
    return json.dumps(rows).encode()


def unpacked_uses(raw: bytes) -> Uses:
    """Inverse of `packed_uses`."""
    return {
        kind: tuple(
            DataSetUse(name, datetime.fromisoformat(at), rows, statistics)
            for name, at, rows, statistics in some
        )
        for kind, some in json.loads(raw).items()
    }


def values_text(statistics: Mapping[str, Any]) -> str:
    """Statistics of a column, in one line."""
    return ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in statistics.items()
    )
