"""Compacts files and manifests, expires snapshots, and removes orphans, of all tables.

    python spark_jobs/maintain.py [--keep-days N] [--tables log.plays ops.* …] [--dry-run] [--json]

With --dry-run it says what it would do, and changes nothing. With --json the last line of standard
output is the report.
"""

from __future__ import annotations

import argparse
import json
import sys

from slicewise.clock import SystemClock
from slicewise.errors import SlicewiseError
from slicewise.log import to_stderr, warning
from slicewise.settings import MAINTENANCE_MOST as MOST
from slicewise.settings import Settings
from slicewise.spark.lake.job import session_of

_IMPORTS = ("slicewise.spark.lake.maintain", "slicewise.stores.lake.records")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep-days", type=int, help="age up to which snapshots stay")
    parser.add_argument("--tables", nargs="*", default=[], help="log.plays, or all of log.*")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.keep_days is not None and not 1 <= given.keep_days <= MOST:
        parser.error(f"--keep-days {given.keep_days}: a whole number from 1 to {MOST} is expected")
    to_stderr()
    settings, clock = Settings.load(), SystemClock()
    with session_of(settings, "maintain", _IMPORTS, pandas=False) as session:
        from slicewise.spark.lake.maintain import Maintenance
        from slicewise.stores.lake.catalog import open_catalog
        from slicewise.stores.lake.records import append
        from slicewise.stores.lake.schemas import RUNS

        try:
            catalog = open_catalog(settings)
            report = Maintenance(
                session, settings, catalog, clock, given.keep_days, given.tables, given.dry_run
            ).run()
            if not given.dry_run:
                append(catalog, RUNS, [report | {"time": clock.now_us()}])
        except SlicewiseError as error:
            warning("job_failed", job="maintain", lasting=error.lasting, error=str(error))
            sys.stderr.write(f"{error}\n")
            return 1
    if not given.json:
        report["tables"] = len(report["tables"])
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
