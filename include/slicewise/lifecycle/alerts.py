"""A failure is told once, in one shape, with the page that says what to do; where to is configuration.

The log event is always written. Further channels are those that the environment names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["webhook", "slack", "smtp", "pagerduty"]
Quiet = Literal["tail", "probes", "records"]
"""What is told though no task failed."""

RUNBOOK = "docs/runbook.md"
ANCHORS: Mapping[str, str] = {
    "ingest_stream": "the-stream-is-not-well",
    "stop_stream": "the-stream-does-not-stop",
    "compact_slices": "compaction-fails",
    "backfill_view": "a-view-stays-in-building",
    "maintain_iceberg": "maintenance-fails",
    "sweep_expired": "the-sweep-finds-keys",
    "check_consistency": "the-check-is-red",
    "build_training_set": "a-training-set-fails",
}


@dataclass(frozen=True)
class Alert:
    """A task that failed, a run that missed its deadline, a tail that no longer brings events, answers that lack
    what was produced a while ago, or records of which many are bad."""

    event: Literal["task_failed", "deadline_missed", "tail_lost", "answers_late", "records_bad"]
    dag: str
    task: str
    """Empty where a whole run is meant."""
    run: str
    error: str
    runbook: str
    url: str

    def text(self) -> str:
        """One line for people and for chat."""
        what = f"{self.dag}.{self.task}" if self.task else self.dag
        return f"slicewise {self.event}: {what} ({self.run}): {self.error}. Runbook: {self.runbook}"

    def fields(self) -> dict[str, str]:
        """For logs and webhooks: names and values."""
        return {
            "event": self.event,
            "dag": self.dag,
            "task": self.task,
            "run": self.run,
            "error": self.error,
            "runbook": self.runbook,
            "url": self.url,
        }


@dataclass(frozen=True)
class Channel:
    """Somewhere an alert goes besides the log: a URL, an Airflow connection, or addresses."""

    kind: Kind
    target: str


_VARIABLES: tuple[tuple[str, Kind], ...] = (
    ("SLICEWISE_ALERT_WEBHOOK", "webhook"),
    ("SLICEWISE_ALERT_SLACK_CONN", "slack"),
    ("SLICEWISE_ALERT_SMTP_TO", "smtp"),
    ("SLICEWISE_ALERT_PAGERDUTY_CONN", "pagerduty"),
)


def channels(env: Mapping[str, str]) -> tuple[Channel, ...]:
    """The channels that the environment configures, in a fixed order."""
    return tuple(Channel(kind, env[name]) for name, kind in _VARIABLES if env.get(name))


_QUIET: Mapping[str, str] = {
    "tail": "the-tail-is-lost",
    "probes": "answers-are-not-fresh",
    "records": "many-records-are-bad",
}
_EVENTS: Mapping[Quiet, Literal["tail_lost", "answers_late", "records_bad"]] = {
    "tail": "tail_lost",
    "probes": "answers_late",
    "records": "records_bad",
}


def aging_kind(reasons: Sequence[str]) -> Quiet:
    """Which section helps where answers are right, and old: the tail's as soon as anything of that is wrong."""
    return "tail" if any(reason.startswith("tail: ") for reason in reasons) else "probes"


def quiet_event(kind: Quiet) -> Literal["tail_lost", "answers_late", "records_bad"]:
    """The name of the alert."""
    return _EVENTS[kind]


def runbook_link(dag: str, base: str = "") -> str:
    """The runbook's section for a DAG (or "tail", "probes" and "records", whose alerts fail none); base is where the
    repository can be read, if anywhere."""
    page = f"{base.rstrip('/')}/{RUNBOOK}" if base else RUNBOOK
    anchor = _QUIET.get(dag) or ANCHORS.get(dag)
    return f"{page}#{anchor}" if anchor else page


def alert(dag: str, task: str, run: str, error: object, *, url: str = "", runbook_base: str = "") -> Alert:
    """An alert for a failed task. Of an error only its first line is told: the log has the rest."""
    first = (str(error) if error is not None else "").strip().splitlines()
    return Alert(
        event="task_failed",
        dag=dag,
        task=task,
        run=run,
        error=(first[0] if first else "no error was recorded")[:300],
        runbook=runbook_link(dag, runbook_base),
        url=url,
    )


def deadline_alert(dag: str, run: str, deadline: str, *, runbook_base: str = "") -> Alert:
    """An alert for a run that is not over by its deadline: it may still end well."""
    return Alert(
        event="deadline_missed",
        dag=dag,
        task="",
        run=run,
        error=f"not over by {deadline}",
        runbook=runbook_link(dag, runbook_base),
        url="",
    )
