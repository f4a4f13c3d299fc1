"""Tasks say by Airflow's OpenLineage provider which data sets they read and wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.providers.openlineage.plugins import macros
from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
from airflow.utils.state import TaskInstanceState
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from slicewise_airflow.check import CheckJob
from slicewise_airflow.dataset import TrainingSetJob
from slicewise_airflow.lineage import parent_variables
from slicewise_airflow.spark import SparkJob
from slicewise_airflow.stream import StreamHealth

from slicewise.errors import StoreUnavailable
from slicewise.lifecycle.jobs import backfill_arguments, compact_arguments
from slicewise.stores.online.redis import status
from slicewise.stores.online.redis.status import StoreStatus
from tests.support.platform.receiver import receiving


def unit(view: str, entity: str) -> dict[str, Any]:
    return {
        "view": view,
        "source": "plays",
        "project": "x",
        "entity": [[entity, "string"]],
        "where": None,
        "columns": [],
        "features": [{"column": "n_1h", "aggregate": {"kind": "sum", "column": "n"}}],
        "storage_fingerprint": view,
    }


MANIFEST: dict[str, Any] = {
    "sources": [{"name": "plays", "topic": "plays.v1", "columns": [["n", "long"]]}],
    "units": [unit("users", "user"), unit("songs", "song")],
}
COMPACT = SparkJob(task_id="compact", job="compact", arguments=compact_arguments)
BACKFILL = SparkJob(task_id="backfill", job="backfill", arguments=backfill_arguments)
TRAINING = TrainingSetJob(task_id="build")


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "read_status", lambda _: StoreStatus(0, manifest=MANIFEST))


def lineage(task: Any, **params: object) -> Any:
    """Lineage of a task that has succeeded, as the provider's listener extracts it."""
    run = SimpleNamespace(
        run_type="manual",
        run_id="r",
        partition_key=None,
        run_after=datetime(2026, 11, 21, 9, tzinfo=UTC),
    )
    context = {"dag_run": run, "params": params}
    instance = SimpleNamespace(get_template_context=lambda: context, task_id=task.task_id)
    return ExtractorManager().extract_metadata(run, task, TaskInstanceState.SUCCESS, instance)


def names(datasets: Any) -> list[str]:
    return [dataset.name for dataset in datasets]


@pytest.mark.usefixtures("deployed")
def test_a_task_names_what_its_job_reads_and_writes() -> None:
    compacted = lineage(COMPACT)
    assert names(compacted.inputs) == ["plays.v1"]
    assert names(compacted.outputs) == [
        "log.plays",
        "slices.u_users",
        "slices.u_songs",
        "users",
        "songs",
    ]
    assert names(lineage(StreamHealth(task_id="watch", for_s=1)).outputs) == ["users", "songs"]
    assert names(lineage(CheckJob(task_id="check")).inputs) == ["plays.v1", "users", "songs"]
    assert names(lineage(BACKFILL, view="songs").outputs)[-1:] == ["songs"]
    assert "users" not in names(lineage(BACKFILL, view="songs").outputs)


@pytest.mark.usefixtures("deployed")
def test_a_training_sets_columns_lead_to_its_views_and_to_events() -> None:
    built = lineage(TRAINING, features="users:n_1h", spine="/rows.csv", out="/set.csv")
    (made,) = built.outputs
    fields = made.facets["columnLineage"].fields["users:n_1h"].inputFields
    assert {(one.name, one.field) for one in fields} == {("users", "n_1h"), ("log.plays", "n")}


@pytest.mark.usefixtures("deployed")
def test_the_provider_sends_columns_and_schemas_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = lineage(COMPACT)
    with receiving() as receiver:
        transport = {"type": "http", "url": receiver.url, "timeout": 2, "retry": {"total": 0}}
        monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
        OpenLineageAdapter().emit(
            RunEvent(
                eventType=RunState.COMPLETE,
                eventTime=datetime(2026, 11, 21, 9, tzinfo=UTC).isoformat(),
                run=Run(str(uuid4())),
                job=Job("slicewise", "compact_slices.compact"),
                producer="urn:airflow",
                inputs=made.inputs,
                outputs=made.outputs,
            )
        )
    (sent,) = receiver.posts
    view = sent["outputs"][-1]
    (read,) = view["facets"]["columnLineage"]["fields"]["n_1h"]["inputFields"]
    assert (view["name"], read["name"], read["field"]) == ("songs", "log.plays", "n")
    (topic,) = sent["inputs"]
    assert topic["facets"]["schema"]["fields"][0]["name"] == "n"


def test_a_store_that_is_away_leaves_a_task_without_lineage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(_: str) -> StoreStatus:
        raise StoreUnavailable("away", where="here", next_step="wait")

    monkeypatch.setattr(status, "read_status", away)
    assert not lineage(COMPACT).outputs


def test_a_job_is_given_its_task_as_parent_where_the_provider_is_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named: dict[str, Callable[[object], str]] = {
        "lineage_parent_id": lambda _: "of/dag.task/run",
        "lineage_root_parent_id": lambda _: "of/dag/run",
    }
    for name, macro in named.items():
        monkeypatch.setattr(macros, name, macro)
    assert parent_variables({"ti": object()}) == {}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", '{"type": "console"}')
    assert parent_variables({"ti": object()}) == {
        "OPENLINEAGE_PARENT_ID": "of/dag.task/run",
        "OPENLINEAGE_ROOT_PARENT_ID": "of/dag/run",
    }


@pytest.mark.usefixtures("deployed")
def test_a_check_of_some_views_names_these_alone() -> None:
    read = names(lineage(CheckJob(task_id="check"), views=["songs"]).inputs)
    assert "songs" in read
    assert "users" not in read
