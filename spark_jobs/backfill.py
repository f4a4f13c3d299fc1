"""Builds the history of new units from the archive, until they are ready to be served.

    python spark_jobs/backfill.py [--view NAME] [--json]

Without --view: every deployed unit that is not ready. With --json the last line of standard output
is the report.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from slicewise.spark.lake.job import run_job

if TYPE_CHECKING:
    from slicewise.spark.lake.context import Context
    from slicewise.spark.lake.report import Report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--view", help="a view's name; all that are not ready by default")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()

    def work(context: Context) -> Report:
        from slicewise.spark.lake.backfill import backfill

        return backfill(context, given.view)

    return run_job(
        "backfill",
        work,
        imports=("slicewise.spark.lake.backfill",),
        as_json=given.json,
        views=[given.view] if given.view else (),
    )


if __name__ == "__main__":
    sys.exit(main())
