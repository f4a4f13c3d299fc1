"""The store keeps the last day's alerts: who looks later sees what was told while nobody looked.

One text (`sw:status:alerts`), changed whole: old ones go, and one that comes again and again is a
line with a count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

PART = "alerts"
DAY_US = 86_400_000_000
_MOST = 50


@dataclass(frozen=True)
class Alerted:
    """An alert, as often as it was told."""

    event: str
    subject: str
    """DAG and task, or the DAG of a run."""
    error: str
    """Error of the last time."""
    runbook: str
    at_us: int
    """Time at which it was told last."""
    times: int = 1


def remembered(text: str | None, fields: Mapping[str, str], now_us: int) -> str:
    """The text with one more alert (fields of `Alert.fields`)."""
    subject = f"{fields['dag']}.{fields['task']}" if fields["task"] else fields["dag"]
    if cause := fields.get("cause"):
        subject = f"{subject} {cause}"
    fresh = Alerted(fields["event"], subject, fields["error"], fields["runbook"], now_us)
    kept = []
    for alert in recent(text, now_us):
        if (alert.event, alert.subject) == (fresh.event, fresh.subject):
            fresh = replace(fresh, times=alert.times + 1)
        else:
            kept.append(alert)
    return json.dumps([asdict(alert) for alert in (*kept, fresh)[-_MOST:]], sort_keys=True)


def recent(text: str | None, now_us: int) -> tuple[Alerted, ...]:
    """The alerts of the last day, the latest last; a text that cannot be read holds none."""
    try:
        alerts = tuple(Alerted(**alert) for alert in json.loads(text or "[]"))
        return tuple(alert for alert in alerts if now_us - DAY_US < int(alert.at_us))
    except (ValueError, TypeError):
        return ()
