"""A bounded job says what it did in one line of JSON, or why it could not, and keeps a row of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from slicewise.clock import SystemClock
from slicewise.errors import SlicewiseError
from slicewise.settings import Settings
from slicewise.spark.context import Context
from slicewise.spark.log import to_stderr, warning
from slicewise.spark.report import Report
from slicewise.spark.session import job_session
from slicewise.stores.iceberg.catalog import open_catalog
from slicewise.stores.iceberg.records import append
from slicewise.stores.iceberg.schemas import RUNS


def run_job(name: str, work: Callable[[Context], Report], *, as_json: bool) -> int:
    """Runs `work` in a session; the exit code: 0, or 1 with the error on standard error."""
    to_stderr()
    settings, clock = Settings.load(), SystemClock()
    session = job_session(settings, f"slicewise-{name}")
    try:
        catalog = open_catalog(settings)
        context = Context.open(session, settings, catalog, clock)
        try:
            report = work(context)
        finally:
            context.store.close()
        append(catalog, RUNS, report.rows(clock.now_us()))
        _print(report, as_json)
    except SlicewiseError as error:
        warning("job_failed", job=name, error=str(error))
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        session.stop()
    return 0


def _print(report: Report, as_json: bool) -> None:
    whole = report.to_json()
    if not as_json:
        whole = {k: len(v) if isinstance(v, list) else v for k, v in whole.items()}
    sys.stdout.write(json.dumps(whole) + "\n")
    sys.stdout.flush()
