"""Every failed task writes one event with its runbook link, and tells the channels that are configured.

A channel that cannot be reached is an event of its own and never hides the failure.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference

from slicewise.lifecycle.alerts import (
    Alert,
    Channel,
    Quiet,
    aging_kind,
    alert,
    channels,
    deadline_alert,
    quiet_event,
    runbook_link,
)
from slicewise.log import warning


def page(context: Mapping[str, Any]) -> None:
    """`on_failure_callback` of every task."""
    _page(_alert(context, context.get("exception")), context)


def page_aging(context: Mapping[str, Any], reasons: Sequence[str]) -> None:
    """The tail is lost, or probes are late, and no task has failed."""
    _page_quietly(context, aging_kind(reasons), reasons)


def page_records(context: Mapping[str, Any], reasons: Sequence[str]) -> None:
    """Many records of a source were bad; they are kept, and no task has failed."""
    _page_quietly(context, "records", reasons)


def _page_quietly(context: Mapping[str, Any], kind: Quiet, reasons: Sequence[str]) -> None:
    runbook = runbook_link(kind, os.environ.get("SLICEWISE_RUNBOOK_BASE", ""))
    _page(replace(_alert(context, "; ".join(reasons)), event=quiet_event(kind), runbook=runbook), context)


def _alert(context: Mapping[str, Any], error: object) -> Alert:
    instance = context["task_instance"]
    return alert(
        instance.dag_id,
        instance.task_id,
        instance.run_id,
        error,
        url=getattr(instance, "log_url", "") or "",
        runbook_base=os.environ.get("SLICEWISE_RUNBOOK_BASE", ""),
    )


async def page_deadline(context: Mapping[str, Any]) -> None:
    """Called by Airflow's triggerer when a run is not over by its deadline."""
    run = context["dag_run"]
    told = deadline_alert(
        run["dag_id"],
        run["dag_run_id"],
        str(context["deadline"]["deadline_time"]),
        runbook_base=os.environ.get("SLICEWISE_RUNBOOK_BASE", ""),
    )
    await asyncio.to_thread(_page, told, context)


def over_within(limit: timedelta) -> DeadlineAlert:
    """A run that is queued for longer than `limit`, or runs on after it, pages."""
    # named by its path: the triggerer imports it, the DAG's parser need not resolve it
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=limit,
        callback=AsyncCallback("slicewise_airflow.alerts.page_deadline"),
    )


def _page(told: Alert, context: Mapping[str, Any]) -> None:
    warning(told.event, **{name: value for name, value in told.fields().items() if name != "event"})
    for channel in channels(os.environ):
        try:
            _tell(channel, told, context)
        except Exception as error:  # noqa: BLE001 - whatever a channel raises, the failure stands
            # its own text may carry the address, which is a secret
            warning("alert_not_delivered", kind=channel.kind, error=type(error).__name__)


def _tell(channel: Channel, told: Alert, context: Mapping[str, Any]) -> None:
    if channel.kind == "webhook":
        import httpx

        httpx.post(channel.target, json=told.fields(), timeout=10).raise_for_status()
        return
    notifier: Any
    if channel.kind == "slack":
        from airflow.providers.slack.notifications.slack_webhook import SlackWebhookNotifier

        notifier = SlackWebhookNotifier(slack_webhook_conn_id=channel.target, text=told.text())
    elif channel.kind == "smtp":
        from airflow.providers.smtp.notifications.smtp import SmtpNotifier

        to = [address.strip() for address in channel.target.split(",")]
        notifier = SmtpNotifier(to=to, subject=f"slicewise: {told.dag} failed", html_content=told.text())
    else:
        from airflow.providers.pagerduty.notifications.pagerduty import PagerdutyNotifier

        notifier = PagerdutyNotifier(
            pagerduty_events_conn_id=channel.target,
            summary=told.text(),
            severity="error",
            source="slicewise",
            dedup_key=f"{told.dag}.{told.task}",
        )
    notifier.notify(context)
