"""`ops.deployments` keeps every deployment that stood, with its definitions, who made it and when.

A row is written once, by the first compaction after the deployment. Nothing is read from it to
answer or to compute: it is for people, and what goes wrong with it fails no job.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError

from slicewise.log import event, warning
from slicewise.stores.lake.catalog import Catalog, ensure
from slicewise.stores.lake.records import append
from slicewise.stores.lake.registered import Registered, read_registered, together
from slicewise.stores.lake.schemas import DEPLOYMENTS
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.stores.online.port import OnlineStore


@dataclass(frozen=True)
class Entry:
    """A deployment of the registry."""

    of: Registered
    manifest: str
    """JSON of the deployment."""


def entries(catalog: Catalog) -> tuple[Entry, ...]:
    """All that were entered, in the order in which they stood. One that was entered twice is taken
    from the row that says who made it."""
    try:
        rows = catalog.load_table(DEPLOYMENTS.identifier).scan().to_arrow()
    except NoSuchTableError:
        return ()
    times = rows["time"].cast(pa.int64()).to_pylist()
    every = [
        Registered(
            int(row["generation"]),
            int(row["epoch"]),
            str(row["digest"]),
            int(at_us),
            str(row["deployed_by"] or ""),
            str(row["command"] or ""),
        )
        for at_us, row in zip(times, rows.to_pylist(), strict=True)
    ]
    manifests = dict(zip(rows["digest"].to_pylist(), rows["manifest"].to_pylist(), strict=True))
    return tuple(Entry(one, str(manifests[one.digest])) for one in together(every))


def enter(catalog: Catalog, store: OnlineStore, url: str, now_us: int) -> int:
    """Enters the deployments that the store says and the archive lacks; how many these were.

    The one that stands is entered also where nobody said so. url: of the store.
    """
    given = read_registered(url, store.run(ReadMetadata()), now_us)
    columns = ("generation", "epoch", "digest", "command")
    kept = ensure(catalog, DEPLOYMENTS).scan(selected_fields=columns).to_arrow()
    there = {
        (row["generation"], row["epoch"], row["digest"], bool(row["command"]))
        for row in kept.to_pylist()
    }
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
        for one in given
        # a row that says who made it makes one that does not superfluous, and not the other way
        if (*one.key, True) not in there
        and (one.how or (*one.key, False) not in there)
        and (manifest := store.run(ReadManifest(one.digest))) is not None
    ]
    append(catalog, DEPLOYMENTS, rows)
    return len(rows)


def enter_if_possible(catalog: Catalog, store: OnlineStore, url: str, now_us: int) -> None:
    """The same, by a job that has other work: what cannot be entered now, the next one enters."""
    try:
        count = enter(catalog, store, url, now_us)
    except Exception as error:  # noqa: BLE001  # no value depends on it
        warning("deployments_not_entered", kind=type(error).__name__, error=str(error))
        return
    if count:
        event("deployments_entered", count=count)
