"""### Prove that online and offline agree

Hourly: samples entities, reads their features as a model would, recomputes them from raw events
with plain Spark SQL, and compares the bytes. One mismatch makes the run red. The report, readable
offline, stands beside the platform's state; its figures are in the task's XCom.
[Runbook](docs/runbook.md#the-check-is-red)
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable, Param
from slicewise_airflow.alerts import over_within, page
from slicewise_airflow.check import check_run_arguments
from slicewise_airflow.spark import SparkJob

with DAG(
    dag_id="check_consistency",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("20 * * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    deadline=over_within(timedelta(minutes=55)),
    tags=["slicewise", "checks"],
    params={"sample": Param(500, type="integer", minimum=1, description="entities per view")},
    default_args={"owner": "slicewise", "on_failure_callback": page},
):
    # never retried: a second look at other values must not turn a red check green
    SparkJob(
        task_id="check",
        job="check",
        arguments=check_run_arguments,
        retries=0,
        execution_timeout=timedelta(minutes=50),
    )
