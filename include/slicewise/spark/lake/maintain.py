"""Maintenance changes how tables are stored, never what they hold.

Small files become few, snapshots that nobody can ask for any more go (those that a recorded data
set names stay), and so do files that no snapshot names. Conflicts with writers are theirs to win: a
busy table waits for the next run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
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
from slicewise.stores.lake.catalog import Catalog, tables
from slicewise.stores.lake.kept import hold, named_snapshots
from slicewise.stores.lake.schemas import LOG

KEEP_SNAPSHOTS = 5
MIN_INPUT_FILES = 4
_ORPHAN_AGE = timedelta(days=3)
"""Iceberg refuses less than a day: a writer's files have no snapshot until it commits."""


@dataclass
class Maintenance:
    """Over all tables of the catalog. keep_days: age up to which snapshots stay readable."""

    session: SparkSession
    settings: Settings
    catalog: Catalog
    clock: Clock
    keep_days: int = 7
    busy: list[str] = field(default_factory=list)
    _named: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Source -> snapshots that data sets were built from."""

    def run(self) -> dict[str, Any]:
        """The report."""
        begun = time.monotonic()
        self._named = named_snapshots(self.catalog)
        done = [self._table(".".join(name)) for name in tables(self.catalog)]
        return {
            "job": "maintain",
            "run_id": uuid4().hex,
            "outcome": "done",
            "took_ms": int((time.monotonic() - begun) * 1000),
            "busy": len(self.busy),
            "tables": done,
        }

    def _table(self, name: str) -> dict[str, Any]:
        before = self._files(name)
        figures: dict[str, Any] = {"table": name, "files_before": before}
        older = f"TIMESTAMP '{self._before(timedelta(days=self.keep_days))}'"
        orphans = f"TIMESTAMP '{self._before(_ORPHAN_AGE)}'"
        if before >= MIN_INPUT_FILES:
            options = (
                f"map('min-input-files', '{MIN_INPUT_FILES}', 'partial-progress.enabled', 'false')"
            )
            figures |= self._call(
                "rewrite_data_files", name, f"options => {options}", "rewritten_data_files_count"
            )
            figures |= self._call(
                "rewrite_manifests", name, "use_caching => false", "rewritten_manifests_count"
            )
        if self._hold_named(name, figures):
            expiry = f"older_than => {older}, retain_last => {KEEP_SNAPSHOTS}"
            figures |= self._call("expire_snapshots", name, expiry, "deleted_data_files_count")
        figures |= self._orphans(name, orphans)
        figures["files_after"] = self._files(name)
        event("maintained", **figures)
        return figures

    def _hold_named(self, name: str, figures: dict[str, Any]) -> bool:
        """Tells whether every snapshot that a data set names is safe from expiry."""
        namespace, _, source = name.partition(".")
        wanted = self._named.get(source, frozenset()) if namespace == LOG else frozenset()
        try:
            figures["held"] = hold(self.catalog.load_table((namespace, source)), wanted)
        except CommitConflict:
            warning("table_busy", table=name, procedure="hold")
            self.busy.append(name)
            return False
        return True

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

    def _orphans(self, name: str, older: str) -> dict[str, int]:
        text = (
            f"CALL {self.settings.catalog_name}.system.remove_orphan_files(table => '{name}', "
            f"older_than => {older})"
        )
        return {"orphans": len(self.session.sql(text).collect())}

    def _files(self, name: str) -> int:
        table = self.catalog.load_table(tuple(name.split(".")))
        if table.current_snapshot() is None:
            return 0
        return sum(1 for _ in table.scan().plan_files())

    def _before(self, age: timedelta) -> str:
        now = datetime.fromtimestamp(self.clock.now_us() / 1e6, UTC)
        # not whole seconds: a snapshot of the second that runs would stay
        return (now - age).strftime("%Y-%m-%d %H:%M:%S.%f")
