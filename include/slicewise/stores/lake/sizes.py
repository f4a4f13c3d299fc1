"""Sizes of a table, and what maintenance would change of it, read from its metadata alone.

The rules are those of Iceberg's own procedures (`rewrite_data_files` with its default binning,
`expire_snapshots`): a plan names what a run then does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestEntry
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot

from slicewise.errors import CommitConflict

_SMALL, _LARGE = 0.75, 1.8
"""Parts of the target size outside of which Iceberg rewrites a file."""


@dataclass(frozen=True)
class Files:
    """A number of files and their bytes."""

    count: int = 0
    size: int = 0

    @staticmethod
    def of(sizes: Iterable[int]) -> Files:
        every = list(sizes)
        return Files(len(every), sum(every))


@dataclass(frozen=True)
class Expiry:
    """Snapshots that go, and the data files that go with them."""

    snapshots: int = 0
    files: Files = Files()


class TableSizes:
    """A table at one moment: files of its current snapshot, and files of all snapshots."""

    def __init__(self, table: IcebergTable) -> None:
        self._table = table
        self._entries: dict[str, list[ManifestEntry]] = {}
        """Manifest -> its files. Snapshots share most of their manifests."""
        self.current = self._files(table.current_snapshot())
        self.stored = Files.of(self._stored(table.snapshots()).values())
        """Files of all snapshots: what the table takes on disk."""
        self.snapshots = len(table.snapshots())

    def rewritten(self, target_bytes: int, least_files: int) -> Files:
        """Files that a rewrite to this size takes."""
        if self.current.count < least_files:
            return Files()
        groups: dict[tuple[int, str], list[int]] = {}
        for entry in self._live(self._table.current_snapshot()):
            file = entry.data_file
            if not _SMALL * target_bytes <= file.file_size_in_bytes <= _LARGE * target_bytes:
                group = (file.spec_id, str(file.partition))
                groups.setdefault(group, []).append(file.file_size_in_bytes)
        taken = [
            size
            for sizes in groups.values()
            if (len(sizes) > 1 and (len(sizes) >= least_files or sum(sizes) > target_bytes))
            or max(sizes) > _LARGE * target_bytes
            for size in sizes
        ]
        return Files.of(taken)

    def expired(self, older_than_us: int, keep: int, wanted: Collection[int]) -> Expiry:
        """Snapshots that an expiry takes. keep: how many stay whatever their age; wanted: ids of
        those that data sets name."""
        snapshots = {snapshot.snapshot_id: snapshot for snapshot in self._table.snapshots()}
        young = {i for i, one in snapshots.items() if one.timestamp_ms * 1_000 >= older_than_us}
        kept = young | (set(wanted) & snapshots.keys())
        for ref in self._table.refs().values():
            if ref.snapshot_ref_type.value == "tag":
                kept.add(ref.snapshot_id)
            else:
                kept.update(self._latest(snapshots, ref.snapshot_id, keep))
        gone = [snapshot for i, snapshot in snapshots.items() if i not in kept]
        if not gone:
            return Expiry()
        left = self._stored(snapshot for i, snapshot in snapshots.items() if i in kept)
        files = {path: size for path, size in self._stored(gone).items() if path not in left}
        return Expiry(len(gone), Files.of(files.values()))

    def present(self, wanted: Collection[int]) -> int:
        """Number of these snapshots that are there."""
        return len({snapshot.snapshot_id for snapshot in self._table.snapshots()} & set(wanted))

    def _latest(self, snapshots: dict[int, Snapshot], head: int, keep: int) -> Iterator[int]:
        current = snapshots.get(head)
        while current is not None and keep > 0:
            yield current.snapshot_id
            keep -= 1
            parent = current.parent_snapshot_id
            current = snapshots.get(parent) if parent is not None else None

    def _files(self, snapshot: Snapshot | None) -> Files:
        return Files.of(entry.data_file.file_size_in_bytes for entry in self._live(snapshot))

    def _stored(self, snapshots: Iterable[Snapshot]) -> dict[str, int]:
        """Data file -> its bytes."""
        return {
            entry.data_file.file_path: entry.data_file.file_size_in_bytes
            for snapshot in snapshots
            for entry in self._live(snapshot)
        }

    def _live(self, snapshot: Snapshot | None) -> Iterator[ManifestEntry]:
        if snapshot is None:
            return
        for manifest in snapshot.manifests(self._table.io):
            path = manifest.manifest_path
            if path not in self._entries:
                self._entries[path] = manifest.fetch_manifest_entry(self._table.io)
            yield from self._entries[path]


def sizes_of(table: IcebergTable, locations: Iterable[str]) -> Files:
    """Bytes of these files of a table, of those that are there."""
    inputs = (table.io.new_input(location) for location in locations)
    return Files.of(len(one) for one in inputs if one.exists())


def rows_before(table: IcebergTable, instant: str) -> int:
    """Rows whose `time` lies before this instant (ISO 8601)."""
    return int(table.scan(row_filter=f"time < '{instant}'").count())


def delete_before(table: IcebergTable, instant: str) -> None:
    """Deletes the rows that `rows_before` counts. Raises CommitConflict."""
    try:
        table.delete(f"time < '{instant}'")
    except CommitFailedException as error:
        raise CommitConflict(
            "another commit came first",
            where=".".join(table.name()),
            next_step="the next run deletes them",
        ) from error
