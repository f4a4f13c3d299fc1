"""### Judge a model on logged requests

Trigger with a model of `models.toml`. Its scores of the requests that were logged are compared with
the labels that came since, beside the model that answered them if you name it (`beside`). The run's
note has the verdict; the page with pictures is linked there, and listed under *Slicewise*, Reports,
Backtests. Nothing is promoted or changed.

A run that was killed and is tried again reads the same rows: no request and no label that came
after it was triggered counts. [Runbook](docs/runbook.md#a-backtest-fails)
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task
from slicewise_airflow.alerts import DEFAULTS
from slicewise_airflow.pages.docs import page_of

with DAG(
    dag_id="backtest_model",
    description="Judges a model on logged requests and their labels, beside the one that answered",
    doc_md=page_of(__doc__),
    schedule=None,
    # somebody who triggers it waits for it: a paused DAG's run would stay queued
    is_paused_upon_creation=False,
    max_active_runs=2,
    tags=["slicewise", "models"],
    params={
        "model": Param(
            type="string", minLength=1, description="a model of models.toml, or a version: delay@3"
        ),
        "beside": Param(
            "", type="string", description="the model that answered the requests; empty: none"
        ),
        "hours": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            description="requests of so many hours before the run; empty: by start and end",
        ),
        "start": Param(
            "", type="string", description="requests from this instant on, with a zone; empty: all"
        ),
        "end": Param(
            "", type="string", description="and before this instant; empty: until the run"
        ),
        "labels_until": Param(
            "", type="string", description="labels that came before this instant; empty: the run"
        ),
        "set": Param(
            "", type="string", description="answers of this feature set, where several are logged"
        ),
        "log": Param(
            "", type="string", description="the source of the request log, where there are several"
        ),
        "knowledge": Param(
            "arrival",
            type="string",
            enum=["arrival", "event_time"],
            description="of features that were not answered then: what had been applied at each "
            "request (arrival), or all that is known now (event_time)",
        ),
        "min_rows": Param(
            1, type="integer", minimum=0, description="the run fails where fewer are measured"
        ),
    },
    default_args=DEFAULTS,
):

    @task(retries=2, retry_delay=timedelta(seconds=10), execution_timeout=timedelta(hours=6))  # type: ignore[untyped-decorator]  # Airflow is opaque here
    def backtest() -> dict[str, Any]:
        """Judges the model, and writes the page."""
        from slicewise_airflow.models.backtesting import backtested

        return backtested(get_current_context())

    backtest()
