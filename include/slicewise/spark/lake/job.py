"""A bounded job says what it did in one line of JSON, or why it could not. It keeps a row of it.

Its libraries are imported while the JVM starts its session: each takes seconds, of one core.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.arrow import without_pandas
from slicewise.clock import SystemClock
from slicewise.errors import SlicewiseError
from slicewise.lifecycle.lineage.steps import Scope
from slicewise.log import to_stderr, warning
from slicewise.settings import Settings
from slicewise.spark.lineage.report import lineage_of
from slicewise.spark.runtime.session import YOUNG, job_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slicewise.spark.lake.context import Context
    from slicewise.spark.lake.report import Report

_ALL = (
    "slicewise.spark.lake.context",
    "slicewise.spark.lake.report",
    "slicewise.stores.lake.records",
)


_NICENESS = 10
_AUTOGROUP = Path("/proc/self/autogroup")


def run_job(
    name: str,
    work: Callable[[Context], Report],
    *,
    imports: Sequence[str],
    as_json: bool,
    views: Sequence[str] = (),
) -> int:
    """Runs `work` in a session; the exit code: 0, or 1 with the error on standard error.

    imports: modules that `work` imports when it is called. views: views or units that it is about,
    for its lineage.
    """
    to_stderr()
    settings, clock = Settings.load(), SystemClock()
    with (
        lineage_of(settings, name, clock) as lineage,
        session_of(settings, name, (*_ALL, *imports), pandas=False) as session,
    ):
        from slicewise.spark.lake.context import Context
        from slicewise.stores.lake.catalog import open_catalog
        from slicewise.stores.lake.records import append
        from slicewise.stores.lake.schemas import RUNS

        try:
            catalog = open_catalog(settings)
            context = Context.open(session, settings, catalog, clock)
            try:
                report = work(context)
            finally:
                context.store.close()
            append(catalog, RUNS, report.rows(clock.now_us()))
            lineage.complete(context.manifest, Scope(views=tuple(views)))
            _print(report, as_json)
        except SlicewiseError as error:
            lineage.end("FAIL", error.what)
            warning("job_failed", job=name, lasting=error.lasting, error=str(error))
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


def give_way() -> None:
    """Lets whatever somebody waits for go first: lanes, store, API (docs/adr/0095).

    Linux shares the processor equally among sessions, whatever niceness their tasks have
    (sched(7), "The autogroup feature"): a session that this process leads weighs less as a whole.
    A terminal's, or Airflow's, is left as it is.
    """
    os.nice(_NICENESS)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # there are no such groups: in a container, or on another system
            _AUTOGROUP.write_text(f"{_NICENESS}")


@contextmanager
def session_of(
    settings: Settings, name: str, imports: Sequence[str], *, pandas: bool = True
) -> Iterator[SparkSession]:
    """A job's session, with these modules imported meanwhile; stopped afterwards. pandas: whether
    it makes frames of pandas."""
    give_way()
    # what is imported stays: to look through it again and again is a tenth of its cost
    gc.disable()
    with ThreadPoolExecutor(1) as pool:
        # the session is made in this thread: Spark's settings are those of the thread that made it
        imported = pool.submit(_import, imports, pandas=pandas)
        session = job_session(settings, f"slicewise-{name}")
        try:
            imported.result()
            gc.freeze()
            gc.set_threshold(YOUNG)
            gc.enable()
            yield session
        finally:
            session.stop()


def _import(names: Sequence[str], *, pandas: bool) -> None:
    if not pandas:
        without_pandas()
    for name in names:
        importlib.import_module(name)


def _print(report: Report, as_json: bool) -> None:
    whole = report.to_json()
    if not as_json:
        whole = {k: len(v) if isinstance(v, list) else v for k, v in whole.items()}
    sys.stdout.write(json.dumps(whole) + "\n")
    sys.stdout.flush()
