"""A fault is one incident however often it is met: it opens and pages, pages again after a stated
time, and is over once.

Decisions only; the inbox of a platform keeps them (local/servers/inbox.py). Time is given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from slicewise.lifecycle.health.alerts import RANKS, Alert, over_alert

PART = "alerts"
"""Part of the store's status that holds a copy."""
DAY_US = 86_400_000_000
KEPT_US = 7 * DAY_US
"""An incident is kept for so long after anything happened to it."""
_MOST = 100


@dataclass(frozen=True)
class Incident:
    """A fault from the first time that it was met until it is over. Times are in microseconds."""

    alert: Alert
    """Alert of the worst that was met, and of the last time that it was as bad."""
    opened_us: int
    last_us: int
    """Time at which it was met last."""
    paged_us: int
    """Time of the last page; 0 where no channel took it."""
    times: int = 1
    """Times that it was met."""
    pages: int = 1
    """Pages about it, without the word that it is over."""
    over_us: int = 0
    """Time at which it was over; 0 while it is open."""
    began_us: int = 0
    """Time since which the fault was seen, before anybody was paged; 0 where nobody saw it."""
    undelivered: str = ""
    """Reasons why no channel took the last page; empty where one did, or none is configured."""

    @property
    def key(self) -> str:
        """The cause that its alerts have in common."""
        return self.alert.key

    @property
    def is_open(self) -> bool:
        return not self.over_us

    @property
    def changed_us(self) -> int:
        """Time at which anything happened to it last."""
        return max(self.last_us, self.paged_us, self.over_us)

    def due(self, now_us: int, again_us: int) -> bool:
        """Tells whether its next page is due."""
        return now_us - self.paged_us >= again_us

    def to_json(self) -> dict[str, object]:
        """Plain values, for the page and for `slicewise alerts`."""
        own = {name: value for name, value in asdict(self).items() if name != "alert"}
        return self.alert.fields() | own | {"state": "open" if self.is_open else "over"}


Incidents = tuple[Incident, ...]
Step = tuple[Incidents, tuple[Alert, ...]]
"""Incidents after something happened, and the alerts that are to go out for it."""


def met(incidents: Incidents, alert: Alert, now_us: int, again_us: int, began_us: int = 0) -> Step:
    """An alert was raised: it pages where its incident is new, is worse than it was, or was paged
    last `again_us` ago. One that says that its cause is over ends the incident. began_us: time
    since which the fault was seen, where that is before now."""
    incident = next((one for one in incidents if one.is_open and one.key == alert.key), None)
    if alert.over:
        return _ended(incidents, incident, alert, now_us)
    if incident is None:
        began = Incident(alert, now_us, now_us, now_us, began_us=min(began_us, now_us))
        return (*incidents, began), (alert,)
    worse = RANKS[alert.severity] - RANKS[incident.alert.severity]
    after = replace(
        incident,
        alert=incident.alert if worse < 0 else alert,
        last_us=now_us,
        times=incident.times + 1,
    )
    pages: tuple[Alert, ...] = ()
    if worse > 0:
        pages = (alert,)
    elif incident.due(now_us, again_us):
        pages = (_still(after, now_us),)
    return _changed(incidents, after, now_us, pages)


def settled(incidents: Incidents, over: Callable[[Incident], bool], now_us: int) -> Step:
    """Ends the open incidents of which `over` says so; each is told once."""
    ended = [one for one in incidents if one.is_open and over(one)]
    after = tuple(replace(one, over_us=now_us) if one in ended else one for one in incidents)
    return after, tuple(over_alert(one.alert, _history(one, now_us)) for one in ended)


def reminded(incidents: Incidents, keys: Collection[str], now_us: int, again_us: int) -> Step:
    """Pages again for those of these causes that lasted, and whose next page is due."""
    after, pages = incidents, list[Alert]()
    for incident in incidents:
        if incident.is_open and incident.key in keys and incident.due(now_us, again_us):
            after, due = _changed(after, incident, now_us, (_still(incident, now_us),))
            pages += due
    return after, tuple(pages)


def not_delivered(incidents: Incidents, key: str, why: str = "") -> Incidents:
    """No channel took the last page of a cause: the next time that it is met it pages."""
    return tuple(
        replace(one, paged_us=0, pages=max(0, one.pages - 1), undelivered=why)
        if one.is_open and one.key == key
        else one
        for one in incidents
    )


def _ended(incidents: Incidents, incident: Incident | None, alert: Alert, now_us: int) -> Step:
    if incident is None:
        latest = next((one for one in reversed(incidents) if one.key == alert.key), None)
        # one that is over was told; of one that never was, nobody was
        return incidents, () if latest is not None else (alert,)
    after = replace(incident, over_us=now_us)
    return tuple(after if one is incident else one for one in incidents), (alert,)


def _changed(incidents: Incidents, after: Incident, now_us: int, pages: tuple[Alert, ...]) -> Step:
    if pages:
        after = replace(after, paged_us=now_us, pages=after.pages + 1, undelivered="")
    same = (after.key, after.opened_us)
    return tuple(after if (one.key, one.opened_us) == same else one for one in incidents), pages


def _still(incident: Incident, now_us: int) -> Alert:
    text = f"{incident.alert.error} (open for {_history(incident, now_us)})"
    return replace(incident.alert, error=text)


def _history(incident: Incident, now_us: int) -> str:
    times = "once" if incident.times == 1 else f"{incident.times} times"
    return f"{span((now_us - incident.opened_us) / 1e6)}, met {times}"


def span(seconds: float) -> str:
    """A duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def ended_between(before: Incidents, after: Incidents) -> Incidents:
    """Incidents that are over after a change, and were not before it."""
    over = {(one.key, one.opened_us) for one in before if not one.is_open}
    return tuple(one for one in after if not one.is_open and (one.key, one.opened_us) not in over)


def lasted_until(incidents: Incidents, keys: Collection[str], since_us: int) -> bool:
    """Tells whether an incident of these causes is open, or was over since then."""
    return any(one.key in keys and (one.is_open or one.over_us >= since_us) for one in incidents)


def changed_since(incidents: Incidents, key: str, since_us: int) -> bool:
    """Tells whether an incident of this cause opened or was over since then."""
    return any(one.key == key and max(one.opened_us, one.over_us) >= since_us for one in incidents)


def merged(some: Iterable[Incident], others: Iterable[Incident], now_us: int) -> Incidents:
    """Two copies as one: of each incident what happened last, and one open incident per cause."""
    latest: dict[tuple[str, int], Incident] = {}
    for incident in (*some, *others):
        same = (incident.key, incident.opened_us)
        earlier = latest.get(same)
        if earlier is None or _order(incident) > _order(earlier):
            latest[same] = incident
    kept: dict[str, Incident] = {}
    over: list[Incident] = []
    for incident in sorted(latest.values(), key=lambda one: (one.opened_us, one.key)):
        if now_us - incident.changed_us > KEPT_US:
            continue
        if not incident.is_open:
            over.append(incident)
        else:
            kept.setdefault(incident.key, incident)
    both = [*over[-_MOST:], *list(kept.values())[-_MOST:]]
    return tuple(sorted(both, key=lambda one: (one.opened_us, one.key)))


def _order(incident: Incident) -> tuple[bool, int, int]:
    return not incident.is_open, incident.changed_us, incident.times


def to_text(incidents: Incidents) -> str:
    """The text of the inbox's file, and of the store's part."""
    return json.dumps([asdict(one) for one in incidents], sort_keys=True)


def from_text(text: str | None) -> Incidents:
    """The incidents of a text; none where it cannot be read: what is met again opens again."""
    try:
        return tuple(_of_json(raw) for raw in json.loads(text or "[]"))
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()


def _of_json(raw: Mapping[str, Any]) -> Incident:
    if "subject" in raw:  # of a release that kept alerts of a day, and no incidents
        at_us, (dag, _, task) = int(raw["at_us"]), str(raw["subject"]).partition(".")
        alert = Alert(raw["event"], dag, task, "", raw["error"], raw["runbook"], "")
        return Incident(alert, at_us, at_us, at_us, int(raw["times"]), over_us=at_us)
    incident = Incident(**{**raw, "alert": Alert(**raw["alert"])})
    instants = (
        *(incident.opened_us, incident.last_us, incident.paged_us, incident.over_us),
        incident.began_us,
    )
    if not all(isinstance(instant, int) for instant in instants):
        raise TypeError(f"an instant of {incident.key} is no integer")
    return incident
