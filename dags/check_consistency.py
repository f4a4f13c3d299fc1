"""### Prove that online and offline agree

After each compaction: samples entities, reads their features as a model would, recomputes them from
raw events with plain Spark SQL, and compares the bytes. One mismatch makes the run red. A check
that could not be made fails the run too, and says so: nothing was proved then, and nothing was
found to differ. A store that restarts under the check is waited for. The report, readable offline,
stands beside the platform's state; its figures are in the task's XCom.

A red check pages the view's owner, and goes on: the hours that the values which differ are about
are marked dirty, recomputed from raw events, of their views, and checked again. What is archived of
the open hour is recomputed too. If that is green the incident is over. If a run fails on its way,
the hours stay marked, and the next compaction takes them. What differed is compared again by each
check until one is green.

Only a green check opens the gate: an event of the asset `slicewise_checked`. While the last check
is red or an hour is marked, `build_training_set` refuses to build. Runs that gather while one is at
work are one: the last of them checks. `check_open_hour` starts a run of some views where it
suspects a value; it opens the gate by ending the marks, without an event.

Runbook: [the check is red](docs/runbook.md#the-check-is-red),
[the check could not be made](docs/runbook.md#the-check-could-not-be-made)
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param, PartitionedAssetTimetable, get_current_context, task
from slicewise_airflow.alerts import DEFAULTS, over_within
from slicewise_airflow.assets import CHECKED, COMPACTED, newest
from slicewise_airflow.check import CheckJob, RecomputeJob
from slicewise_airflow.pages.docs import page_of
from slicewise_airflow.paused import at_creation

with DAG(
    dag_id="check_consistency",
    description="After each compaction: samples answers, recomputes them from raw events, and compares the bytes",
    doc_md=page_of(__doc__),
    schedule=PartitionedAssetTimetable(assets=COMPACTED),
    catchup=False,
    is_paused_upon_creation=at_creation("check_consistency"),
    max_active_runs=1,
    # with the hours that a red check recomputes
    deadline=over_within(timedelta(hours=3)),
    tags=["slicewise", "checks"],
    params={
        "sample": Param(500, type="integer", minimum=1, description="entities per view"),
        "views": Param(
            None,
            type=["null", "array"],
            items={"type": "string"},
            description="these views alone, by default all; opens no gate",
        ),
        "recompute": Param(
            True,
            type="boolean",
            description="red: recompute the hours concerned from raw events, and check again",
        ),
    },
    default_args=DEFAULTS,
):
    # never retried: a second look at other values must not turn a red check green
    check = CheckJob(task_id="check", retries=0, execution_timeout=timedelta(minutes=50))

    recompute = RecomputeJob(
        task_id="recompute",
        trigger_rule="one_failed",
        retries=2,
        retry_delay=timedelta(seconds=20),
        execution_timeout=timedelta(hours=2),
    )
    again = CheckJob(task_id="check_again", retries=0, execution_timeout=timedelta(minutes=50))

    @task(
        outlets=[CHECKED],
        trigger_rule="one_success",
        retries=2,
        execution_timeout=timedelta(minutes=1),
    )  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def gate() -> None:
        """Open the gate: values were compared, and none differs."""
        from slicewise_airflow.assets import CHECKED, describe
        from slicewise_airflow.check import skip_of_some

        context = get_current_context()
        skip_of_some(context)
        reports = context["ti"].xcom_pull(task_ids=["check", "check_again"])
        report = next(dict(one) for one in reversed(list(reports)) if one)
        facts = {name: report.get(name) for name in ("run_id", "values", "entities", "report")}
        describe(context, CHECKED, **facts)

    newest() >> check >> recompute >> again
    [check, again] >> gate()
