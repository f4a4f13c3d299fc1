"""list open alerts and where alerts go, or send a test alert to each of these channels

A failed task, a lost real-time lane, late answers, a red check always write an event into their
task's log. One fault is one incident: it pages once, again after SLICEWISE_ALERT_AGAIN_S (four
hours) while it lasts, and once when it is over. Pages go further where Airflow's workers have one
of these variables:

  SLICEWISE_ALERT_WEBHOOK         a URL that takes a JSON object by POST
  SLICEWISE_ALERT_SLACK_CONN      the name of an Airflow connection of type slackwebhook
  SLICEWISE_ALERT_SMTP_TO         addresses, separated by commas; the Airflow connection smtp_default sends to them
  SLICEWISE_ALERT_PAGERDUTY_CONN  the name of an Airflow connection of type pagerduty_events

Run it where Airflow's workers run, with their variables. The test goes the way of every alert, in
Airflow's own environment, where connections are known. Exit code 0: each channel took its alert; 1:
one did not, or none is configured.
docs/runbook.md, "Alerts and where they go", lists the alerts.

  slicewise alerts                       incidents that are open, and the configured channels
  slicewise alerts --all                 those of the last seven days too
  slicewise alerts --json
  slicewise alerts test                  send one alert to each channel
  SLICEWISE_ALERT_SMTP_TO=oncall@example.org slicewise alerts test
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.lifecycle.health.alerts import Channel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("show", "test"), default="show")
    parser.add_argument("--all", action="store_true", help="incidents that are over too")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.alert_test import send
    from slicewise.lifecycle.health.alerts import VARIABLES, channels
    from slicewise.local.servers import supervisor

    configured = channels(os.environ)
    report: dict[str, Any] = {
        "configured": [channel.variable for channel in configured],
        "not_configured": [
            name
            for name, _ in VARIABLES
            if name not in {channel.variable for channel in configured}
        ],
    }
    if arguments.action == "test":
        report |= send(settings) if configured else {}
    else:
        chosen = [one for one in supervisor.incidents(settings) if one.is_open or arguments.all]
        report["incidents"] = [one.to_json() for one in chosen]
    if arguments.json:
        print(json.dumps(report))
    else:
        _show(report, configured)
    delivered = all(channel["delivered"] for channel in report.get("channels", ()))
    return 0 if delivered and (configured or arguments.action == "show") else 1


def _show(report: dict[str, Any], channels: tuple[Channel, ...]) -> None:
    if "incidents" in report:
        _list(report["incidents"])
    if not channels:
        print("no channel is configured: alerts stand in the logs of their tasks alone")
    sent = {channel["variable"]: channel for channel in report.get("channels", ())}
    if sent:
        print(f"sent: {report['text']}")
    for channel in channels:
        came = sent.get(channel.variable)
        state = "configured" if came is None else "delivered" if came["delivered"] else "FAILED"
        reply = "" if came is None else came["said"]
        print(f"{channel.kind:<10} {state:<11} {channel.variable:<31} {reply}".rstrip())
    for name in report["not_configured"]:
        print(f"{'-':<10} {'not set':<11} {name}")


def _list(incidents: Sequence[dict[str, Any]]) -> None:
    if not incidents:
        print("no alert is open")
    for one in incidents:
        opened = datetime.fromtimestamp(one["opened_us"] / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
        state = one["state"] if one["over_us"] else one["severity"]
        what = f"{one['dag']}.{one['task']}" if one["task"] else one["dag"]
        print(f"{state:<9} {one['event']:<16} {what}  since {opened} UTC, {one['times']} times")
        print(f"    {one['error']}")
        if one["attempts"]:
            print(f"    tried: {one['attempts']}")
        if one["undelivered"] and not one["over_us"]:
            print(f"    nobody was paged: {one['undelivered']}")
        if one["next_step"] and not one["over_us"]:
            print(f"    next: {one['next_step']}")
        print(f"    see {one['runbook']}; owner {one['owner']}")
