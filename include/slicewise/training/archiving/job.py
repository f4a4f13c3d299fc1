"""The archive's job, which a question starts where it needs more than is archived.

It is the job that compaction begins with, under the same rules: what is archived is not archived
again, and of two at once the later commits nothing of the other's (spark/lake/archive.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slicewise.errors import StoreUnavailable
from slicewise.settings import Settings
from slicewise.training.archiving.pending import Log, Pending, plan_text
from slicewise.training.spark_job import SparkJob, report_of

PATIENCE_S = 1800.0
"""An archive that takes longer is stopped: what it committed stays, and the next goes on from
there."""


def archive_first(
    settings: Settings,
    some: Sequence[Pending],
    log: Log,
    notify: Callable[[str], None],
    patience_s: float = PATIENCE_S,
) -> None:
    """Archives these sources by the job, and returns when it is done.

    notify: is given the plan before anything starts, and a line of progress every few seconds.
    Raises SettingsError where there is no Spark, ServerError where the job fails or takes too long.
    """
    job = SparkJob(
        "archive.py",
        ("--json", *(word for needed in some for word in ("--source", needed.source.name))),
        work="archiving",
        expected="an archive up to now",
        again="ask again: it goes on where it stopped",
        without="or let Airflow archive (DAG compact_slices), then ask again",
    )
    job.check(settings)
    for line in plan_text(some):
        notify(line)

    def progress(seconds: float) -> None:
        for needed in some:
            notify(f"archiving {needed.source.name}: {_left(log, needed)}, {seconds:.0f} s")

    begun = time.monotonic()
    for line in outcome(job.run(settings, progress, patience_s)):
        notify(f"{line}, after {time.monotonic() - begun:.0f} s")


def _left(log: Log, pending: Pending) -> str:
    try:
        return f"{log.pending(pending.source):,} offsets to go"
    except StoreUnavailable as error:  # the job says what it means for the archive
        return error.what


def outcome(text: str) -> list[str]:
    """Lines on what was archived of each source, of the report that the job wrote last."""
    return [_summary(source) for source in report_of(text).get("archived", [])]


def _summary(archived: Mapping[str, Any]) -> str:
    bad = ", ".join(f"{count:,} {reason}" for reason, count in sorted(archived["bad"].items()))
    left = f" ({bad}: bad records, kept aside)" if bad else ""
    return f"archived {archived['source']}: {archived['events']:,} offsets{left}"
