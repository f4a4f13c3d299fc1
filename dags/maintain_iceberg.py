"""### Keep the tables small

Daily: rewrites small files and manifests, expires old snapshots, removes files that no snapshot
names, and deletes rows of `ops` tables whose policy says so. Each table has a policy of its own
(`docs/guides/operating.md`, The size of tables). Data sets and offset vectors that are still needed
keep theirs.

With `dry_run` the run says what it would do and changes nothing. The note of the task says in both
cases what each table had before and has after: files, bytes, snapshots. All figures are in its
XCom.
[Runbook](docs/runbook.md#maintenance-fails)
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable, Param
from slicewise_airflow.alerts import DEFAULTS, over_within
from slicewise_airflow.pages.docs import page_of
from slicewise_airflow.paused import at_creation
from slicewise_airflow.spark import SparkJob

from slicewise.lifecycle.jobs import maintain_arguments
from slicewise.settings import MAINTENANCE_MOST

with DAG(
    dag_id="maintain_iceberg",
    description="Every day: rewrites small files, expires old snapshots, removes orphans",
    doc_md=page_of(__doc__),
    schedule=CronTriggerTimetable("40 3 * * *", timezone="UTC"),
    catchup=False,
    is_paused_upon_creation=at_creation("maintain_iceberg"),
    max_active_runs=1,
    deadline=over_within(timedelta(hours=6)),
    tags=["slicewise", "maintenance"],
    params={
        "dry_run": Param(
            False, type="boolean", description="say what would be done, and change nothing"
        ),
        "tables": Param(
            None,
            type=["null", "array"],
            items={"type": "string"},
            description="only these, one a line: log.plays, or all of log.*; none: all",
        ),
        "keep_days": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=MAINTENANCE_MOST,
            description="snapshots younger than this stay, in place of the policies' keep_days",
        ),
    },
    default_args=DEFAULTS,
):
    SparkJob(
        task_id="maintain",
        job="maintain",
        arguments=maintain_arguments,
        retries=1,
        retry_delay=timedelta(minutes=5),
        execution_timeout=timedelta(hours=6),
    )
