"""### Keep the stream running

Runs for ever. Each run makes sure that a stream driver is up (a process of its own, which outlives
Airflow's workers; nothing happens if it is), then watches it for an hour without holding a worker:
its process, heartbeat and lag. A driver that dies, hangs or is stuck is started again by the watch
within seconds, from the store's committed offsets, so that nothing is lost or counted twice; that
pages once, and once more when it is over. The same for what runs beside it: the real-time lane, the
emission and the prober. What the watch cannot mend makes the run red and pages. A real-time lane
that is not well makes nothing red: answers are right without it.

A run that you trigger or clear begins within seconds: the run that watches ends for it, and the
next one goes on after it. After a run that you mark as failed or success by hand the next one
begins once Airflow has read this file again, within five minutes: trigger one instead. Drivers go
on meanwhile. There is nothing to back-fill: what the log holds is applied.

Pause this DAG, or run `stop_stream`, before stopping the stream on purpose.
[Runbook](docs/runbook.md#the-stream-is-not-well)
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param, task
from slicewise_airflow.alerts import DEFAULTS
from slicewise_airflow.pages.docs import page_of
from slicewise_airflow.paused import at_creation
from slicewise_airflow.stream import StreamHealth

with DAG(
    dag_id="ingest_stream",
    description=(
        "Keeps the drivers of the stream, the real-time lane and the emission running, and pages "
        "when one is not well"
    ),
    doc_md=page_of(__doc__),
    # without one the second run would get the first one's logical date and never be made
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    schedule="@continuous",
    catchup=False,
    is_paused_upon_creation=at_creation("ingest_stream"),
    max_active_runs=1,
    tags=["slicewise", "stream"],
    params={
        "watch_s": Param(3600, type="integer", minimum=1, description="seconds to watch the stream")
    },
    default_args=DEFAULTS,
):

    @task(retries=3, retry_delay=timedelta(seconds=15), execution_timeout=timedelta(minutes=5))  # type: ignore[untyped-decorator]
    def ensure_running() -> dict[str, object]:
        """Start the drivers of stream, real-time lane and emission unless they run."""
        from slicewise_airflow.commands import run_command

        return run_command("stream", "ensure")

    ensure_running() >> StreamHealth(task_id="watch", for_s=3600)
