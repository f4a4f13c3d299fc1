"""Every channel gets an alert in its own form, and says what came back; a test alert goes the same
way.

    python -m slicewise_airflow.channels

sends one to each channel that the environment configures, and prints what came back as one JSON
object; `slicewise alerts test` runs it in Airflow's environment, where connections are known.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
from typing import Any

from slicewise.lifecycle.health.alerts import Alert, Channel, Delivery, channels, matter_alert
from slicewise.settings import Settings

_ADDRESS = re.compile(r"\w+://\S+")
_LONGEST = 300
_PAGER = 1024


def send(channel: Channel, alert: Alert) -> str:
    """Sends an alert; what came back, in a few words. Raises whatever the channel raises."""
    if channel.kind == "webhook":
        import httpx

        answer = httpx.post(channel.target, json=alert.fields(), timeout=10).raise_for_status()
        return f"{answer.status_code} {answer.reason_phrase}"
    if channel.kind == "slack":
        from airflow.providers.slack.hooks.slack_webhook import SlackWebhookHook

        reply: Any = SlackWebhookHook(slack_webhook_conn_id=channel.target).send(
            text=html.escape(alert.text(), quote=False)
        )
        return f"{reply.status_code} {reply.body}"
    if channel.kind == "smtp":
        from airflow.providers.smtp.notifications.smtp import SmtpNotifier

        to = [address.strip() for address in channel.target.split(",")]
        SmtpNotifier(to=to, subject=alert.subject, html_content=html.escape(alert.text())).notify(
            {}
        )
        return f"the mail server took it for {len(to)} addresses"
    from airflow.providers.pagerduty.hooks.pagerduty_events import PagerdutyEventsHook

    hook = PagerdutyEventsHook(pagerduty_events_conn_id=channel.target)
    answered: Any = hook.send_event(
        # the pager refuses a longer one; all of it stands in the details
        summary=_cut(alert.text(), _PAGER),
        severity=alert.severity,
        source="slicewise",
        custom_details=alert.fields(),
        action="resolve" if alert.over else "trigger",
        dedup_key=alert.key,
    )
    return str(answered)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 2]} …"


def reason_of(channel: Channel, error: Exception) -> str:
    """Reason why a channel did not take an alert, without any address."""
    from airflow.sdk.exceptions import AirflowNotFoundException

    if isinstance(error, AirflowNotFoundException):
        name = "smtp_default" if channel.kind == "smtp" else channel.target
        return f"{channel.variable}: Airflow has no connection {name}"
    return f"{channel.variable}: {type(error).__name__}"


def send_test(channel: Channel, alert: Alert) -> Delivery:
    """Sends a test alert, and tells what came back or why nothing did, without any address."""
    try:
        reply = send(channel, alert)
    except Exception as error:  # noqa: BLE001
        return Delivery(
            channel.kind,
            channel.variable,
            delivered=False,
            said=_masked(f"{type(error).__name__}: {error}"),
        )
    return Delivery(channel.kind, channel.variable, delivered=True, said=_masked(reply))


def _masked(text: str) -> str:
    # a webhook's address is its secret
    return _ADDRESS.sub("<address>", " ".join(text.split()))[:_LONGEST]


def main() -> int:
    """Exit code 0 where every channel took its alert."""
    alert = matter_alert(
        "alerts",
        "slicewise alerts test",
        "",
        "by hand",
        ["this alert was sent to see whether it arrives"],
        runbook_base=Settings.load().runbook_url,
    )
    send_tests = [send_test(channel, alert) for channel in channels(os.environ)]
    sys.stdout.write(
        json.dumps({"text": alert.text(), "channels": [report.to_json() for report in send_tests]})
        + "\n"
    )
    return 0 if all(report.delivered for report in send_tests) else 1


if __name__ == "__main__":
    sys.exit(main())
