"""A monitor holds a feature of an entity within bounds, and tells its owner when it leaves them.

Decisions only: `slicewise.local.monitors` reads the values, the watch of Airflow tells of what
lasts (docs/guides/requests.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slicewise.errors import SettingsError
from slicewise.lifecycle.health.alerts import OWNER
from slicewise.lifecycle.history.drift import stability
from slicewise.settings import is_finite

Scalar = str | int | float | bool
LOOKS = 3
"""Looks in a row, five seconds apart, for which a value is out of its bounds before its owner is
told."""
MOST = 200
"""Monitors of a project: each is a request every five seconds."""
_FIELDS = frozenset(
    ("feature", "entity", "below", "above", "drift_from", "least", "severity", "owner", "retrain")
)
_PREFIX = "monitor."
_REF = re.compile(r"[\w@]+:\w+")
_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class Monitor:
    """A feature of an entity and its bounds.

    feature: "view:column", a number; with `drift_from` both are histograms, and their distance is
    the number. below, above: what it may not be. least: (ref, number): while that feature is less
    nothing is judged. retrain: the model that is trained once for each of its incidents.
    """

    name: str
    feature: str
    entity: tuple[tuple[str, Scalar], ...] = ()
    below: float | None = None
    above: float | None = None
    drift_from: str | None = None
    least: tuple[tuple[str, float], ...] = ()
    severity: str = "warning"
    owner: str = OWNER
    retrain: str = ""

    @property
    def cause(self) -> str:
        """The cause that all alerts about it have in common."""
        return _PREFIX + self.name

    @property
    def refs(self) -> tuple[str, ...]:
        """Features that it reads, each once."""
        drift = () if self.drift_from is None else (self.drift_from,)
        return tuple(dict.fromkeys((self.feature, *drift, *(ref for ref, _ in self.least))))

    def judge(self, values: Mapping[str, Any]) -> Judged:
        """Judges these values of its features."""
        for ref, number in self.least:
            if not isinstance(values[ref], int | float) or values[ref] < number:
                return Judged(self, None, f"not judged: {ref} is {values[ref]}, below {number:g}")
        value = values[self.feature]
        if self.drift_from is not None:
            value = drift(value, values[self.drift_from])
        if value is None:
            return Judged(self, None, "not judged: there is no value")
        if not is_finite(value):
            return Judged(self, None, f"{self._what} is {value!r}, which is no number", fault=True)
        if self.below is not None and value < self.below:
            return Judged(
                self, value, f"{self._what} is {value:g}, below {self.below:g}", fault=True
            )
        if self.above is not None and value > self.above:
            return Judged(
                self, value, f"{self._what} is {value:g}, above {self.above:g}", fault=True
            )
        return Judged(self, value, f"{self._what} is {value:g}")

    @property
    def _what(self) -> str:
        of = ", ".join(f"{column} {value}" for column, value in self.entity)
        what = self.feature if self.drift_from is None else f"the drift of {self.feature}"
        return f"{what} of {of}" if of else what


@dataclass(frozen=True)
class Judged:
    """One look at a monitor. value: None where nothing was judged; text: for people; fault: tells
    whether it is out of its bounds, or cannot be judged at all."""

    monitor: Monitor
    value: float | None
    text: str
    fault: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.monitor.name,
            "feature": self.monitor.feature,
            "entity": dict(self.monitor.entity),
            "value": self.value,
            "fault": self.fault,
            "text": self.text,
            "severity": self.monitor.severity,
            "owner": self.monitor.owner,
        }


def drift(now: Any, before: Any) -> float | None:
    """Population stability index of two histograms (`stability`): about 0.1 is little, more than
    0.25 much. None where one of them is empty, or none."""
    counts = [_counts(one) for one in (now, before)]
    if counts[0] is None or counts[1] is None or counts[0].keys() != counts[1].keys():
        return None
    return stability(counts[1], counts[0])


def _counts(histogram: Any) -> dict[str, int] | None:
    if not isinstance(histogram, Mapping) or "bins" not in histogram:
        return None
    counts = [histogram["under"], *histogram["bins"], histogram["over"]]
    return {str(n): count for n, count in enumerate(counts)} if any(counts) else None


def is_monitor(cause: str) -> bool:
    """Tells whether a cause is a monitor's."""
    return cause.startswith(_PREFIX)


def parsed(document: Mapping[str, Any], where: str) -> tuple[Monitor, ...]:
    """The monitors of a parsed TOML file. Raises SettingsError, which names the monitor."""
    entries = document.get("monitors", {})
    if set(document) - {"monitors"} or not isinstance(entries, Mapping):
        raise _refused(where, "it", "tables [monitors.<name>] alone")
    if len(entries) > MOST:
        raise _refused(where, f"{len(entries)} monitors", f"at most {MOST}")
    return tuple(_monitor(where, name, entry) for name, entry in entries.items())


def _monitor(where: str, name: str, entry: object) -> Monitor:
    subject = f"[monitors.{name}]"
    if not _NAME.fullmatch(name):
        raise _refused(where, f"[monitors.{name!r}]", "a name of letters, digits, '_', '-' and '.'")
    if not isinstance(entry, Mapping) or set(entry) - _FIELDS or "feature" not in entry:
        raise _refused(where, subject, f"feature, and of these: {', '.join(sorted(_FIELDS))}")
    given: Mapping[str, Any] = entry
    for field in ("feature", "drift_from"):
        if field in given and not _is_ref(given[field]):
            raise _refused(where, f"{subject} {field}", '"view:column"')
    bounds = {side: given[side] for side in ("below", "above") if side in given}
    if not bounds or not all(is_finite(value) for value in bounds.values()):
        raise _refused(where, f"{subject} bounds", "below, above or both, which are numbers")
    if "below" in bounds and "above" in bounds and bounds["below"] > bounds["above"]:
        raise _refused(where, f"{subject} bounds", "below that is no larger than above")
    if given.get("drift_from") == given["feature"]:
        raise _refused(where, f"{subject} drift_from", "another feature than its own")
    entity, least = given.get("entity", {}), given.get("least", {})
    if not isinstance(entity, Mapping) or not all(
        isinstance(value, str | int | float | bool) for value in entity.values()
    ):
        raise _refused(where, f"{subject} entity", '{ column = value }, as { model = "a" }')
    if not isinstance(least, Mapping) or not all(
        _is_ref(ref) and is_finite(number) for ref, number in least.items()
    ):
        raise _refused(where, f"{subject} least", '{ "view:column" = number }')
    severity, owner = given.get("severity", "warning"), given.get("owner", OWNER)
    if severity not in ("warning", "critical"):
        raise _refused(where, f"{subject} severity", '"warning" or "critical"')
    if not isinstance(owner, str) or not owner:
        raise _refused(where, f"{subject} owner", "a name, in quotes")
    retrain = given.get("retrain", "")
    if not isinstance(retrain, str):
        raise _refused(where, f"{subject} retrain", "a model of models.toml, in quotes")
    return Monitor(
        name,
        given["feature"],
        tuple(sorted(entity.items())),
        bounds.get("below"),
        bounds.get("above"),
        given.get("drift_from"),
        tuple(sorted(least.items())),
        severity,
        owner,
        retrain,
    )


def _is_ref(value: object) -> bool:
    return isinstance(value, str) and _REF.fullmatch(value) is not None


def _refused(where: str, what: str, expected: str) -> SettingsError:
    return SettingsError(
        f"{what} cannot be taken",
        where=where,
        expected=expected,
        next_step="correct it: docs/guides/requests.md, 'Monitors'",
    )
