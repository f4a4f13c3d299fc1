"""### Take the snapshots that are due

Every hour: looks at the snapshots that `snapshots.toml` lists, and takes those whose next instant
has come: all entities, as a training set has them, into a table of Iceberg in one commit. What was
missed is made up for. One that fails keeps none of the others from being taken. Without the file
there is nothing to do. [Runbook](docs/runbook.md#a-snapshot-is-not-taken)
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable, Param, get_current_context, task
from slicewise_airflow.alerts import DEFAULTS, over_within
from slicewise_airflow.assets import SNAPSHOTS, describe
from slicewise_airflow.pages.docs import page_of
from slicewise_airflow.paused import at_creation

with DAG(
    dag_id="take_snapshots",
    description="Every hour: takes the snapshots of all entities that are due",
    doc_md=page_of(__doc__),
    schedule=CronTriggerTimetable("25 * * * *", timezone="UTC"),
    catchup=False,
    is_paused_upon_creation=at_creation("take_snapshots"),
    max_active_runs=1,
    deadline=over_within(timedelta(hours=12)),
    tags=["slicewise", "training"],
    params={
        "names": Param(
            [], type="array", items={"type": "string"}, description="these alone; empty: all"
        )
    },
    default_args=DEFAULTS,
):

    @task(
        retries=1,
        retry_delay=timedelta(seconds=30),
        execution_timeout=timedelta(hours=12),
        outlets=[SNAPSHOTS],
    )  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def take() -> dict[str, object]:
        """Take what is due, report."""
        from slicewise_airflow.commands import run_command

        context = get_current_context()
        names = [str(name) for name in context["params"]["names"]]
        report = run_command("dataset", "take", *names, "--json")
        describe(context, SNAPSHOTS, taken=report.get("taken"))
        return report

    take()
