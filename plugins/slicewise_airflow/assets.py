"""Assets of Airflow: results of DAGs that other DAGs wait for, one's own too.

An event of an asset says that something is there now. Partitioned ones name the hour, as a
partition key of `compact_slices` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from slicewise.lifecycle.jobs import compacted_hours
from slicewise.lifecycle.reports import hour_summaries
from slicewise_airflow.alerts import settle_causes
from slicewise_airflow.api import is_superseded
from slicewise_airflow.commands import JobRefused
from slicewise_airflow.notes import hour_note, leave
from slicewise_airflow.spark import run_of

_GROUP = "slicewise"
HOURS = Asset("slicewise_hours", "x-slicewise://hours", group=_GROUP)
"""Hours that were compacted, or found clean by a scheduled run; a partition for each."""
COMPACTED = Asset("slicewise_compacted", "x-slicewise://compacted", group=_GROUP)
"""A compaction that is over; its partition is the newest of its hours."""
CHECKED = Asset("slicewise_checked", "x-slicewise://checked", group=_GROUP)
"""A check that is green: the gate. Its partition is the hour whose compaction it followed."""
VIEWS = Asset("slicewise_views", "x-slicewise://views", group=_GROUP)
"""A view whose history was built: it answers now."""
SNAPSHOTS = Asset("slicewise_snapshots", "x-slicewise://snapshots", group=_GROUP)
"""Snapshots that were taken; the event says which, of which instants, into which tables."""
TRAINING_SETS = Asset("slicewise_training_sets", "x-slicewise://training_sets", group=_GROUP)
"""A training set that was written; the event says where."""


def announce(context: Any, report: Mapping[str, object]) -> list[dict[str, Any]]:
    """Gives the hours of a compaction to the assets of its task; the summary of each that was
    written, or could not be. Skips its task where the compaction had nothing to do and nobody waits
    for the hour."""
    hours, summaries = compacted_hours(run_of(context), report), hour_summaries(report)
    if not hours and not summaries:
        raise AirflowSkipException("no hour was compacted")
    if hours:
        events = context["outlet_events"]
        events[HOURS].add_partitions(list(hours))
        events[COMPACTED].add_partitions([hours[-1]])
    if not any("error" in view for summary in summaries for view in summary["views"]):
        settle_causes([f"{context['dag_run'].dag_id}.hour"])
    return summaries


def show_hour(context: Any, summary: Mapping[str, Any]) -> None:
    """Names the mapped task after its hour, and leaves the hour's summary on its page. Raises
    JobRefused where a view's hour could not be compacted."""
    context["hour"] = summary["hour"]
    leave(context, hour_note(summary))
    failed = [f"{view['view']}: {view['error']}" for view in summary["views"] if "error" in view]
    if failed:
        raise JobRefused(
            f"hour {summary['hour']} was not compacted: {'; '.join(failed)}",
            next_step="the next run takes it again; see what failed in the log of compact",
        )


@task.short_circuit(
    retries=2, retry_delay=timedelta(seconds=5), execution_timeout=timedelta(minutes=1)
)  # type: ignore[untyped-decorator]  # Airflow is opaque here
def newest() -> bool:
    """Is no later run queued, which reads all that this one would?"""
    return is_newest(get_current_context())


def is_newest(context: Any) -> bool:
    """Tells whether a run that an asset began is the newest of its DAG: a later one that is queued
    reads all that this one would."""
    run = context["dag_run"]
    kind = getattr(run.run_type, "value", str(run.run_type))
    return not (kind.startswith("asset") and is_superseded(run.dag_id, run.run_id))


def describe(context: Any, asset: Asset, **facts: object) -> None:
    """Puts facts about what a task brought into its asset's event."""
    context["outlet_events"][asset].extra = facts
