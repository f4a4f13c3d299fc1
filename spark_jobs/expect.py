"""Judges an hour of the archive, and features' values at its end, by the expectations of what is
deployed.

    python spark_jobs/expect.py [--hour 2026-11-21T08] [--since-judged] --docs DIR [--only NAME …]

Great Expectations judges in Spark, where the rows lie. Results are rows of ops.checks, and data
docs below --docs. Exit code 0: nothing critical is unmet; 2: something critical is; 1: not all of
it could be judged, and "why" in the report says what kept it from that. The last line of standard
output is the report, with --json on one line. Of several hours it is the newest's, with the figures
of all.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from slicewise import log
from slicewise.checks.expectations.outcome import combined, not_made
from slicewise.clock import SystemClock
from slicewise.errors import SlicewiseError
from slicewise.lifecycle.jobs import hour_number, hour_of, hour_text, last_finished_hour
from slicewise.settings import Settings
from slicewise.spark.lake.job import session_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from slicewise.clock import Clock
    from slicewise.features.plan.deployment import Deployment

_IMPORTS = (
    "slicewise.spark.lake.context",
    "slicewise.checks.expectations.run",
    "slicewise.training.api",
    "great_expectations",
)
MET, FAILED, CRITICAL = 0, 1, 2
ENOUGH_S = 1800.0
"""Seconds after which no other hour is begun: the task has 50 minutes."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--hour", help="as 2026-11-21T08, in UTC; by default the last that ended")
    parser.add_argument(
        "--since-judged",
        action="store_true",
        help="with the hours of the day before that nobody has judged yet",
    )
    parser.add_argument("--docs", type=Path, help="folder of the data docs")
    parser.add_argument("--only", nargs="*", default=[], help="sources and views; by default all")
    parser.add_argument("--sample", type=int, default=2000, help="entities per view")
    parser.add_argument("--json", action="store_true", help="the report on one line")
    given = parser.parse_args()
    log.to_stderr()
    settings, clock = Settings.load(), SystemClock()
    hour = given.hour or ""
    try:
        hour = hour_of(given.hour) if given.hour else last_finished_hour(datetime.now(UTC))
        with session_of(settings, "expect", _IMPORTS) as session:
            hours = _hours(given.since_judged, settings, hour)
            reports = _reports(given, settings, clock, session, hours)
        report = combined(reports) if len(reports) > 1 else reports[0]
    except Exception as error:  # noqa: BLE001
        report = not_made(hour, _failed(error))
    sys.stdout.write(json.dumps(report, indent=None if given.json else 1) + "\n")
    sys.stdout.flush()
    if report["critical"]:
        return CRITICAL
    return FAILED if report["outcome"] == "not_made" else MET


def _failed(error: Exception) -> str:
    """Words on what kept an hour from being judged, which stand in the log too."""
    what = error.what if isinstance(error, SlicewiseError) else f"{type(error).__name__}: {error}"
    log.warning("job_failed", job="expect", error=what)
    if not isinstance(error, SlicewiseError):
        traceback.print_exc()
    return what


def _reports(
    given: argparse.Namespace,
    settings: Settings,
    clock: Clock,
    session: SparkSession,
    hours: Sequence[str],
) -> list[dict[str, Any]]:
    """The reports of the hours, up to one that cannot be judged: what was judged before it is told
    all the same. Where they take long, the rest is the next run's."""
    reports, begun = list[dict[str, Any]](), time.monotonic()
    for hour in hours:
        try:
            reports.append(_judged(given, settings, clock, session, hour))
        except Exception as error:  # noqa: BLE001
            reports.append(not_made(hour, _failed(error)))
            break
        if time.monotonic() - begun > ENOUGH_S:
            log.event("hours_left", judged=len(reports), of=len(hours))
            break
    return reports


def _hours(since_judged: bool, settings: Settings, hour: str) -> list[str]:
    """The hours to judge, oldest first."""
    if not since_judged:
        return [hour]
    from slicewise.checks.expectations.hours import archived_hours, judged_before, unjudged
    from slicewise.stores.lake.catalog import open_catalog
    from slicewise.training.archiving.offline import deployed

    catalog, number = open_catalog(settings), hour_number(hour)

    def with_events() -> set[int]:
        return archived_hours(catalog, [source.name for source in deployed(settings).sources])

    judged = judged_before(catalog, number)
    return [hour_text(one) for one in unjudged(judged, with_events, number)]


def _judged(
    given: argparse.Namespace, settings: Settings, clock: Clock, session: SparkSession, hour: str
) -> dict[str, Any]:
    from slicewise.checks.expectations import pages
    from slicewise.checks.expectations.outcome import rows_of, summary
    from slicewise.checks.expectations.run import ExpectationRun
    from slicewise.checks.expectations.validation import Validation
    from slicewise.stores.lake.archive import load
    from slicewise.stores.lake.catalog import open_catalog
    from slicewise.stores.lake.records import append
    from slicewise.stores.lake.schemas import CHECKS, LOG
    from slicewise.training.archiving.offline import deployed

    catalog, deployment = open_catalog(settings), deployed(settings)

    def table(source: str) -> str | None:
        if load(catalog, source) is None:
            return None
        return f"{settings.catalog_name}.{LOG}.`{source}`"

    def values(refs: Sequence[str], entities: pa.Table, at_us: int) -> pa.Table:
        return values_of(settings, deployment, refs, entities, at_us)

    results = settings.state_dir / "reports" / "expectation-results"
    validation = Validation(hour, clock.now_us(), results)
    run = ExpectationRun(
        session,
        deployment,
        table,
        values,
        clock,
        run=uuid4().hex[:12],
        hour=hour_number(hour),
        sample=max(1, given.sample),
        validation=validation,
    )
    outcome = run.execute(given.only)
    report = summary(outcome, hour)
    append(catalog, CHECKS, rows_of(outcome))
    if given.docs is not None:
        try:
            report["docs"] = str(pages.build(validation, given.docs))
        except Exception as error:  # noqa: BLE001  # a full disk; what was judged is told all the same
            why = f"its data docs could not be built: {_failed(error)}"
            report |= {"outcome": "not_made", "why": "; ".join(filter(None, (report["why"], why)))}
    return report


def values_of(
    settings: Settings,
    deployment: Deployment,
    refs: Sequence[str],
    entities: pa.Table,
    at_us: int,
) -> pa.Table:
    """Values of features for entities at an instant, as a training set has them: from what is
    archived, and nothing is archived for it."""
    import pyarrow as pa

    from slicewise.training.api import training_set

    at = pa.array([at_us] * len(entities), pa.timestamp("us", tz="UTC"))
    spine = entities.append_column("at", at)
    return training_set(
        spine,
        list(refs),
        settings=settings,
        deployment=deployment,
        archive=False,
        engine="local",
        progress=lambda line: log.event("expectation_values", line=line),
    ).table


if __name__ == "__main__":
    sys.exit(main())
