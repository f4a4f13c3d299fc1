"""### Judge the events of an hour, and the values of features at its end

After each compaction: Great Expectations judges the hour that was compacted, in Spark, where the
archive lies. With it those of the day before that have events, and that nobody has judged; another
one is judged by a run with the param `hour`. Of each source: its columns, nulls, ranges and
categories, the share of bad records, the lateness, and the volume beside the hours before. Of each
view: nulls and ranges of its features, and the distance of their distributions from those of the
same hour of the day before.
Definitions add expectations with `expect=[…]`, and so do suite files in the project's folder
`expectations`. `slicewise expectations` lists all of them.

Severities are alerts': critical fails the run and pages, warning opens an incident of the source's
or the view's owner, info is kept alone. Results are rows of `ops.checks`, and pages at
`/slicewise/data-docs/`.

Nothing waits for this DAG: it says whether events are as they should be, while `check_consistency`
says whether answers are right.

Runbook: [a critical expectation is not met](docs/runbook.md#a-critical-expectation-is-not-met),
[an expectation is not met](docs/runbook.md#an-expectation-is-not-met),
[expectations could not be judged](docs/runbook.md#expectations-could-not-be-judged)
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param, PartitionedAssetTimetable
from slicewise_airflow.alerts import DEFAULTS, over_within
from slicewise_airflow.assets import COMPACTED, newest
from slicewise_airflow.expect import ExpectJob
from slicewise_airflow.pages.docs import page_of

with DAG(
    dag_id="check_expectations",
    description="After each compaction: judges the hour's events, and features' values at its end, by what definitions expect",
    doc_md=page_of(__doc__),
    schedule=PartitionedAssetTimetable(assets=COMPACTED),
    catchup=False,
    max_active_runs=1,
    deadline=over_within(timedelta(hours=2)),
    tags=["slicewise", "checks"],
    params={
        "hour": Param(
            None,
            type=["null", "string"],
            pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}(:00(:00)?)?(Z|\+00:00)?$",
            description="hour in UTC, as 2026-11-21T08; by default the one that was compacted",
        ),
        "sample": Param(2000, type="integer", minimum=1, description="entities per view"),
    },
    default_args=DEFAULTS,
):
    # never retried: the same hour is judged alike
    newest() >> ExpectJob(task_id="expect", retries=0, execution_timeout=timedelta(minutes=50))
