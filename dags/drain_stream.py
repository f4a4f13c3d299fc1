"""### Drain the stream

Waits until all that the log holds at the start is applied, then pauses `ingest_stream` and lets the
drivers end: before the machine or the store is moved. Where the stream does not catch up within
`wait_s` the run is red and all goes on as before. `stop_stream` does not wait: it ends after the
batch that runs. Unpause `ingest_stream` to start again; it goes on exactly where it stopped.
[Runbook](docs/runbook.md#the-stream-does-not-stop)
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param, get_current_context, task
from slicewise_airflow.alerts import DEFAULTS
from slicewise_airflow.pages.docs import page_of

with DAG(
    dag_id="drain_stream",
    description="Waits until all events are applied, then pauses ingest_stream and ends the drivers",
    doc_md=page_of(__doc__),
    schedule=None,
    is_paused_upon_creation=False,
    max_active_runs=1,
    tags=["slicewise", "stream"],
    params={
        "wait_s": Param(
            300,
            type="integer",
            minimum=1,
            maximum=3600,
            description="longest that it waits, seconds",
        )
    },
    default_args=DEFAULTS,
):

    @task(retries=0, execution_timeout=timedelta(minutes=65))  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def await_applied() -> dict[str, object]:
        """Wait until what the log holds now is applied."""
        from slicewise_airflow.commands import run_command
        from slicewise_airflow.spark import run_of

        from slicewise.lifecycle.jobs import drain_arguments

        return run_command("stream", *drain_arguments(run_of(get_current_context())))

    @task(retries=2, retry_delay=timedelta(seconds=5), execution_timeout=timedelta(minutes=5))  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def pause_ingest() -> list[str]:
        """Keep ingest_stream from starting the driver again, and end its watch."""
        from slicewise_airflow.api import rest

        return rest("ingest_stream", until_done="ensure_running")

    @task(retries=1, execution_timeout=timedelta(minutes=5))  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def stop() -> dict[str, object]:
        """SIGTERM to the drivers; wait until each has finished its batch and ended."""
        from slicewise_airflow.commands import run_command

        return run_command("stream", "stop")

    await_applied() >> pause_ingest() >> stop()
