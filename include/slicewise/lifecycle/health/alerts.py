"""A failure is told once, in one shape, with the page that says what to do; where to is
configuration.

The log event is always written. Further channels are those that the environment names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from slicewise.lifecycle.health.judge import Part

Kind = Literal["webhook", "slack", "smtp", "pagerduty"]
Event = Literal[
    "task_failed",
    "deadline_missed",
    "store_not_well",
    "emission_lost",
    "realtime_lost",
    "answers_late",
    "freshness_missed",
    "driver_lost",
    "driver_loops",
    "deployment_undone",
    "driver_well",
    "broker_away",
    "broker_back",
    "stream_lags",
    "stream_caught_up",
    "records_bad",
    "check_red",
    "check_not_made",
    "expectations_critical",
    "expectations_unmet",
    "feature_out_of_bounds",
    "feature_out_of_bounds_critical",
    "incident_over",
    "alert_test",
]
Matter = (
    Part
    | Literal["driver_lost", "driver_loops", "driver_well", "broker_away", "broker_back"]
    | Literal["deployment_undone"]
    | Literal["lagging", "caught_up", "freshness", "overdue"]
    | Literal["records", "check_red", "check_not_made", "over", "alerts"]
    | Literal["expectations_critical", "expectations_warning"]
    | Literal["monitor", "monitor_critical"]
)
"""Matters of an alert that have words and a section of their own."""

Severity = Literal["critical", "warning", "info"]
RANKS: Mapping[Severity, int] = {"info": 0, "warning": 1, "critical": 2}
"""Severity -> how bad it is: critical where answers are wrong, late or not given, or will be soon
without a hand; warning where somebody is to look within a day; info where nothing is to be done."""
OWNER = "slicewise"
"""Owner of what belongs to no view: those who run the platform."""

RUNBOOK = "docs/runbook.md"
ANCHORS: Mapping[str, str] = {
    "ingest_stream": "the-stream-is-not-well",
    "stop_stream": "the-stream-does-not-stop",
    "drain_stream": "the-stream-does-not-stop",
    "restart_stream": "a-driver-is-lost",
    "compact_slices": "compaction-fails",
    "backfill_view": "a-view-stays-in-building",
    "maintain_iceberg": "maintenance-fails",
    "sweep_expired": "the-sweep-finds-keys",
    "check_consistency": "the-check-could-not-be-made",
    "check_expectations": "expectations-could-not-be-judged",
    "check_open_hour": "the-open-hour-was-not-looked-at",
    "build_training_set": "a-training-set-fails",
    "backtest_model": "a-backtest-fails",
    "train_model": "a-model-is-not-trained",
    "promote_view": "a-version-is-not-promoted",
    "take_snapshots": "a-snapshot-is-not-taken",
}


NEXT: Mapping[str, str] = {
    "ingest_stream": "read the task's log, then slicewise status",
    "stop_stream": "see which driver is left: slicewise status",
    "drain_stream": "see what is behind: slicewise status; then run it again",
    "restart_stream": "see which driver is not up: slicewise status; then run it again",
    "compact_slices": "read the task's log; the next run goes on with the same hours",
    "backfill_view": "see what the view waits for: slicewise status; then clear the task",
    "maintain_iceberg": "read the task's log; nothing is lost while it does not run",
    "sweep_expired": "read the task's log; keys without an expiry stay meanwhile",
    "check_consistency": "read the task's log, then trigger the check again",
    "check_expectations": "read the task's log, then trigger it again with the hour",
    "check_open_hour": "read the task's log; the hour is checked after its compaction anyway",
    "build_training_set": "mend what the error names, then trigger it again",
    "backtest_model": "mend what the error names, then trigger it again; nothing was changed",
    "train_model": "mend what the error names, then clear the task; the live version stays",
    "promote_view": "mend what the error names, then trigger it again; nothing was promoted",
    "take_snapshots": "mend what the error names; the next run takes what was missed",
}
"""DAG -> what to do first about a task of it that failed."""
_CRITICAL_DAGS = ("ingest_stream",)
BY_HAND = (
    "backtest_model",
    "build_training_set",
    "drain_stream",
    "promote_view",
    "restart_stream",
    "stop_stream",
)
"""DAGs of which each run was wanted by itself, so that each that fails is told."""
BY_MODEL = ("train_model",)
"""DAGs whose runs are each about a model, so that a model's failures are an incident."""


@dataclass(frozen=True)
class _Words:
    event: Event
    anchor: str
    message: str
    """Fault in words, before the reasons."""
    severity: Severity
    next_step: str
    """Step that whoever is paged takes first."""


MATTERS: Mapping[Matter, _Words] = {
    "stream": _Words(
        "task_failed",
        "the-stream-is-not-well",
        "the stream is not well",
        "critical",
        "see which source and why: slicewise status; then read its driver's log",
    ),
    "store": _Words(
        "store_not_well",
        "the-store-is-not-well",
        "the store is not well",
        "critical",
        "see whether it answers: slicewise status; slicewise up starts one that is down",
    ),
    "emission": _Words(
        "emission_lost",
        "nothing-is-published",
        "nothing is published",
        "critical",
        "read the emission's log, then slicewise stream ensure",
    ),
    "tail": _Words(
        "realtime_lost",
        "the-real-time-lane-is-lost",
        "answers are right, and older than with the real-time lane",
        "warning",
        "read the real-time lane's log, then slicewise stream ensure",
    ),
    "probes": _Words(
        "answers_late",
        "answers-are-not-fresh",
        "answers are right, and not known to be fresh",
        "warning",
        "see which lane is behind: slicewise status",
    ),
    "driver_lost": _Words(
        "driver_lost",
        "a-driver-is-lost",
        "a driver is lost",
        "warning",
        "wait for the word that it is over; read the driver's log if none comes",
    ),
    "driver_loops": _Words(
        "driver_loops",
        "a-driver-ends-again-and-again",
        "a driver ends again and again",
        "critical",
        "read the driver's log: what it says last is the reason",
    ),
    "deployment_undone": _Words(
        "deployment_undone",
        "a-deployment-is-undone",
        "a deployment was undone",
        "critical",
        "mend the definition that the reason is about, then slicewise apply",
    ),
    "driver_well": _Words(
        "driver_well", "a-driver-is-well-again", "a driver is well again", "info", ""
    ),
    "broker_away": _Words(
        "broker_away",
        "the-broker-is-away",
        "no broker answers",
        "critical",
        "bring the broker back; drivers go on by themselves",
    ),
    "broker_back": _Words("broker_back", "the-broker-is-back", "the broker is back", "info", ""),
    "lagging": _Words(
        "stream_lags",
        "the-stream-falls-behind",
        "the stream falls behind",
        "warning",
        "see what slows it: slicewise status, then the section of the runbook",
    ),
    "caught_up": _Words(
        "stream_caught_up", "the-stream-caught-up", "the stream has caught up", "info", ""
    ),
    "freshness": _Words(
        "freshness_missed",
        "a-deadline-of-freshness-is-missed",
        "answers are older than agreed",
        "critical",
        "see which lane is behind, and why: slicewise status",
    ),
    "overdue": _Words(
        "deadline_missed",
        "a-job-is-overdue",
        "a job is overdue",
        "warning",
        "see whether its DAG is paused, and whether a run of it is under way",
    ),
    "records": _Words(
        "records_bad",
        "many-records-are-bad",
        "many records are bad",
        "warning",
        "see the kept records and their reasons, then speak with who produces them",
    ),
    "check_red": _Words(
        "check_red",
        "the-check-is-red",
        "the check is red",
        "critical",
        "see whether the second check is green: hours are recomputed; else read its report",
    ),
    "check_not_made": _Words(
        "check_not_made",
        "the-check-could-not-be-made",
        "the check could not be made",
        "warning",
        "remove the reason, then trigger the check again",
    ),
    "expectations_critical": _Words(
        "expectations_critical",
        "a-critical-expectation-is-not-met",
        "critical expectations are not met",
        "critical",
        "see the data docs, then speak with who produces the events",
    ),
    "expectations_warning": _Words(
        "expectations_unmet",
        "an-expectation-is-not-met",
        "expectations are not met",
        "warning",
        "see the data docs within a day",
    ),
    "monitor": _Words(
        "feature_out_of_bounds",
        "a-feature-is-out-of-its-bounds",
        "a feature is out of its bounds",
        "warning",
        "look at the model or the source that it is about: slicewise monitors",
    ),
    "monitor_critical": _Words(
        "feature_out_of_bounds_critical",
        "a-critical-feature-is-out-of-its-bounds",
        "a critical feature is out of its bounds",
        "critical",
        "look at the model or the source that it is about: slicewise monitors",
    ),
    "over": _Words("incident_over", "an-incident-is-over", "it is over", "info", ""),
    "alerts": _Words("alert_test", "alerts-and-where-they-go", "nothing is wrong", "info", ""),
}
_OVER: tuple[Event, ...] = ("driver_well", "broker_back", "stream_caught_up", "incident_over")
_OVER_OF: Mapping[str, Matter] = {
    "driver": "driver_well",
    "broker": "broker_back",
    "lag": "caught_up",
}
"""First part of a cause -> the word that says it is over, whoever saw that first."""
_FULL = "No space left on device"
"""Words of an operating system, and of a JVM, about a full disk."""
_LONGEST_REASON, _LONGEST = 300, 900
"""Lengths of one reason, and of all; chat and pagers cut what is longer."""


@dataclass(frozen=True)
class Alert:
    """A task that failed, a run that missed its deadline, or one matter that somebody is to look
    at."""

    event: Event
    dag: str
    task: str
    """Empty where a whole run is meant."""
    run: str
    error: str
    runbook: str
    url: str
    cause: str = ""
    """Cause that several alerts have in common: the first tells it, the last that it is over."""
    severity: Severity = "warning"
    owner: str = OWNER
    """Owner of the view or the source that it is about, else those who run the platform."""
    attempts: str = ""
    """Attempts before anybody was paged, in words; empty where there were none."""
    next_step: str = ""
    """Step that whoever is paged takes first."""

    def text(self) -> str:
        """One line for people and for chat."""
        attempts = f" Tried: {self.attempts}." if self.attempts else ""
        first = f" Next: {self.next_step}." if self.next_step else ""
        severity = "" if self.severity == "info" else f"{self.severity} "
        return (
            f"slicewise {severity}{self.event}: {self.what} ({self.run}): {self.error}.{attempts}{first} "
            f"Runbook: {self.runbook}"
        )

    @property
    def what(self) -> str:
        """The task, or the DAG of a run."""
        return f"{self.dag}.{self.task}" if self.task else self.dag

    @property
    def subject(self) -> str:
        """A mail's."""
        return f"slicewise {self.event}: {self.dag}"

    @property
    def key(self) -> str:
        """The text by which alerts are one incident: their cause, else the task."""
        return self.cause or self.what

    @property
    def over(self) -> bool:
        """Tells whether it says that its cause is over."""
        return self.event in _OVER

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
            "cause": self.cause,
            "key": self.key,
            "state": "over" if self.over else "open",
            "severity": self.severity,
            "owner": self.owner,
            "attempts": self.attempts,
            "next_step": self.next_step,
        }


@dataclass(frozen=True)
class Channel:
    """Somewhere an alert goes besides the log: a URL, an Airflow connection, or addresses."""

    kind: Kind
    target: str

    @property
    def variable(self) -> str:
        """The environment's variable that names it."""
        return next(name for name, kind in VARIABLES if kind == self.kind)


@dataclass(frozen=True)
class Delivery:
    """Result of an alert on one channel."""

    kind: str
    variable: str
    delivered: bool
    said: str
    """Reply that came back, or why it was not delivered."""

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)


VARIABLES: tuple[tuple[str, Kind], ...] = (
    ("SLICEWISE_ALERT_WEBHOOK", "webhook"),
    ("SLICEWISE_ALERT_SLACK_CONN", "slack"),
    ("SLICEWISE_ALERT_SMTP_TO", "smtp"),
    ("SLICEWISE_ALERT_PAGERDUTY_CONN", "pagerduty"),
)


def channels(env: Mapping[str, str]) -> tuple[Channel, ...]:
    """The channels that the environment configures, in a fixed order."""
    return tuple(Channel(kind, env[name]) for name, kind in VARIABLES if env.get(name))


def runbook_link(about: str, base: str = "") -> str:
    """The runbook's section for a DAG or a matter; base: the address below which docs/ can be read,
    if any."""
    page = f"{base.rstrip('/')}/{RUNBOOK}" if base else RUNBOOK
    words = next((words for matter, words in MATTERS.items() if matter == about), None)
    anchor = words.anchor if words else ANCHORS.get(about)
    return f"{page}#{anchor}" if anchor else page


def matter_alert(
    matter: Matter,
    dag: str,
    task: str,
    run: str,
    reasons: Sequence[str],
    *,
    url: str = "",
    runbook_base: str = "",
    cause: str = "",
    owner: str = OWNER,
) -> Alert:
    """An alert of one matter with all of its reasons, each by its first line. cause: of its
    incident; the matter itself where it is left out."""
    words = MATTERS[matter]
    error = "; ".join(_first_lines(reasons))
    return Alert(
        event=words.event,
        dag=dag,
        task=task,
        run=run,
        error=f"{words.message}: {error}" if error else words.message,
        runbook=runbook_link(matter, runbook_base),
        url=url,
        cause=cause or matter,
        severity=words.severity,
        owner=owner,
        next_step=words.next_step,
    )


def _first_lines(reasons: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for number, reason in enumerate(reasons):
        line = _first_line(reason)
        if lines and sum(map(len, lines)) + len(line) > _LONGEST:
            return [*lines, f"and {len(reasons) - number} more, in the task's log"]
        lines.append(line)
    return lines


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return (lines[0] if lines else "no error was recorded")[:_LONGEST_REASON]


def alert(
    dag: str,
    task: str,
    run: str,
    error: object,
    *,
    url: str = "",
    runbook_base: str = "",
    tries: int = 1,
    owner: str = OWNER,
    next_step: str = "",
    model: str = "",
) -> Alert:
    """An alert for a failed task. Of an error only its first line is told: the log has the rest.
    tries: how often the task was tried; next_step: of the error itself, where it has one that
    helps; model: that the run is about."""
    words = _first_line("" if error is None else str(error))
    if _FULL in words:
        next_step = "make room on the disk, then clear the task: nothing of it is half done"
    return Alert(
        event="task_failed",
        dag=dag,
        task=task,
        run=run,
        error=words,
        runbook=runbook_link(dag, runbook_base),
        url=url,
        cause=f"{dag}.{task}.{run}" if dag in BY_HAND else model_cause(dag, task, model),
        severity="critical" if dag in _CRITICAL_DAGS else "warning",
        owner=owner,
        attempts=f"{tries} times, and each failed" if tries > 1 else "",
        next_step=next_step or NEXT.get(dag, ""),
    )


def model_cause(dag: str, task: str, model: str) -> str:
    """The cause of a task's failures for a model; empty where its runs are not each about one."""
    return f"{dag}.{task}.{model}" if dag in BY_MODEL and model else ""


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
        next_step="see what it does: its task's log; it may still end well",
    )


def over_alert(alert: Alert, history: str) -> Alert:
    """Word that the incident of an alert is over. history: how long it was open, in words."""
    matter = _OVER_OF.get(alert.key.partition(".")[0], "over")
    words = MATTERS[matter]
    base = alert.runbook.partition(RUNBOOK)[0]
    return replace(
        alert,
        event=words.event,
        error=f"{words.message}, after {history}: {alert.error}",
        runbook=runbook_link(matter, base),
        cause=alert.key,
        severity=words.severity,
        attempts="",
        next_step=words.next_step,
    )


@dataclass(frozen=True)
class Missed:
    """A deadline that passed."""

    cause: str
    """Cause that all alerts about it have in common."""
    text: str
    of: str = ""
    """View or source that it is about; empty: a job."""


def fresh_cause(name: str) -> str:
    """The cause of a deadline for a view's or a source's answers."""
    return f"fresh.{name}"


def overdue_cause(dag: str) -> str:
    """The cause of a job that has not reported in time."""
    return f"overdue.{dag}"
