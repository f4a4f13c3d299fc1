"""### Compact the hours that are over

One run per hour; the run's partition key is the hour that ended. The job archives the log up to
now, then rewrites every slice of the hour (what is there ⊕ what came late), in Iceberg and in
Redis, and the totals of days that are over. A scheduled run goes on with other hours that late
events made dirty; the rest stays dirty for the next run.

**Backfill**: choose *Backfill* above and a range of hours, or trigger one run with an hour as its
partition key. The first run of a backfill takes the other dirty hours along; a later one whose hour
is clean by then starts no Spark and says so. Running an hour again changes no value.
The log and the XCom of `compact` list the slices. One Spark application does the work of all hours
of a run; each hour then is a task `hour` of its own, named after it (`2026-11-21 08:00`). Its note
shows events, entities, late events, keys freed, and bytes before and after, by view. An hour that
could not be compacted while others were is red there, and stays dirty for the next run.

The hours that a run compacted are partitions of the asset `slicewise_hours`, for DAGs of your own;
`check_consistency` runs because of `slicewise_compacted`.
[Runbook](docs/runbook.md#compaction-fails)
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, CronPartitionTimetable, Param, get_current_context, task
from slicewise_airflow.alerts import DEFAULTS, over_within
from slicewise_airflow.assets import COMPACTED, HOURS
from slicewise_airflow.pages.docs import page_of
from slicewise_airflow.paused import at_creation
from slicewise_airflow.spark import SparkJob

from slicewise.lifecycle.jobs import compact_arguments, may_be_clean

with DAG(
    dag_id="compact_slices",
    description=(
        "Every hour: archives the log, compacts the hours that are over, brings them into the store"
    ),
    doc_md=page_of(__doc__),
    schedule=CronPartitionTimetable("0 * * * *", timezone="UTC", run_offset=-1),
    catchup=False,
    is_paused_upon_creation=at_creation("compact_slices"),
    max_active_runs=1,
    # two cores: the hours of a backfill leave workers to other DAGs
    max_active_tasks=2,
    deadline=over_within(timedelta(minutes=55)),
    tags=["slicewise", "compaction"],
    params={
        "from_raw": Param(
            False, type="boolean", description="recompute from raw events; gives the same bytes"
        ),
        "only": Param(False, type="boolean", description="this hour alone"),
        "max_hours": Param(
            24, type="integer", minimum=1, maximum=1000, description="most hours in one run"
        ),
    },
    default_args=DEFAULTS,
):
    compact = SparkJob(
        task_id="compact",
        job="compact",
        arguments=compact_arguments,
        unless_clean=may_be_clean,
        retries=2,
        retry_delay=timedelta(seconds=20),
        execution_timeout=timedelta(minutes=50),
        # a backfill and the scheduled run would only wait for each other's commits
        max_active_tis_per_dag=1,
    )

    @task(
        outlets=[HOURS, COMPACTED],
        retries=2,
        retry_delay=timedelta(seconds=5),
        execution_timeout=timedelta(minutes=1),
    )  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def announce(report: dict[str, object]) -> list[dict[str, Any]]:
        """Tell the assets which hours were compacted."""
        from slicewise_airflow import assets

        return assets.announce(get_current_context(), report)

    @task(map_index_template="{{ hour }}", retries=0, execution_timeout=timedelta(minutes=1))  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def hour(summary: dict[str, Any]) -> None:
        """Show one hour; red where it could not be compacted."""
        from slicewise_airflow import assets

        assets.show_hour(get_current_context(), summary)

    hour.expand(summary=announce(compact.output))
