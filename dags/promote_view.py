"""### Let a view's name stand for another version

Trigger with a version (`by_card@2`; several with commas, where a feature set reads several). The
run compares it with the live one from the archive, waits for a person who approves, and then moves
the name: at once, for every reader. A version whose history is not built, or that a check found
wrong, is refused. Nobody who answers within a day rejects.
[Runbook](docs/runbook.md#a-version-is-not-promoted)
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, get_current_context, task
from slicewise_airflow.alerts import DEFAULTS
from slicewise_airflow.assets import VIEWS
from slicewise_airflow.pages.docs import page_of

with DAG(
    dag_id="promote_view",
    description="Compares a version of a view with the live one, waits for approval, and promotes it",
    doc_md=page_of(__doc__),
    schedule=None,
    # somebody who triggers it waits for it: a paused DAG's run would stay queued
    is_paused_upon_creation=False,
    max_active_runs=4,
    tags=["slicewise", "views"],
    params={
        "version": Param(
            type="string",
            minLength=3,
            pattern=r"^[A-Za-z]\w*@[0-9]+(, ?[A-Za-z]\w*@[0-9]+)*$",
            description="a version's name, as by_card@2; several with commas",
        )
    },
    default_args=DEFAULTS,
):

    @task(retries=1, retry_delay=timedelta(seconds=10), execution_timeout=timedelta(hours=2))  # type: ignore[untyped-decorator]
    def compare() -> dict[str, Any]:
        """Compares what each version answers of every entity with the live one, and writes a
        page."""
        from slicewise_airflow.versions.promoting import compared

        return compared(get_current_context())

    approve = ApprovalOperator(
        task_id="approve",
        subject="Promote {{ params.version }}?",
        body="{{ ti.xcom_pull(task_ids='compare')['text'] }}",
        defaults="Reject",
        response_timeout=timedelta(days=1),
    )

    @task(retries=0, execution_timeout=timedelta(minutes=10), outlets=[VIEWS])  # type: ignore[untyped-decorator]
    def promote() -> dict[str, object]:
        """The name stands for the version. What is refused stays refused: it is tried once."""
        from slicewise_airflow.versions.promoting import promoted

        return promoted(get_current_context())

    compare() >> approve >> promote()
