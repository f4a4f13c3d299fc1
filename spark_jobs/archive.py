"""Archives the log up to now, as the first step of every compaction does, and nothing else.

    python spark_jobs/archive.py [--source NAME …] [--json]

Without --source: every source that is deployed. What is archived already is left alone, so that a
run without new events commits nothing. With --json the last line of standard output is the report.
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
    parser.add_argument(
        "--source", action="append", help="a source's name; all that are deployed by default"
    )
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()

    def work(context: Context) -> Report:
        from slicewise.lifecycle.history.entries import ARCHIVE, of_job
        from slicewise.local import history
        from slicewise.spark.lake.report import Report

        report = Report(ARCHIVE)
        sources = given.source or [
            declared.name for declared in context.deployment.declared.sources
        ]
        try:
            for source in sources:
                report.add_archive(context.archive(source))
        finally:
            # no task of Airflow keeps its figures: who builds a training set starts it
            ok = len(report.archived) == len(sources)
            entry = of_job(ARCHIVE, report.to_json(), ok=ok, at_us=context.clock.now_us())
            history.keep(context.settings, entry)
        return report

    return run_job("archive", work, imports=("slicewise.spark.lake.archive",), as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
