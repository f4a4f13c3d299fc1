"""Runs of train_model: one at a time for a model, by a schedule, or once for an incident."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from croniter import croniter  # type: ignore[import-untyped]  # it brings no types

from slicewise.lifecycle.models.trainings import is_due
from slicewise.local.airflow.api import AirflowApi, DagRun
from slicewise.log import event
from slicewise.models.declared import declared_models
from slicewise.settings import Settings
from slicewise_airflow.commands import JobRefused, run_command

DAG_ID = "train_model"


def require_only(model: str, run_id: str) -> None:
    """Raises JobRefused where an older run trains the model: of two that begin together the later
    one yields."""
    with AirflowApi(Settings.load().airflow_url) as api:
        runs = _of_model(api, model)  # the newest first
    ids = [run.run_id for run in runs]
    older = runs[ids.index(run_id) + 1 :] if run_id in ids else runs
    if other := next((run for run in older if not run.over), None):
        raise JobRefused(
            f"another run trains {model}",
            where=other.run_id,
            expected="one run for a model at a time",
            next_step="wait for it, or answer what it waits for under Required Actions",
        )


def dispatch(now: datetime) -> list[str]:
    """Triggers a run for each model that is due by its schedule; the models."""
    settings = Settings.load()
    if not settings.models.exists():
        return []
    schedules = {
        name: model.training.schedule
        for name, model in declared_models(settings).items()
        if model.training is not None and model.training.schedule
    }
    if not schedules:
        return []
    trained, begun = _trained(run_command("models", "--json")), []
    with AirflowApi(settings.airflow_url) as api:
        for name, schedule in sorted(schedules.items()):
            runs, fired = _of_model(api, name), fired_at(schedule, now)
            newest = _instant(runs[0].queued_at) if runs else None
            if all(run.over for run in runs) and is_due(fired, trained.get(name), newest):
                conf = {"model": name, "reason": f"schedule {schedule}"}
                # named after the instant: a dispatch that is tried again triggers it once
                run_id = _name("schedule", f"{name} {schedule}", fired)
                run = api.trigger(DAG_ID, conf=conf, run_id=run_id)
                event("training_due", model=name, schedule=schedule, run=run.run_id)
                begun.append(name)
    return begun


def retrain(settings: Settings, model: str, cause: str, opened_us: int) -> bool:
    """Triggers a run for an incident, once however often it is called. Tells whether there is one;
    while another run trains the model there is none yet."""
    opened = datetime.fromtimestamp(opened_us / 1e6, UTC)
    run_id = _name("incident", f"{cause} {opened_us}", opened)
    with AirflowApi(settings.airflow_url) as api:
        runs = _of_model(api, model)
        if any(run.run_id == run_id for run in runs):
            return True
        if not all(run.over for run in runs):
            return False
        run = api.trigger(DAG_ID, conf={"model": model, "reason": cause}, run_id=run_id)
    event("retraining", model=model, cause=cause, run=run.run_id)
    return True


def fired_at(schedule: str, now: datetime) -> datetime:
    """The last instant of a schedule that is not after `now`, in UTC."""
    # the library gives the last one before an instant
    after = now.astimezone(UTC) + timedelta(seconds=1)
    fired: datetime = croniter(schedule, after).get_prev(datetime)
    return fired


def _of_model(api: AirflowApi, model: str) -> list[DagRun]:
    """Runs that were triggered for a model, the newest first."""
    runs = api.runs(DAG_ID, run_type="manual")
    return [run for run in runs if str(run.conf.get("model") or "").strip() == model]


def _trained(report: Mapping[str, Any]) -> dict[str, datetime]:
    """Model -> when its newest version was trained, of those that have one."""
    versions = {
        one["model"]: [version for version in one["versions"] if "damaged" not in version]
        for one in report["models"]
    }
    return {
        name: max(datetime.fromisoformat(one["trained_at"]) for one in of)
        for name, of in versions.items()
        if of
    }


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _name(kind: str, of: str, at: datetime) -> str:
    return f"{kind}__{at:%Y-%m-%dT%H:%M:%S}__{sha256(of.encode()).hexdigest()[:12]}"
