"""### Build the history of a new view

For a view that was just deployed: compacts, for every hour that the archive holds, exactly the
events below the view's start cover, writes them to Redis and marks the view ready. Until then it is
answered with "building, x %". Without a view it builds every one that is not ready.
[Runbook](docs/runbook.md#a-view-stays-in-building)
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param
from slicewise_airflow.alerts import page
from slicewise_airflow.spark import SparkJob

from slicewise.lifecycle.jobs import backfill_arguments

with DAG(
    dag_id="backfill_view",
    doc_md=__doc__,
    schedule=None,
    max_active_runs=1,
    tags=["slicewise", "views"],
    params={"view": Param(None, type=["null", "string"], description="a view's name; empty: all that are not ready")},
    default_args={"owner": "slicewise", "on_failure_callback": page},
):
    SparkJob(
        task_id="backfill",
        job="backfill",
        arguments=backfill_arguments,
        retries=2,
        retry_delay=timedelta(seconds=20),
    )
