"""### Build the history of views that are not ready

Looks every two minutes whether a view is not ready: one that was just deployed, that somebody
builds again (`slicewise rebuild`), or all of them after the store lost what it held. Then it
compacts or reads, for every hour that the archive holds, exactly the events below the view's start
offsets, writes them to Redis and marks the view ready. Until then it is answered with "building, x
%". What was written is not written again: a run goes on where another stopped.
[Runbook](docs/runbook.md#a-view-stays-in-building)
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param, get_current_context, task
from slicewise_airflow.alerts import DEFAULTS
from slicewise_airflow.assets import VIEWS
from slicewise_airflow.pages.docs import page_of
from slicewise_airflow.paused import at_creation
from slicewise_airflow.spark import SparkJob

from slicewise.lifecycle.jobs import backfill_arguments

with DAG(
    dag_id="backfill_view",
    description="Builds the history of views that are not ready: looks every two minutes",
    doc_md=page_of(__doc__),
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    schedule="*/2 * * * *",
    catchup=False,
    is_paused_upon_creation=at_creation("backfill_view"),
    max_active_runs=1,
    tags=["slicewise", "views"],
    params={
        "view": Param(
            None,
            type=["null", "string"],
            description="a view's name; empty: all that are not ready",
        )
    },
    default_args=DEFAULTS,
):

    @task.short_circuit(
        retries=2, retry_delay=timedelta(seconds=5), execution_timeout=timedelta(minutes=1)
    )  # type: ignore[untyped-decorator]
    def wanted() -> bool:
        """Is any view not ready? A look at the store's metadata. A view that is not deployed is
        refused."""
        from slicewise.lifecycle.health.overview import require_view, unready
        from slicewise.settings import Settings
        from slicewise.stores.online.redis.status import read_status

        status = read_status(Settings.load().redis_url)
        require_view(status, get_current_context()["params"].get("view"))
        return bool(unready(status))

    wanted() >> SparkJob(
        task_id="backfill",
        job="backfill",
        arguments=backfill_arguments,
        retries=2,
        retry_delay=timedelta(seconds=20),
        # a history of years; what was written is not written again where a run is tried anew
        execution_timeout=timedelta(hours=24),
        outlets=[VIEWS],
    )
