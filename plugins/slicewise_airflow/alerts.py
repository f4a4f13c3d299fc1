"""Every failed task writes one event with its runbook link, and tells the channels that are
configured once per incident.

A channel that cannot be reached is an event of its own and never hides the failure. An inbox that
cannot be changed keeps no alert back.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from airflow.sdk import (
    AsyncCallback,
    DeadlineAlert,
    DeadlineReference,
    RetryDecision,
    RetryPolicy,
)
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
)

from slicewise.clock import SystemClock
from slicewise.errors import SlicewiseError
from slicewise.lifecycle import incidents
from slicewise.lifecycle.checking import (
    CheckNotMade,
    CheckRed,
    ExpectationsNotMade,
    ExpectationsUnmet,
    suites_of,
)
from slicewise.lifecycle.health.alerts import (
    BY_HAND,
    BY_MODEL,
    OWNER,
    Alert,
    Matter,
    Missed,
    alert,
    channels,
    deadline_alert,
    fresh_cause,
    matter_alert,
    model_cause,
)
from slicewise.lifecycle.health.judge import AGING, Part
from slicewise.lifecycle.incidents import Incidents, Step
from slicewise.lifecycle.monitors.monitor import Judged, is_monitor
from slicewise.lifecycle.supervision import PARTS, Notice
from slicewise.local.servers import drivers
from slicewise.local.servers.inbox import Inbox
from slicewise.log import event as log_event
from slicewise.log import warning
from slicewise.settings import Settings
from slicewise_airflow.channels import reason_of, send
from slicewise_airflow.pages.docs import base
from slicewise_airflow.record import first_failure_us, healed, keep_failed_try

CHECKS = ("check", "check_again")
"""Tasks that check."""
STORE, BROKER = "store", "broker"
"""Causes that tasks of many DAGs have in common."""
PROBED_S = 360.0
"""Seconds after which figures of five minutes hold nothing of what was before."""
FOLLOWED: Mapping[str, str] = {
    "check_consistency": "compact_slices",
    "check_expectations": "compact_slices",
}
"""DAG -> the one whose runs begin its own."""
_DRIVER: Mapping[str, Matter] = {
    "down": "driver_lost",
    "loops": "driver_loops",
    "over": "driver_well",
}


class NotWell(AirflowException):  # type: ignore[misc]  # Airflow is opaque to the type checker here
    """A watch that ended badly: the reasons, by the part that each is about."""

    def __init__(self, parts: Mapping[Part, Sequence[str]]) -> None:
        super().__init__("; ".join(reason for reasons in parts.values() for reason in reasons))
        self.parts = parts


def page(context: Mapping[str, Any]) -> None:
    """`on_failure_callback` of every task: an alert, or one of each part that is not well. A task
    that failed because a server is away, or was while its run was under way, belongs to that
    server's incident; if that is over, the next run of the task tells whether it is."""
    error, instance = context.get("exception"), context["task_instance"]
    message = "" if error is None else str(error)
    if isinstance(error, ExpectationsUnmet | ExpectationsNotMade):
        page_expectations(context, error.report)
    if isinstance(error, NotWell):
        page_parts(context, error.parts)
    elif isinstance(error, ExpectationsUnmet):
        if not error.report.get("why"):
            settle_causes([_name(instance)])  # all was judged
    elif isinstance(error, CheckRed):
        reasons = [message.removeprefix("the check is red: ")]
        owner, began_us = _owner_of_all(error.concerned), first_failure_us(context)
        _page_of(instance, "check_red", reasons, owner=owner, began_us=began_us)
        settle_causes(["check_not_made"])
    elif server := _server_away(error):
        cause, reason = server
        matter: Matter = "store" if cause == STORE else "broker_away"
        reasons = [reason, f"{_name(instance)} failed: {message}"]
        _page_of(instance, matter, reasons, cause, began_us=first_failure_us(context))
    elif cause := _server_was_away(context):
        log_event("task_not_paged", task=_name(instance), cause=cause, error=message)
    elif isinstance(error, CheckNotMade) or instance.task_id in CHECKS:
        reasons = [message.removeprefix("the check could not be made: ")]
        _page_of(instance, "check_not_made", reasons, began_us=first_failure_us(context))
    else:
        _page(
            alert(
                instance.dag_id,
                instance.task_id,
                instance.run_id,
                error,
                url=_url(instance),
                runbook_base=base(),
                tries=int(getattr(instance, "try_number", 1) or 1),
                owner=_owner(context),
                next_step=str(getattr(error, "next_step", "") or "") if lasts(error) else "",
                model=_model(context),
            ),
            first_failure_us(context),
        )


def settle(context: Mapping[str, Any]) -> None:
    """`on_success_callback` of every task: what it failed for is over, and so is a server's absence
    where a look bears it out."""
    opened = {incident.key: incident.opened_us for incident in _kept() if incident.is_open}
    if not opened:
        return
    instance = context["task_instance"]
    if getattr(instance, "map_index", -1) >= 0:
        return  # others of its kind may have failed: the task that made them knows of all
    name = _name(instance)
    if instance.dag_id in BY_MODEL:
        over = {model_cause(instance.dag_id, instance.task_id, _model(context)) or name}
    else:
        over = {key for key in opened if key == name or key.startswith(f"{name}.")}
    if instance.task_id in CHECKS:
        over.add("check_not_made")
        params = dict(context.get("params") or {})
        if "check_red" in opened and healed(params, opened["check_red"]):
            over.add("check_red")
    if not set(getattr(context.get("task"), "downstream_task_ids", ())) - _SHOWING:
        over.add(instance.dag_id)  # the run's deadline
    looks = {STORE: drivers.store_ill, BROKER: drivers.broker_away}
    over |= {key for key, ill in looks.items() if key in opened and not ill(Settings.load())}
    settle_causes(over)


class UnlessLasting(RetryPolicy):  # type: ignore[misc]  # Airflow is opaque to the type checker here
    """A task is tried again, as often as it says, unless its error would come again: a wrong
    definition, parameter or setting, a program or a connection that is not there."""

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,  # noqa: ARG002
        max_tries: int,  # noqa: ARG002
        context: object = None,  # noqa: ARG002
    ) -> RetryDecision:
        if lasts(exception):
            return RetryDecision.fail("another try would fail for the same reason")
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """Nothing: it has no settings."""
        return {}


def lasts(error: object) -> bool:
    """Tells whether another try would meet the same error: somebody has to change something."""
    given = AirflowFailException | AirflowNotFoundException
    return isinstance(error, given) or bool(getattr(error, "lasting", False))


_SHOWING = frozenset({"hour"})
"""Tasks that only show what was done."""
DEFAULTS: Mapping[str, Any] = {
    "owner": OWNER,
    "retry_policy": UnlessLasting(),
    "on_failure_callback": page,
    "on_retry_callback": keep_failed_try,
    "on_success_callback": settle,
}
"""Arguments that each task of slicewise's DAGs has."""


def settle_causes(causes: Collection[str]) -> None:
    """Ends the open incidents of causes that were seen to be over; each is written and told."""
    if any(incident.is_open and incident.key in causes for incident in _kept()):
        _send(
            _changed(
                lambda before, now_us: incidents.settled(
                    before, lambda one: one.key in causes, now_us
                )
            )
        )


def settle_withdrawn(agreed: Collection[str]) -> None:
    """Ends the incidents of deadlines of freshness that are agreed no more. agreed: names."""
    causes = {fresh_cause(name) for name in agreed}
    opened = {one.key for one in _kept() if one.is_open and one.key.startswith(fresh_cause(""))}
    settle_causes(opened - causes)


def settle_monitors(causes: Collection[str]) -> None:
    """Ends the incidents of monitors that are listed no more. causes: of those that are."""
    settle_causes({one.key for one in _kept() if one.is_open and is_monitor(one.key)} - {*causes})


def settle_records(sources: Collection[str]) -> None:
    """Ends the incidents of sources whose last records were good."""
    settle_causes({f"records.{source}" for source in sources})


def page_parts(context: Mapping[str, Any], parts: Mapping[Part, Sequence[str]]) -> None:
    """One alert of each part: none hides another. A part whose driver or server has an incident
    already belongs to that; one that makes answers older waits until its figures hold nothing of a
    server's absence any more."""
    kept = _kept()
    opened = {incident.key for incident in kept if incident.is_open}
    for part, reasons in parts.items():
        causes = [f"driver.{name}" for name, of in PARTS.items() if of == part]
        if part != STORE:
            causes.append(BROKER)
        if part in AGING:  # an owner was told of the same
            causes += sorted(key for key in opened if key.startswith("fresh."))
        cause = next((cause for cause in causes if cause in opened), part)
        if part in AGING and cause == part and _was_away(kept, PROBED_S):
            log_event("part_not_paged", part=part, reasons="; ".join(reasons))
            continue
        _page_of(context["task_instance"], part, reasons, cause)


def aftermath(within_s: float) -> bool:
    """Tells whether the store or the broker is away, or was until so long ago, by the inbox: what
    follows from that is no incident of its own."""
    return _was_away(_kept(), within_s)


def _was_away(kept: Incidents, within_s: float) -> bool:
    since_us = SystemClock().now_us() - int(within_s * 1e6)
    return incidents.lasted_until(kept, (STORE, BROKER), since_us)


def page_records(context: Mapping[str, Any], reasons: Sequence[str]) -> None:
    """Many records of a source were bad; they are kept, and no task has failed. reasons: one of
    each source, which it begins with."""
    for reason in reasons:
        source = reason.partition(":")[0]
        owner = _owner_of(source)
        _page_of(context["task_instance"], "records", [reason], f"records.{source}", owner=owner)


def page_expectations(context: Mapping[str, Any], report: Mapping[str, object]) -> None:
    """Tells of each suite what is not met, by its worst severity: critical and warning are an
    incident of that suite's, info is kept in its results alone. What is met again is over, of
    several hours in the newest."""
    over = set[str]()
    for suite in suites_of(report):
        cause = f"expectations.{suite.name}"
        over.discard(cause)
        if suite.worst in ("critical", "warning"):
            matter: Matter = (
                "expectations_critical" if suite.worst == "critical" else "expectations_warning"
            )
            owner = _owner_of(suite.of)
            _page_of(context["task_instance"], matter, suite.reasons, cause, owner)
        elif suite.made:
            over.add(cause)
    settle_causes(over)


def page_driver(instance: Any, name: str, named: str, notice: Notice, began_us: int = 0) -> None:
    """Tells that a driver is lost, loops or is well again: one incident of that driver's.
    instance: the task instance that watches; named: the driver for people; began_us: time of its
    last sign of life, 0 where there was none."""
    reasons = [f"{named}: {notice.text}"]
    _page_of(instance, _DRIVER[notice.kind], reasons, f"driver.{name}", began_us=began_us)


def page_undone(instance: Any, name: str, text: str) -> None:
    """Tells that the deployment under which a driver could not live was undone: its incident is
    worse by that, and over once the driver is well."""
    _page_of(instance, "deployment_undone", [text], f"driver.{name}")


def page_broker(instance: Any, notice: Notice, began_us: int = 0) -> None:
    """Tells that no broker answers, or that one does again: one incident. began_us: time since
    which none did."""
    matter: Matter = "broker_back" if notice.kind == "over" else "broker_away"
    _page_of(instance, matter, [notice.text], BROKER, began_us=began_us)


def page_lag(instance: Any, notice: Notice, began_us: int = 0) -> None:
    """Tells that the micro-batch lane falls behind with a source, or is near again: one incident of
    that source's. began_us: time since which it was behind."""
    matter: Matter = "caught_up" if notice.kind == "over" else "lagging"
    source = notice.text.partition(":")[0]
    cause, owner = f"lag.{source}", _owner_of(source)
    _page_of(instance, matter, [notice.text], cause, owner=owner, began_us=began_us)


def page_freshness(instance: Any, missed: Missed) -> None:
    """Tells the owner of a view or a source that its deadline of freshness is missed."""
    owner = _owner_of(missed.of)
    _page_of(instance, "freshness", [missed.text], missed.cause, owner=owner)


def page_monitor(instance: Any, judged: Judged) -> None:
    """Tells the owner of a monitor that its feature is out of its bounds."""
    monitor = judged.monitor
    matter: Matter = "monitor_critical" if monitor.severity == "critical" else "monitor"
    reasons = [f"{monitor.name}: {judged.text}"]
    _page_of(instance, matter, reasons, monitor.cause, owner=monitor.owner)


def page_overdue(instance: Any, missed: Missed) -> None:
    """Tells that a job has not reported in time."""
    _page_of(instance, "overdue", [missed.text], missed.cause)


def explained(cause: str, since_s: float) -> bool:
    """Tells whether an incident of another cause explains a deadline that is missed: one of the
    job's own tasks, or of a driver or server that is lost or falls behind, or was until so long
    ago."""
    since_us = SystemClock().now_us() - int(since_s * 1e6)
    kind, _, of = cause.partition(".")
    if kind == "fresh":
        lanes = ("stream", "tail", "driver.stream", "driver.tail", "lag.")
        begins: tuple[str, ...] = (STORE, BROKER, *lanes)
    else:  # a run of it that failed, or is not over in time, or of what it follows
        before = FOLLOWED.get(of)
        begins = (STORE, BROKER, of, *((before, f"overdue.{before}") if before else ()))
    return any(
        one.key.startswith(begins) and (one.is_open or one.over_us >= since_us) for one in _kept()
    )


def remind(keys: Collection[str]) -> None:
    """Pages again for those of these causes that last, where that is due."""
    if any(incident.is_open and incident.key in keys for incident in _kept()):
        again_us = Settings.load().alert_again_s * 1_000_000
        _send(_changed(lambda before, now_us: incidents.reminded(before, keys, now_us, again_us)))


def _page_of(
    instance: Any,
    matter: Matter,
    reasons: Sequence[str],
    cause: str = "",
    owner: str = OWNER,
    began_us: int = 0,
) -> None:
    sent = matter_alert(
        matter,
        instance.dag_id,
        instance.task_id,
        instance.run_id,
        reasons,
        url=_url(instance),
        runbook_base=base(),
        cause=cause,
        owner=owner,
    )
    _page(sent, began_us)


def _url(instance: Any) -> str:
    return getattr(instance, "log_url", "") or ""


def _name(instance: Any) -> str:
    return f"{instance.dag_id}.{instance.task_id}"


def _server_away(error: object) -> tuple[str, str] | None:
    """The server for whose absence a task failed, and what it says; none where all answer, or
    another try would meet the same error."""
    if lasts(error):
        return None
    try:
        settings = Settings.load()
    except SlicewiseError:
        return None
    if reason := drivers.store_away(settings):
        return STORE, reason.removeprefix("the store: ")
    if reason := drivers.broker_away(settings):
        return BROKER, reason.removeprefix("the broker: ")
    return None


def _server_was_away(context: Mapping[str, Any]) -> str:
    """The server whose absence began or ended while a scheduled run was under way, by the inbox;
    empty where none did, or another try would meet the same error."""
    instance, run = context["task_instance"], context.get("dag_run")
    began = getattr(run, "start_date", None)
    if lasts(context.get("exception")) or began is None or instance.dag_id in BY_HAND:
        return ""
    kept, since_us = _kept(), int(began.timestamp() * 1e6)
    away = (key for key in (STORE, BROKER) if incidents.changed_since(kept, key, since_us))
    return next(away, "")


def _model(context: Mapping[str, Any]) -> str:
    """The model that a run is about; empty where it is about none."""
    return str(dict(context.get("params") or {}).get("model") or "").strip()


def _owner(context: Mapping[str, Any]) -> str:
    """Owner of the view that a run is about; the platform's where it is about none."""
    return _owner_of(dict(context.get("params") or {}).get("view"))


def _owner_of_all(names: Collection[str]) -> str:
    """Owner of these views; the platform's where they have several, or none."""
    owners_of = {_owner_of(name) for name in names}
    return owners_of.pop() if len(owners_of) == 1 else OWNER


def _owner_of(name: object) -> str:
    """Owner of a view or a source by the deployment; the platform's where it has none."""
    if not name:
        return OWNER
    from slicewise_airflow.record import owners

    return owners().get(str(name)) or OWNER


async def page_deadline(context: Mapping[str, Any]) -> None:
    """Called by Airflow's triggerer when a run is not over by its deadline."""
    run = context["dag_run"]
    sent = deadline_alert(
        run["dag_id"],
        run["dag_run_id"],
        str(context["deadline"]["deadline_time"]),
        runbook_base=base(),
    )
    await asyncio.to_thread(_page, sent)


def over_within(limit: timedelta) -> DeadlineAlert:
    """A run that is queued for longer than `limit`, or runs on after it, pages."""
    # named by its path: the triggerer imports it, the DAG's parser need not resolve it
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=limit,
        callback=AsyncCallback("slicewise_airflow.alerts.page_deadline"),
    )


def _page(sent: Alert, began_us: int = 0) -> None:
    """Writes an alert, and tells the channels where its incident is new, worse, due again or
    over."""
    try:
        again_us = Settings.load().alert_again_s * 1_000_000
        pages = _inbox().change(
            lambda before, now_us: incidents.met(before, sent, now_us, again_us, began_us)
        )
    except SlicewiseError as error:
        warning("incident_not_kept", reason=error.what)
        pages = (sent,)
    _write(sent, paged=bool(pages))
    _deliver(pages)


def _send(alerts: Iterable[Alert]) -> None:
    for sent in alerts:
        _write(sent, paged=True)
        _deliver((sent,))


def _changed(step: Callable[[Incidents, int], Step]) -> tuple[Alert, ...]:
    try:
        return _inbox().change(step)
    except SlicewiseError as error:
        warning("incident_not_kept", reason=error.what)
        return ()


def _inbox() -> Inbox:
    return Inbox(Settings.load())


def _kept() -> Incidents:
    """Incidents as the inbox has them; none where it cannot be read."""
    try:
        return _inbox().read()
    except SlicewiseError:
        return ()


def _write(sent: Alert, *, paged: bool) -> None:
    fields = {name: value for name, value in sent.fields().items() if name != "event"}
    warning(sent.event, **fields, paged=paged)


def _deliver(pages: Iterable[Alert]) -> None:
    configured = channels(os.environ)
    for sent in pages:
        reasons = []
        for channel in configured:
            try:
                send(channel, sent)
            except Exception as error:  # noqa: BLE001
                # its own text may carry the address, which is a secret
                reasons.append(reason_of(channel, error))
                warning("alert_not_delivered", kind=channel.kind, error=reasons[-1])
        if configured and len(reasons) == len(configured) and not sent.over:
            _changed(partial(_dropped, sent.key, "; ".join(reasons)))


def _dropped(key: str, why: str, before: Incidents, _now_us: int) -> Step:
    return incidents.not_delivered(before, key, why), ()
