"""### Train a model, judge the version, and let it go live

Trigger with a model that `models.toml` has a training of. The run trains the next version, judges
it on logged requests that are later than all that it was trained on, beside the live one, and
decides by the model's rule: `approval` waits for a person under *Required Actions* for a day,
`better` and `no worse` promote by what the backtest says, unless there is doubt. What is not
promoted stays a version; nothing else changes.

Every quarter of an hour a run without a model triggers those that are due by their `schedule`. A
monitor with `retrain` triggers one once for each of its incidents. A model has one run at a time.
The page of a run is listed under *Slicewise*, Reports, Trainings.
[Runbook](docs/runbook.md#a-model-is-not-trained)
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, CronTriggerTimetable, Param, get_current_context, task
from slicewise_airflow.alerts import DEFAULTS, over_within
from slicewise_airflow.pages.docs import page_of
from slicewise_airflow.paused import at_creation

with DAG(
    dag_id="train_model",
    description="Trains a model's next version, judges it beside the live one, and promotes it",
    doc_md=page_of(__doc__),
    schedule=CronTriggerTimetable("*/15 * * * *", timezone="UTC"),
    catchup=False,
    # a monitor and a person trigger it too, and without a schedule in models.toml it does nothing
    is_paused_upon_creation=at_creation("train_model", otherwise=False),
    # a run waits for a person while other models are trained
    max_active_runs=16,
    deadline=over_within(timedelta(days=2)),
    tags=["slicewise", "models"],
    params={
        "model": Param(
            "", type="string", description="a model with a training; empty: those that are due"
        ),
        "hours": Param(
            24,
            type="integer",
            minimum=1,
            description="judged on the requests of so many hours, which it is not trained on",
        ),
        "min_rows": Param(
            200, type="integer", minimum=1, description="measured rows that a rule needs"
        ),
        "set": Param(
            "", type="string", description="answers of this feature set, where several are logged"
        ),
        "log": Param(
            "", type="string", description="the source of the request log, where there are several"
        ),
        "reason": Param("", type="string", description="why it is trained, for its page"),
    },
    default_args=DEFAULTS,
):

    @task.short_circuit(
        retries=2, retry_delay=timedelta(seconds=10), execution_timeout=timedelta(minutes=5)
    )  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def begin() -> bool:
        """Yields to another run of the model; without a model triggers what is due."""
        from slicewise_airflow.models.training import begun

        return begun(get_current_context())

    @task(
        retries=2,
        retry_delay=timedelta(seconds=10),
        execution_timeout=timedelta(hours=12),
        max_active_tis_per_dag=1,
    )  # type: ignore[untyped-decorator]
    def train() -> dict[str, Any]:
        """Trains the next version."""
        from slicewise_airflow.models.training import trained

        return trained(get_current_context())

    @task(
        retries=2,
        retry_delay=timedelta(seconds=10),
        execution_timeout=timedelta(hours=6),
        max_active_tis_per_dag=1,
    )  # type: ignore[untyped-decorator]
    def backtest() -> dict[str, Any]:
        """Judges it beside the live version, where there is one."""
        from slicewise_airflow.models.training import compared

        return compared(get_current_context())

    @task.branch(
        retries=2, retry_delay=timedelta(seconds=10), execution_timeout=timedelta(minutes=5)
    )  # type: ignore[untyped-decorator]
    def decide() -> str | None:
        """Promotes, waits for a person, or leaves it."""
        from slicewise_airflow.models.training import chosen

        return chosen(get_current_context())

    approve = ApprovalOperator(
        task_id="approve",
        subject="Promote a version of {{ params.model }}?",
        body="{{ ti.xcom_pull(task_ids='decide', key='text') }}",
        defaults="Reject",
        response_timeout=timedelta(days=1),
        # the rule of its trigger lets a skipped approval pass: a rejection is none
        ignore_downstream_trigger_rules=True,
    )

    @task(
        retries=2,
        retry_delay=timedelta(seconds=10),
        execution_timeout=timedelta(minutes=10),
        trigger_rule="none_failed_min_one_success",
    )  # type: ignore[untyped-decorator]
    def promote() -> dict[str, object]:
        """Makes it the live version, unless another one became live meanwhile."""
        from slicewise_airflow.models.training import promoted

        return promoted(get_current_context())

    decided, promotion = decide(), promote()
    begin() >> train() >> backtest() >> decided
    decided >> approve >> promotion
    decided >> promotion
