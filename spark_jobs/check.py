"""Proves that online and offline agree, or says where they do not.

    python spark_jobs/check.py --sample 500 --report DIR [--views …] [--run NAME] [--json]

Reads predictions of sampled entities through the serving API, archives what they contain,
recomputes them with Spark SQL from raw events and compares the bytes. A store that goes away or
restarts meanwhile is waited for, five minutes in all. Exit code 0: green; 2: red (a value differs,
or nothing was compared); 1: the check could not be made, and "why" in its report says what kept it
from it. The last line of standard output is the report, with --json on one line.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from slicewise import log
from slicewise.clock import SystemClock
from slicewise.errors import SlicewiseError, StoreUnavailable
from slicewise.lifecycle.healing.record import PART, Healing, Job
from slicewise.lifecycle.lineage.steps import Scope
from slicewise.settings import Settings
from slicewise.spark.lake.job import session_of
from slicewise.spark.lineage.report import lineage_of
from slicewise.stores.online.redis.status import amend_part, read_part
from slicewise.windows.durations import HOUR_US

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from slicewise.checks.model import Compared, Outcome
    from slicewise.checks.report.gate import Gate
    from slicewise.clock import Clock
    from slicewise.features.plan.deployment import Deployment
    from slicewise.offsets.vector import OffsetVector
    from slicewise.spark.lake.context import Context
    from slicewise.stores.lake.catalog import Catalog

_IMPORTS = (
    "slicewise.spark.lake.context",
    "slicewise.checks.run",
    "slicewise.checks.online",
    "slicewise.checks.report.gate",
    "slicewise.checks.report.record",
    "slicewise.checks.report.page",
)
GREEN, FAILED, RED = 0, 1, 2
_LONGEST = 200
"""Characters of a value in the record."""


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
    name, started_us = given.run or uuid4().hex[:12], clock.now_us()
    try:
        with (
            lineage_of(settings, "check", clock) as lineage,
            session_of(settings, "check", _IMPORTS) as session,
        ):
            seconds = {"start": round((clock.now_us() - started_us) / 1e6, 3)}
            gate, report, manifest = _checked(given, settings, clock, session, name, seconds)
            lineage.complete(manifest, Scope(views=tuple(given.views)))
    except Exception as error:  # noqa: BLE001
        what = (
            error.what if isinstance(error, SlicewiseError) else f"{type(error).__name__}: {error}"
        )
        log.warning(
            "job_failed",
            job="check",
            error=str(error) if isinstance(error, SlicewiseError) else what,
        )
        if not isinstance(error, SlicewiseError):
            traceback.print_exc()
        _write(not_made(name, started_us, clock.now_us(), what, given.report), given.json)
        return FAILED
    _write(report, given.json)
    return GREEN if gate.green else RED


def _checked(
    given: argparse.Namespace,
    settings: Settings,
    clock: Clock,
    session: SparkSession,
    name: str,
    seconds: dict[str, float],
) -> tuple[Gate, dict[str, Any], str]:
    from slicewise.checks.online import HttpReader
    from slicewise.checks.patience import Patience
    from slicewise.checks.phases import timed
    from slicewise.checks.report.gate import imported, judge
    from slicewise.checks.report.page import summary, write_report
    from slicewise.checks.report.record import kept, rows_of
    from slicewise.checks.run import CheckRun
    from slicewise.stores.lake.catalog import ensure, open_catalog
    from slicewise.stores.lake.records import append
    from slicewise.stores.lake.schemas import CHECKS, LOG, log_table

    catalog, patience = open_catalog(settings), Patience()
    archives = _Archives(session, settings, catalog, clock)
    try:
        deployment = patience.through("deployment", archives.deployment)

        def archived(source: str) -> OffsetVector:
            return patience.through("archive", lambda: archives.offset_vector(source))

        def table(source: str) -> str:
            ensure(catalog, log_table(deployment.source(source)))
            return f"{settings.catalog_name}.{LOG}.`{source}`"

        reader = HttpReader(settings.serving_url, patience=patience)
        sample = max(0, given.sample)
        # what differed or was suspected before is compared once more, whatever is sampled
        again = patience.through("marks", lambda: Healing.of(read_part(settings.redis_url, PART)))
        checked = CheckRun(
            session,
            deployment,
            reader,
            archived,
            table,
            clock,
            name,
            sample,
            again=again.compared_again(),
            seconds=seconds,
        )
        with imported():
            outcome = checked.execute(given.views)
    finally:
        archives.close()
    with timed(seconds, "gate", clock):
        gate = judge(outcome)
    outcome = replace(outcome, seconds=dict(seconds))
    log.event("check_phases", **outcome.seconds)
    report = summary(outcome, gate) | {"waits": patience.waits, "archived": archives.archived}
    marked = _marked(settings, clock, outcome, gate, report["concerned"], deployment)
    if note := kept(outcome, marked):
        report["notes"].append(note)

    def written() -> None:
        if given.report is not None:
            report["report"] = str(write_report(outcome, gate, given.report))

    for keep in (lambda: append(catalog, CHECKS, rows_of(outcome, gate)), written):
        if note := kept(outcome, keep):
            report["notes"].append(note)
    return gate, report, deployment.to_json()


def _marked(
    settings: Settings,
    clock: Clock,
    outcome: Outcome,
    gate: Gate,
    concerned: Mapping[str, int],
    deployment: Deployment,
) -> Callable[[], None]:
    """Marks the hours that values which differ are about; of a green check, ends the marks of its
    views, and of views that are not there any more."""
    now_us = clock.now_us()
    job = Job.of(now_us, outcome.run, os.environ)
    there = {unit.view for unit in deployment.declared.units}

    def change(text: str | None) -> str:
        healing = Healing.of([text])
        if gate.green:
            views = {*outcome.expected_views, *(v for v in healing.views if v not in there)}
            changed = healing.green(job, views, len(outcome.compared), outcome.started_us)
        elif concerned:
            values = [_described(row) for row in outcome.wrong()]
            began_us = outcome.started_us
            changed = healing.red(job, concerned, now_us // HOUR_US, values, began_us)
        else:
            return healing.text()
        return changed.text()

    return lambda: amend_part(settings.redis_url, PART, change)


def _described(row: Compared) -> dict[str, str]:
    """A value that differs, for the record: both sides as text, the beginning of long ones."""
    from slicewise.checks.values import shown

    return {
        "view": row.view,
        "feature": row.feature,
        "entity": row.entity,
        "mode": row.mode,
        "cause": row.cause.value,
        "online": shown(row.online)[:_LONGEST],
        "offline": shown(row.offline)[:_LONGEST],
    }


@dataclass
class _Archives:
    """Answers to the check from store and archive, through a connection bound to one server run.

    After a failure the next question opens another.
    """

    session: SparkSession
    settings: Settings
    catalog: Catalog
    clock: Clock
    context: Context | None = None
    archived: list[dict[str, Any]] = field(default_factory=list)
    """Runs of the archive, as the reports of other jobs have them."""

    def deployment(self) -> Deployment:
        return self._open().deployment

    def offset_vector(self, source: str) -> OffsetVector:
        try:
            done = self._open().archive(source)
        except StoreUnavailable:
            self.close()
            raise
        self.archived.append(done.to_json())
        return done.state.offset_vector

    def close(self) -> None:
        context, self.context = self.context, None
        if context is not None:
            context.store.close()

    def _open(self) -> Context:
        from slicewise.spark.lake.context import Context

        if self.context is None:
            self.context = Context.open(self.session, self.settings, self.catalog, self.clock)
        return self.context


def not_made(
    name: str, started_us: int, now_us: int, why: str, folder: Path | None
) -> dict[str, Any]:
    """The report of a check that compared nothing, and says why; as a page too, so that the newest
    is not an older run's."""
    from slicewise.checks.report.unmade import summary, write_report

    report = summary(name, started_us, now_us, why)
    if folder is not None:
        report["report"] = str(write_report(report, started_us, folder))
    return report


def _write(report: dict[str, Any], as_json: bool) -> None:
    sys.stdout.write(json.dumps(report, indent=None if as_json else 1) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
