"""Proves that online and offline agree, or says where they do not.

    python spark_jobs/check.py --sample 500 --report DIR [--views …] [--run NAME] [--json]

Reads predictions of sampled entities through the serving API, archives what they contain,
recomputes them with Spark SQL from raw events and compares the bytes. Exit code 0: green; 2: red
(a value differs, or nothing was compared); 1: it could not be told. The last line of standard
output is the report, with --json on one line.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from slicewise import log
from slicewise.clock import SystemClock
from slicewise.errors import SlicewiseError
from slicewise.settings import Settings
from slicewise.spark.job import session_of

if TYPE_CHECKING:
    from slicewise.cover import Cover

_IMPORTS = (
    "slicewise.spark.context",
    "slicewise.checks.run",
    "slicewise.checks.online",
    "slicewise.checks.gate",
    "slicewise.checks.record",
    "slicewise.checks.report",
)
GREEN, FAILED, RED = 0, 1, 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int, default=500, help="entities per view")
    parser.add_argument("--report", type=Path, help="folder of the HTML report")
    parser.add_argument("--views", nargs="*", default=[], help="by default all")
    parser.add_argument("--run", help="name of the run: the same name takes the same sample")
    parser.add_argument("--json", action="store_true", help="the report on one line")
    given = parser.parse_args()
    log.to_stderr()
    settings, clock = Settings.load(), SystemClock()
    with session_of(settings, "check", _IMPORTS) as session:
        from slicewise.checks.gate import judge
        from slicewise.checks.online import HttpReader
        from slicewise.checks.record import rows_of
        from slicewise.checks.report import summary, write_report
        from slicewise.checks.run import CheckRun
        from slicewise.spark.context import Context
        from slicewise.stores.iceberg.catalog import ensure, open_catalog
        from slicewise.stores.iceberg.records import append
        from slicewise.stores.iceberg.schemas import CHECKS, LOG, log_table

        try:
            catalog = open_catalog(settings)
            context = Context.open(session, settings, catalog, clock)

            def archived(source: str) -> Cover:
                return context.archive(source).state.cover

            def table(source: str) -> str:
                ensure(catalog, log_table(context.deployment.source(source)))
                return f"{settings.catalog_name}.{LOG}.`{source}`"

            try:
                name = given.run or uuid4().hex[:12]
                reader, sample = HttpReader(settings.serving_url), max(0, given.sample)
                checked = CheckRun(session, context.deployment, reader, archived, table, clock, name, sample)
                outcome = checked.execute(given.views)
            finally:
                context.store.close()
            gate = judge(outcome)
            append(catalog, CHECKS, rows_of(outcome, gate))
            report = summary(outcome, gate)
            if given.report is not None:
                report["report"] = str(write_report(outcome, gate, given.report))
        except SlicewiseError as error:
            log.warning("job_failed", job="check", error=str(error))
            return FAILED
    sys.stdout.write(json.dumps(report, indent=None if given.json else 1) + "\n")
    return GREEN if gate.green else RED


if __name__ == "__main__":
    sys.exit(main())
