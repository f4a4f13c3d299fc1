"""### Build a training set

Trigger with a spine (a Parquet, Feather or CSV file with the entity columns and `at`), features (a
feature set, or `view:column` separated by commas) and where to write. Every value is the one that a
prediction at that moment would have got; the manifest beside the file rebuilds the same bytes.
`knowledge` says what a row may know; `known_at` and `as_of_definition` take the set back to a day.

Where the spine asks for more than is archived, the task archives the log first, by the job that
`compact_slices` begins with, and tells how far it is. Turn `archive` off to have such a run fail
instead. [Runbook](docs/runbook.md#a-training-set-fails)
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, ExceptionRetryPolicy, Param, RetryAction, RetryRule
from slicewise_airflow.alerts import DEFAULTS
from slicewise_airflow.assets import CHECKED, TRAINING_SETS
from slicewise_airflow.dataset import TrainingSetJob
from slicewise_airflow.pages.docs import page_of

with DAG(
    dag_id="build_training_set",
    description="Builds a training set from a spine, as predictions at those moments would have been",
    doc_md=page_of(__doc__),
    schedule=None,
    # somebody who triggers it waits for it: a paused DAG's run would stay queued
    is_paused_upon_creation=False,
    max_active_runs=2,
    tags=["slicewise", "training"],
    params={
        "spine": Param(
            type="string",
            minLength=1,
            description=(
                "entity columns and at: a Parquet, Feather or CSV file, iceberg:namespace.table, or "
                "sql:SELECT …"
            ),
        ),
        "features": Param(
            type="string",
            minLength=1,
            description="a feature set, or view:column, comma separated",
        ),
        "knowledge": Param(
            "event_time",
            type="string",
            enum=["event_time", "token", "arrival"],
            description=(
                "what was known: all that is now (event_time), what an answer contained (token), "
                "what was applied by each row's instant (arrival)"
            ),
        ),
        "known_at": Param(
            "",
            type="string",
            description="an instant with a zone: all rows know what was applied by then; empty: no",
        ),
        "as_of_definition": Param(
            "",
            type="string",
            description="an instant with a zone: by the definitions that stood then; empty: today's",
        ),
        "engine": Param(
            "auto",
            type="string",
            enum=["auto", "local", "spark"],
            description="which engine builds it, to the same bits; auto: Spark for what has no room",
        ),
        "out": Param(
            type="string",
            minLength=1,
            description="Parquet or CSV file to write, or iceberg:namespace.table",
        ),
        "gate": Param(
            "green",
            type="string",
            enum=["green", "any"],
            description="green: refused while the last check is red; any: built all the same",
        ),
        "archive": Param(
            True, type="boolean", description="archive first what the spine needs; off: refuse it"
        ),
    },
    default_args=DEFAULTS,
):
    # a wrong spine stays wrong: what failed is not tried again, and what was killed is
    TrainingSetJob(
        task_id="build",
        retries=2,
        retry_delay=timedelta(seconds=5),
        retry_policy=ExceptionRetryPolicy(
            rules=[RetryRule(exception=Exception, action=RetryAction.FAIL)]
        ),
        execution_timeout=timedelta(hours=12),
        inlets=[CHECKED],
        outlets=[TRAINING_SETS],
    )
