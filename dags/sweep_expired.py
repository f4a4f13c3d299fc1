"""### Sweep keys that would stay for ever

Every six hours: looks at every key of the online store for one that has no expiry, or one longer
than any read can need, sets it right, deletes keys of earlier store ids, and reports what it
found. In a healthy store it finds nothing. The note of the task lists keys and bytes by view and
kind, and the store's keys and bytes before and after; `dry_run` changes nothing.
[Runbook](docs/runbook.md#the-sweep-finds-keys)
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable, Param, get_current_context, task
from slicewise_airflow.alerts import DEFAULTS, over_within
from slicewise_airflow.pages.docs import page_of
from slicewise_airflow.paused import at_creation

with DAG(
    dag_id="sweep_expired",
    description="Every six hours: finds keys of the store that would stay for ever, and sets them right",
    doc_md=page_of(__doc__),
    schedule=CronTriggerTimetable("15 */6 * * *", timezone="UTC"),
    catchup=False,
    is_paused_upon_creation=at_creation("sweep_expired"),
    max_active_runs=1,
    deadline=over_within(timedelta(hours=2)),
    tags=["slicewise", "maintenance"],
    params={"dry_run": Param(False, type="boolean", description="report only")},
    default_args=DEFAULTS,
):

    @task(retries=2, retry_delay=timedelta(seconds=30), execution_timeout=timedelta(hours=2))  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def sweep() -> dict[str, object]:
        """Find keys without or with over-long expiry, fix them, report."""
        from slicewise_airflow.commands import run_command
        from slicewise_airflow.notes import leave, note_of

        context = get_current_context()
        dry = ["--dry-run"] if context["params"]["dry_run"] else []
        report = run_command("sweep", "--json", *dry)
        leave(context, note_of("sweep", report))
        return report

    sweep()
