"""### Stop the stream

Pauses `ingest_stream` and ends its run, so that nothing starts the driver again, then asks the
driver to drain: it finishes its batch, advances the committed offsets and ends. Unpause
`ingest_stream` to start again; it goes on exactly where it stopped.
[Runbook](docs/runbook.md#the-stream-does-not-stop)
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task
from slicewise_airflow.alerts import DEFAULTS
from slicewise_airflow.pages.docs import page_of

with DAG(
    dag_id="stop_stream",
    description="Pauses ingest_stream and lets the drivers drain",
    doc_md=page_of(__doc__),
    schedule=None,
    # somebody who triggers it waits for it: a paused DAG's run would stay queued
    is_paused_upon_creation=False,
    max_active_runs=1,
    tags=["slicewise", "stream"],
    default_args=DEFAULTS,
):

    @task(retries=2, retry_delay=timedelta(seconds=5), execution_timeout=timedelta(minutes=5))  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def pause_ingest() -> list[str]:
        """Keep ingest_stream from starting the driver again, and end its watch."""
        from slicewise_airflow.api import rest

        return rest("ingest_stream", until_done="ensure_running")

    @task(retries=1, execution_timeout=timedelta(minutes=5))  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def drain() -> dict[str, object]:
        """SIGTERM to the driver; wait until it has finished its batch and ended."""
        from slicewise_airflow.commands import run_command

        return run_command("stream", "stop")

    pause_ingest() >> drain()
