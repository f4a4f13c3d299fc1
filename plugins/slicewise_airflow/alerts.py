"""Every failed task writes one event with its runbook link, and tells the channels that are configured.

A channel that cannot be reached is an event of its own and never hides the failure.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from slicewise.lifecycle.alerts import Alert, Channel, alert, channels
from slicewise.log import warning


def page(context: Mapping[str, Any]) -> None:
    """`on_failure_callback` of every task."""
    instance = context["task_instance"]
    told = alert(
        instance.dag_id,
        instance.task_id,
        instance.run_id,
        context.get("exception"),
        url=getattr(instance, "log_url", "") or "",
        runbook_base=os.environ.get("SLICEWISE_RUNBOOK_BASE", ""),
    )
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
