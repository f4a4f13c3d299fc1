"""A run trains a version, judges it, and promotes it by its model's rule or by a person."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from slicewise_airflow.commands import JobRefused
from slicewise_airflow.models import runs, training
from slicewise_airflow.reports.routes import add_routes

from slicewise.local.airflow.api import DagRun
from slicewise.settings import MODELS_FILE

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
TRAINED = {"model": "delay@2", "rows": 900, "sha256": "ab", "measures": {"auc": 0.8}}
BACKTEST: dict[str, Any] = {
    "model": "delay@2",
    "beside": "delay@1",
    "requests": 600,
    "measured": 500,
    "measures": {"rows": 500, "values": {"auc": 0.9, "log_loss": 0.3}},
    "measures_of_a": {"rows": 500, "values": {"auc": 0.7, "log_loss": 0.5}},
    "gain": {"difference": -0.2, "within": 0.05, "verdict": "better"},
    "worse_slices": [],
    "leaks": [],
}
COMMANDS = """\
import json, sys
from pathlib import Path

folder = Path(__file__).parent
with (folder / "given").open("a") as file:
    print(*sys.argv[1:], file=file)
given = json.loads((folder / "reports.json").read_text())[sys.argv[1]]
print(json.dumps(given))
sys.exit(0 if given else 1)
"""


class Instance:
    """A task's values, as other tasks pull them."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.pushed: dict[str, Any] = {}

    def xcom_pull(self, *, task_ids: str) -> Any:
        return self.values.get(task_ids)

    def xcom_push(self, *, key: str, value: Any) -> None:
        self.pushed[key] = value


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes a project with a trained model, and a program in place of slicewise.

    The program gives these reports, and writes down its arguments.
    """

    def make(rule: str, live: str | None = "delay@1", **more: object) -> Path:
        (tmp_path / MODELS_FILE).write_text(
            '[models.delay]\nfeatures = ["a:b_1h"]\n[models.delay.training]\ncode = "fit.py:fit"\n'
            'spine = "rows.parquet"\nlabel = "late"\nmatured = "2h"\nschedule = "@daily"\n'
            f'promotion = "{rule}"\n[models.other]\nfeatures = ["a:b_1h"]\nurl = "http://x"\n'
        )
        version: dict[str, Any] = {
            "model": live,
            "live": True,
            "measures": {},
            "trained_at": AT.isoformat(),
        }
        # a version whose manifest is damaged keeps no other back
        damaged = {"model": "delay@7", "live": False, "damaged": "no JSON", "path": "/x"}
        model = {"model": "delay", "live": live, "versions": [version, damaged] if live else []}
        reports = {"train": TRAINED, "models": {"models": [model]}, "backtest": BACKTEST}
        reports |= {"promote-model": {"model": "delay@2", "before": live}, **more}
        (tmp_path / "reports.json").write_text(json.dumps(reports))
        program = tmp_path / "slicewise"
        program.write_text(f"#!{sys.executable}\n{COMMANDS}")
        program.chmod(0o755)
        monkeypatch.setenv("SLICEWISE_PLATFORM_PYTHON", str(tmp_path / "python"))
        monkeypatch.setenv("SLICEWISE_MODELS", str(tmp_path / MODELS_FILE))
        return tmp_path / "given"

    return make


def context(instance: Instance | None = None, **params: object) -> dict[str, Any]:
    run = SimpleNamespace(
        dag_id="train_model", run_id="r", run_type="manual", partition_key=None, run_after=AT
    )
    given = {"model": "delay", "hours": 24, "min_rows": 200, "reason": "monitor.labels"}
    return {"dag_run": run, "params": given | params, "ti": instance or Instance()}


def until_decided(instance: Instance) -> str | None:
    """Runs a run's tasks up to its decision; the task that follows."""
    of = context(instance)
    instance.values["train"] = training.trained(of)
    instance.values["backtest"] = training.compared(of)
    return training.chosen(of)


def page() -> str:
    app = FastAPI()
    add_routes(app, (), ())
    client = TestClient(app)
    [name] = {
        line for line in client.get("/reports/trainings/").text.split('"') if "training-" in line
    }
    shown = client.get(f"/reports/trainings/{name}")
    assert shown.status_code == 200
    text: str = shown.text
    return text


def test_a_version_that_is_better_goes_live_by_its_rule(platform: Callable[..., Path]) -> None:
    given, instance = platform("better"), Instance()
    assert until_decided(instance) == "promote"
    training.promoted(context(instance))
    train, _, backtest, promote = given.read_text().splitlines()
    start = "2026-11-20T10:00:00Z"
    assert train == f"train delay --until={start} --json"
    assert backtest.startswith(f"backtest delay@2 --beside=delay@1 --start={start}")
    assert promote == "promote-model delay@2 --by=rule better --instead-of=delay@1 --json"
    text = page()
    assert "delay@2 beside delay@1" in text
    assert text.count("<svg ") == 2
    assert "Promoted by rule better." in text
    assert "because of monitor.labels" in text


def test_a_person_reads_what_was_measured_and_is_named(platform: Callable[..., Path]) -> None:
    given, instance = platform("approval"), Instance()
    assert until_decided(instance) == "approve"
    assert "| area under the ROC curve | 0.9 | 0.7 |" in instance.pushed["text"]
    assert "A person decides" in page()
    instance.values["approve"] = {"responded_by_user": {"name": "ann"}}
    training.promoted(context(instance))
    assert "--by=ann " in given.read_text().splitlines()[-1]
    assert "Promoted by ann." in page()


def test_a_version_with_too_little_measured_is_left_and_its_page_says_why(
    platform: Callable[..., Path],
) -> None:
    platform("no worse", backtest=BACKTEST | {"measured": 20})
    assert until_decided(Instance()) is None
    assert "20 rows are measured, and 200 are wanted" in page()


def test_the_first_version_is_judged_beside_none(platform: Callable[..., Path]) -> None:
    given, instance = platform("better", live=None), Instance()
    assert until_decided(instance) == "promote"
    training.promoted(context(instance))
    commands = given.read_text().splitlines()
    assert not any(line.startswith("backtest") for line in commands)
    assert commands[-1].endswith("--instead-of=none --json")
    assert "delay@2 beside no live version" in page()


def test_a_task_that_is_tried_again_gives_the_same_commands(platform: Callable[..., Path]) -> None:
    given, instance = platform("better"), Instance()
    assert [until_decided(instance) for _ in range(2)] == ["promote", "promote"]
    commands = given.read_text().splitlines()
    assert commands[:3] == commands[3:]


def test_a_page_of_no_training_is_refused() -> None:
    app = FastAPI()
    add_routes(app, (), ())
    for name in ("training-x", "training-20261121T120000Z-000000000000", "..%2Fx"):
        assert TestClient(app).get(f"/reports/trainings/{name}").status_code == 404


class Airflow:
    """Runs of train_model, the newest first, and those that are triggered."""

    def __init__(self, *of: DagRun) -> None:
        self.of, self.triggered = list(of), list[str]()

    def __enter__(self) -> Airflow:
        return self

    def __exit__(self, *_: object) -> None: ...

    def runs(self, _: str, *, run_type: str) -> list[DagRun]:
        return [run for run in self.of if run.run_type == run_type]

    def trigger(self, dag_id: str, *, conf: dict[str, object], run_id: str) -> DagRun:
        run = a_run(run_id, "queued", AT, str(conf["model"]), dag_id)
        self.of.insert(0, run)
        self.triggered.append(run_id)
        return run


def a_run(
    run_id: str, state: str, queued: datetime, model: str = "delay", dag_id: str = "train_model"
) -> DagRun:
    conf = {"model": model}
    return DagRun(dag_id, run_id, "manual", state, None, None, queued.isoformat(), conf)


def test_of_two_runs_of_a_model_the_later_one_yields(
    platform: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform("better")
    newer, own = a_run("n", "running", AT), a_run("r", "running", AT)
    airflow = Airflow(newer, own, a_run("o", "success", AT), a_run("p", "running", AT, "other"))
    monkeypatch.setattr(runs, "AirflowApi", lambda _: airflow)
    assert training.begun(context())
    airflow.of.append(a_run("older", "running", AT))
    with pytest.raises(JobRefused, match="another run trains delay"):
        training.begun(context())


def test_a_model_that_is_not_trained_is_refused(platform: Callable[..., Path]) -> None:
    platform("better")
    with pytest.raises(JobRefused, match="does not train model 'other'"):
        training.begun(context(model="other"))


@pytest.mark.parametrize(
    ("now", "queued", "state", "begun"),
    [
        # delay@1 was trained at noon on the 21st, and its schedule is @daily
        (AT + timedelta(hours=11), None, "success", []),
        (AT + timedelta(hours=12), None, "success", ["delay"]),
        (AT + timedelta(hours=13), AT, "success", ["delay"]),
        (AT + timedelta(hours=13), AT, "running", []),
        (AT + timedelta(hours=13), AT + timedelta(hours=12), "failed", []),
    ],
)
def test_a_run_of_the_clock_triggers_what_is_due_once(
    platform: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    now: datetime,
    queued: datetime | None,
    state: str,
    begun: list[str],
) -> None:
    platform("better")
    airflow = Airflow(*([a_run("o", state, queued)] if queued else []))
    monkeypatch.setattr(runs, "AirflowApi", lambda _: airflow)
    assert runs.dispatch(now) == begun
    assert len(airflow.triggered) == len(begun)
    assert runs.dispatch(now) == [], "it is under way"


def test_without_a_file_of_models_nothing_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_MODELS", str(tmp_path / MODELS_FILE))
    assert runs.dispatch(AT) == []


def test_a_schedule_last_fired_at_its_own_instant_or_before() -> None:
    assert runs.fired_at("@daily", AT) == AT.replace(hour=0)
    assert runs.fired_at("0 12 * * *", AT) == AT
    assert runs.fired_at("0 12 * * *", AT - timedelta(seconds=2)) == AT - timedelta(days=1)
