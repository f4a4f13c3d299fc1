"""Every failed task writes one event with its runbook link, and tells the channels that are
configured.

A channel that cannot be reached is an event of its own and never hides the failure.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference
from airflow.sdk.exceptions import AirflowException

from slicewise.lifecycle.checking import CheckRed
from slicewise.lifecycle.health.alerts import (
    Alert,
    Matter,
    alert,
    channels,
    deadline_alert,
    matter_alert,
)
from slicewise.lifecycle.health.judge import Part
from slicewise.lifecycle.supervision import Notice
from slicewise.log import warning
from slicewise_airflow.channels import send
from slicewise_airflow.docs import base
from slicewise_airflow.record import remember

CHECK = "check_consistency"
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
    """`on_failure_callback` of every task: an alert, or one of each part that is not well."""
    error = context.get("exception")
    if isinstance(error, NotWell):
        page_parts(context, error.parts)
    elif isinstance(error, CheckRed):
        _page_matter(context, "check_red", [str(error).removeprefix("the check is red: ")])
    elif context["task_instance"].dag_id == CHECK:
        message = "" if error is None else str(error)
        _page_matter(
            context, "check_not_made", [message.removeprefix("the check could not be made: ")]
        )
    else:
        instance = context["task_instance"]
        task = instance.dag_id, instance.task_id, instance.run_id
        _page(alert(*task, error, url=_url(instance), runbook_base=base()))


def page_parts(context: Mapping[str, Any], parts: Mapping[Part, Sequence[str]]) -> None:
    """One alert of each part: none hides another."""
    for part, reasons in parts.items():
        _page_matter(context, part, reasons)


def page_records(context: Mapping[str, Any], reasons: Sequence[str]) -> None:
    """Many records of a source were bad; they are kept, and no task has failed."""
    _page_matter(context, "records", reasons)


def page_driver(instance: Any, name: str, named: str, notice: Notice) -> None:
    """Tells that a driver is lost, loops or is well again: one incident of that driver's.
    instance: the task instance that watches; named: the driver for people."""
    _page_of(instance, _DRIVER[notice.kind], [f"{named}: {notice.text}"], f"driver.{name}")


def page_broker(instance: Any, notice: Notice) -> None:
    """Tells that no broker answers, or that one does again: one incident."""
    matter: Matter = "broker_back" if notice.kind == "over" else "broker_away"
    _page_of(instance, matter, [notice.text], "broker")


def page_lag(instance: Any, notice: Notice) -> None:
    """Tells that the micro-batch lane falls behind with a source, or is near again: one incident of
    that source's."""
    matter: Matter = "caught_up" if notice.kind == "over" else "lagging"
    source = notice.text.partition(":")[0]
    _page_of(instance, matter, [notice.text], f"lag.{source}")


def _page_matter(context: Mapping[str, Any], matter: Matter, reasons: Sequence[str]) -> None:
    _page_of(context["task_instance"], matter, reasons)


def _page_of(instance: Any, matter: Matter, reasons: Sequence[str], cause: str = "") -> None:
    sent = matter_alert(
        matter,
        instance.dag_id,
        instance.task_id,
        instance.run_id,
        reasons,
        url=_url(instance),
        runbook_base=base(),
        cause=cause,
    )
    _page(sent)


def _url(instance: Any) -> str:
    return getattr(instance, "log_url", "") or ""


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


def _page(sent: Alert) -> None:
    warning(sent.event, **{name: value for name, value in sent.fields().items() if name != "event"})
    remember(sent.fields())
    for channel in channels(os.environ):
        try:
            send(channel, sent)
        except Exception as error:  # noqa: BLE001
            # its own text may carry the address, which is a secret
            warning("alert_not_delivered", kind=channel.kind, error=type(error).__name__)
