"""### Prove that online and offline agree

Hourly: samples entities, reads their features as a model would, recomputes them from raw events
with plain Spark SQL, and compares the bytes. One mismatch makes the run red. A check that could not
be made fails the run too, and says so: nothing was proved then, and nothing was found to differ. A
store that restarts under the check is waited for. The report, readable offline, stands beside the
platform's state; its figures are in the task's XCom.
Runbook: [the check is red](docs/runbook.md#the-check-is-red),
[the check could not be made](docs/runbook.md#the-check-could-not-be-made)
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable, Param
from slicewise_airflow.alerts import DEFAULTS, over_within
from slicewise_airflow.check import CheckJob
from slicewise_airflow.docs import page_of

with DAG(
    dag_id="check_consistency",
    description="Every hour: samples answers, recomputes them from raw events, and compares the bytes",
    doc_md=page_of(__doc__),
    schedule=CronTriggerTimetable("20 * * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    deadline=over_within(timedelta(minutes=55)),
    tags=["slicewise", "checks"],
    params={"sample": Param(500, type="integer", minimum=1, description="entities per view")},
    default_args=DEFAULTS,
):
    # never retried: a second look at other values must not turn a red check green
    CheckJob(
        task_id="check",
        retries=0,
        execution_timeout=timedelta(minutes=50),
    )
