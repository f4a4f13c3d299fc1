"""### Restart drivers

Lets the drivers that you choose finish their batch and end, and starts them again: after a change
of settings, or where one behaves oddly. Nothing is lost or counted twice: a driver goes on at the
store's committed offsets. `ingest_stream` may go on meanwhile; it takes a driver that was stopped
on purpose for no fault. [Runbook](docs/runbook.md#a-driver-is-lost)
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param, get_current_context, task
from slicewise_airflow.alerts import DEFAULTS
from slicewise_airflow.pages.docs import page_of

with DAG(
    dag_id="restart_stream",
    description="Lets drivers end and starts them again, where they were",
    doc_md=page_of(__doc__),
    schedule=None,
    # somebody who triggers it waits for it: a paused DAG's run would stay queued
    is_paused_upon_creation=False,
    max_active_runs=1,
    tags=["slicewise", "stream"],
    params={
        "driver": Param(
            "all",
            type="string",
            enum=["all", "stream", "tail", "emit", "probes"],
            values_display={
                "all": "all drivers",
                "stream": "micro-batch lane",
                "tail": "real-time lane",
                "emit": "emission",
                "probes": "prober",
            },
            description="which driver ends and begins again",
        )
    },
    default_args=DEFAULTS,
):

    @task(retries=1, retry_delay=timedelta(seconds=5), execution_timeout=timedelta(minutes=5))  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def restart() -> dict[str, object]:
        """SIGTERM to the chosen drivers, and a start of what is wanted."""
        from slicewise_airflow.commands import run_command
        from slicewise_airflow.spark import run_of

        from slicewise.lifecycle.jobs import restart_arguments

        return run_command("stream", *restart_arguments(run_of(get_current_context())))

    restart()
