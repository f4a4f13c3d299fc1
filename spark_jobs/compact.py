"""Archives, then compacts hours and moves them into the online store.

    python spark_jobs/compact.py --hour 2026-11-21T08 [--only] [--from raw] [--max-hours N] [--units …] [--json]
    python spark_jobs/compact.py --from raw --since 2026-11-20T00 [--units …] [--json]

The hour is compacted first, then other dirty hours that are over, oldest first. With --since each
compacted hour from that one on is recomputed from its raw events, in one run. With --json the last
line of standard output is the report; otherwise a summary is printed.
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
    parser.add_argument("--hour", help="the run's key, in UTC: 2026-11-21T08")
    parser.add_argument("--only", action="store_true", help="no other hour")
    parser.add_argument("--from", dest="origin", choices=("slices", "raw"), default="slices")
    parser.add_argument("--since", help="with --from raw: all compacted hours from this one on")
    parser.add_argument("--max-hours", type=int, help="most hours of one run")
    parser.add_argument("--units", nargs="*", default=[], help="views or unit fingerprints")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.since and (given.origin != "raw" or given.hour):
        parser.error("--since goes with --from raw, and without --hour")

    def work(context: Context) -> Report:
        from slicewise.spark.lake.compact_run import MAX_HOURS, Request, compact
        from slicewise.spark.lake.report import parse_hour

        hour = parse_hour(given.hour) if given.hour else None
        most = MAX_HOURS if given.max_hours is None else given.max_hours
        return compact(
            context,
            Request(
                hour,
                given.only,
                given.origin == "raw",
                most,
                tuple(given.units),
                parse_hour(given.since) if given.since else None,
            ),
        )

    return run_job(
        "compact",
        work,
        imports=("slicewise.spark.lake.compact_run",),
        as_json=given.json,
        views=given.units,
    )


if __name__ == "__main__":
    sys.exit(main())
