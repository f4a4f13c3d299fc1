"""A run trains a version, judges it beside the live one, and decides whether it goes live.

What it did stands in the description of its page, step by step: a step that is tried again writes
its own part again.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from slicewise.lifecycle.models.backtests import Backtested, page_name
from slicewise.lifecycle.models.decision import APPROVAL, Candidate, Decision, decided
from slicewise.lifecycle.models.trainings import (
    Span,
    judging_run,
    promote_arguments,
    train_arguments,
)
from slicewise.local import run_pages
from slicewise.log import event
from slicewise.models.declared import Training, declared_models, named_model
from slicewise.settings import Settings
from slicewise.windows.durations import parse_duration
from slicewise_airflow.commands import JobRefused, run_command
from slicewise_airflow.models.backtesting import judged
from slicewise_airflow.models.runs import dispatch, require_only
from slicewise_airflow.notes import leave
from slicewise_airflow.spark import run_of


def begun(context: Any) -> bool:
    """Tells whether the run trains a model itself; one of the clock triggers those that are due."""
    model = _model(context)
    if not model:
        due = dispatch(datetime.now(UTC))
        leave(context, f"Due: {', '.join(due)}." if due else "No model is due.")
        return False
    _training(model)
    require_only(model, str(context["dag_run"].run_id))
    return True


def trained(context: Any) -> dict[str, Any]:
    """Trains the next version; its report, and the version that is live."""
    model = _model(context)
    report: Any = run_command("train", *train_arguments(model, _span(context)))
    listed: Any = run_command("models", model, "--json")
    live = str(listed["models"][0]["live"] or "")
    versions: list[dict[str, Any]] = listed["models"][0]["versions"]
    of_live = [one.get("measures", {}) for one in versions if one["live"]]  # none if it is damaged
    _describe(
        context,
        run=str(context["dag_run"].run_id),
        reason=str(context["params"].get("reason") or ""),
        model=report["model"],
        live=live,
        rows=report["rows"],
        sha256=report["sha256"],
        measures=report["measures"],
        measures_of_live=of_live[0] if of_live else {},
        measured_by="training",
        **run_pages.NOT_DECIDED,  # a run that is cleared begins its page anew
    )
    text = f"**{report['model']}** was trained on {report['rows']:,} rows."
    leave(context, f"{text}\n\n[Its page]({page_of(context)})")
    return {**report, "live": live}


def compared(context: Any) -> dict[str, Any]:
    """Judges the version beside the live one; its report. There is none where no other is live."""
    made = context["ti"].xcom_pull(task_ids="train")
    version, live = str(made["model"]), str(made["live"])
    if not live or live == version:
        leave(context, "There is no other version to judge it beside.")
        return {"report": None}
    try:
        run = judging_run(run_of(context), _span(context), version, live)
        report = judged(context, run)
    except JobRefused as error:
        if _training(_model(context)).promotion != APPROVAL:
            raise
        # the person who decides is to read why
        leave(context, f"It could not be judged: {error.what[:800]}")
        return {"report": None, "why": error.what}
    values = [(report.get(name) or {}).get("values", {}) for name in ("measures", "measures_of_a")]
    _describe(
        context,
        backtest=report["page"].rpartition("/")[2],
        measures=values[0],
        measures_of_live=values[1],
        measured_by="backtest",
        outcome=Backtested.of(report, "").words.replace("*", ""),
    )
    return {"report": report}


def chosen(context: Any) -> str | None:
    """Decides what becomes of the version; the task that follows, or none."""
    pulled = context["ti"].xcom_pull
    made, backtest = pulled(task_ids="train"), pulled(task_ids="backtest")
    candidate = Candidate(str(made["model"]), str(made["live"]), made["measures"])
    rule = _training(_model(context)).promotion
    decision = decided(rule, candidate, backtest["report"], int(context["params"]["min_rows"]))
    if why := backtest.get("why"):
        decision = Decision(decision.action, (*decision.reasons, f"it could not be judged: {why}"))
    event("version_decided", model=candidate.version, action=decision.action, rule=rule)
    _describe(context, decision=decision.action, reasons=list(decision.reasons))
    context["ti"].xcom_push(
        key="text", value=_text(candidate, decision, backtest["report"], page_of(context))
    )
    leave(context, f"{decision.words[:800]}\n\n[Its page]({page_of(context)})")
    return {"promote": "promote", "ask": "approve", "leave": None}[decision.action]


def promoted(context: Any) -> dict[str, object]:
    """Makes the version the live one, in the name of who approved, or of the rule."""
    made = context["ti"].xcom_pull(task_ids="train")
    answer = context["ti"].xcom_pull(task_ids="approve") or {}
    who = (answer.get("responded_by_user") or {}).get("name")
    rule = _training(_model(context)).promotion
    by = str(who or ("Airflow" if answer else f"rule {rule}"))
    arguments = promote_arguments(str(made["model"]), str(made["live"]), by)
    report = run_command("promote-model", *arguments)
    _describe(context, promoted_by=by)
    leave(context, f"**{made['model']} is live**, by {by}. [Its page]({page_of(context)})")
    return report


def page_of(context: Any) -> str:
    """Address of the run's page."""
    return f"/slicewise/reports/trainings/{_name(context)}"


def _text(candidate: Candidate, decision: Decision, report: Any, page: str) -> str:
    """Text that a person decides by, in Markdown."""
    live = candidate.live or "no version"
    reasons = [f"- {one}" for one in decision.reasons]
    measured = ["", report["text"]] if report is not None else []
    lines = [f"**{candidate.version}** beside {live}.", "", *reasons, *measured]
    return "\n".join([*lines, "", f"[Both, with pictures]({page})"])


def _model(context: Any) -> str:
    return str(context["params"].get("model") or "").strip()


def _training(name: str) -> Training:
    """Settings by which a model is trained. Raises JobRefused for one that slicewise does not
    train."""
    models = declared_models(Settings.load())
    training = named_model(models, name, "param model").training
    if training is None:
        raise JobRefused(
            f"slicewise does not train model {name!r}",
            where=f"[models.{name}]",
            expected=f"a table [models.{name}.training]",
            next_step="see docs/guides/models.md",
        )
    return training


def _span(context: Any) -> Span:
    matured = _training(_model(context)).matured
    length = timedelta(microseconds=parse_duration(matured)) if matured else timedelta()
    return Span.of(run_of(context), length)


def _name(context: Any) -> str:
    run = context["dag_run"]
    return page_name(str(run.run_id), run.run_after, "training")


def _describe(context: Any, **facts: object) -> None:
    run_pages.trainings(Settings.load()).describe(_name(context), facts)
