"""Every DAG file loads quickly, yields its one DAG, and pulls nothing heavy into the parser."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import CronPartitionTimetable, PartitionedAssetTimetable, RetryAction
from airflow.sdk._shared.module_loading import import_string
from airflow.sdk.exceptions import ParamValidationError
from slicewise_airflow import alerts, assets

from slicewise.errors import SettingsError
from slicewise.lifecycle.findings import DAGS, EVERY_S
from slicewise.lifecycle.health.overview import JOBS
from slicewise.lifecycle.jobs import SPARK_POOL
from slicewise.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "dags").glob("*.py"))
EXPECTED = {
    "backfill_view",
    "backtest_model",
    "build_training_set",
    "check_consistency",
    "check_expectations",
    "check_open_hour",
    "compact_slices",
    "drain_stream",
    "ingest_stream",
    "maintain_iceberg",
    "promote_view",
    "restart_stream",
    "stop_stream",
    "sweep_expired",
    "take_snapshots",
    "train_model",
}
HEAVY = [
    "pyspark",
    "pyarrow",
    "numpy",
    "pandas",
    "redis",
    "hiredis",
    "great_expectations",
    "pyiceberg",
    "duckdb",
]
# What the parser has loaded anyway (Airflow, the Spark provider) is not the DAG file's own cost.
MEASURE = """
import importlib.util, json, sys, time
import airflow.sdk, airflow.providers.apache.spark.operators.spark_submit, airflow.providers.standard.decorators.python
import airflow.sdk.definitions.decorators
seconds = {}
for path in sys.argv[1:]:
    begun = time.process_time()
    spec = importlib.util.spec_from_file_location("dag_under_test", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    seconds[path] = time.process_time() - begun
print("RESULT " + json.dumps({"seconds": seconds, "modules": sorted(sys.modules)}))
"""


@pytest.fixture(scope="module")
def bag() -> DagBag:
    return DagBag(ROOT / "dags")


def test_every_file_loads(bag: DagBag) -> None:
    assert bag.import_errors == {}


def test_each_file_yields_the_one_dag_that_it_is_named_after(bag: DagBag) -> None:
    by_file: dict[str, list[str]] = {}
    for dag_id, dag in bag.dags.items():
        by_file.setdefault(Path(dag.fileloc).stem, []).append(dag_id)
    assert by_file == {name: [name] for name in EXPECTED}
    assert {path.stem for path in FILES} == EXPECTED


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, float] | list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, FILES)],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    document: dict[str, dict[str, float] | list[str]] = json.loads(line.removeprefix("RESULT "))
    return document


def test_a_dag_file_takes_little_time_to_parse(measured: dict[str, dict[str, float]]) -> None:
    slow = {Path(path).stem: f"{s:.2f} s" for path, s in measured["seconds"].items() if s > 0.5}
    assert not slow, f"CPU seconds above 0.5: {slow}"


def test_parsing_loads_nothing_heavy(measured: dict[str, list[str]]) -> None:
    assert not set(HEAVY) & set(measured["modules"])


def test_every_task_pages_when_it_fails(bag: DagBag) -> None:
    silent = [
        f"{dag.dag_id}.{task.task_id}"
        for dag in bag.dags.values()
        for task in dag.tasks
        if not task.on_failure_callback
    ]
    assert not silent


def test_a_task_that_succeeds_ends_what_it_failed_for(bag: DagBag) -> None:
    tasks = [task for dag in bag.dags.values() for task in dag.tasks]
    # of a mapped task it is not a list yet
    assert all(task.on_success_callback in ([alerts.settle], alerts.settle) for task in tasks)


def test_every_dag_explains_itself_and_links_its_runbook_section(bag: DagBag) -> None:
    bare = [dag.dag_id for dag in bag.dags.values() if "docs/runbook.md#" not in (dag.doc_md or "")]
    assert not bare


def test_every_link_of_a_dag_is_absolute(bag: DagBag) -> None:
    links = [
        link for dag in bag.dags.values() for link in re.findall(r"\]\(([^)]*)\)", dag.doc_md or "")
    ]
    assert len(links) >= len(EXPECTED)
    root = f"{Settings.load().airflow_url}/slicewise/docs/runbook.md#"
    assert not [link for link in links if not link.startswith(root)]


def test_every_dag_says_in_a_line_what_it_does(bag: DagBag) -> None:
    assert not [dag.dag_id for dag in bag.dags.values() if not dag.description]
    assert len({dag.description for dag in bag.dags.values()}) == len(EXPECTED)


def test_compaction_runs_by_the_hour_one_at_a_time(bag: DagBag) -> None:
    dag = bag.dags["compact_slices"]
    assert isinstance(dag.timetable, CronPartitionTimetable)
    assert dag.max_active_runs == 1
    assert dag.get_task("compact").max_active_tis_per_dag == 1
    assert dag.max_active_tasks == 2, "the hours of a run leave workers to other DAGs"


def test_spark_jobs_alone_wait_for_their_pool(bag: DagBag) -> None:
    tasks = [task for dag in bag.dags.values() for task in dag.tasks]
    pooled = {f"{task.dag_id}.{task.task_id}" for task in tasks if task.pool == SPARK_POOL}
    assert pooled == {
        "backfill_view.backfill",
        "check_consistency.check",
        "check_consistency.check_again",
        "check_consistency.recompute",
        "check_expectations.expect",
        "compact_slices.compact",
        "maintain_iceberg.maintain",
    }
    assert {task.pool for task in tasks} == {SPARK_POOL, "default_pool"}


def test_every_task_that_is_tried_again_is_so_by_the_kind_of_its_error(bag: DagBag) -> None:
    tasks = [task for dag in bag.dags.values() for task in dag.tasks if task.retries]
    assert len(tasks) > 10
    wrong = SettingsError("a setting is wrong")
    for task in tasks:
        decision = task.retry_policy.evaluate(wrong, 1, task.retries)
        assert decision.action is RetryAction.FAIL, f"{task.dag_id}.{task.task_id}"


def test_expectations_follow_a_compaction_and_nothing_waits_for_them(bag: DagBag) -> None:
    dag = bag.dags["check_expectations"]
    assert dag.timetable.asset_condition == assets.COMPACTED
    assert not [task.task_id for task in dag.tasks if task.outlets]
    assert dag.get_task("expect").retries == 0


def test_a_red_check_is_never_retried_into_green(bag: DagBag) -> None:
    dag = bag.dags["check_consistency"]
    assert [dag.get_task(name).retries for name in ("check", "check_again")] == [0, 0]


def test_a_check_runs_because_of_a_compaction_and_only_green_opens_the_gate(bag: DagBag) -> None:
    compact, check = bag.dags["compact_slices"], bag.dags["check_consistency"]
    assert compact.get_task("announce").outlets == [assets.HOURS, assets.COMPACTED]
    assert isinstance(check.timetable, PartitionedAssetTimetable)
    assert check.timetable.asset_condition == assets.COMPACTED
    gate = check.get_task("gate")
    assert (gate.outlets, gate.trigger_rule) == ([assets.CHECKED], "one_success")
    assert gate.upstream_task_ids == {"check", "check_again"}
    assert check.get_task("recompute").upstream_task_ids == {"check"}
    assert check.get_task("recompute").trigger_rule == "one_failed"
    assert not [task.task_id for task in check.tasks if task.outlets and task is not gate]
    build = bag.dags["build_training_set"].get_task("build")
    assert (build.inlets, build.outlets) == ([assets.CHECKED], [assets.TRAINING_SETS])
    assert bag.dags["backfill_view"].get_task("backfill").outlets == [assets.VIEWS]


def test_a_continuous_dag_has_a_start_so_that_its_second_run_is_made(bag: DagBag) -> None:
    assert bag.dags["ingest_stream"].start_date is not None
    assert bag.dags["ingest_stream"].max_active_runs == 1


def test_jobs_are_overdue_by_the_schedules_that_their_dags_have(bag: DagBag) -> None:
    every_s = {
        "0 * * * *": 3_600,
        "15 */6 * * *": 21_600,
        "40 3 * * *": 86_400,
    }
    by_clock = {job: "compact" if job in ("check", "expect") else job for job in EVERY_S}
    schedules = {job: bag.dags[DAGS[by]].timetable.expression for job, by in by_clock.items()}
    assert {job: every_s[schedule] for job, schedule in schedules.items()} == EVERY_S
    assert set(DAGS.values()) <= set(bag.dags)
    assert set(DAGS) == set(JOBS)


def test_what_runs_by_the_clock_has_a_deadline_that_its_triggerer_can_call(bag: DagBag) -> None:
    scheduled = {
        "check_consistency",
        "check_expectations",
        "check_open_hour",
        "compact_slices",
        "maintain_iceberg",
        "sweep_expired",
        "take_snapshots",
        "train_model",
    }
    for name in scheduled:
        [deadline] = bag.dags[name].deadline
        assert import_string(deadline.callback.path) is alerts.page_deadline
    assert not any(dag.deadline for name, dag in bag.dags.items() if name not in scheduled)


def test_every_dag_has_tags_and_every_task_an_owner_and_a_timeout(bag: DagBag) -> None:
    assert not [dag.dag_id for dag in bag.dags.values() if "slicewise" not in dag.tags]
    tasks = {
        f"{dag.dag_id}.{task.task_id}": task for dag in bag.dags.values() for task in dag.tasks
    }
    assert {task.owner for task in tasks.values()} == {"slicewise"}
    endless = {name for name, task in tasks.items() if task.execution_timeout is None}
    # their triggers have deadlines of their own
    assert endless == {"ingest_stream.watch", "promote_view.approve", "train_model.approve"}
    for name in ("promote_view.approve", "train_model.approve"):
        assert tasks[name].response_timeout == timedelta(days=1)


def test_what_a_person_alone_triggers_is_never_left_paused(bag: DagBag) -> None:
    by_hand = {dag.dag_id: dag for dag in bag.dags.values() if dag.schedule is None}
    assert set(by_hand) == {
        "backtest_model",
        "build_training_set",
        "drain_stream",
        "promote_view",
        "restart_stream",
        "stop_stream",
    }
    assert not [name for name, dag in by_hand.items() if dag.is_paused_upon_creation is not False]


def test_every_param_has_a_schema_and_says_what_it_is(bag: DagBag) -> None:
    params = {
        f"{dag.dag_id}.{name}": dag.params.get_param(name)
        for dag in bag.dags.values()
        for name in dag.params
    }
    assert not [name for name, param in params.items() if "type" not in param.schema]
    assert not [name for name, param in params.items() if not param.description]
    required = {
        name
        for name, param in params.items()
        if not param.has_value and "null" not in param.schema["type"]
    }
    assert required == {
        *(f"build_training_set.{name}" for name in ("spine", "features", "out")),
        "backtest_model.model",
        "promote_view.version",
    }


def test_a_required_param_that_is_empty_is_refused_before_the_run(bag: DagBag) -> None:
    spine = bag.dags["build_training_set"].params.get_param("spine")
    for wrong in ("", 7, None):
        with pytest.raises(ParamValidationError):
            spine.resolve(wrong)
    assert spine.resolve("{{ ds }}.parquet") == "{{ ds }}.parquet"
