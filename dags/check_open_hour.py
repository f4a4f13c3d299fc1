"""### Look at the open hour

Every five minutes: samples entities that have events in the hour that is open, reads their features
as a model would, and compares them with the log itself, recomputed at the same token. No Spark is
started: a few seconds of one core.

What differs twice is suspected, and nothing more: the task starts `check_consistency` for the views
concerned, which compares the suspected entities by other means. If it is red it pages the view's
owner, closes the gate, and recomputes the hours that the values are about, the open one too. If it
is green, nobody is told.

Once all that differed is right again, a run of `check_consistency` is started too, so that the
incident is over without waiting for the hour. `slicewise checks` and the page *Slicewise* show what
was found and done.

Runbook: [the check is red](docs/runbook.md#the-check-is-red),
[the open hour was not looked at](docs/runbook.md#the-open-hour-was-not-looked-at)
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param, get_current_context, task
from slicewise_airflow.alerts import DEFAULTS, over_within
from slicewise_airflow.pages.docs import page_of
from slicewise_airflow.paused import at_creation

with DAG(
    dag_id="check_open_hour",
    description="Every five minutes: compares some answers of the open hour with the log, without Spark",
    doc_md=page_of(__doc__),
    schedule="*/5 * * * *",
    catchup=False,
    is_paused_upon_creation=at_creation("check_open_hour"),
    max_active_runs=1,
    deadline=over_within(timedelta(minutes=15)),
    tags=["slicewise", "checks"],
    params={"sample": Param(20, type="integer", minimum=1, description="entities per view")},
    default_args=DEFAULTS,
):

    @task(retries=2, retry_delay=timedelta(seconds=20), execution_timeout=timedelta(minutes=4))  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def look() -> dict[str, object]:
        """Compare, and start the check where it is to judge."""
        from slicewise_airflow.open_hour import look as look_at

        return look_at(get_current_context())

    look()
