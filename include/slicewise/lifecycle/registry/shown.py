"""A deployed name for people: its definition, all that it has meant, and how it is just now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slicewise.features.plan.changes.explain import Description, Version, descriptions
from slicewise.features.plan.deployment import Deployment
from slicewise.lifecycle.health.judge import Limits
from slicewise.lifecycle.health.overview import overview, visible_by
from slicewise.lifecycle.registry.uses import DataSetUse, Uses
from slicewise.names import unknown
from slicewise.stores.lake.stood import Registry
from slicewise.stores.online.redis.status import StoreStatus

MOST_SETS = 3
"""Data sets that are named to a person; the others are counted."""


@dataclass(frozen=True)
class Condition:
    """Condition of a view or a source just now; None where the store says nothing of it."""

    ready: bool | None = None
    waits: str = ""
    """Progress of a view that is not ready, and what it waits for."""
    hours: int | None = None
    """Compacted hours of a view."""
    newest_hour: str | None = None
    freshness_p50_ms: float | None = None
    """Kafka time to visible, of the events of the last minute."""
    freshness_p99_ms: float | None = None
    lag_events: int | None = None
    """Events in the topic that are not applied yet."""

    def words(self) -> dict[str, str]:
        """Word -> what it says, for people; none where nothing is said."""
        words = dict[str, str]()
        if self.ready is not None:
            newest = f", the newest {self.newest_hour}" if self.newest_hour else ""
            hours = f"{self.hours} hours compacted{newest}" if self.hours else "no hour compacted"
            words["state"] = f"ready; {hours}" if self.ready else f"building: {self.waits}"
        if self.freshness_p50_ms is not None and self.freshness_p99_ms is not None:
            words["freshness"] = (
                f"half of the events within {self.freshness_p50_ms:.0f} ms of Kafka, "
                f"99 % within {self.freshness_p99_ms:.0f} ms"
            )
        elif self.lag_events is not None:
            words["freshness"] = "no event in the last minute"
        if self.lag_events:
            words["not applied yet"] = f"{self.lag_events} events"
        return words


@dataclass(frozen=True)
class Shown:
    """A definition with its versions, its condition and the data sets that were built of it, the
    newest first. sets: None where nobody could say."""

    definition: Description
    condition: Condition
    versions: tuple[Version, ...]
    sets: tuple[DataSetUse, ...] | None = None

    @property
    def facts(self) -> Mapping[str, str]:
        """Word -> what it says, in the order in which a person reads."""
        one = self.definition
        facts = {"owner": one.owner, "project": one.project, "tags": ", ".join(one.tags)}
        facts |= one.facts
        facts["used by"] = ", ".join(one.uses) or "nothing that is deployed"
        if self.sets:
            facts["data sets"] = _sets_text(self.sets)
        facts |= self.condition.words()
        return {word: text for word, text in facts.items() if text}

    def statistics(self) -> dict[str, Mapping[str, Any]]:
        """Column -> statistics of its values in the newest data set that has them."""
        statistics = dict[str, Mapping[str, Any]]()
        for one in self.sets or ():
            statistics |= {c: some for c, some in one.statistics.items() if c not in statistics}
        return statistics


def shown(
    name: str,
    deployment: Deployment,
    registry: Registry,
    status: StoreStatus,
    uses: Uses | None = None,
) -> tuple[Shown, ...]:
    """All definitions of this name. uses: by data sets; None where nobody can say. Raises
    UnknownName, with the names that are near."""
    named = refuse_unknown(name, deployment)
    versions = registry.versions(name)
    return tuple(
        Shown(
            one,
            _condition(one, status),
            tuple(version for version in versions if version.kind == one.kind),
            None if uses is None else uses.get(one.kind, ()),
        )
        for one in named
    )


def refuse_unknown(name: str, deployment: Deployment) -> list[Description]:
    """The definitions of this name. Raises UnknownName, with the names that are near."""
    every = descriptions(deployment)
    named = [one for one in every if one.name == name]
    if not named:
        raise unknown("name", name, [one.name for one in every])
    return named


def shown_json(every: tuple[Shown, ...]) -> dict[str, Any]:
    """Plain values, for programs."""
    return {
        "definitions": [
            one.definition.to_json()
            | {
                "condition": asdict(one.condition),
                "data_sets": None
                if one.sets is None
                else [
                    {"name": made.name, "at": made.at.isoformat(), "rows": made.rows}
                    for made in one.sets
                ],
                "statistics": one.statistics(),
            }
            for one in every
        ],
        "versions": [version.to_json() for one in every for version in one.versions],
    }


def _sets_text(sets: Sequence[DataSetUse]) -> str:
    newest = ", ".join(
        f"{made.name} ({made.at:%Y-%m-%d %H:%M}, {made.rows:,} rows)" for made in sets[:MOST_SETS]
    )
    rest = len(sets) - MOST_SETS
    return f"{newest} and {rest} more" if rest > 0 else newest


def _condition(of: Description, status: StoreStatus) -> Condition:
    if of.kind not in ("source", "view"):
        return Condition()
    figures = dict[str, Any]()
    if of.kind == "view":
        for view in overview(status, Limits()).views:
            if view.view == of.name:
                figures |= {name: getattr(view, name) for name in ("ready", "waits", "hours")}
                figures["newest_hour"] = view.newest_hour
    driver = visible_by(status).get(of.name)
    if driver is not None:
        names = ("freshness_p50_ms", "freshness_p99_ms", "lag_events")
        figures |= {name: getattr(driver, name) for name in names}
    return Condition(**figures)
