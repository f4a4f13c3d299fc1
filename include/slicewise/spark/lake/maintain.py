"""Maintenance changes how tables are stored, never what values are made of.

Small files become few, snapshots that nobody can ask for any more go (those that a recorded data
set names stay), and so do files that no snapshot names. Old rows go from tables whose policy says
so (`stores.lake.policy`). Conflicts with writers are theirs to win: a busy table waits for the next
run. A dry run says what would be done, and commits nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from slicewise.clock import Clock
from slicewise.errors import CommitConflict
from slicewise.settings import Settings
from slicewise.spark.lake.archive import committed
from slicewise.spark.runtime.log import event, warning
from slicewise.stores.lake.catalog import Catalog, IcebergTable, tables
from slicewise.stores.lake.kept import hold, named_snapshots
from slicewise.stores.lake.policy import Policies, TablePolicy, chosen_tables
from slicewise.stores.lake.schemas import DATASETS, LOG
from slicewise.stores.lake.sizes import TableSizes, delete_before, rows_before, sizes_of

MIN_INPUT_FILES = 4
_DATASETS = ".".join(DATASETS.identifier)
_SUMMED = (
    *("files_before", "files_after", "bytes_before", "bytes_after", "stored_bytes_before"),
    *("stored_bytes_after", "snapshots_before", "snapshots_after", "rewritten_data_files_count"),
    *("expired_snapshots", "deleted_data_files_count", "orphans", "orphan_bytes", "rows_deleted"),
)


@dataclass
class Maintenance:
    """Over tables of the catalog. keep_days: age up to which snapshots stay readable, in place of
    the policies'; only: names of tables, `log.plays` or `log.*`, all when empty."""

    session: SparkSession
    settings: Settings
    catalog: Catalog
    clock: Clock
    keep_days: int | None = None
    only: Sequence[str] = ()
    dry_run: bool = False
    policies: Policies | None = None
    """None: those of the settings."""
    busy: list[str] = field(default_factory=list)
    _named: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Source -> snapshots that data sets were built from."""

    def run(self) -> dict[str, Any]:
        """The report. Raises SettingsError, BadRequest and DataLoss before anything is changed."""
        begun = time.monotonic()
        policies = Policies.load(self.settings) if self.policies is None else self.policies
        names = [".".join(name) for name in tables(self.catalog)]
        chosen = chosen_tables(names, self.only)
        named_snapshots(self.catalog)  # a manifest that cannot be read stops the run here
        rows = {name: self._old_rows(name, policies.of(name)) for name in chosen}
        self._named = named_snapshots(self.catalog, self._oldest_dataset(policies, chosen))
        done = [self._table(name, policies.of(name), rows[name]) for name in chosen]
        report: dict[str, Any] = {
            "job": "maintain",
            "run_id": uuid4().hex,
            "outcome": "planned" if self.dry_run else "done",
            "dry_run": self.dry_run,
            "took_ms": int((time.monotonic() - begun) * 1000),
            "busy": len(self.busy),
            **{name: sum(row[name] for row in done) for name in _SUMMED},
            "tables": done,
        }
        if unmatched := policies.unmatched(names):
            warning("policy_without_table", tables=", ".join(unmatched))
            report["unmatched"] = list(unmatched)
        return report

    def _table(self, name: str, policy: TablePolicy, rows_deleted: int) -> dict[str, Any]:
        before = TableSizes(self._load(name))
        figures: dict[str, Any] = {
            "table": name,
            "rewritten_data_files_count": 0,
            "rewritten_manifests_count": 0,
            "expired_snapshots": 0,
            "deleted_data_files_count": 0,
            "rows_deleted": rows_deleted,
        }
        if self.dry_run:
            figures |= self._plan(name, policy, before)
            after = before
        else:
            figures |= self._changed(name, policy, before)
            after = TableSizes(self._load(name))
        for when, sizes in (("before", before), ("after", after)):
            figures |= {
                f"files_{when}": sizes.current.count,
                f"bytes_{when}": sizes.current.size,
                f"stored_bytes_{when}": sizes.stored.size,
                f"snapshots_{when}": sizes.snapshots,
            }
        event("maintained", dry_run=self.dry_run, **figures)
        return figures

    def _plan(self, name: str, policy: TablePolicy, sizes: TableSizes) -> dict[str, int]:
        """Figures of what a run would do to the table as it stands."""
        rewritten = sizes.rewritten(policy.file_bytes, MIN_INPUT_FILES)
        older = self._before(timedelta(days=self._keep_days(policy)))
        expiry = sizes.expired(int(older.timestamp() * 1e6), policy.keep_snapshots, self._of(name))
        return {
            "held": sizes.present(self._of(name)),
            "rewritten_data_files_count": rewritten.count,
            "rewritten_bytes": rewritten.size,
            "expired_snapshots": expiry.snapshots,
            "deleted_data_files_count": expiry.files.count,
            "deleted_bytes": expiry.files.size,
            **self._orphans(name, policy),
        }

    def _changed(self, name: str, policy: TablePolicy, before: TableSizes) -> dict[str, int]:
        figures: dict[str, int] = {}
        if before.current.count >= MIN_INPUT_FILES:
            options = (
                f"map('min-input-files', '{MIN_INPUT_FILES}', 'partial-progress.enabled', 'false', "
                f"'target-file-size-bytes', '{policy.file_bytes}')"
            )
            figures |= self._call(
                "rewrite_data_files", name, f"options => {options}", "rewritten_data_files_count"
            )
            figures |= self._call(
                "rewrite_manifests", name, "use_caching => false", "rewritten_manifests_count"
            )
        if self._hold_named(name, figures):
            snapshots = len(self._load(name).snapshots())
            older = _text(self._before(timedelta(days=self._keep_days(policy))))
            expiry = f"older_than => {older}, retain_last => {policy.keep_snapshots}"
            figures |= self._call("expire_snapshots", name, expiry, "deleted_data_files_count")
            left = len(self._load(name).snapshots())
            figures["expired_snapshots"] = max(0, snapshots - left)
        return figures | self._orphans(name, policy)

    def _hold_named(self, name: str, figures: dict[str, int]) -> bool:
        """Tells whether every snapshot that a data set names is safe from expiry."""
        try:
            figures["held"] = hold(self._load(name), self._of(name))
        except CommitConflict:
            warning("table_busy", table=name, procedure="hold")
            self.busy.append(name)
            return False
        return True

    def _of(self, name: str) -> frozenset[int]:
        """Snapshots of the table that data sets name."""
        namespace, _, source = name.partition(".")
        return self._named.get(source, frozenset()) if namespace == LOG else frozenset()

    def _call(self, procedure: str, name: str, arguments: str, figure: str) -> dict[str, int]:
        rows: list[Any] = []

        def call() -> None:
            text = (
                f"CALL {self.settings.catalog_name}.system.{procedure}(table => '{name}', "
                f"{arguments})"
            )
            rows.extend(self.session.sql(text).collect())

        try:
            committed(call, f"{procedure} of {name}")
        except CommitConflict:
            warning("table_busy", table=name, procedure=procedure)
            self.busy.append(name)
        return {figure: int(rows[0][figure]) if rows else 0}

    def _orphans(self, name: str, policy: TablePolicy) -> dict[str, int]:
        """Removes files that no snapshot names; their number and bytes."""
        older = _text(self._before(timedelta(days=policy.orphan_days)))

        def call(dry_run: str) -> list[str]:
            text = (
                f"CALL {self.settings.catalog_name}.system.remove_orphan_files("
                f"table => '{name}', older_than => {older}, dry_run => {dry_run})"
            )
            return [row[0] for row in self.session.sql(text).collect()]

        orphans = sizes_of(self._load(name), call("true"))
        if orphans.count and not self.dry_run:
            call("false")
        return {"orphans": orphans.count, "orphan_bytes": orphans.size}

    def _old_rows(self, name: str, policy: TablePolicy) -> int:
        """Deletes the rows that the policy gives up; how many."""
        if policy.rows_days is None:
            return 0
        table = self._load(name)
        instant = self._before(timedelta(days=policy.rows_days)).isoformat()
        rows = rows_before(table, instant)
        if rows and not self.dry_run:
            try:
                delete_before(table, instant)
            except CommitConflict:
                warning("table_busy", table=name, procedure="delete")
                self.busy.append(name)
                return 0
        return rows

    def _oldest_dataset(self, policies: Policies, chosen: Sequence[str]) -> datetime | None:
        """Time from which on data sets stay in this run."""
        days = policies.of(_DATASETS).rows_days if _DATASETS in chosen else None
        if days is None or not self.dry_run:  # a run has deleted them by now, or was too late to
            return None
        return self._before(timedelta(days=days))

    def _keep_days(self, policy: TablePolicy) -> int:
        return policy.keep_days if self.keep_days is None else self.keep_days

    def _load(self, name: str) -> IcebergTable:
        return self.catalog.load_table(tuple(name.split(".")))

    def _before(self, age: timedelta) -> datetime:
        return datetime.fromtimestamp(self.clock.now_us() / 1e6, UTC) - age


def _text(instant: datetime) -> str:
    # not whole seconds: a snapshot of the second that runs would stay
    return f"TIMESTAMP '{instant.strftime('%Y-%m-%d %H:%M:%S.%f')}'"
