"""States of DAGs are kept beside Airflow too, so that a metadata database made anew has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from slicewise_airflow import api, paused

from slicewise.errors import ServerError
from slicewise.local.airflow.api import AirflowApi
from slicewise.settings import Settings

SCHEDULED = (
    "backfill_view",
    "check_consistency",
    "compact_slices",
    "ingest_stream",
    "maintain_iceberg",
    "sweep_expired",
)


@pytest.fixture
def state() -> Path:
    folder = Settings.load().state_dir
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("dag_id", SCHEDULED)
def test_a_dag_is_made_as_it_was_and_paused_where_nobody_knows(state: Path, dag_id: str) -> None:
    file = Path(__file__).parents[2] / "dags" / f"{dag_id}.py"
    for before, expected in ((None, True), (True, True), (False, False)):
        if before is not None:
            (state / "paused.json").write_text(json.dumps({dag_id: before}))
        (dag,) = DagBag(file, collect_dags=True).dags.values()
        assert dag.is_paused_upon_creation is expected


def test_what_airflow_names_is_kept_beside_what_is_known_of_others(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seen in ({"ingest_stream": False, "compact_slices": False}, {"compact_slices": True}):
        monkeypatch.setattr(AirflowApi, "paused_by_dag", lambda _, seen=seen: seen)
        paused.remember()
    kept = json.loads((state / "paused.json").read_text())
    assert kept == {"ingest_stream": False, "compact_slices": True}
    assert [path.name for path in state.iterdir()] == ["paused.json"]


def test_a_dag_that_was_stopped_on_purpose_is_kept_as_paused_at_once(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AirflowApi, "pause", lambda *_: None)
    monkeypatch.setattr(AirflowApi, "runs", lambda *_, **__: [])
    api.rest("ingest_stream", until_done="ensure_running")
    assert json.loads((state / "paused.json").read_text()) == {"ingest_stream": True}


def test_an_airflow_that_does_not_answer_and_a_torn_file_change_nothing(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: AirflowApi) -> dict[str, bool]:
        raise ServerError("away", where="here", next_step="wait")

    monkeypatch.setattr(AirflowApi, "paused_by_dag", away)
    paused.remember()
    assert not list(state.iterdir())
    (state / "paused.json").write_text('{"ingest_stream": fal')
    assert paused.at_creation("ingest_stream")
