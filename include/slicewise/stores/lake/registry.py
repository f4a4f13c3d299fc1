"""`ops.deployments` keeps every deployment that stood, with its definitions, who made it and when.

A row is written once, by the first compaction after the deployment. Nothing is read from it to
answer or to compute: it is for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError

from slicewise.stores.lake.catalog import Catalog, ensure
from slicewise.stores.lake.records import append
from slicewise.stores.lake.registered import Registered
from slicewise.stores.lake.schemas import DEPLOYMENTS


@dataclass(frozen=True)
class Entry:
    """A deployment of the registry."""

    of: Registered
    manifest: str
    """JSON of the deployment."""


def entries(catalog: Catalog) -> tuple[Entry, ...]:
    """All that were entered, in the order in which they stood. Two runs at once may have entered
    one twice, which says the same."""
    try:
        table = catalog.load_table(DEPLOYMENTS.identifier)
    except NoSuchTableError:
        return ()
    rows = table.scan().to_arrow()
    times = rows["time"].cast(pa.int64()).to_pylist()
    read = {
        entry.of.order: entry
        for at_us, row in zip(times, rows.to_pylist(), strict=True)
        for entry in (
            Entry(
                Registered(
                    int(row["generation"]),
                    int(row["epoch"]),
                    str(row["digest"]),
                    int(at_us),
                    str(row["deployed_by"] or ""),
                    str(row["command"] or ""),
                ),
                str(row["manifest"]),
            ),
        )
    }
    return tuple(read[order] for order in sorted(read))


def enter(
    catalog: Catalog, given: Iterable[Registered], manifest_of: Callable[[str], str | None]
) -> int:
    """Enters those that are not there; how many these were. manifest_of: the manifest of a digest,
    None where the store has it no more. Raises CommitConflict."""
    kept = ensure(catalog, DEPLOYMENTS).scan(selected_fields=("generation", "epoch")).to_arrow()
    there = set(zip(kept["generation"].to_pylist(), kept["epoch"].to_pylist(), strict=True))
    rows = [
        {
            "generation": one.store_id,
            "epoch": one.version,
            "time": one.at_us,
            "deployed_by": one.by or None,
            "command": one.how or None,
            "digest": one.digest,
            "manifest": manifest,
        }
        for one in sorted(given, key=lambda one: one.order)
        if one.order not in there and (manifest := manifest_of(one.digest)) is not None
    ]
    append(catalog, DEPLOYMENTS, rows)
    return len(rows)
