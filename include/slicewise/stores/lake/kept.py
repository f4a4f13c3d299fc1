"""A snapshot that a data set's manifest names stays readable for as long as the manifest stands in
`ops.datasets`.

It is held by a tag of its own: expiry leaves what a tag names alone, whoever runs it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table as IcebergTable

from slicewise.errors import CommitConflict, DataLoss
from slicewise.stores.lake.records import records
from slicewise.stores.lake.schemas import DATASETS

_PREFIX = "dataset-"


def named_snapshots(
    catalog: SqlCatalog, since: datetime | None = None
) -> dict[str, frozenset[int]]:
    """Source -> snapshots of its log that recorded data sets were built from; since: those recorded
    then or later.

    Raises DataLoss where a manifest cannot be read: what it names would be lost.
    """
    by_source: dict[str, set[int]] = {}
    for row in records(catalog, DATASETS):
        if since is not None and row["time"] < since:
            continue
        try:
            for source, entry in json.loads(row["manifest"])["sources"].items():
                by_source.setdefault(source, set()).add(int(entry["snapshot_id"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataLoss(
                f"the manifest of data set {row['dataset_id']} cannot be read: {error}",
                where="ops.datasets",
                expected="the manifest that was written with it",
                next_step="restore the row, or delete it if the data set is not needed any more",
            ) from error
    return {source: frozenset(ids) for source, ids in by_source.items()}


@dataclass(frozen=True)
class RecordedSet:
    """A data set that was built. features: refs; statistics: ref -> statistics of its column, as
    its manifest has them."""

    name: str
    at: datetime
    rows: int
    features: tuple[str, ...]
    statistics: Mapping[str, Mapping[str, Any]]


def recorded_sets(catalog: SqlCatalog) -> tuple[RecordedSet, ...]:
    """Data sets that were recorded, the newest first; those whose manifest is no JSON are left
    out."""
    made = []
    for row in records(catalog, DATASETS):
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            manifest = json.loads(row["manifest"])
            features, statistics = tuple(manifest["features"]), manifest.get("statistics", {})
            rows = int(row["rows"] or 0)
            made.append(RecordedSet(row["name"], row["time"], rows, features, statistics))
    return tuple(sorted(made, key=lambda one: one.at, reverse=True))


def hold(table: IcebergTable, wanted: Collection[int]) -> int:
    """Tags the wanted snapshots that are still there, and drops tags of those not wanted any more.

    Gives how many are held. Raises CommitConflict when another commit came first: then nothing may
    be expired.
    """
    tagged = {
        name: ref.snapshot_id for name, ref in table.refs().items() if name.startswith(_PREFIX)
    }
    here = {snapshot.snapshot_id for snapshot in table.snapshots()} & set(wanted)
    added = sorted(here - set(tagged.values()))
    dropped = sorted(name for name, snapshot in tagged.items() if snapshot not in here)
    if added or dropped:
        try:
            with table.manage_snapshots() as change:
                for snapshot in added:
                    change.create_tag(snapshot, f"{_PREFIX}{snapshot}")
                for name in dropped:
                    change.remove_tag(name)
        except CommitFailedException as error:
            raise CommitConflict(
                "another commit came first",
                where=".".join(table.name()),
                next_step="read the table again",
            ) from error
    return len(here)
